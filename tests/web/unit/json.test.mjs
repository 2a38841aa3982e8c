import assert from "node:assert/strict";
import test from "node:test";

import { indent, memberText } from "../../../web/json.js";

test("a member is given as it was written", () => {
  const text = '{ "id":"a", "payload" : {"n": 9007199254740993, "x":1e400, "2":0, "1":0.10} , "result":null}';
  assert.equal(memberText(text, "payload"), '{"n": 9007199254740993, "x":1e400, "2":0, "1":0.10}');
});

test("scalars end where they end", () => {
  for (const value of ["0", "-1.5e+3", "18446744073709551615", "true", "false", '""', '"a"', "[]", "{}"])
    for (const text of [`{"v":${value}}`, `{"v":${value},"w":1}`, `{"v": ${value} }`, `{"u":[1],"v":\n${value}\n,"w":1}`])
      assert.equal(memberText(text, "v"), value, text);
});

test("braces, commas and escapes within strings end nothing", () => {
  const value = String.raw`{"a":"}],\"{[","b\\":"\\","c":["\u0022","\\\""]}`;
  JSON.parse(value);
  assert.equal(memberText(`{"first":"\\\\","v":${value},"last":"}"}`, "v"), value);
});

test("a name is found with escapes, and not within other values", () => {
  assert.equal(memberText(String.raw`{"p\u0061yload":1}`, "payload"), "1");
  assert.equal(memberText('{"a":{"payload":1},"b":"payload","c":["payload",2]}', "payload"), null);
  assert.equal(memberText('{"a":{"payload":1},"payload":2}', "payload"), "2");
});

test("a member that is null or absent gives null", () => {
  assert.equal(memberText('{"payload":null}', "payload"), null);
  assert.equal(memberText('{"payload":"null"}', "payload"), '"null"');
  assert.equal(memberText('{"other":1}', "payload"), null);
  assert.equal(memberText("{}", "payload"), null);
  assert.equal(memberText(" { } ", "payload"), null);
});

test("each value gets a line", () => {
  assert.equal(indent('{"a":1,"b":[true,null,{"c":"d"}]}'),
    '{\n  "a": 1,\n  "b": [\n    true,\n    null,\n    {\n      "c": "d"\n    }\n  ]\n}');
});

test("empty objects and lists stay on their line", () => {
  assert.equal(indent('{"a":{ },"b":[\n],"c":[{},[]]}'), '{\n  "a": {},\n  "b": [],\n  "c": [\n    {},\n    []\n  ]\n}');
});

test("indenting changes spaces between values only", () => {
  const values = [0, "", " a:b, {c} ", '\\"', [], {}, [[[]]], { "a b": [1, { ":": "," }], "": " " }, "\u2028\ud83d\ude00"];
  for (const value of values)
    for (const text of [JSON.stringify(value), JSON.stringify(value, null, 3), ` ${JSON.stringify(value)}\n`])
      assert.equal(indent(text), JSON.stringify(value, null, 2));
});

test("indenting keeps numbers and the order of names", () => {
  assert.equal(indent('{"10":1.0,"9":12345678901234567890,"a":-0,"a":1E5}'),
    '{\n  "10": 1.0,\n  "9": 12345678901234567890,\n  "a": -0,\n  "a": 1E5\n}');
});

test("a text that is indented stays as it is", () => {
  const once = indent('{"a":[1,{"b":"c d"},[]],"e":{}}');
  assert.equal(indent(once), once);
});
