// Tasks: what each has done, and its retry policy drawn as a schedule.
import { h } from "../dom.js";
import { get } from "../api.js";
import { bar, schedule, waits } from "../chart.js";
import { compact, count, plural, span } from "../format.js";
import { STATES, badge } from "../states.js";
import { empty, heading, jobsLink, table } from "../widgets.js";
/** @import { Page, Retry, RetryRow, Task } from "../types" */

const SHOWN = 10; // rows of run times

/** Rows of the interface, where a delay that is certain has one member, as spans.
 * @param {RetryRow[]} rows @returns {Retry[]} */
export function spansOf(rows) {
  return rows.map((row) => ({
    ...row,
    min_ms: row.min_ms ?? row.delay_ms ?? 0, max_ms: row.max_ms ?? row.delay_ms ?? 0,
    total_min_ms: row.total_min_ms ?? row.total_ms ?? 0, total_max_ms: row.total_max_ms ?? row.total_ms ?? 0,
  }));
}

/** @param {Task} task */
function how(task) {
  const parts = [task.queue && `queue ${task.queue}`, task.run && `run by ${task.run}`];
  if (task.limits.rate) parts.push(`at most ${task.limits.rate}`);
  if (task.limits.concurrency === "adaptive") parts.push("as many at one time as the service takes");
  else if (task.limits.concurrency) parts.push(`${count(task.limits.concurrency)} at one time`);
  if (!task.declared) parts.push("not declared: defaults");
  return parts.filter(Boolean).join(" · ");
}

/** @param {Task} task */
function policy({ schedule: plan }) {
  const rows = spansOf(plan.retries);
  const last = rows.at(-1);
  return h("div", { class: "policy" }, schedule(rows),
    h("p", { class: "muted small" },
      !last ? "No retry: a failure ends the job as " : `${plural(plan.attempts, "attempt")} within ${span(last.total_max_ms)} and the time that they run, then `,
      badge(plan.then), plan.more && " (the first of them are drawn)"),
    rows.length > 0 && h("details", null, h("summary", null, "Retry by retry"),
      h("table", { class: "compact" }, h("thead", null, h("tr", null, ["Retry", "Waits before", "In all"].map((t) => h("th", null, t)))),
        h("tbody", null, rows.map((row) => h("tr", null, h("td", null, row.n), h("td", null, waits(row.min_ms, row.max_ms)), h("td", null, waits(row.total_min_ms, row.total_max_ms))))))));
}

/** @param {Task} task */
function card(task) {
  const total = STATES.reduce((sum, state) => sum + task.sizes[state], 0);
  const c = task.counters;
  return h("section", { class: "card task", "data-key": task.task, id: `task-${task.task}` },
    h("div", { class: "heading" },
      h("h2", null, jobsLink({ task: task.task }, task.task)),
      h("span", { class: "muted" }, how(task))),
    h("div", { class: "columns" },
      h("div", null,
        bar(STATES.map((state) => ({ state, n: task.sizes[state] }))),
        h("p", { class: "counts" }, total === 0 ? "no jobs now" : STATES.filter((state) => task.sizes[state] > 0).map((state) =>
          jobsLink({ task: task.task, state }, badge(state, compact(task.sizes[state]))))),
        h("p", { class: "muted small" }, `ever: ${compact(c.jobs_received)} submitted, ${compact(c.jobs_completed)} completed, ${compact(c.jobs_retried)} retries, ${compact(c.jobs_dlq)} dead`)),
      policy(task)));
}

/** The slowest first, by the mean, which is exact: percentiles are only known to lie between two bounds of a histogram.
 * @param {Task[]} items */
function runTimes(items) {
  const ran = items.flatMap(({ task, run_time: time }) => (time ? [{ task, ...time }] : [])).sort((a, b) => b.mean - a.mean);
  if (ran.length === 0) return null;
  return h("section", { class: "card", "data-key": "run times" },
    h("h2", null, "Run times ", h("span", { class: "muted" }, "the slowest task first")),
    table([
      { title: "Task", cell: ({ task }) => jobsLink({ task }, task) },
      { title: "Attempts", class: "n", cell: ({ attempts }) => compact(attempts) },
      { title: "Mean", class: "n", cell: ({ mean }) => span(mean * 1000) },
      { title: "In all", class: "n", cell: ({ mean, attempts }) => span(mean * attempts * 1000) },
    ], ran.slice(0, SHOWN), { key: ({ task }) => `ran ${task}`, label: "Run times" }),
    h("p", { class: "muted small" }, `Of the attempts that this server has seen end since it was started.${ran.length > SHOWN ? ` ${count(ran.length - SHOWN)} faster tasks are left out.` : ""}`));
}

/** @returns {Page} */
export default function tasks() {
  return {
    load: (signal) => get("/tasks", { signal }),
    render: ({ items }) => h("div", { class: "page" }, heading("Tasks"), runTimes(items),
      items.length === 0 ? empty("There is no task yet.", "Tasks are declared in the configuration or by workers, or appear with their first job.") : items.map(card)),
  };
}
