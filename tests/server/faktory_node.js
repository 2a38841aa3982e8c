// A producer and a worker made with faktory-worker, for test_faktory_clients.py.
//
//     produce    pushes jobs that succeed, fail once, fail for good, or fail until nothing is left
//     work       works them until it is told to end; writes a line for each run and each order
//     care       says how many are dead, and discards some of them
const fs = require("fs");
const faktory = require("faktory-worker");

const say = (what) => console.log(JSON.stringify(what));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The package takes the host and the port from FAKTORY_URL; TLS has to be asked for.
const tlsOptions = (process.env.FAKTORY_URL || "").startsWith("tcp+tls:") ? {} : undefined;

async function withClient(use) {
  const client = new faktory.Client({ tlsOptions });
  await client.connect();
  await use(client);
  await client.close();
}

function produce() {
  return withClient(async (client) => {
    const job = (jid, jobtype, ...args) => Object.assign(client.job(jobtype, ...args), { jid });
    await job("good-job-1", "Good", 1, { deep: ["ä"] }).push();
    await Object.assign(job("flaky-job", "Flaky", "once"), { custom: { trace: "t-1" } }).push();
    await Object.assign(job("hopeless-job", "Hopeless"), { retry: -1 }).push();
    await job("doomed-job", "Doomed").push();
    const at = new Date(Date.now() + 300).toISOString();
    await Object.assign(job("good-job-2", "Good", 2), { at }).push();
    const rejected = await client.pushBulk([job("good-job-3", "Good", 3), job("good-job-4", "Good", 4)]);
    say({ rejected: Object.keys(rejected).length });
  });
}

async function work() {
  let runs = 0;
  faktory.use(async (ctx, next) => {
    const { jobtype, args, custom, failure } = ctx.job;
    say({ jobtype, args, custom, failure: failure && failure.message });
    await next();
  });
  faktory.register("Good", async () => {});
  faktory.register("Flaky", async () => {
    if (++runs === 1) throw Object.assign(new Error("not yet"), { code: "ECONNRESET" });
  });
  faktory.register("Hopeless", async () => {
    throw new TypeError("never");
  });
  faktory.register("Doomed", async () => {
    throw new Error("not yet");
  });
  faktory.register("Slow", async (gate) => {
    while (!fs.existsSync(gate)) await sleep(10);
  });
  const worker = await faktory.work({ concurrency: 3, beatInterval: 0.1, tlsOptions });
  for (const [method, event] of [["quiet", "quiet"], ["stop", "terminate"]]) {
    const original = worker[method];
    worker[method] = function () {
      say({ event });
      return original.call(this);
    };
  }
}

function care() {
  return withClient(async (client) => {
    const { faktory: info } = await client.info();
    say({ dead: info.sets.dead, failures: info.total_failures });
    await client.dead.ofType("Hopeless").discard();
  });
}

({ produce, work, care })[process.argv[2]]().catch((error) => {
  console.error(error);
  process.exit(1);
});
