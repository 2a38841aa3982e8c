// The cron entries: when each runs next.
import { h } from "../dom.js";
import { get, remove, segment } from "../api.js";
import { stamp } from "../format.js";
import { cronWords } from "../cron-words.js";
import { act, button, confirmed, empty, heading, jobsLink, mayChange, table, when } from "../widgets.js";
/** @import { Column, CronEntry, Page } from "../types" */

async function removeEntry(name) {
  if (!(await confirmed("Remove the entry", `${name} makes no more jobs. Those that it has made stay.`))) return;
  act(remove(`/cron/${segment(name)}`), `${name} is removed`);
}

/** @type {Column<CronEntry>[]} */
const COLUMNS = [
  { title: "Entry", cell: (e) => [h("strong", null, e.name), h("div", { class: "muted small" }, e.source === "stored" ? "stored" : "of the configuration")] },
  { title: "Task", cell: (e) => jobsLink({ task: e.task }, e.task) },
  { title: "Schedule", class: "roomy", cell: (e) => [cronWords(e.schedule) ?? h("code", null, e.schedule), h("div", { class: "muted small" }, h("code", null, e.schedule), ` ${e.timezone}`)] },
  { title: "Next", cell: (e) => [when(e.next_tick), h("div", { class: "muted small wide" }, stamp(e.next_tick))] },
  { title: "Last", class: "wide", cell: (e) => when(e.last_tick) },
  { title: "If the last one still runs", class: "wide", cell: (e) => e.overlap },
];

/** @returns {Page} */
export default function cron() {
  return {
    load: (signal) => get("/cron", { signal }),
    wants: (kind) => kind === "submitted",
    render({ items }) {
      const columns = mayChange() ? [...COLUMNS, { title: "", class: "act", cell: (e) =>
        e.source === "stored" && button("Remove", () => removeEntry(e.name)) }] : COLUMNS;
      const sorted = [...items].sort((a, b) => ((a.next_tick ?? "9") < (b.next_tick ?? "9") ? -1 : 1));
      return h("div", { class: "page" }, heading("Cron"),
        items.length === 0 ? empty("There are no cron entries.", "They are under cron in the configuration, or are set by PUT /v1/cron/NAME.")
          : table(columns, sorted, { key: (e) => e.name, label: "Timetable" }));
    },
  };
}
