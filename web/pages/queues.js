// Every queue with its jobs by state; pausing.
import { h } from "../dom.js";
import { get, post, segment } from "../api.js";
import { bar } from "../chart.js";
import { compact, count } from "../format.js";
import { STATES } from "../states.js";
import { act, button, empty, heading, jobsLink, mayChange, table, when } from "../widgets.js";
/** @import { Context, Page } from "../types" */

const SHOWN = 200; // rows; a filter finds the others

function setPause(queue, pause) {
  act(post(`/queues/${segment(queue)}/${pause ? "pause" : "resume"}`), `${queue} ${pause ? "starts no more jobs" : "goes on"}`);
}

function number(state) {
  return { title: state === "dead_letter" ? "Dead" : state, class: "n", cell: (q) =>
    (q[state] ? jobsLink({ queue: q.queue, state }, compact(q[state])) : h("span", { class: "muted" }, "0")) };
}

const COLUMNS = [
  { title: "Queue", cell: (q) => [jobsLink({ queue: q.queue }, q.queue), q.paused && [" ", h("span", { class: "tag" }, "paused")]] },
  { title: "States", class: "wide", cell: (q) => bar(STATES.map((state) => ({ state, n: q[state] }))) },
  ...["queued", "running", "retrying"].map(number),
  { ...number("parked"), class: "n wide", isShown: (q) => q.parked > 0 },
  number("dead_letter"),
  { title: "Oldest", class: "wide", cell: (q) => when(q.oldest_ready) },
  { title: "Next due", class: "wide", cell: (q) => when(q.next_due) },
];

/** @param {Context} context @returns {Page} */
export default function queues(context) {
  let wanted = context.query.get("name") ?? "";

  function filter(event) {
    wanted = event.target.value;
    history.replaceState(null, "", wanted ? `/ui/queues?${new URLSearchParams({ name: wanted })}` : "/ui/queues");
    context.redraw();
  }

  return {
    load: (signal) => get("/queues", { signal }),
    render({ items }) {
      const matching = items.filter((q) => q.queue.includes(wanted));
      const columns = mayChange() ? [...COLUMNS, { title: "", class: "act", cell: (q) =>
        button(q.paused ? "Resume" : "Pause", () => setPause(q.queue, !q.paused)) }] : COLUMNS;
      return h("div", { class: "page" },
        heading("Queues", items.length > 10 && h("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter by name", value: wanted, oninput: filter })),
        items.length === 0 ? empty("There is no queue yet.", "A queue is there as soon as a job is submitted to it.")
          : table(columns, matching.slice(0, SHOWN), { key: (q) => q.queue, label: "Queues" }),
        matching.length > SHOWN && h("p", { class: "muted" }, `${count(matching.length - SHOWN)} more: filter by name.`),
        items.length > 0 && matching.length === 0 && empty(`No queue has “${wanted}” in its name.`));
    },
  };
}
