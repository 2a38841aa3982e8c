// The processes that carry jobs out, and the remote workers that claim over HTTP or Faktory.
import { h } from "../dom.js";
import { get } from "../api.js";
import { gauge } from "../chart.js";
import { count, percent, rate, span } from "../format.js";
import { empty, heading, table, when } from "../widgets.js";
/** @import { Page } from "../types" */

const COLUMNS = [
  { title: "Worker", cell: (w) => [h("strong", null, w.name), h("div", { class: "muted small" }, w.host ? `${w.host}, process ${w.pid}` : "remote")] },
  { title: "Slots", class: "roomy", cell: (w) => [`${count(w.running)} of ${count(w.slots)}`, gauge(w.running, w.slots)] },
  { title: "Rate", class: "n", cell: (w) => rate(w.tasks_per_second) },
  { title: "Runs", class: "n", cell: (w) => count(w.runs) },
  { title: "Failed", class: "n", cell: (w) => (w.runs ? percent(w.failed / w.runs) : "–") },
  { title: "p50", class: "n wide", cell: (w) => (w.p50 ? span(w.p50 * 1000) : "–") },
  { title: "p99", class: "n wide", cell: (w) => (w.p99 ? span(w.p99 * 1000) : "–") },
  { title: "Up since", class: "wide", cell: (w) => when(w.started_at) },
  { title: "Seen", class: "wide", cell: (w) => when(w.seen_at) },
];

/** @returns {Page} */
export default function workers() {
  return {
    load: (signal) => get("/workers", { signal }),
    render: ({ items }) => h("div", { class: "page" }, heading("Workers"),
      items.length === 0 ? empty("No worker is alive.", "Start one with redrive work, or claim jobs over HTTP.")
        : table(COLUMNS, items, { key: (w) => `${w.name} ${w.host} ${w.pid}`, label: "Workers" })),
  };
}
