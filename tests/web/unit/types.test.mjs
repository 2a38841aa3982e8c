import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const read = (path) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");

// Names of web/types.d.ts, and the schemas of the interface that they are parts of.
const SCHEMAS = {
  Session: ["Session"], Job: ["Job"], WholeJob: ["Job"], Attempt: ["Attempt"], JobError: ["Error"], Edge: ["Edge"], JobPage: ["JobPage"],
  Task: ["Task"], Schedule: ["Task"], Breaker: ["Breaker", "WholeBreaker"], Limit: ["Limit"], RetryBudget: ["RetryBudget"], CronEntry: ["CronEntry"],
  BulkRun: ["BulkRun"],
};

function membersOf(types, name) {
  const [, body] = new RegExp(`^export interface ${name}\\b[^{]*\\{\\n(.*?)^\\}`, "ms").exec(types);
  return [...body.matchAll(/^ {2}(\w+)\??:/gm)].map(([, member]) => member);
}

function schemaOf(document, name) {
  return new RegExp(`^ {4}${name}:\\n(?: {6}.*\\n)+`, "m").exec(document.slice(document.indexOf("\n  schemas:")))[0];
}

test("the dashboard reads members that the interface has", () => {
  const types = read("web/types.d.ts");
  const document = read("docs/openapi.yaml");
  for (const [name, schemas] of Object.entries(SCHEMAS)) {
    const text = schemas.map((schema) => schemaOf(document, schema)).join("");
    const members = membersOf(types, name);
    assert.ok(members.length > 1, name);
    assert.deepEqual(members.filter((member) => !new RegExp(`[ {"]${member}"?: |^ +${member}:$`, "m").test(text)), [], name);
  }
});
