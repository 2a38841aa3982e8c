// graphile-worker on PostgreSQL: jobs that do nothing.
//
//     node main.js [--batched] lives URL JOBS CONCURRENCY    submits them in batches and works them
//     node main.js [--batched] fill URL JOBS                 submits them
//     node main.js [--batched] work URL CONCURRENCY          stands by (contest.js)
//     node main.js [--batched] feed URL RATE SECONDS
//
// --batched turns on what its documentation advises for many short jobs: a local queue that locks
// jobs ahead of the workers, and completions that are gathered before they are written.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { feed, noteRun, payloadFor, standBy } from "./contest.js";

const isBatched = process.argv[2] === "--batched";
const [command, url, ...words] = process.argv.slice(isBatched ? 3 : 2);
const BATCH = 1000;

const pool = new pg.Pool({ connectionString: url, max: 24 }); // the fastest of 10, 24 and 100
pool.on("error", (error) => console.error(error.message));
pool.on("connect", (client) => client.on("error", (error) => console.error(error.message)));
const logger = new Logger(() => (level, message) => level === "error" && console.error(message));

const utils = await makeWorkerUtils({ pgPool: pool, logger });
await utils.migrate();

const submit = (n, at = 0) =>
  utils.addJobs(Array.from({ length: n }, () => ({ identifier: "noop", payload: payloadFor(at) })));

async function fill(jobs) {
  for (let done = 0; done < jobs; done += BATCH) await submit(Math.min(BATCH, jobs - done));
}

function start(noop, concurrency) {
  const batched = { localQueue: { size: 5 * concurrency }, completeJobBatchDelay: 10, failJobBatchDelay: 10 };
  return run({
    pgPool: pool,
    logger,
    concurrency,
    noHandleSignals: true,
    preset: { worker: { concurrentJobs: concurrency, pollInterval: 100, ...(isBatched ? batched : {}) } },
    taskList: { noop },
  });
}

async function lives(jobs, concurrency) {
  let startNs = process.hrtime.bigint();
  await fill(jobs);
  const submitNs = process.hrtime.bigint() - startNs;

  let ran = 0;
  let allRan;
  const over = new Promise((resolve) => (allRan = resolve));
  startNs = process.hrtime.bigint();
  const runner = await start(async () => {
    if (++ran === jobs) allRan();
  }, concurrency);
  await over;
  const left = async () => +(await pool.query("select count(*) from graphile_worker._private_jobs")).rows[0].count;
  while ((await left()) > 0) await new Promise((resolve) => setTimeout(resolve, 2));
  const workNs = process.hrtime.bigint() - startNs;

  await runner.stop();
  console.log(JSON.stringify({ submit_s: Number(submitNs) / 1e9, work_s: Number(workNs) / 1e9, ran }));
}

async function work(concurrency) {
  standBy(() => start(async (payload) => noteRun(payload), concurrency));
  await new Promise(() => {}); // until standBy ends the process
}

const commands = { lives, fill, work, feed: (rate, seconds) => feed(rate, seconds, submit) };
await commands[command](...words.map(Number));
await utils.release();
await pool.end().catch(() => {});
