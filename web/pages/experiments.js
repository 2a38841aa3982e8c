// Experiments: the arms of each with their intervals, and which differences mean something.
import { h, svg } from "../dom.js";
import { get } from "../api.js";
import { count, percent } from "../format.js";
import { empty, heading, jobsLink, table } from "../widgets.js";
/** @import { Page } from "../types" */

const MEASURES = [
  { title: "Completed", key: "completed", of: "completed_share", text: (v) => percent(v), difference: (v) => `${signed(v * 100, 1)} points` },
  { title: "Attempts", key: "attempts", of: "attempts_per_job", text: (v) => v.toFixed(2), difference: (v) => signed(v, 2) },
  { title: "Time", key: "time", of: "time_to_completion", text: (v) => `${v.toFixed(2)} s`, difference: (v) => `${signed(v, 2)} s` },
];

function signed(value, digits) {
  return `${value > 0 ? "+" : value < 0 ? "−" : "±"}${Math.abs(value).toFixed(digits)}`;
}

/** The interval as a line with its value, on the scale of all arms. */
function interval(estimate, [low, high]) {
  const x = (v) => 2 + ((v - low) / (high - low || 1)) * 96;
  return svg("svg", { class: "interval", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("line", { x1: x(estimate.low), x2: x(estimate.high), y1: 4, y2: 4 }),
    svg("rect", { x: x(estimate.value) - 0.8, y: 0, width: 1.6, height: 8 }));
}

/** @returns {[number, number]} */
function scale(arms, measure) {
  const known = arms.map((arm) => arm[measure.of]).filter((estimate) => estimate !== null);
  return [Math.min(...known.map((e) => e.low)), Math.max(...known.map((e) => e.high))];
}

function against(arm, measure, base) {
  const difference = arm.against_base?.[measure.key];
  if (!difference) return null;
  const text = `${measure.difference(difference.value)} against ${base}`;
  return h("div", { class: difference.significant ? "small" : "muted small" },
    difference.significant ? h("strong", null, text) : `${text}, not significant`);
}

function cell(experiment, measure) {
  const range = scale(experiment.arms, measure);
  return (arm) => {
    const estimate = arm[measure.of];
    if (estimate === null) return h("span", { class: "muted" }, "too few jobs");
    return [measure.text(estimate.value), " ", h("span", { class: "muted small range" }, `${measure.text(estimate.low)} to ${measure.text(estimate.high)}`),
      interval(estimate, range), against(arm, measure, experiment.base)];
  };
}

function columns(experiment) {
  return [
    { title: "Arm", cell: (arm) => [h("strong", null, arm.name), h("div", { class: "muted small" }, arm.share > 0 ? `${percent(arm.share)} of new jobs` : "no new jobs")] },
    { title: "Jobs", class: "n", cell: (arm) => count(arm.submitted) },
    { title: "Ended", class: "n", cell: (arm) => count(arm.ended) },
    ...MEASURES.map((measure) => ({ title: measure.title, class: "roomy", cell: cell(experiment, measure) })),
  ];
}

function section(experiment) {
  return h("section", { "data-key": experiment.name }, h("h2", null, experiment.name),
    h("p", { class: "muted above" }, experiment.running ? ["of task ", jobsLink({ task: experiment.task }, experiment.task)] : "not running any more"),
    table(columns(experiment), experiment.arms, { key: (arm) => arm.name, label: `Arms of ${experiment.name}` }));
}

/** @returns {Page} */
export default function experiments() {
  return {
    load: (signal) => get("/experiments", { signal }),
    render({ items }) {
      const sorted = [...items].sort((a, b) => b.running - a.running || (a.name < b.name ? -1 : 1));
      return h("div", { class: "page" }, heading("Experiments"),
        items.length === 0 ? empty("There are no experiments.", "They are under experiments in the configuration, and compare retry policies on the jobs of a task.")
          : sorted.map(section),
        items.length > 0 && h("p", { class: "muted small" }, "Lines are intervals of 95 %. A difference whose interval contains 0 is not significant: the figures say nothing about it."));
    },
  };
}
