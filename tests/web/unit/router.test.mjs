import { newContainer } from "./page.mjs";

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { h } from "../../../web/dom.js";
import { go, isShown, refresh, startRouter } from "../../../web/router.js";
import { ROUTES } from "../../../web/routes.js";

const settled = () => new Promise(setImmediate);
const pageOf = (text) => ({ load: async () => text, render: (data) => h("p", null, data) });

/** A router on the pages `table` gives by name, at the path; gives what was opened and what is shown. */
function start(t, path, pages = {}) {
  const seen = { opened: [], failures: [], container: newContainer() };
  const table = ROUTES.map((route) => ({ ...route, page: pages[route.name] ?? (() => pageOf(route.name)) }));
  const visit = (_, __, url) => (globalThis.location = new URL(url, "http://host"));
  globalThis.history = { pushState: visit, replaceState: visit };
  visit(null, "", path);
  t.mock.method(globalThis, "setInterval", () => 0);
  startRouter(table, seen.container, {
    opened: (route, params) => seen.opened.push([route.name, params]), loaded() {}, failed: (error) => seen.failures.push(error.message) });
  return seen;
}

test("a path leads to its page", (t) => {
  const { opened } = start(t, "/ui/");
  for (const url of ["/ui", "/ui/jobs", "/ui/jobs/", "/ui/jobs?state=queued", "/ui/jobs/order-5", "/ui/dead", "/ui/nothing", "/ui/jobs/a/b"]) go(url);
  assert.deepEqual(opened.map(([name]) => name), ["overview", "overview", "jobs", "jobs", "jobs", "job", "dead", "overview", "overview"]);
  assert.ok(isShown("overview"));
});

test("names in a path are decoded once", (t) => {
  const { opened } = start(t, "/ui/jobs/a%2Fb%20%2525");
  assert.deepEqual(opened, [["job", { id: "a/b %25" }]]);
});

test("a page is given the query", (t) => {
  const queries = [];
  start(t, "/ui/jobs?task=a%26b&task=c", { jobs: ({ query }) => {
    queries.push(query.getAll("task"));
    return pageOf("jobs");
  } });
  assert.deepEqual(queries, [["a&b", "c"]]);
});

test("an answer that comes after its page was left is not shown", async (t) => {
  const answers = {};
  const { container } = start(t, "/ui/dead", { dead: () => ({ ...pageOf(""), load: () => new Promise((resolve) => (answers.dead = resolve)) }) });
  go("/ui/jobs");
  await settled();
  answers.dead("late");
  await settled();
  assert.equal(container.textContent, "jobs");
});

test("a page that is asked for again while it loads loads once more", async (t) => {
  const answers = [];
  const { container } = start(t, "/ui/jobs", { jobs: () => ({ ...pageOf(""), load: () => new Promise((resolve) => answers.push(resolve)) }) });
  refresh();
  refresh();
  assert.equal(answers.length, 1);
  answers[0]("first");
  await settled();
  assert.equal(answers.length, 2);
  answers[1]("second");
  await settled();
  assert.equal(answers.length, 2);
  assert.equal(container.textContent, "second");
});

test("a page that cannot load says why, and one that was shown stays", async (t) => {
  let error = new Error("no store");
  const page = () => ({ ...pageOf(""), load: async () => { if (error) throw error; return "jobs"; } });
  const { container, failures } = start(t, "/ui/jobs", { jobs: page });
  await settled();
  assert.equal(container.textContent, "no store");
  error = null;
  refresh();
  await settled();
  error = new Error("gone again");
  refresh();
  await settled();
  assert.equal(container.textContent, "jobs");
  assert.deepEqual(failures, ["no store", "gone again"]);
});

test("the server knows the first segment of every page", () => {
  const source = readFileSync(new URL("../../../src/server/dashboard/ui.c", import.meta.url), "utf8");
  const [, listed] = /PAGES\[\] = \{([^}]*)\}/.exec(source);
  const known = [...listed.matchAll(/"(\w+)"/g)].map(([, name]) => name);
  const firsts = new Set(ROUTES.map((route) => route.path.split("/")[0]).filter(Boolean));
  assert.deepEqual([...firsts].filter((name) => !known.includes(name)), []);
});

test("pages have names and keys of their own", () => {
  for (const field of ["name", "path", "key"]) {
    const values = ROUTES.map((route) => route[field]).filter((value) => value !== undefined);
    assert.equal(new Set(values).size, values.length, field);
  }
  for (const { under } of ROUTES.filter((route) => route.under)) assert.ok(ROUTES.some((route) => route.name === under));
});
