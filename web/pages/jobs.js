// Jobs: filters in the address, pages, and actions on those that are selected or on all that match.
import { h } from "../dom.js";
import { get, Problem, segment } from "../api.js";
import { bulkLines, chooseRun, runLine, runOnAll, runOnSome } from "../bulk.js";
import { compact, count, plural } from "../format.js";
import { badge, ENDED, LIVE, RETRIABLE, STATES } from "../states.js";
import { button, empty, firstLine, heading, mayChange, maySubmit, table, when } from "../widgets.js";
/** @import { Column, Context, Job, JobPage, Page, State } from "../types" */

const FILTERS = ["state", "task", "queue", "user", "unique_key", "class", "reason", "type", "text", "group", "older_than", "newer_than"];
const COUNTED = ["state", "task", "queue"]; // there are counters for these
const OF_THE_END = ["state", "task", "queue", "older_than", "newer_than"]; // there is an index by the time of the end for these
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const PAGE = 50;
const GO_ON = 10; // requests after the first, for one page

// ---- The search box ------------------------------------------------------------------------------

/** `task:mail "timed out"` → {query: "task=mail&text=timed+out"}; an id → {id}. Within quotes, two are one.
 * @param {string} text @returns {{ id: string } | { query: URLSearchParams }} */
export function parseSearch(text) {
  const query = new URLSearchParams();
  const words = [];
  for (const [, name, quoted, plain] of text.matchAll(/(?:(\w+):)?(?:"((?:[^"]|"")*)"|(\S+))/g)) {
    const value = quoted?.replaceAll('""', '"') ?? plain;
    if (name === "id") return { id: value };
    if (name === "status") query.set("state", value);
    else if (FILTERS.includes(name)) query.set(name, value);
    else words.push(name ? `${name}:${value}` : value);
  }
  if (words.length === 1 && UUID.test(words[0])) return { id: words[0] };
  if (words.length > 0) query.set("text", words.join(" "));
  return { query };
}

/** The other way round.
 * @param {URLSearchParams} query */
export function searchText(query) {
  return FILTERS.filter((name) => query.has(name)).map((name) => {
    const value = query.get(name) ?? "";
    const shown = /[\s":]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
    return name === "text" ? shown : `${name}:${shown}`;
  }).join(" ");
}

// ---- Reading -------------------------------------------------------------------------------------

/** @param {URLSearchParams} query */
function filtersOf(query) {
  return new URLSearchParams(FILTERS.map((name) => [name, query.get(name) ?? ""]).filter(([, value]) => value !== ""));
}

/** Of jobs that have ended, those that ended last come first, unless that would be a search among all of them.
 * @param {URLSearchParams} filters */
function isByEnd(filters) {
  const names = [...filters.keys()];
  const states = filters.get("state")?.split(",") ?? ENDED;
  return names.some((name) => name !== "task" && name !== "queue") && names.every((name) => OF_THE_END.includes(name)) && states.every((state) => ENDED.includes(state));
}

/** @param {URLSearchParams} filters */
function countsPath(filters) {
  return `/counts?${new URLSearchParams([...filters].filter(([name]) => COUNTED.includes(name)))}`;
}

/** The server ends a search that takes long with what it has found: it is asked to go on, for a while.
 * @param {URLSearchParams} list @param {AbortSignal} signal @returns {Promise<JobPage>} */
async function searched(list, signal) {
  const page = await get(`/jobs?${list}`, { signal });
  for (let i = 0; i < GO_ON && page.next && page.items.length < PAGE; i++) {
    const more = await get(`/jobs?${new URLSearchParams([...[...list].filter(([name]) => name !== "cursor" && name !== "limit"),
      ["limit", String(PAGE - page.items.length)], ["cursor", page.next]])}`, { signal });
    page.items.push(...more.items);
    page.next = more.next;
  }
  return page;
}

/** A server that hides values lets only admins search in texts: the job of that id may be there all the same.
 * @param {URLSearchParams} list @param {AbortSignal} signal @returns {Promise<JobPage>} */
async function pageOf(list, signal) {
  try {
    return await searched(list, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 403 && list.has("text")) return { items: [], next: null };
    throw error;
  }
}

/** A word may be the id of a job, or be part of an error.
 * @param {string | null} text @param {AbortSignal} signal @returns {Promise<Job | null>} */
async function jobOf(text, signal) {
  if (!text || /\s/.test(text)) return null;
  try {
    return await get(`/jobs/${segment(text)}`, { signal });
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

// ---- Drawing -------------------------------------------------------------------------------------

/** @param {URLSearchParams} filters @param {Record<string, string>} changes */
function urlWith(filters, changes) {
  const next = new URLSearchParams(filters);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  return `/ui/jobs?${next}`;
}

/** @param {Job} job */
function moment(job) {
  if (job.state === "scheduled" || job.state === "retrying") return job.process_after;
  if (job.state === "running") return job.started_at;
  return job.finished_at ?? job.created_at;
}

/** @param {URLSearchParams} filters @param {{ by_state: Record<State, number> }} counts */
function stateChips(filters, counts) {
  const chosen = filters.get("state")?.split(",") ?? [];
  const chip = (state, n) => h("a", {
    class: "chip", href: urlWith(filters, { state: chosen.length === 1 && chosen[0] === state ? "" : state }),
    "aria-current": chosen.includes(state) ? "true" : null,
  }, badge(state, compact(n)));
  return h("nav", { class: "chips", "aria-label": "States" },
    h("a", { class: "chip", href: urlWith(filters, { state: "" }), "aria-current": chosen.length === 0 ? "true" : null }, "all"),
    STATES.map((state) => chip(state, counts.by_state[state])));
}

/** @param {Context} context @param {URLSearchParams} filters @param {"task" | "queue"} name */
function picker(context, filters, name, items) {
  const chosen = filters.get(name) ?? "";
  const names = items.map((item) => item[name]);
  if (chosen && !names.includes(chosen)) names.unshift(chosen);
  return h("label", { class: "picker" }, name,
    h("select", { onchange: (event) => context.go(urlWith(filters, { [name]: event.target.value })) },
      h("option", { value: "", selected: chosen === "" }, "any"),
      names.map((value) => h("option", { value, selected: value === chosen }, value))));
}

/** @param {URLSearchParams} filters */
function chosenFilters(filters) {
  const others = [...filters].filter(([name]) => !COUNTED.includes(name));
  return others.map(([name, value]) => h("span", { class: "tag" }, `${name}: `, h("bdi", null, firstLine(value, 40)), " ",
    h("a", { href: urlWith(filters, { [name]: "" }), "aria-label": `Without ${name}` }, "×")));
}

/** @type {Column<Job>[]} */
const COLUMNS = [
  { title: "Job", cell: (j) => h("a", { class: "id", href: `/ui/jobs/${segment(j.id)}` }, j.id) },
  { title: "State", class: "roomy", cell: (j) => badge(j.state, j.state === "parked" ? j.reason : null) },
  { title: "Task", cell: (j) => j.task },
  { title: "Queue", class: "wide", cell: (j) => j.queue },
  { title: "Attempts", class: "n wide", cell: (j) => `${j.attempts} of ${j.max_attempts}` },
  { title: "When", cell: (j) => when(moment(j)) },
  { title: "Last error", class: "wide error", cell: (j) => j.last_error && [h("span", { class: "class" }, j.last_error.class), " ", firstLine(j.last_error.message, 120)] },
];

/** @param {Job[]} items @param {Set<string>} selected @param {Context} context @returns {Column<Job>} */
function selectColumn(items, selected, context) {
  const toggle = (id, on) => {
    if (on) selected.add(id);
    else selected.delete(id);
    context.redraw();
  };
  const all = items.length > 0 && items.every((job) => selected.has(job.id));
  return {
    title: h("input", { type: "checkbox", "aria-label": "Select the page", checked: all, onchange: (e) => {
      for (const job of items) (e.target.checked ? selected.add(job.id) : selected.delete(job.id));
      context.redraw();
    } }),
    class: "check",
    cell: (job) => h("input", { type: "checkbox", "aria-label": `Select ${job.id}`, checked: selected.has(job.id), onchange: (e) => toggle(job.id, e.target.checked) }),
  };
}

/** @param {URLSearchParams} filters @param {Job[]} items @param {Set<string>} selected */
function bulkBar(filters, items, selected) {
  const some = items.filter((job) => selected.has(job.id));
  const states = filters.get("state")?.split(",") ?? STATES;
  const can = { cancel: states.some((s) => LIVE.includes(s)), retry: states.some((s) => RETRIABLE.includes(s)) };
  const onSome = async (verb) => {
    if (!(await chooseRun(verb, plural(some.length, "selected job")))) return;
    const ids = some.map((job) => job.id);
    selected.clear();
    runOnSome(verb, ids);
  };
  const row = (label, act, verbs) => h("span", { class: "bulk" }, label, verbs.map((verb) =>
    button(verb === "cancel" ? "Cancel" : "Retry", () => act(verb))));
  const verbs = ["retry", "cancel"].filter((verb) => can[verb]);
  return h("div", { class: "bulk-bar" },
    some.length > 0 ? row(plural(some.length, "selected", "selected"), onSome, verbs) : verbs.length > 0 && row("All that match", (verb) => runOnAll(verb, filters), verbs));
}

/** @param {URLSearchParams} filters @param {URLSearchParams} query @param {JobPage} page */
function pager(filters, query, { items, next }) {
  return h("nav", { class: "pager", "aria-label": "Pages of the list" },
    query.has("cursor") && h("a", { href: urlWith(filters, {}) }, "« first page"),
    next && h("a", { rel: "next", href: urlWith(filters, { cursor: next }) }, items.length < PAGE ? "search older jobs »" : "next page »"));
}

function none(filters, next) {
  if (next) return empty("No job matches so far.", "Older jobs have not been searched yet.");
  return empty("No job matches.", filters.size > 0 ? "Fewer filters find more." : "Submit one here, with redrive enqueue, or POST /v1/jobs.");
}

/** @param {Context} context @returns {Page} */
export default function jobs(context) {
  const filters = filtersOf(context.query);
  const selected = new Set();
  const isCounted = [...filters.keys()].every((name) => COUNTED.includes(name));

  async function load(signal) {
    const list = new URLSearchParams([...filters, ["limit", String(PAGE)]]);
    if (isByEnd(filters)) list.set("order", "finished");
    const cursor = context.query.get("cursor");
    if (cursor !== null) list.set("cursor", cursor);
    const [page, counts, exact, runs] = await Promise.all([
      pageOf(list, signal), get(countsPath(filters), { signal }), jobOf(filters.get("text"), signal), get("/bulk", { signal })]);
    return { page, counts, exact, runs: runs.items };
  }

  function render({ page, counts, exact, runs }) {
    const total = isCounted ? counts.total : null;
    const columns = mayChange() ? [selectColumn(page.items, selected, context), ...COLUMNS] : COLUMNS;
    return h("div", { class: "page" },
      heading(["Jobs ", total !== null && h("span", { class: "muted" }, count(total))],
        maySubmit() && h("a", { href: `/ui/submit?${new URLSearchParams([...filters].filter(([name]) => name === "task"))}` }, "Submit a job"),
        picker(context, filters, "task", counts.by_task), picker(context, filters, "queue", counts.by_queue)),
      stateChips(filters, counts),
      h("p", { class: "chosen" }, chosenFilters(filters)),
      runLine(), bulkLines(runs),
      exact && h("p", { class: "notice" }, h("span", null, "The job with this id: ", h("a", { href: `/ui/jobs/${segment(exact.id)}` }, exact.id), " ", badge(exact.state))),
      mayChange() && page.items.length > 0 && bulkBar(filters, page.items, selected),
      page.items.length === 0 ? none(filters, page.next)
        : table(columns, page.items, { key: (job) => job.id, label: "Jobs" }),
      pager(filters, context.query, page));
  }

  return { load, render };
}
