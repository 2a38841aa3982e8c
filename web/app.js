// The start: reads the session, draws the frame, then the page of the address.
import { get, remove, Problem, Unreachable } from "./api.js";
import { setServerTime } from "./format.js";
import { startKeys } from "./keys.js";
import { startLive, stopLive, watchLive } from "./live.js";
import { login as showLogin } from "./pages/login.js";
import { refresh, startRouter } from "./router.js";
import { ROUTES } from "./routes.js";
import { drawShell, markPage, showAway } from "./shell.js";
import { notify, notifyError, setScopes } from "./widgets.js";

/** @import { LiveState, Session } from "./types" */

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
const TRY_AGAIN_MS = 2000;

/** @type {Session} */
let login; // that the frame and the buttons were drawn for
let comesBack;

// A mistake in this program is shown, not swallowed: people should know that what they see is stale.
window.addEventListener("error", (event) => notify("error", `The page made a mistake: ${event.message}`, "Loading it again may help."));
window.addEventListener("unhandledrejection", (event) =>
  notify("error", `The page made a mistake: ${event.reason?.message ?? event.reason}`, "Loading it again may help."));

async function logOut() {
  stopLive();
  await remove("/session").catch(notifyError);
  location.assign("/ui/");
}

/** Whether the frame and the buttons are those of another session: the token has gone, or may do more or less than before.
 * @param {Session} session */
function isOutdated(session) {
  return session.name !== login.name || session.tenant !== login.tenant || String(session.scopes) !== String(login.scopes);
}

// Asks until there is an answer again; the page then loads what it missed.
function waitForServer() {
  if (comesBack) return;
  comesBack = setInterval(async () => {
    if (document.hidden) return;
    try {
      const session = await get("/session");
      setServerTime(session.at);
      if (isOutdated(session)) return location.reload();
      clearInterval(comesBack);
      comesBack = undefined;
      refresh();
    } catch (error) {
      if (!(error instanceof Unreachable) && !(error instanceof Problem)) throw error;
    }
  }, TRY_AGAIN_MS);
}

function onFailure(error) {
  if (error instanceof Problem && error.status === 401) {
    location.reload();
  } else if (error instanceof Unreachable) {
    showAway("The server does not answer. This is what it last said; trying again.");
    waitForServer();
  } else if (error instanceof Problem && error.status === 503) {
    showAway(`${error.message}; trying again.`);
    waitForServer();
  } else {
    notifyError(error);
  }
}

/** A stream that ends may be the first sign of a server that went away, or that what the token may do has changed; one
 * that is open again may be that of a server with another configuration.
 * @param {LiveState} state */
async function onLive(state) {
  if (state === "lost") refresh();
  if (state !== "lost" && state !== "on") return;
  const session = await get("/session").catch(() => null);
  if (session && isOutdated(session)) location.reload();
}

/** @param {Session} session */
function startPages(session) {
  login = session;
  setServerTime(session.at);
  setScopes(session.scopes);
  const page = drawShell(root, session, logOut);
  startKeys();
  startRouter(ROUTES, page, { opened: markPage, loaded: () => showAway(""), failed: onFailure });
  startLive();
  watchLive(onLive);
}

async function start() {
  let session;
  try {
    session = await get("/session");
  } catch (error) {
    root.textContent = `${error.message}. ${error.hint ?? ""} Trying again.`;
    setTimeout(start, TRY_AGAIN_MS);
    return;
  }
  if (session.name) startPages(session);
  else showLogin(root, startPages);
}

start();
