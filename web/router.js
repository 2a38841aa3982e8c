// Which page is shown, and keeping it up to date: links, the browser's back and forward, live events.
import { show, h } from "./dom.js";
import { onLive } from "./live.js";
/** @import { LiveEvent, Page, Route } from "./types" */

const LIVE_GAP_MS = 2000; // between two loads that events ask for
const POLL_MS = 10000; // other processes tell this server no events, so that it is asked now and then
const REST_FACTOR = 10; // a load that takes long, as of very many dead letters, is followed by a longer pause

/** What the frame is told: a page is opened, has its data, or cannot get them.
 * @typedef {{ opened(route: Route, params: Record<string, string>): void, loaded(): void, failed(error: Error): void }} Hooks */

/** @typedef {{ route: Route, page: Page, controller: AbortController, data: any, isLoading: boolean, again: boolean }} Opened */

/** @type {Route[]} */
let routes = [];
/** @type {HTMLElement} */
let container;
/** @type {Hooks} */
let hooks;
/** @type {Opened | null} */
let current = null;
let liveTimer = null;
let loadedAt = 0;
let loadTook = 0;

// "%" alone is no escape: an address that was typed or cut off names what stands there.
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function match(path) {
  const parts = path.replace(/^\/ui\/?/, "").split("/").filter((part) => part !== "");
  for (const route of routes) {
    const pattern = route.path.split("/").filter((part) => part !== "");
    if (pattern.length !== parts.length) continue;
    /** @type {Record<string, string>} */
    const params = {};
    const fits = pattern.every((part, i) => {
      if (!part.startsWith(":")) return part === parts[i];
      params[part.slice(1)] = decode(parts[i]);
      return true;
    });
    if (fits) return { route, params };
  }
  return null;
}

/** Shows the page of a path of this dashboard, "/ui/jobs?state=queued". */
export function go(url, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", url);
  open();
}

function open() {
  const found = match(location.pathname) ?? { route: routes[0], params: {} };
  current?.controller.abort();
  clearTimeout(liveTimer);
  liveTimer = null;
  const controller = new AbortController();
  const query = new URLSearchParams(location.search);
  const page = found.route.page({ params: found.params, query, signal: controller.signal, refresh, redraw, go });
  const opened = { route: found.route, page, controller, data: undefined, isLoading: false, again: false };
  current = opened;
  hooks.opened(found.route, found.params);
  window.scrollTo(0, 0);
  load(opened);
}

/** @param {Opened} opened */
async function load(opened) {
  if (opened.isLoading) {
    opened.again = true;
    return;
  }
  opened.isLoading = true;
  const began = Date.now();
  container.setAttribute("aria-busy", "true");
  try {
    const data = (await opened.page.load?.(opened.controller.signal)) ?? null;
    if (opened !== current) return;
    opened.data = data;
    redraw();
    hooks.loaded();
  } catch (error) {
    if (opened !== current || error.name === "AbortError") return;
    hooks.failed(error);
    if (opened.data === undefined) show(container, h("div", { class: "empty", "data-key": "failed" }, error.message));
  } finally {
    opened.isLoading = false;
    loadedAt = Date.now();
    loadTook = loadedAt - began;
    if (opened === current) container.removeAttribute("aria-busy");
  }
  if (opened.again && opened === current) {
    opened.again = false;
    load(opened);
  }
}

/** Loads the page's data again. A page that cannot be seen asks for nothing: it loads when it is back (live.js). */
export function refresh() {
  if (current && !document.hidden) load(current);
}

/** Draws the page again from the data that it has. */
export function redraw() {
  if (current?.data !== undefined) show(container, current.page.render(current.data));
}

/** @param {Page} page @param {LiveEvent} event */
function wanted(page, event) {
  return event.type === "reset" || !page.wants || Object.keys(event.counts).some(page.wants);
}

/** @param {LiveEvent} event */
function onEvent(event) {
  if (!current || current.data === undefined) return;
  if (liveTimer || !current.page.load || !wanted(current.page, event)) return;
  const wait = Math.max(100, loadedAt + Math.max(LIVE_GAP_MS, loadTook * REST_FACTOR) - Date.now());
  liveTimer = setTimeout(() => {
    liveTimer = null;
    refresh();
  }, wait);
}

function followLink(event) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest?.("a[href^='/ui/']");
  if (!link || link.target) return;
  event.preventDefault();
  go(link.getAttribute("href"));
}

/** The first page of the table is also that of paths which no page has.
 * @param {Route[]} table @param {HTMLElement} into @param {Hooks} given */
export function startRouter(table, into, given) {
  routes = table;
  container = into;
  hooks = given;
  document.addEventListener("click", followLink);
  window.addEventListener("popstate", open);
  onLive(onEvent);
  setInterval(() => {
    if (current?.page.load && Date.now() - loadedAt >= Math.max(POLL_MS, loadTook * REST_FACTOR)) refresh();
  }, 1000);
  open();
}

/** Whether the page of this name is shown. */
export function isShown(name) {
  return current?.route.name === name;
}
