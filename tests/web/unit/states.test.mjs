import "./page.mjs";

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { badge, ENDED, label, LIVE, RETRIABLE, shape, STATES } from "../../../web/states.js";

const read = (path) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");
const BREAKERS = ["closed", "open", "half_open", "forced_open", "disabled"];
const path = (state) => shape(state).all("path")[0].attributes.d;

test("the states are those of the interface", () => {
  const [, listed] = /^ {4}State:\n.*\n {6}enum: \[(.*)\]/m.exec(read("docs/openapi.yaml"));
  assert.deepEqual([...STATES].sort(), listed.split(", ").sort());
});

test("a state is live or has ended", () => {
  assert.deepEqual([...LIVE, ...ENDED].sort(), [...STATES].sort());
  assert.ok(RETRIABLE.every((state) => STATES.includes(state)));
});

test("each state has a shape of its own and a colour", () => {
  const styles = read("web/style.css");
  assert.equal(new Set(STATES.map(path)).size, STATES.length);
  assert.equal(new Set(BREAKERS.map(path)).size, BREAKERS.length);
  for (const state of [...STATES, ...BREAKERS]) assert.match(styles, new RegExp(`\\.s-${state}\\b`), state);
});

test("a state that is not known is shown by its name", () => {
  assert.equal(label("dead_letter"), "dead letter");
  assert.equal(label("other"), "other");
  assert.equal(path("other"), path("disabled"));
  assert.equal(badge("other", "5").textContent, "other5");
});
