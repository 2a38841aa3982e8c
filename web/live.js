// When something happens on the server: one event stream, open only while the page can be seen.
// A browser opens at most six connections to a server over HTTP/1.1, so hidden tabs must not keep any.

/** @import { LiveEvent, LiveState } from "./types" */

// Pages read again when something has changed; what it was they learn then. So the server counts, and sends no more
// than pages can use.
const STREAM = "/v1/events?digest=1s";
const KINDS = ["digest", "reset"];
const TRY_AGAIN_MS = 3000;

/** @type {EventSource | null} */
let source = null;
let timer;
let wanted = false;
/** @type {LiveState} */
let state = "off";
/** @type {Set<(event: LiveEvent) => void>} */
const listeners = new Set();
/** @type {Set<(state: LiveState) => void>} */
const watchers = new Set();

/** @param {LiveState} next */
function tell(next) {
  if (next === state) return;
  state = next;
  for (const watcher of watchers) watcher(state);
}

function onEvent(event) {
  tell("on");
  let data;
  try {
    data = JSON.parse(event.data);
  } catch {
    data = { type: "reset" };
  }
  for (const listener of listeners) listener(data);
}

function open() {
  clearTimeout(timer);
  if (source || !wanted || document.hidden) return;
  source = new EventSource(STREAM);
  source.onopen = () => tell("on");
  source.onerror = () => {
    tell("lost");
    // One that the server refused does not try again by itself.
    if (source?.readyState === EventSource.CLOSED) {
      close();
      timer = setTimeout(open, TRY_AGAIN_MS);
    }
  };
  for (const kind of KINDS) source.addEventListener(kind, onEvent);
}

function close() {
  clearTimeout(timer);
  source?.close();
  source = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    close();
    if (wanted) tell("paused");
    return;
  }
  open();
  // Events of the meantime were missed.
  if (wanted) for (const listener of listeners) listener({ type: "reset" });
});

export function startLive() {
  wanted = true;
  open();
}

export function stopLive() {
  wanted = false;
  close();
  tell("off");
}

/** Calls with each event; gives the function that ends it.
 * @param {(event: LiveEvent) => void} listener */
export function onLive(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Calls with the state, now and whenever it changes.
 * @param {(state: LiveState) => void} watcher */
export function watchLive(watcher) {
  watchers.add(watcher);
  watcher(state);
}
