// graphile-worker on PostgreSQL: jobs that do nothing, submitted in batches and worked.
//
//     node main.js [--batched] URL JOBS CONCURRENCY
//
// --batched turns on what its documentation advises for many short jobs: a local queue that locks
// jobs ahead of the workers, and completions that are gathered before they are written.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const isBatched = process.argv[2] === "--batched";
const [url, ...numbers] = process.argv.slice(isBatched ? 3 : 2);
const [jobs, concurrency] = numbers.map(Number);
const BATCH = 1000;
const payload = { text: "x".repeat(89) }; // 100 bytes as JSON

const pool = new pg.Pool({ connectionString: url, max: 24 }); // the fastest of 10, 24 and 100
pool.on("error", (error) => console.error(error.message));
pool.on("connect", (client) => client.on("error", (error) => console.error(error.message)));
const logger = new Logger(() => (level, message) => level === "error" && console.error(message));

const utils = await makeWorkerUtils({ pgPool: pool, logger });
await utils.migrate();

let start = process.hrtime.bigint();
for (let done = 0; done < jobs; done += BATCH)
  await utils.addJobs(Array.from({ length: Math.min(BATCH, jobs - done) }, () => ({ identifier: "noop", payload })));
const submitNs = process.hrtime.bigint() - start;

let ran = 0;
let allRan;
const over = new Promise((resolve) => (allRan = resolve));
const batched = { localQueue: { size: 5 * concurrency }, completeJobBatchDelay: 10, failJobBatchDelay: 10 };
start = process.hrtime.bigint();
const runner = await run({
  pgPool: pool,
  logger,
  concurrency,
  noHandleSignals: true,
  preset: { worker: { concurrentJobs: concurrency, pollInterval: 100, ...(isBatched ? batched : {}) } },
  taskList: {
    noop: async () => {
      if (++ran === jobs) allRan();
    },
  },
});
await over;
const left = async () => +(await pool.query("select count(*) from graphile_worker._private_jobs")).rows[0].count;
while ((await left()) > 0) await new Promise((resolve) => setTimeout(resolve, 2));
const workNs = process.hrtime.bigint() - start;

await runner.stop();
await utils.release();
await pool.end().catch(() => {});
console.log(JSON.stringify({ submit_s: Number(submitNs) / 1e9, work_s: Number(workNs) / 1e9, ran }));
