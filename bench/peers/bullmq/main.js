// BullMQ on Redis: jobs that do nothing, submitted in bulk and worked.
//
//     node main.js URL JOBS CONCURRENCY
import { Queue, Worker } from "bullmq";

const [url, jobs, concurrency] = [new URL(process.argv[2]), +process.argv[3], +process.argv[4]];
const BATCH = 1000;
const connection = { host: url.hostname, port: +url.port, maxRetriesPerRequest: null };
const data = { text: "x".repeat(89) }; // 100 bytes as JSON
const opts = { removeOnComplete: true };

const queue = new Queue("bench", { connection });
await queue.waitUntilReady();

let start = process.hrtime.bigint();
for (let done = 0; done < jobs; done += BATCH)
  await queue.addBulk(Array.from({ length: Math.min(BATCH, jobs - done) }, () => ({ name: "noop", data, opts })));
const submitNs = process.hrtime.bigint() - start;

let ran = 0;
let allRan;
const over = new Promise((resolve) => (allRan = resolve));
start = process.hrtime.bigint();
const worker = new Worker(
  "bench",
  async () => {
    if (++ran === jobs) allRan();
  },
  { connection, concurrency },
);
worker.on("error", (error) => console.error(error.message));
await over;
const left = async () => Object.values(await queue.getJobCounts("wait", "active")).reduce((a, b) => a + b, 0);
while ((await left()) > 0) await new Promise((resolve) => setTimeout(resolve, 2));
const workNs = process.hrtime.bigint() - start;

await worker.close();
await queue.close();
console.log(JSON.stringify({ submit_s: Number(submitNs) / 1e9, work_s: Number(workNs) / 1e9, ran }));
