"""The dashboard as people see it: a real server, a real Chromium, and jobs that really ran."""

import contextlib
import json
import time
import urllib.parse

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.kit.server import Bench
from tests.kit.tokens import token_hash
from tests.kit.waiting import wait_for

# What the handler does is said by the payload.
HANDLER = """#!/bin/sh
payload=$(cat)
case $payload in
*broken*) echo "not a picture: unexpected end of data" >&2; exit 65 ;;
*refused*) echo "cannot connect to images.example: connection refused" >&2; exit 75 ;;
*slow*) exec sleep 60 ;;
*nap*) sleep 1 ;;
esac
echo '{"done":true}'
"""

TASKS = """
tasks:
  resize:
    queue: pictures
    run: {exec: [DIR/handler.sh], timeout: 70s}
    retry: {max_attempts: 6, strategy: exponential, initial_delay: 30s, jitter: none, max_delay: 1h, total_timeout: 6h}
  mail:
    queue: mail
    run: {exec: [DIR/handler.sh]}
    retry: {max_attempts: 1}
    limits: {concurrency: 4, rate: 600/min}
  report: {queue: slow, run: {exec: [DIR/handler.sh], timeout: 70s}}
  remote: {queue: remote, retry: {max_attempts: 1}}
cron:
  digest: {task: report, schedule: "30 7 * * mon-fri", timezone: Europe/Berlin}
  cleanup: {task: mail, schedule: "0 4 1 1 *", timezone: UTC}
"""

EXPERIMENT = """
experiments:
  patience:
    task: remote
    arms:
      control: {share: 0.5}
      patient: {share: 0.5, retry: {max_attempts: 2}}
"""


def tokens(**scopes):
    """A section of the configuration: a token `secret-NAME` for each name."""
    lines = [f"  - {{name: {name}, hash: '{token_hash('secret-' + name)}', scopes: [{words}], tenant: default}}" for name, words in scopes.items()]
    return "tokens:\n" + "\n".join(lines) + "\n"


class Found:
    """An element. One that the page has drawn anew since it was found is looked for again."""

    TRIES = 20

    def __init__(self, look):
        self._look = look
        self.element = look()

    def _try(self, act):
        for _ in range(self.TRIES):
            try:
                return act(self.element)
            except StaleElementReferenceException:
                self.element = self._look()
        return act(self.element)

    def __getattr__(self, name):
        if callable(getattr(type(self.element), name, None)):
            return lambda *words: self._try(lambda element: getattr(element, name)(*words))
        return self._try(lambda element: getattr(element, name))


class Dashboard:
    """A server with its pages in the browser."""

    def __init__(self, directory, driver, extra="", listen="{http: '127.0.0.1:0', faktory: 'off'}"):
        self.bench = Bench(directory)
        self.driver = driver
        handler = directory / "handler.sh"
        handler.write_text(HANDLER)
        handler.chmod(0o755)
        self.bench.configure(TASKS + extra, listen=listen)
        self.server = self.bench.serve().ready()
        self.port = self.server.port()
        self.base = f"http://127.0.0.1:{self.port}"

    # -- The server --

    def restart(self):
        """Ends the server and starts it again on the same port, with what its configuration says now."""
        self.server.kill()
        text = self.bench.config.read_text()
        self.bench.config.write_text(text.replace("127.0.0.1:0", f"127.0.0.1:{self.port}"))
        self.server = self.bench.serve().ready()

    def ask_on(self, connection, method, path, body=None, headers=None):
        """Status, headers and bytes of an answer."""
        connection.request(method, path, body if body is None or isinstance(body, (bytes, str)) else json.dumps(body), headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def ask(self, method, path, body=None, headers=None):
        """The same on a connection of its own."""
        connection = self.server.connect()
        with contextlib.closing(connection):
            return self.ask_on(connection, method, path, body, headers)

    def call(self, method, path, body=None, headers=None):
        """The document of an answer that went well."""
        status, _, raw = self.ask(method, path, body, headers)
        assert status < 300, raw
        return json.loads(raw) if raw else None

    def submit(self, task, payload=None, **members):
        return self.call("POST", "/v1/jobs", {"task": task, "payload": payload, **members})["id"]

    def state(self, job_id):
        return self.call("GET", f"/v1/jobs/{urllib.parse.quote(job_id, safe='')}")["state"]

    def wait_state(self, job_id, state):
        wait_for(lambda: self.state(job_id) == state, f"{job_id} to be {state}")
        return job_id

    def kill_remote(self, message, worker="w1", stacktrace=None, error_type="IOError", **members):
        """A dead letter whose error says what one likes."""
        job_id = self.submit("remote", **members)
        job = self.call("POST", "/v1/claim", {"queues": ["remote"], "worker": worker, "wait": 10})["jobs"][0]
        item = {"id": job["id"], "token": job["token"], "class": "permanent", "error_type": error_type, "message": message}
        if stacktrace:
            item["stacktrace"] = stacktrace
        self.call("POST", "/v1/settle", {"items": [item]})
        assert self.state(job_id) == "dead_letter"
        return job_id

    # -- The browser --

    def open(self, path="/ui/"):
        self.driver.get(self.base + path)
        return self

    def js(self, code, *arguments):
        plain = [argument.element if isinstance(argument, Found) else argument for argument in arguments]
        return self.driver.execute_script(code, *plain)

    def hide(self, is_hidden):
        """The page takes itself for one that cannot be seen."""
        self.js("Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});"
                "document.dispatchEvent(new Event('visibilitychange'))", is_hidden)

    def text(self, selector="#page"):
        return self.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def find(self, selector):
        return Found(lambda: wait_for(lambda: next(iter(self.all(selector)), None), lambda: f"{selector} in\n{self.text('body')}"))

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def sees(self, text, selector="body"):
        wait_for(lambda: text in self.text(selector), lambda: f"{text!r} in\n{self.text(selector)}")
        return self

    def misses(self, text, selector="body"):
        wait_for(lambda: text not in self.text(selector), lambda: f"no {text!r} in\n{self.text(selector)}")
        return self

    def click(self, label, within="body"):
        """The first button or link with this label that can be seen: a dialog that has just been closed is still there for a moment."""
        def found():
            return self.js(
                """const all = [...document.querySelectorAll(`${arguments[1]} button, ${arguments[1]} a`)];
                   const one = all.find((e) => e.innerText.trim() === arguments[0] && e.getClientRects().length > 0);
                   if (one) one.click();
                   return Boolean(one);""", label, within)
        wait_for(found, lambda: f"a button {label!r} in\n{self.text(within)}")
        return self

    def press(self, *keys):
        for key in keys:
            Found(lambda: self.driver.switch_to.active_element).send_keys(key)
        return self

    def press_until(self, *keys, sees, where):
        """Keys that belong together must follow each other within a second, which a busy machine may miss."""
        for _ in range(5):
            self.press(*keys)
            limit = time.monotonic() + 5
            while time.monotonic() < limit:
                if sees in self.find(where).text:
                    return self
                time.sleep(0.1)
        return self.sees(sees, where)

    def type_into(self, selector, text):
        field = self.find(selector)
        field.clear()
        field.send_keys(text)
        return field

    def log_in(self, token):
        self.open()
        self.type_into("#token", token).send_keys(Keys.ENTER)

    def buttons(self):
        return self.js("return [...document.querySelectorAll('#page button')].map((b) => b.innerText.trim())")

    def close(self):
        self.bench.close()


def start_chromium():
    options = Options()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900",
                 "--no-first-run", "--disable-extensions", "--disable-background-networking", "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


def set_view(driver, width=1280, height=900, scheme="light"):
    """A screen of this size, on a system that prefers light or dark."""
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})


def end_all(ui, n):
    """Jobs of `control` die; those of `patient` are completed."""
    ended = 0
    while ended < n:
        jobs = ui.call("POST", "/v1/claim", {"queues": ["remote"], "worker": "w1", "n": 50, "wait": 10})["jobs"]
        items = []
        for job in jobs:
            arm = ui.call("GET", f"/v1/jobs/{job['id']}")["experiment"]
            verdict = {"class": "permanent", "message": "gone"} if arm == "patience/control" else {"status": "SUCCESS"}
            items.append({"id": job["id"], "token": job["token"], **verdict})
        ui.call("POST", "/v1/settle", {"items": items})
        ended += len(jobs)
