// Dead letters: groups of the same error, redriven or removed as a whole; progress of those under way.
import { h } from "../dom.js";
import { get, post, remove, segment } from "../api.js";
import { gauge } from "../chart.js";
import { count, plural } from "../format.js";
import { badge } from "../states.js";
import { act, button, confirmed, dialog, empty, firstLine, heading, mayChange, notifyError, table, when } from "../widgets.js";
/** @import { Context, Job, JobError, Page } from "../types" */

const FILTERS = ["task", "queue", "class", "reason", "type", "text", "group", "user"];
const OF_ERRORS = ["type", "text", "group"];
const BASE = "/retry/dead-letters";
const PAGE = 50;

// ---- Actions -------------------------------------------------------------------------------------

// Without a filter it is about all of them, which has to be said.
const which = (filter) => (Object.keys(filter).length > 0 ? { filter } : { all: true });

// The server counts up to a number.
const orMore = (counted) => (counted.at_least ? " or more" : "");

async function redrive(filter) {
  let asked;
  try {
    asked = await post(`${BASE}/retry`, { ...which(filter), dry_run: true });
  } catch (error) {
    notifyError(error);
    return;
  }
  const rate = h("input", { type: "number", min: "1", max: "1000000", step: "1", placeholder: "as fast as it goes", "aria-label": "Jobs a second" });
  const answer = await dialog("Redrive dead letters", [
    h("p", null, `${plural(asked.matched, "dead letter")}${orMore(asked)} will run again${asked.refused ? `; ${count(asked.refused)} of them cannot: a live job has their unique key, or their deadline has passed` : ""}.`),
    h("label", null, "At most ", rate, " a second"),
  ], [{ label: "Leave them", value: "" }, { label: "Redrive", value: "yes", kind: "primary" }]);
  if (answer !== "yes") return;
  const body = { ...which(filter), ...(rate.value && { rate: Number(rate.value) }) };
  act(post(`${BASE}/retry`, body), (done) => (done.finished ? `${count(done.redriven)} redriven` : `Redriving ${count(done.matched)}${orMore(done)} at ${rate.value} a second`));
}

async function purge(filter) {
  const query = new URLSearchParams({ older_than_hours: "0", ...filter });
  let asked;
  try {
    asked = await remove(`${BASE}?${query}&dry_run=true`);
  } catch (error) {
    notifyError(error);
    return;
  }
  if (!(await confirmed("Remove dead letters", `${plural(asked.matched, "dead letter")}${orMore(asked)} will be gone for good, with payload and history.`, `Remove ${count(asked.matched)}${orMore(asked)}`))) return;
  act(remove(`${BASE}?${query}`), (done) => `${count(done.removed)} removed`);
}

// The labels say which: all of them, those of one group, or those of the filter.
function buttons(filter, what = "") {
  return mayChange() && [button(`Redrive${what}`, () => redrive(filter), { kind: what === " group" ? "" : "primary" }), button(`Remove${what}`, () => purge(filter))];
}

// ---- Drawing -------------------------------------------------------------------------------------

function href(filter) {
  return `/ui/dead?${new URLSearchParams(filter)}`;
}

function underWay(runs) {
  return runs.map((run) => h("p", { class: "notice running", "data-key": run.id },
    h("span", null, `Redriving at ${run.rate}: ${count(run.redriven)} of ${count(run.matched)}${orMore(run)}${run.refused ? `, ${count(run.refused)} refused` : ""}`, gauge(run.redriven + run.refused, run.matched)),
    mayChange() && button("Stop", () => act(remove(`${BASE}/retries/${segment(run.id)}`), "Stopped; jobs that were not redriven are still dead"))));
}

/** @param {JobError | null} error */
function errorCell(error) {
  if (!error) return h("span", { class: "muted" }, "never ran");
  return [h("span", { class: "class" }, error.class), error.type && [" ", h("code", null, error.type)], h("div", { class: "message" }, firstLine(error.message, 240))];
}

function groupTable(groups) {
  return table([
    { title: "Jobs", class: "n", cell: (g) => h("a", { class: "big", href: href({ group: g.fingerprint }) }, count(g.count)) },
    { title: "Error", class: "error", cell: (g) => errorCell(g.example) },
    { title: "Task", cell: (g) => h("a", { href: href({ task: g.task }) }, g.task) },
    { title: "First", class: "wide", cell: (g) => when(g.first_seen) },
    { title: "Last", cell: (g) => when(g.last_seen) },
    { title: "", class: "act", cell: (g) => buttons({ group: g.fingerprint }, " group") },
  ], groups, { key: (g) => g.fingerprint, label: "Groups of dead letters" });
}

/** @param {Job[]} letters */
function letterTable(letters) {
  return table([
    { title: "Job", cell: (j) => h("a", { class: "id", href: `/ui/jobs/${segment(j.id)}` }, j.id) },
    { title: "Task", cell: (j) => j.task },
    { title: "Error", class: "error", cell: (j) => errorCell(j.last_error) },
    { title: "Why", class: "wide", cell: (j) => badge("dead_letter", j.reason?.replaceAll("_", " ")) },
    { title: "Attempts", class: "n wide", cell: (j) => j.attempts },
    { title: "Died", cell: (j) => when(j.finished_at) },
  ], letters, { key: (j) => j.id, label: "Dead letters" });
}

/** @param {Context} context @returns {Page} */
export default function dead(context) {
  const filter = Object.fromEntries(FILTERS.map((name) => [name, context.query.get(name) ?? ""]).filter(([, value]) => value !== ""));
  const cursor = context.query.get("cursor");
  const isFiltered = Object.keys(filter).length > 0;

  async function load(signal) {
    const query = new URLSearchParams(filter);
    const list = new URLSearchParams({ ...filter, limit: String(PAGE), ...(cursor !== null && { cursor }) });
    const asked = get(`${BASE}/groups?${query}`, { signal });
    const getLetters = () => get(`${BASE}?${list}`, { signal });
    // Every error is in a group: where there is none the server need not look at all errors once more.
    const getOfErrors = async () => ((await asked).items.length > 0 ? getLetters() : { items: [] });
    const [runs, groups, letters] = await Promise.all([
      get(`${BASE}/retries`, { signal }), asked,
      isFiltered ? (OF_ERRORS.some((name) => name in filter) ? getOfErrors() : getLetters()) : null]);
    return { runs: runs.items, groups: groups.items, letters };
  }

  function render({ runs, groups, letters }) {
    const n = groups.reduce((sum, group) => sum + group.count, 0);
    return h("div", { class: "page" },
      heading(["Dead letters ", n > 0 && h("span", { class: "muted" }, count(n))], n > 0 && buttons(filter, isFiltered ? "" : " all")),
      isFiltered && h("p", { class: "chosen" }, Object.entries(filter).map(([name, value]) => h("span", { class: "tag" }, `${name}: ${firstLine(value, 40)} `,
        h("a", { href: href(Object.fromEntries(Object.entries(filter).filter(([other]) => other !== name))), "aria-label": `Without ${name}` }, "×")))),
      underWay(runs),
      groups.length === 0 ? empty(isFiltered ? "No dead letter matches." : "There are no dead letters.", "A job becomes one when its retries are used up, or when its error can never succeed.")
        : [h("h2", null, isFiltered ? "Errors among them" : "By error"), groupTable(groups)],
      letters && letters.items.length > 0 && [h("h2", null, "One by one"), letterTable(letters.items),
        h("nav", { class: "pager", "aria-label": "Pages of the list" },
          cursor !== null && h("a", { href: href(filter) }, "« first page"),
          letters.next && h("a", { rel: "next", href: href({ ...filter, cursor: letters.next }) }, "next page »"))]);
  }

  return { load, render, wants: (kind) => ["dead_letter", "redriven"].includes(kind) };
}

