import assert from "node:assert/strict";
import test from "node:test";

import { cronWords } from "../../../web/cron-words.js";

function all(rows) {
  for (const [text, words] of rows) assert.equal(cronWords(text), words, text);
}

test("times of a day", () => {
  all([
    ["* * * * *", "every minute"], ["0 * * * *", "every hour"], ["00 * * * *", "every hour"], ["15 * * * *", "every hour at minute 15"],
    ["5 7 * * *", "at 07:05"], ["0 6,18 * * *", "at 06:00 and 18:00"], ["*/15 * * * *", "every 15 minutes"], ["30 */6 * * *", "every 6 hours at minute 30"],
  ]);
});

test("every one of them is every one", () => {
  all([["*/1 * * * *", "every minute"], ["0 */1 * * *", "every hour"], ["5 */1 * * *", "every hour at minute 5"]]);
});

// */45 is at minutes 0 and 45.
test("steps that do not divide the hour or the day are no interval", () => {
  all([["*/45 * * * *", null], ["*/7 * * * *", null], ["0 */5 * * *", null], ["*/90 * * * *", null]]);
});

test("days and months by number and by name", () => {
  all([
    ["30 7 * * mon-fri", "at 07:30, Monday to Friday"], ["30 7 * * MON,Wed", "at 07:30, Monday, Wednesday"],
    ["0 0 * * 0", "at 00:00, Sunday"], ["0 0 * * 7", "at 00:00, Sunday"], ["0 0 1,15 * *", "at 00:00, on day 1, 15 of the month"],
    ["0 4 1 1 *", "at 04:00, on day 1 of the month, in January"], ["0 4 * jun-aug *", "at 04:00, in June to August"],
    ["0 4 * 12 sun", "at 04:00, Sunday, in December"],
  ]);
});

test("names stand for expressions", () => {
  all([["@daily", "every day at 00:00"], [" @Hourly ", "every hour"], ["@weekly", "every Sunday at 00:00"], ["@reboot", null]]);
});

test("spaces and tabs separate fields", () => {
  assert.equal(cronWords("  5\t7  * * * "), "at 07:05");
});

// In cron a day matches either field when both are restricted, which short words would hide.
test("there are no words for what they would get wrong", () => {
  all([
    ["0 0 13 * fri", null], ["0 0 */2 * *", null], ["0 0 * * mon-fri/2", null], ["0 9-17 * * *", null], ["*/15 9 * * *", null],
    ["5/15 * * * *", null], ["0,30 * * * *", null], ["* 9 * * *", null], ["0 0 * * mon-wed-fri", null], ["0 0 1- * *", null],
    ["", null], ["* * * *", null], ["0 * * * * *", null], ["constructor", null],
  ]);
});
