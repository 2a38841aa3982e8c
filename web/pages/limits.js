// Limits: how many jobs run under each, rates, retry budgets, and what waits.
import { h } from "../dom.js";
import { get } from "../api.js";
import { gauge } from "../chart.js";
import { count, percent, span } from "../format.js";
import { empty, heading, jobsLink, table } from "../widgets.js";
/** @import { Column, Limit, Page } from "../types" */

/** @param {Limit} limit */
function slots(limit) {
  if (limit.concurrency === null) return [count(limit.running), h("div", { class: "muted small" }, "no limit")];
  return [`${count(limit.running)} of ${count(limit.concurrency)}`, gauge(limit.running, limit.concurrency)];
}

/** @param {Limit} limit */
function budget({ retry_budget: b }) {
  if (!b) return h("span", { class: "muted" }, "none");
  const used = b.max_tokens !== undefined
    ? [`${count(Math.floor(b.tokens))} of ${count(b.max_tokens)} tokens`, gauge(b.tokens, b.max_tokens)]
    : [`${count(b.retries)} retries, ${count(b.first_attempts)} first attempts in ${span(b.window * 1000)}`,
      h("div", { class: "muted small" }, `at most ${percent(b.ratio)} of first attempts${b.min_per_second ? `, and ${b.min_per_second}/s` : ""}`)];
  return [used, h("div", { class: b.room > 0 ? "muted small" : "class small" }, b.room > 0 ? `room for ${count(b.room)}` : "no room: retries wait")];
}

/** @type {Column<Limit>[]} */
const COLUMNS = [
  { title: "Limit", cell: (l) => l.key },
  { title: "Running", class: "roomy", cell: slots },
  { title: "Rate", class: "n", cell: (l) => l.rate ?? "–" },
  { title: "Parked", class: "n", cell: (l) => (l.parked ? jobsLink({ state: "parked" }, count(l.parked)) : "0") },
  { title: "Retry budget", class: "roomy", cell: budget },
];

const SHOWN = 300;

/** @returns {Page} */
export default function limits() {
  return {
    load: (signal) => get("/limits", { signal }),
    render({ items }) {
      const sorted = [...items].sort((a, b) => b.parked - a.parked || (a.key < b.key ? -1 : 1));
      return h("div", { class: "page" }, heading("Limits"),
        items.length === 0 ? empty("No job has met a limit yet.", "Tasks get them in the configuration: limits with a rate, a concurrency or a retry budget.")
          : table(COLUMNS, sorted.slice(0, SHOWN), { key: (l) => l.key, label: "Limits" }),
        sorted.length > SHOWN && h("p", { class: "muted" }, `${count(sorted.length - SHOWN)} more, with fewer parked jobs.`));
    },
  };
}
