// Circuit breakers: the state of each and why, tripping and resetting by hand.
import { h } from "../dom.js";
import { get, post, segment } from "../api.js";
import { lanes } from "../chart.js";
import { count, percent, relative, span } from "../format.js";
import { badge, label } from "../states.js";
import { act, button, confirmed, empty, heading, jobsLink, mayChange, table, when } from "../widgets.js";
/** @import { Breaker, Column, Context, Page } from "../types" */

const ORDER = ["open", "forced_open", "half_open", "closed", "disabled"];
const SHOWN = 300;
const MINUTES = [60, 360, 1440];
const LANES = 40; // breakers that are drawn
const LISTED = 20; // changes that are listed

async function trip(key) {
  if (!(await confirmed("Trip the breaker", `Jobs of ${key} are parked until the breaker is reset. Those that run go on.`))) return;
  act(post(`/retry/circuit-breakers/${segment(key)}/trip`), `${key} is open`);
}

function reset(key) {
  act(post(`/retry/circuit-breakers/${segment(key)}/reset`), `${key} is closed`);
}

/** @param {Breaker} breaker */
function rule({ thresholds: t }) {
  const rules = [];
  if (t.failure_threshold) rules.push(`${count(t.failure_threshold)} failures in a row`);
  if (t.failure_rate) rules.push(`${percent(t.failure_rate)} of ${t.min_calls}+ calls${t.window ? ` in ${span(t.window * 1000)}` : ""}`);
  return rules.join(", or ") || "by hand only";
}

/** @param {Breaker} b */
function standing(b) {
  if (b.state === "closed") return b.failure_count > 0 ? `${count(b.failure_count)} failed in a row` : "";
  if (b.state === "open") return b.next_probe_at ? `probe ${relative(b.next_probe_at)}` : "";
  if (b.state === "half_open") return `${count(b.success_count)} of ${b.thresholds.success_threshold} probes succeeded`;
  return "until it is reset";
}

/** @type {Column<Breaker>[]} */
const COLUMNS = [
  { title: "Breaker", cell: (b) => b.key },
  { title: "State", class: "roomy", cell: (b) => badge(b.state) },
  { title: "Now", class: "roomy", cell: (b) => standing(b) || h("span", { class: "muted" }, "–") },
  { title: "Failures", class: "n", cell: (b) => percent(b.failure_rate) },
  { title: "Parked", class: "n", cell: (b) => (b.parked ? jobsLink({ state: "parked" }, count(b.parked)) : "0") },
  { title: "Opened", class: "wide", cell: (b) => when(b.opened_at) },
  { title: "Opens at", class: "wide", cell: (b) => h("span", { class: "muted" }, rule(b)) },
];

/** @param {Breaker} b */
function actions(b) {
  return b.state === "closed" ? button("Trip", () => trip(b.key)) : button("Reset", () => reset(b.key), { kind: "primary" });
}

/** The changes of one breaker as spans of states, up to now. What was before this server noted it is not known.
 * @param {{ at: string, state: string, previous_state: string }[]} changes @param {number} from @param {number} to */
function partsOf(changes, from, to) {
  const parts = changes.map((change, i) => ({
    state: change.state, from: Date.parse(change.at), to: i + 1 < changes.length ? Date.parse(changes[i + 1].at) : to }));
  return parts[0].from > from ? [{ state: changes[0].previous_state, from, to: parts[0].from }, ...parts] : parts;
}

function timeline({ items, since, at }, minutes) {
  const to = Date.parse(at);
  const from = to - minutes * 60000;
  const known = Math.max(from, Date.parse(since));
  const byKey = Map.groupBy ? Map.groupBy(items, (change) => change.key) : items.reduce((map, change) => map.set(change.key, [...(map.get(change.key) ?? []), change]), new Map());
  const rows = [...byKey].map(([name, changes]) => ({ name, parts: partsOf(changes, known, to) })).sort((a, b) => b.parts.length - a.parts.length);
  return h("section", { class: "card" },
    h("div", { class: "heading" }, h("h2", null, "State over time"),
      h("nav", { class: "chips", "aria-label": "How far back" }, MINUTES.map((m) => h("a", { class: "chip", href: `/ui/breakers?minutes=${m}`, "aria-current": m === minutes ? "true" : null }, span(m * 60000))))),
    rows.length === 0 ? empty("No breaker has changed its state.") : lanes(rows.slice(0, LANES), from, to),
    rows.length > LANES && h("p", { class: "muted small" }, `${count(rows.length - LANES)} more breakers have changed.`),
    h("p", { class: "muted small" }, "Noted by this server since it was started, ", when(since), ", about every ten seconds: openings have their exact time, and short states in between may be missing."),
    items.length > 0 && h("details", null, h("summary", null, "Change by change"),
      h("ul", { class: "plain-list" }, items.slice(-LISTED).reverse().map((change) => h("li", null, when(change.at), " ", h("strong", null, change.key), " ",
        badge(change.previous_state), " → ", badge(change.state))))));
}

/** @param {Context} context @returns {Page} */
export default function breakers(context) {
  const minutes = MINUTES.find((m) => String(m) === context.query.get("minutes")) ?? MINUTES[0];

  async function load(signal) {
    const [list, history] = await Promise.all([get("/retry/circuit-breakers", { signal }), get(`/retry/circuit-breakers/history?minutes=${minutes}`, { signal })]);
    return { items: list.items, history };
  }

  return {
    load,
    render({ items, history }) {
      const sorted = [...items].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || (a.key < b.key ? -1 : 1));
      const columns = mayChange() ? [...COLUMNS, { title: "", class: "act", cell: actions }] : COLUMNS;
      return h("div", { class: "page" }, heading("Breakers"),
        items.length === 0 ? empty("There is no breaker yet.", "Each task gets one with its first job; an open one parks jobs instead of failing them.")
          : table(columns, sorted.slice(0, SHOWN), { key: (b) => b.key, label: "Breakers" }),
        sorted.length > SHOWN && h("p", { class: "muted" }, `${count(sorted.length - SHOWN)} more${sorted[SHOWN].state === sorted.at(-1).state ? `, all ${label(sorted[SHOWN].state)}` : ""}.`),
        items.length > 0 && timeline(history, minutes));
    },
  };
}
