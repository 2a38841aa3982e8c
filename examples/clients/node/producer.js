// producer.js ADDRESS... - a mail for each. The jid makes one job of it, however often it is pushed.
const faktory = require("faktory-worker");

async function main() {
  const client = await faktory.connect(); // to FAKTORY_URL, or tcp://127.0.0.1:7419
  const jobs = process.argv.slice(2).map((to) => Object.assign(client.job("mail", { to }), { jid: "mail-" + to }));
  const rejected = await client.pushBulk(jobs);
  for (const { jid } of jobs) console.log(jid, rejected[jid] || "pushed");
  await client.close();
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
