import assert from "node:assert/strict";
import test from "node:test";

import { age, bytes, clock, compact, count, now, percent, plural, rate, relative, setServerTime, span, stamp } from "../../../web/format.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Each row: what is given, and its text. */
function all(format, rows) {
  for (const [value, text] of rows) assert.equal(format(value), text, `of ${value}`);
}

test("a span has its two largest units", () => {
  all(span, [
    [0, "0ms"], [1, "1ms"], [0.4, "0ms"], [999, "999ms"], [SECOND, "1s"], [1530, "1.5s"], [9940, "9.9s"], [10 * SECOND, "10s"],
    [59 * SECOND, "59s"], [MINUTE, "1m"], [90 * SECOND, "1m 30s"], [HOUR, "1h"], [HOUR + 59 * SECOND, "1h"],
    [HOUR + MINUTE, "1h 1m"], [DAY - SECOND, "23h 59m"], [DAY, "1d"], [2 * DAY + 3 * HOUR + 4 * MINUTE, "2d 3h"], [400 * DAY, "400d"],
  ]);
});

test("a span that is rounded up to the next unit is written in it", () => {
  all(span, [[999.6, "1s"], [9999, "10s"], [59.6 * SECOND, "1m"], [HOUR - 1, "1h"], [DAY - 1, "1d"]]);
});

test("a span has no sign, and one that is not known is a dash", () => {
  all(span, [[-90 * SECOND, "1m 30s"], [null, "–"], [undefined, "–"], [NaN, "–"]]);
});

test("an age has one unit, and is not rounded up", () => {
  all(age, [[0, "0s"], [999, "0s"], [MINUTE - 1, "59s"], [119 * SECOND, "1m"], [DAY - 1, "23h"], [-3 * DAY, "3d"]]);
});

test("ages go by the server's clock", () => {
  const at = Date.now() + HOUR;
  setServerTime(new Date(at).toISOString());
  assert.ok(Math.abs(now() - at) < MINUTE);
  assert.equal(relative(new Date(now()).toISOString()), "now");
  assert.equal(relative(new Date(now() - 4.5 * MINUTE).toISOString()), "4m ago");
  assert.match(relative(new Date(now() + 4.5 * MINUTE).toISOString()), /^in 4m (29|30)s$/);
  setServerTime("no time");
  assert.ok(Math.abs(now() - at) < MINUTE);
});

test("no time is a dash", () => {
  for (const none of [null, undefined, ""]) {
    assert.equal(relative(none), "–");
    assert.equal(stamp(none), "–");
  }
});

test("a text that is no time is shown as it is", () => {
  all(relative, [["soon", "soon"], ["2026-13-45T00:00:00Z", "2026-13-45T00:00:00Z"]]);
  all(stamp, [["soon", "soon"], ["2026-13-45T00:00:00Z", "2026-13-45T00:00:00Z"]]);
  assert.equal(clock(NaN), "–");
});

test("a time is written in local time, with hours from 00 to 23", () => {
  const midnight = new Date(2026, 0, 2, 0, 5, 9);
  assert.equal(clock(midnight.getTime()), "00:05");
  assert.match(stamp(midnight.toISOString()), /2026.*00:05:09/);
});

test("counts have commas, and are short where there is little space", () => {
  all(count, [[0, "0"], [1234567, "1,234,567"], [null, "0"], [undefined, "0"], [Number.MAX_SAFE_INTEGER, "9,007,199,254,740,991"]]);
  all(compact, [[0, "0"], [9999, "9,999"], [10000, "10K"], [1234567, "1.2M"], [-20000, "-20K"]]);
});

test("a rate is never written as 0 when there is one", () => {
  all(rate, [
    [0, "0/s"], [null, "0/s"], [undefined, "0/s"], [0.1, "0.1/s"], [1, "1.0/s"], [9.94, "9.9/s"], [10, "10/s"], [1234.5, "1,235/s"],
    [25000, "25K/s"], [0.05, "3/min"], [1 / 60, "1/min"], [1 / 600, "0.1/min"], [1 / 3600, "< 0.1/min"],
  ]);
});

test("a rate that is rounded up to 10 is written as 10 is", () => {
  assert.equal(rate(9.96), "10/s");
});

test("a share is 0 % or 100 % only when it is", () => {
  all(percent, [
    [0, "0 %"], [1, "100 %"], [0.5, "50 %"], [1 / 3, "33.3 %"], [0.995, "99.5 %"], [0.9999, "99.99 %"], [0.999999, "99.99 %"],
    [0.001, "0.1 %"], [0.0001, "< 0.1 %"], [null, "–"], [undefined, "–"],
  ]);
});

test("bytes are counted in bytes, KiB and MiB", () => {
  all(bytes, [
    [0, "0 bytes"], [1, "1 byte"], [1023, "1,023 bytes"], [1024, "1.0 KiB"], [1536, "1.5 KiB"], [1048576, "1.0 MiB"],
    [1048575, "1.0 MiB"], [5 * 1048576, "5.0 MiB"],
  ]);
});

test("one is one, and everything else is many", () => {
  assert.equal(plural(1, "job"), "1 job");
  assert.equal(plural(0, "job"), "0 jobs");
  assert.equal(plural(1000, "job"), "1,000 jobs");
  assert.equal(plural(2, "breaker is open", "breakers are open"), "2 breakers are open");
});
