// What a worker of the benchmark over a network says about its jobs, and how jobs are fed to it:
// bench/network/contestant.c has the words. Copied beside each peer's main.js when it is installed.
import readline from "node:readline";

const FEED_MS = 5;
const FEED_MAX = 1000;
const runs = { ran: 0, first_ns: 0, last_ns: 0 };
const waitsUs = [];

const nowNs = () => Number(process.hrtime.bigint());

/** 100 bytes as JSON. */
export function payloadFor(at) {
  return { at, text: "x".repeat(89 - '"at":,'.length - String(at).length) };
}

export function noteRun({ at }) {
  const startNs = nowNs();
  if (++runs.ran === 1) runs.first_ns = startNs;
  runs.last_ns = startNs;
  if (at) waitsUs.push(Math.round((startNs - at) / 1000));
}

export function standBy(start) {
  const commands = {
    go: start,
    count: () => console.log(JSON.stringify(runs)),
    waits: () => console.log(JSON.stringify(waitsUs)),
  };
  console.log("ready");
  readline
    .createInterface({ input: process.stdin })
    .on("line", (line) => commands[line]())
    .on("close", () => process.exit(0));
}

export async function feed(rate, seconds, submit) {
  const startNs = nowNs();
  let sent = 0;
  let passed = 0;
  while (passed < seconds) {
    passed = (nowNs() - startNs) / 1e9;
    const n = Math.min(Math.floor(rate * Math.min(passed, seconds)) - sent, FEED_MAX);
    if (n > 0) await submit(n, nowNs());
    sent += n;
    await new Promise((resolve) => setTimeout(resolve, FEED_MS));
  }
  console.log(JSON.stringify({ sent, seconds: passed }));
}
