import assert from "node:assert/strict";
import test from "node:test";

import { get, post, Problem, segment, Unreachable } from "../../../web/api.js";

function answer(t, status, text) {
  return t.mock.method(globalThis, "fetch", async () => new Response(text, { status }));
}

test("a name is one segment of a path, whatever is in it", () => {
  for (const name of ["mail", "a/b", "a b", "50%", "?x#y", "日本", "...", ".a", "a."]) {
    const { pathname } = new URL(`http://host/v1/jobs/${segment(name)}/retry`);
    assert.deepEqual(pathname.split("/").map(decodeURIComponent), ["", "v1", "jobs", name, "retry"]);
  }
});

test("a request without a body says nothing of one", async (t) => {
  const fetched = answer(t, 200, "{}");
  await post("/queues/a/pause");
  await post("/bulk", { verb: "retry" });
  const [without, withBody] = fetched.mock.calls.map((call) => call.arguments[1]);
  assert.equal(without.body, undefined);
  assert.ok(!("Content-Type" in without.headers));
  assert.equal(withBody.body, '{"verb":"retry"}');
  assert.equal(withBody.headers["Content-Type"], "application/json");
});

test("an empty answer is null", async (t) => {
  answer(t, 200, "");
  assert.equal(await get("/session"), null);
});

test("a refusal has the server's words", async (t) => {
  answer(t, 400, '{"title":"bad request","detail":"delay: too long","field":"delay","expected":"at most 100 years","hint":"such as 90s"}');
  await assert.rejects(get("/jobs"), (error) => {
    assert.ok(error instanceof Problem);
    assert.deepEqual([error.message, error.status, error.field, error.hint], ["delay: too long", 400, "delay", "expected at most 100 years; such as 90s"]);
    return true;
  });
});

test("a refusal of a proxy, which is no JSON or no object, is a refusal all the same", async (t) => {
  for (const text of ["<html>", "", "null", "5", '"no"']) {
    answer(t, 502, text);
    await assert.rejects(get("/jobs"), { name: "Problem", status: 502, message: "the server answered 502", hint: "" });
    t.mock.restoreAll();
  }
});

test("an answer of something else than Redrive is said to be one", async (t) => {
  answer(t, 200, "<html>");
  await assert.rejects(get("/jobs"), /not one of Redrive/);
});

test("no answer is told from a request that was given up", async (t) => {
  const failing = t.mock.method(globalThis, "fetch", async () => { throw new TypeError("failed to fetch"); });
  await assert.rejects(get("/jobs"), Unreachable);
  failing.mock.mockImplementation(async () => { throw new DOMException("given up", "AbortError"); });
  await assert.rejects(get("/jobs"), { name: "AbortError" });
});
