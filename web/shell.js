// The frame around every page: navigation, search, the login, whether the server is there.
import { h, show } from "./dom.js";
import { segment } from "./api.js";
import { shape } from "./states.js";
import { go } from "./router.js";
import { ROUTES } from "./routes.js";
import { watchLive } from "./live.js";
import { showKeys } from "./keys.js";
import { parseSearch, searchText } from "./pages/jobs.js";
/** @import { LiveState, Route, Session } from "./types" */

/** @type {Record<LiveState, string>} */
const LIVE_WORDS = { on: "live", lost: "connecting", paused: "paused", off: "not live" };

function themeNow() {
  return document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function switchTheme() {
  const next = themeNow() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("redrive-theme", next);
  } catch {
    // Forbidden: then the choice lasts as long as the page.
  }
}

const searchBox = () => /** @type {HTMLInputElement} */ (document.getElementById("search"));

function search(event) {
  event.preventDefault();
  const field = searchBox();
  const found = parseSearch(field.value);
  field.blur();
  go("id" in found ? `/ui/jobs/${segment(found.id)}` : `/ui/jobs?${found.query}`);
}

function searchField() {
  return h("form", { class: "search", role: "search", onsubmit: search },
    h("input", { id: "search", type: "search", autocomplete: "off", spellcheck: "false", "aria-label": "Search for jobs",
      placeholder: "Search: an id, task:mail, state:retrying, words of an error" }),
    h("kbd", { "aria-hidden": "true" }, "/"));
}

function mark() {
  return h("a", { class: "mark", href: "/ui/" }, h("img", { src: "/ui/icon.svg", alt: "", width: "22", height: "22" }), "Redrive");
}

/** Draws the frame into `root`; gives the element for pages.
 * @param {HTMLElement} root @param {Session} session @param {() => void} logOut */
export function drawShell(root, session, logOut) {
  const page = h("main", { id: "page", tabindex: "-1" });
  const isReader = !session.scopes.includes("admin");
  root.replaceChildren(
    h("a", { class: "skip", href: "#page" }, "Skip to the page"),
    h("header", { class: "top" },
      mark(), searchField(),
      h("span", { id: "live", class: "live", title: "Whether changes are shown as they happen" }),
      h("button", { class: "plain icon", title: "Light or dark", "aria-label": "Switch between light and dark", onclick: switchTheme }, "◐"),
      h("button", { class: "plain icon wide", title: "Keys", "aria-label": "Show the keys", onclick: showKeys }, "?")),
    h("nav", { class: "side", "aria-label": "Pages" },
      h("ul", null, ROUTES.filter((route) => route.key && (!route.needs || session.scopes.includes(route.needs))).map((route) =>
        h("li", null, h("a", { href: `/ui/${route.path}`, "data-name": route.name }, route.title)))),
      h("div", { class: "who" },
        session.needs_token && h("div", null, h("strong", null, session.name), isReader && (session.scopes.includes("enqueue") ? " (reads and submits)" : " (reads only)")),
        session.needs_token && session.tenant !== "default" && h("div", null, session.tenant),
        session.needs_token && h("button", { class: "plain", onclick: logOut }, "Log out"),
        h("div", { class: "muted" }, `Redrive ${session.version}`))),
    h("div", { id: "away", class: "away", role: "alert", hidden: true }),
    page,
    h("div", { id: "notices", class: "notices" }));
  watchLive((state) => {
    const dot = document.getElementById("live");
    if (dot) show(dot, h("span", { class: `is-${state}` }, LIVE_WORDS[state]));
  });
  return page;
}

/** @param {Route} route @param {Record<string, string>} params */
export function markPage(route, params) {
  const name = route.under ?? route.name;
  for (const link of document.querySelectorAll(".side a")) {
    if (link.getAttribute("data-name") === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.querySelector(".side a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  document.title = `${params.id ?? route.title} · Redrive`;
  if (searchBox() !== document.activeElement)
    searchBox().value = route.name === "jobs" ? searchText(new URLSearchParams(location.search)) : "";
}

/** Says that the server, or its store, is away; "" when it is back.
 * @param {string} text */
export function showAway(text) {
  const bar = document.getElementById("away");
  if (!bar) return;
  bar.hidden = text === "";
  if (text) bar.replaceChildren(shape("open"), text);
}
