import "./page.mjs";

import assert from "node:assert/strict";
import test from "node:test";

import { bar, gauge, lanes, lines, schedule, waits } from "../../../web/chart.js";
import { spansOf } from "../../../web/pages/tasks.js";

const text = String;
const TIMES = [0, 1000, 2000];

const draw = (values, options) => lines(TIMES, [{ name: "a", class: "c", values }], text, { moment: text, isFilled: false, ...options });
const pathOf = (values) => draw(values).all("path")[0].attributes.d;
const topOf = (values) => Number(draw(values).all("span").find((span) => span.attributes.class === "max").textContent);

test("the axis ends with a round number above all values", () => {
  for (const [values, top] of [[[0, 0, 0], 1], [[1, 2, 3], 5], [[0, 0, 5], 5], [[0, 0, 5.1], 10], [[0, 0, 1000], 1000], [[0, 0.3, 0], 0.5], [[null, null, null], 1]])
    assert.equal(topOf(values), top, `of ${values}`);
  for (let value = 1e-6; value < 1e12; value *= 1.7) {
    const top = topOf([0, value, 0]);
    assert.ok(top >= value && top <= 2.5 * value * (1 + 1e-9), `${top} above ${value}`);
  }
});

test("a line goes from value to value", () => {
  assert.equal(pathOf([0, 1, 0.5]), "M0.0 140.0h1L300.0 6.0L600.0 73.0");
});

test("a value that is not known leaves a gap, and one between gaps is drawn", () => {
  assert.equal(pathOf([null, 1, null]), "M300.0 6.0h1");
  assert.equal(pathOf([1, null, 1]), "M0.0 6.0h1M600.0 6.0h1");
  assert.equal(pathOf([null, null, null]), "");
});

test("the last value stands beside the name, unless there is a note", () => {
  assert.equal(draw([1, 2, 7]).all("strong")[0].textContent, "7");
  assert.equal(lines(TIMES, [{ name: "a", class: "c", values: [1, 2, 7], note: "" }], text).all("strong")[0].textContent, "");
});

test("a marked span is cut at the ends of the chart", () => {
  const { x, width } = draw([0, 0, 0], { marked: [-500, 1000] }).all("rect").find((rect) => rect.attributes.class === "shade").attributes;
  assert.deepEqual([x, width], ["0", "300"]);
});

test("a lane has its parts in proportion, and none is too narrow to be seen", () => {
  const rects = lanes([{ name: "api", parts: [{ state: "closed", from: 0, to: 500 }, { state: "open", from: 500, to: 500 }] }], 0, 1000).all("rect");
  assert.deepEqual(rects.map((rect) => [rect.attributes.x, rect.attributes.width]), [["0", "300"], ["300", "1.5"]]);
});

test("a bar is as long as all of its parts, and leaves out empty ones", () => {
  const rects = bar([{ state: "queued", n: 1 }, { state: "running", n: 0 }, { state: "failed", n: 3 }]).all("rect").slice(1);
  assert.deepEqual(rects.map((rect) => [rect.attributes.x, rect.attributes.width]), [["0", "25"], ["25", "75"]]);
  assert.equal(bar([{ state: "queued", n: 0 }]).attributes["aria-label"], "nothing");
});

test("a gauge is between empty and full", () => {
  for (const [used, all, width] of [[0, 10, "0"], [5, 10, "50"], [15, 10, "100"], [3, 0, "0"]])
    assert.equal(gauge(used, all).all("rect")[1].attributes.width, width, `${used} of ${all}`);
});

test("a delay that is certain is a span without width", () => {
  const [certain, open] = spansOf([{ n: 1, delay_ms: 5, total_ms: 6 }, { n: 2, min_ms: 0, max_ms: 4, total_min_ms: 6, total_max_ms: 10 }]);
  assert.deepEqual([certain.min_ms, certain.max_ms, certain.total_min_ms, certain.total_max_ms], [5, 5, 6, 6]);
  assert.deepEqual([open.min_ms, open.max_ms, open.total_min_ms, open.total_max_ms], [0, 4, 6, 10]);
  assert.equal(waits(certain.min_ms, certain.max_ms), "5ms");
  assert.equal(waits(open.min_ms, open.max_ms), "0ms – 4ms");
});

test("a schedule has a circle for each attempt, in order and within the picture", () => {
  const retries = Array.from({ length: 20 }, (_, i) => ({ n: i + 1, delay_ms: 1000 * 2 ** i, total_ms: 1000 * (2 ** (i + 1) - 1) }));
  const drawing = schedule(spansOf(retries));
  const places = drawing.all("circle").map((circle) => Number(circle.attributes.cx));
  assert.equal(places.length, 21);
  assert.deepEqual(places, [...places].sort((a, b) => a - b));
  assert.ok(places[0] > 0 && places.at(-1) < 560);
  const labels = drawing.all("text").map((label) => Number(label.attributes.x));
  assert.ok(labels.every((x, i) => i === 0 || x - labels[i - 1] >= 46));
});

test("a policy without retries, or without waits, is a schedule too", () => {
  for (const rows of [[], spansOf([{ n: 1, delay_ms: 0, total_ms: 0 }])])
    for (const circle of schedule(rows).all("circle")) assert.equal(Number(circle.attributes.cx), 18);
});
