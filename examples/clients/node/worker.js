// worker.js - sends mails until it is ended; then it finishes those in hand.
const faktory = require("faktory-worker");

// The code of an error has a class: EINVAL is 'validation', and not retried; EAGAIN is.
const failure = (code, message) => Object.assign(new Error(message), { code });

faktory.register("mail", ({ to }) => async ({ job }) => {
  if (!to.includes("@")) throw failure("EINVAL", "not an address: " + to);
  if (to.includes("@busy.") && !job.failure) throw failure("EAGAIN", "451 try again later");
  console.log("sent to", to);
});

faktory
  .work({ concurrency: 5 }) // fetches from 'default', acknowledges, fails and sends beats by itself
  .then((worker) => worker.on("fail", ({ job, error }) => console.log(job.jid, error.message)))
  .catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
