// Circuit breakers: the state of each and why, tripping and resetting by hand.
import { h } from "../dom.js";
import { get, post, segment } from "../api.js";
import { count, percent, relative, span } from "../format.js";
import { badge } from "../states.js";
import { act, button, confirmed, empty, heading, jobsLink, mayChange, table, when } from "../widgets.js";

const ORDER = ["open", "forced_open", "half_open", "closed", "disabled"];
const SHOWN = 300;
const seen = []; // changes since this page was loaded, the latest first

async function trip(key) {
  if (!(await confirmed("Trip the breaker", `Jobs of ${key} are parked until the breaker is reset. Those that run go on.`))) return;
  act(post(`/retry/circuit-breakers/${segment(key)}/trip`), `${key} is open`);
}

function reset(key) {
  act(post(`/retry/circuit-breakers/${segment(key)}/reset`), `${key} is closed`);
}

function rule({ thresholds: t }) {
  const rules = [];
  if (t.failure_threshold) rules.push(`${count(t.failure_threshold)} failures in a row`);
  if (t.failure_rate) rules.push(`${percent(t.failure_rate)} of ${t.min_calls}+ calls${t.window ? ` in ${span(t.window * 1000)}` : ""}`);
  return rules.join(", or ") || "by hand only";
}

function standing(b) {
  if (b.state === "closed") return b.failure_count > 0 ? `${count(b.failure_count)} failed in a row` : "";
  if (b.state === "open") return b.next_probe_at ? `probe ${relative(b.next_probe_at)}` : "";
  if (b.state === "half_open") return `${count(b.success_count)} of ${b.thresholds.success_threshold} probes succeeded`;
  return "until it is reset";
}

const COLUMNS = [
  { title: "Breaker", cell: (b) => b.key },
  { title: "State", class: "roomy", cell: (b) => badge(b.state) },
  { title: "Now", class: "roomy", cell: (b) => standing(b) },
  { title: "Failures", class: "n", cell: (b) => percent(b.failure_rate) },
  { title: "Parked", class: "n", cell: (b) => (b.parked ? jobsLink({ state: "parked" }, count(b.parked)) : "0") },
  { title: "Opened", class: "wide", cell: (b) => when(b.opened_at) },
  { title: "Opens at", class: "wide", cell: (b) => h("span", { class: "muted" }, rule(b)) },
];

function actions(b) {
  return b.state === "closed" ? button("Trip", () => trip(b.key)) : button("Reset", () => reset(b.key), { kind: "primary" });
}

function timeline() {
  if (seen.length === 0) return null;
  return h("section", { class: "card" }, h("h2", null, "Changes since you came"),
    h("ul", { class: "plain-list" }, seen.map((change) => h("li", null, when(change.at), " ", h("strong", null, change.key), " ",
      badge(change.previous_state), " → ", badge(change.state)))));
}

export default function breakers() {
  return {
    load: (signal) => get("/retry/circuit-breakers", { signal }),
    onEvent(event) {
      if (event.type !== "breaker") return;
      seen.unshift(event);
      seen.length = Math.min(seen.length, 20);
    },
    render({ items }) {
      const sorted = [...items].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || (a.key < b.key ? -1 : 1));
      const columns = mayChange() ? [...COLUMNS, { title: "", class: "act", cell: actions }] : COLUMNS;
      return h("div", { class: "page" }, heading("Breakers"),
        items.length === 0 ? empty("There is no breaker yet.", "Each task gets one with its first job; an open one parks jobs instead of failing them.")
          : table(columns, sorted.slice(0, SHOWN), { key: (b) => b.key, label: "Breakers" }),
        sorted.length > SHOWN && h("p", { class: "muted" }, `${count(sorted.length - SHOWN)} more, all ${sorted[SHOWN].state}.`),
        timeline());
    },
  };
}
