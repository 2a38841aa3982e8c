// BullMQ on Redis: jobs that do nothing.
//
//     node main.js lives URL JOBS CONCURRENCY    submits them in bulk and works them
//     node main.js fill URL JOBS                 submits them
//     node main.js work URL CONCURRENCY          stands by (contest.js)
//     node main.js feed URL RATE SECONDS
import { Queue, Worker } from "bullmq";
import { feed, noteRun, payloadFor, standBy } from "./contest.js";

const url = new URL(process.argv[3]);
const numbers = process.argv.slice(4).map(Number);
const BATCH = 1000;
const connection = { host: url.hostname, port: +url.port, maxRetriesPerRequest: null };
const opts = { removeOnComplete: true };
const queue = new Queue("bench", { connection });
await queue.waitUntilReady();

const submit = (n, at = 0) =>
  queue.addBulk(Array.from({ length: n }, () => ({ name: "noop", data: payloadFor(at), opts })));

async function fill(jobs) {
  for (let done = 0; done < jobs; done += BATCH) await submit(Math.min(BATCH, jobs - done));
}

function makeWorker(run, concurrency, options) {
  const worker = new Worker("bench", run, { connection, concurrency, ...options });
  worker.on("error", (error) => console.error(error.message));
  return worker;
}

async function lives(jobs, concurrency) {
  let start = process.hrtime.bigint();
  await fill(jobs);
  const submitNs = process.hrtime.bigint() - start;

  let ran = 0;
  let allRan;
  const over = new Promise((resolve) => (allRan = resolve));
  start = process.hrtime.bigint();
  const worker = makeWorker(async () => {
    if (++ran === jobs) allRan();
  }, concurrency);
  await over;
  const left = async () => Object.values(await queue.getJobCounts("wait", "active")).reduce((a, b) => a + b, 0);
  while ((await left()) > 0) await new Promise((resolve) => setTimeout(resolve, 2));
  const workNs = process.hrtime.bigint() - start;

  await worker.close();
  console.log(JSON.stringify({ submit_s: Number(submitNs) / 1e9, work_s: Number(workNs) / 1e9, ran }));
}

async function work(concurrency) {
  const worker = makeWorker(async (job) => noteRun(job.data), concurrency, { autorun: false });
  await worker.waitUntilReady();
  standBy(() => worker.run());
  await new Promise(() => {}); // until standBy ends the process
}

const commands = { lives, fill, work, feed: (rate, seconds) => feed(rate, seconds, submit) };
await commands[process.argv[2]](...numbers);
await queue.close();
