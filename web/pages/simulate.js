// What an outage would cost, by way of retrying: a form, and the simulator's answer as a chart. What is asked
// for is in the address.
import { h } from "../dom.js";
import { get, Problem } from "../api.js";
import { lines } from "../chart.js";
import { compact, count, span } from "../format.js";
import { heading, table } from "../widgets.js";
/** @import { Context, Page } from "../types" */

// Name of the parameter, label, what it is without, help.
/** @type {[string, string, string, string][]} */
const FIELDS = [
  ["outage", "Outage", "180s", "how long the service is down; up to 6h"],
  ["rate", "Jobs a second", "20", "that arrive"],
  ["capacity", "Capacity", "80", "calls a second that the service takes; 0: no limit"],
  ["rate_limit", "Rate limit", "0", "calls a second beyond which the service answers 429; 0: no limit"],
  ["attempts", "Attempts", "8", "of a job, at most; your policy has its own"],
  ["latency", "Latency", "50ms", "of a call, on average"],
  ["workers", "Workers", "100", "jobs that run at a time"],
  ["error_rate", "Error rate", "0", "share of calls that fail while the service is up: 0 to 1"],
  ["brownout", "Brownout", "1", "share of calls that fail during the outage: 0 to 1"],
  ["timeout", "Time-out", "0s", "calls of the outage hang for so long; 0s: they fail at once"],
];
const STRATEGIES = [
  ["none", "no delay", "c-1"], ["exponential", "exponential", "c-2"], ["full-jitter", "full jitter", "c-3"],
  ["sidekiq", "sidekiq/faktory curve", "c-4"], ["breaker-burns", "breaker that burns attempts", "c-5"],
  ["breaker-parks", "breaker that parks", "c-6"], ["retry-budget", "full jitter, retry budget", "c-7"],
  ["adaptive", "full jitter, adaptive concurrency", "c-8"],
];
const USUAL = STRATEGIES.slice(0, 6).map(([name]) => name);
const NAMES = [...FIELDS.map(([name]) => name), "task", "strategies"];

const lookOf = (name) => STRATEGIES.find(([known]) => known === name)?.[2] ?? "c-9";
const spanOf = (ms) => (ms === null ? "–" : span(ms));

function drained(row, options) {
  if (row.drain_ms !== null || options.outage_ms === 0) return spanOf(row.drain_ms);
  return `> ${span(options.duration_ms - options.outage_start_ms - options.outage_ms)}`;
}

function figures({ strategies, options, best }) {
  return table([
    { title: "Strategy", cell: (s) => [h("span", { class: `key ${lookOf(s.name)}` }, s.title), s.name === best && [" ", h("span", { class: "tag" }, "best")]] },
    { title: "Dead", class: "n", cell: (s) => count(s.dead + s.rejected) },
    { title: "Calls", class: "n", cell: (s) => count(s.calls) },
    { title: "Wasted", class: "n", cell: (s) => count(s.wasted_calls) },
    { title: "Drained", class: "n", cell: (s) => drained(s, options) },
    { title: "Peak", class: "n", cell: (s) => `${compact(s.peak_calls_per_s)}/s` },
    { title: "p50", class: "n wide", cell: (s) => spanOf(s.p50_ms) },
    { title: "p99", class: "n wide", cell: (s) => spanOf(s.p99_ms) },
  ], strategies, { key: (s) => s.name, label: "Strategies" });
}

function chart({ strategies, options, step_ms: step, calls_per_s: calls }) {
  const times = calls[0].map((_, i) => i * step);
  /** @type {[number, number]} */
  const outage = [options.outage_start_ms, options.outage_start_ms + options.outage_ms];
  return lines(times, strategies.map((s, i) => ({ name: s.title, class: lookOf(s.name), values: calls[i], note: "" })),
    (value) => `${compact(Math.round(value ?? 0))}/s`, { moment: (ms) => span(ms), marked: options.outage_ms > 0 ? outage : null, isFilled: false, kind: "tall" });
}

function answer(result) {
  return [
    h("section", { class: "card" }, h("h2", null, "Calls a second"), h("p", { class: "muted small" }, result.description, "."), chart(result),
      h("p", { class: "muted small" }, "Shaded: the service is down.")),
    h("p", { class: "reading" }, result.reading),
    figures(result),
    h("p", { class: "muted small" }, "Dead: jobs that used up their attempts, or were refused. Wasted: calls that failed. Drained: from the end of the outage until the backlog is as before. ",
      "P50, P99: from submit to completion, of jobs submitted during the outage. The decisions are made by the code that makes them in production; redrive simulate does the same, without these limits."),
  ];
}

/** @param {Context} context @returns {Page} */
export default function simulate(context) {
  const values = Object.fromEntries(NAMES.map((name) => [name, context.query.get(name) ?? ""]));
  const chosen = new Set(values.strategies ? values.strategies.split(",") : USUAL);
  let result = null; // of this address, which does not change

  function run(event) {
    event.preventDefault();
    const query = new URLSearchParams(NAMES.filter((name) => values[name] && name !== "strategies").map((name) => [name, values[name]]));
    if ([...chosen].sort().join() !== [...USUAL].sort().join()) query.set("strategies", [...chosen].join());
    context.go(`/ui/simulate?${query}`);
  }

  async function ask(signal) {
    const query = new URLSearchParams(NAMES.filter((name) => values[name]).map((name) => [name, values[name]]));
    try {
      return { ok: await get(`/simulate?${query}`, { signal }) };
    } catch (error) {
      if (error instanceof Problem && error.status < 500) return { problem: error };
      throw error;
    }
  }

  async function load(signal) {
    const [tasks, asked] = await Promise.all([get("/tasks", { signal }), result ?? ask(signal)]);
    result = asked;
    return { tasks: tasks.items, ...asked };
  }

  const field = (name, label, help, control) => h("div", { class: "field" }, h("label", { for: `sim-${name}` }, label), control, h("p", { class: "muted small", id: `help-${name}` }, help));

  const typed = ([name, label, otherwise, help], problem) => field(name, label, help, h("input", {
    id: `sim-${name}`, name, value: values[name], placeholder: otherwise, autocomplete: "off", spellcheck: "false",
    "aria-describedby": `help-${name}`, "aria-invalid": problem?.field === name ? "true" : null, oninput: (event) => (values[name] = event.target.value.trim()),
  }));

  const taskPicker = (tasks) => field("task", "Your policy", "also the policy, breaker and retry budget of this task",
    h("select", { id: "sim-task", "aria-describedby": "help-task", onchange: (event) => (values.task = event.target.value) },
      h("option", { value: "", selected: values.task === "" }, "not compared"),
      tasks.map(({ task }) => h("option", { value: task, selected: task === values.task }, task))));

  const strategyBoxes = () => h("fieldset", { class: "choices" }, h("legend", null, "Strategies"), STRATEGIES.map(([name, title]) =>
    h("label", null, h("input", { type: "checkbox", checked: chosen.has(name), onchange: (event) => (event.target.checked ? chosen.add(name) : chosen.delete(name)) }), " ", title)));

  function render({ tasks, ok, problem }) {
    return h("div", { class: "page" }, heading("Simulator"),
      h("p", { class: "muted" }, "Jobs call a service that goes down and comes back, in virtual time. Each way of retrying meets the same jobs."),
      h("form", { class: "card form", onsubmit: run },
        h("div", { class: "fields" }, FIELDS.map((row) => typed(row, problem)), taskPicker(tasks)),
        strategyBoxes(),
        problem && h("div", { class: "problem", role: "alert" }, h("strong", null, problem.message), problem.hint && h("div", null, problem.hint)),
        h("div", { class: "buttons" }, h("button", { class: "primary" }, "Simulate"))),
      ok && answer(ok));
  }

  return { load, render, wants: () => false };
}
