// A producer and a worker made with faktory-worker, for test_faktory_clients.py: pushes jobs that
// succeed, fail once, or fail for good, and writes a line for each run.
const faktory = require("faktory-worker");

const url = process.env.FAKTORY_URL;
const say = (what) => console.log(JSON.stringify(what));

async function main() {
  const client = new faktory.Client({ url });
  await client.connect();
  await client.job("Good", 1, { deep: ["ä"] }).push();
  const flaky = client.job("Flaky", "once");
  flaky.retry = 3;
  flaky.custom = { trace: "t-1" };
  await flaky.push();
  const hopeless = client.job("Hopeless");
  hopeless.retry = -1;
  await hopeless.push();
  const later = client.job("Good", 2);
  later.at = new Date(Date.now() + 300).toISOString();
  await later.push();
  const rejected = await client.pushBulk([client.job("Good", 3), client.job("Good", 4)]);
  say({ rejected: Object.keys(rejected).length });

  let runs = 0;
  const worker = await new Promise((resolve) => {
    faktory.use(async (ctx, next) => {
      const { jobtype, args, custom, failure } = ctx.job;
      say({ jobtype, args, custom, errtype: failure && failure.errtype });
      await next();
    });
    faktory.register("Good", async () => {});
    faktory.register("Flaky", async () => {
      if (++runs === 1) throw Object.assign(new Error("not yet"), { code: "ECONNRESET" });
    });
    faktory.register("Hopeless", async () => {
      throw new Error("never");
    });
    faktory.work({ url, concurrency: 3, timeout: 1 }).then(resolve);
  });

  for (;;) {
    const { faktory: info } = await client.info();
    if (info.total_processed === 7) {
      say({ dead: info.sets.dead, working: info.sets.working, failures: info.total_failures });
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await client.dead.ofType("Hopeless").discard();
  say({ dead: (await client.info()).faktory.sets.dead });
  await client.close();
  await worker.stop();
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
