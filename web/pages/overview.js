// How it goes, at a glance: rates, states, what is in the way.
import { h } from "../dom.js";
import { get } from "../api.js";
import { bar, gauge, lines } from "../chart.js";
import { age, compact, count, percent, plural, rate, setServerTime, span } from "../format.js";
import { badge, STATES } from "../states.js";
import { empty, heading, jobsLink, table, when } from "../widgets.js";
/** @import { Page } from "../types" */

const SERIES = [
  ["completed", "completed", "s-completed"],
  ["retrying", "retried", "s-retrying"],
  ["dead_letter", "dead", "s-dead_letter"],
];

async function load(signal) {
  const [summary, rates, latency] = await Promise.all([get("/summary?queues=8", { signal }), get("/rates", { signal }), get("/latency", { signal })]);
  setServerTime(summary.at);
  return { summary, rates, latency };
}

function tile(name, value, more, href, kind = "") {
  return h("a", { class: `tile ${kind}`, href }, h("span", { class: "name" }, name), h("span", { class: "value" }, value), h("span", { class: "more" }, more));
}

function tiles({ sizes, health, ...s }) {
  const slots = s.slots > 0 ? `${count(s.running)} of ${plural(s.slots, "slot")} in use` : "no slots";
  const dead = sizes.dead_letter;
  return h("div", { class: "tiles" },
    tile("Health", health.status, `${percent(health.success_rate)} succeed`, "/ui/breakers", health.status === "healthy" ? "good" : "bad"),
    tile("Throughput", rate(s.tasks_per_second), s.run_time.p99 > 0 ? `half take ${span(s.run_time.p50 * 1000)}, 99 % ${span(s.run_time.p99 * 1000)}` : "nothing has run lately", "/ui/tasks"),
    tile("Waiting", compact(sizes.queued), s.oldest_ready_age === null ? "nothing waits" : `oldest for ${age(s.oldest_ready_age * 1000)}`, "/ui/jobs?state=queued"),
    tile("Running", compact(sizes.running), slots, "/ui/jobs?state=running"),
    tile("Dead letters", compact(dead), dead > 0 ? "look at the groups" : "none", "/ui/dead", dead > 0 ? "bad" : "good"));
}

function rateChart(rates) {
  const items = rates.items;
  if (items.length < 2)
    return empty("There are no rates yet.", `This server notes every ${span(rates.step * 1000)} how many jobs came and ended since it was started.`);
  const perSecond = (name) => items.map((item) => item[name] / item.seconds);
  return lines(items.map((item) => Date.parse(item.at)),
    SERIES.map(([field, name, cls]) => ({ name, class: cls, values: perSecond(field) })), rate);
}

const PERCENTILES = [["p50", "half", "c-6"], ["p95", "95 %", "c-2"], ["p99", "99 %", "c-1"]];

function latencyChart(title, items, name) {
  const seen = items.some((item) => item[name] !== null);
  return h("section", { class: "card" }, h("h2", null, title),
    !seen ? empty("Nothing to draw yet.", "From the jobs that this server starts and settles, in spans of ten seconds.")
      : lines(items.map((item) => Date.parse(item.at)),
        PERCENTILES.map(([field, word, cls]) => ({ name: word, class: cls, values: items.map((item) => (item[name] ? item[name][field] * 1000 : null)) })),
        span, { isFilled: false }));
}

function states(sizes) {
  return h("section", { class: "card" }, h("h2", null, "Jobs by state"),
    bar(STATES.map((state) => ({ state, n: sizes[state] }))),
    h("ul", { class: "states" }, STATES.map((state) =>
      h("li", null, jobsLink({ state }, [badge(state), h("span", { class: "n" }, count(sizes[state]))])))));
}

function queues(rows, all) {
  return h("section", { class: "card" }, h("h2", null, "Queues ", h("a", { class: "all", href: "/ui/queues" }, all > rows.length ? `all ${count(all)}` : "all")),
    rows.length === 0 ? empty("No queue has a job.") : table([
      { title: "Queue", cell: (q) => [jobsLink({ queue: q.queue }, q.queue), q.paused && [" ", h("span", { class: "tag" }, "paused")]] },
      { title: "Waiting", class: "n", cell: (q) => compact(q.sizes.queued) },
      { title: "Running", class: "n", cell: (q) => compact(q.sizes.running) },
      { title: "Retrying", class: "n", cell: (q) => compact(q.sizes.retrying) },
      { title: "Dead", class: "n", cell: (q) => compact(q.sizes.dead_letter) },
      { title: "Oldest", class: "n wide", cell: (q) => (q.oldest_ready_age === null ? "–" : age(q.oldest_ready_age * 1000)) },
    ], rows, { key: (q) => q.queue, label: "Queues" }));
}

function attention({ breakers, ...s }) {
  const open = breakers.open + breakers.half_open + breakers.forced_open;
  return h("section", { class: "card" }, h("h2", null, "In the way"),
    h("ul", { class: "plain-list" },
      h("li", null, h("a", { href: "/ui/breakers" }, open > 0 ? plural(open, "breaker is open", "breakers are open") : `all ${count(breakers.total)} breakers closed`)),
      h("li", null, jobsLink({ state: "parked" }, plural(s.sizes.parked, "parked job"))),
      h("li", null, s.next_ready_time ? ["next retry or scheduled job ", when(s.next_ready_time)] : "no job waits for its time"),
      h("li", null, h("a", { href: "/ui/workers" }, s.workers > 0 ? plural(s.workers, "worker") : "no worker is alive"),
        s.slots > 0 && gauge(s.running, s.slots))));
}

/** @returns {Page} */
export default function overview() {
  return {
    load,
    render({ summary, rates, latency }) {
      return h("div", { class: "page" }, heading("Overview"), tiles(summary),
        h("section", { class: "card" }, h("h2", null, "Jobs a second"), rateChart(rates)),
        h("div", { class: "columns" }, latencyChart("Wait before the start", latency.items, "wait"), latencyChart("Run time", latency.items, "run")),
        h("div", { class: "columns" }, states(summary.sizes), attention(summary)),
        queues(summary.queues, summary.n_queues));
    },
  };
}
