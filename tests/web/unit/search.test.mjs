import "./page.mjs";

import assert from "node:assert/strict";
import test from "node:test";

import { parseSearch, searchText } from "../../../web/pages/jobs.js";

const ID = "0190163d-8694-739b-aea5-966c26f8ad91";

const found = (text) => Object.fromEntries(parseSearch(text).query);

test("words are looked for in errors, names with a colon are filters", () => {
  assert.deepEqual(found("timed out"), { text: "timed out" });
  assert.deepEqual(found('task:mail "timed out"'), { task: "mail", text: "timed out" });
  assert.deepEqual(found('task:"my task" state:queued,running'), { task: "my task", state: "queued,running" });
  assert.deepEqual(found("status:queued"), { state: "queued" });
  assert.deepEqual(found("   "), {});
});

test("a colon after another word is part of the text", () => {
  assert.deepEqual(found("http://host:80/ errno:5 task:"), { text: "http://host:80/ errno:5 task:" });
});

test("an id leads to its job, but not among other words", () => {
  assert.deepEqual(parseSearch(ID), { id: ID });
  assert.deepEqual(parseSearch(` ${ID.toUpperCase()} `), { id: ID.toUpperCase() });
  assert.deepEqual(parseSearch("id:order-5"), { id: "order-5" });
  assert.deepEqual(found(`${ID} mail`), { text: `${ID} mail` });
});

test("the text of a search gives the same search", () => {
  const values = ["mail", "a b", "", 'say "hi"', 'a"b', '"', '" "', "task:mail", "http://host", "id:5", ":", "a:", "日本 語", "\\", '\\"'];
  for (const text of values.filter((value) => value !== ""))
    assert.deepEqual(found(searchText(new URLSearchParams({ text }))), { text });
  for (const task of values.filter((value) => value !== ""))
    assert.deepEqual(found(searchText(new URLSearchParams({ task, text: "x y", state: "queued" }))), { task, text: "x y", state: "queued" });
});

test("what is no filter is not shown in the search box", () => {
  assert.equal(searchText(new URLSearchParams("cursor=abc&task=mail")), "task:mail");
});
