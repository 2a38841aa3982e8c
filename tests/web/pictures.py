#!/usr/bin/env python3
"""pictures - pictures of every page of the dashboard, from a real run.

    python3 -m tests.web.pictures DIR             every page, light and dark, 1280 and 360 wide
    python3 -m tests.web.pictures --doc FILE.png  the overview, for the documentation
"""
import pathlib
import sys
import tempfile
import time

from tests.kit.waiting import wait_for
from tests.web.dashboard import EXPERIMENT, Dashboard, end_all, set_view, start_chromium

TRACE = """Traceback (most recent call last):
  File "/srv/remote/worker.py", line 88, in run
    bucket.put(key, picture)
  File "/srv/remote/store.py", line 31, in put
    raise IOError(f"no such bucket: {self.name}")
IOError: no such bucket: pictures-eu"""


def fill(ui, seconds):
    """Jobs in every state, an experiment, and some traffic for the chart."""
    ui.call("POST", "/v1/jobs", [{"task": "remote"}] * 120)
    end_all(ui, 120)
    ui.call("POST", "/v1/jobs", [{"task": "mail", "delay": "2h", "user": "ann", "payload": {"to": "ann"}}] * 12)
    ui.dead = ui.kill_remote("no such bucket: pictures-eu", worker="remote-3", stacktrace=TRACE, id="order-4711",
                             payload={"order": 12345678901234567, "file": "cat.png", "sizes": [64, 128, 512]}, user="ann", project="shop")
    for i in range(6):
        ui.submit("mail", {"file": "broken", "n": i})
        ui.kill_remote("template 'welcome' has no variable 'name'", error_type="KeyError", worker="remote-1")
    ui.call("POST", "/v1/queues/remote/pause")
    ui.call("POST", "/v1/jobs", [{"task": "remote"}] * 40)
    until, n = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        n += 1
        ui.call("POST", "/v1/jobs", [{"task": "mail", "payload": {"n": n, **({"file": "broken"} if n % 9 == 0 and i == 0 else {})}}
                                     for i in range(4 + n * 7 % 11)])
        time.sleep(0.9)
    # Last: they are retried half a minute later, and parked then.
    ui.retrying = [ui.submit("resize", {"host": "refused", "picture": i}) for i in range(5)][0]
    for i in range(2):
        ui.submit("report", {"slow": i})
    ui.wait_state(ui.retrying, "retrying")
    ui.call("POST", "/v1/retry/circuit-breakers/resize/trip")
    ui.call("POST", "/v1/jobs", [{"task": "resize", "payload": {"picture": 17}}] * 3)


def take(ui, page, path):
    ui.open(f"/ui/{page}").find("#page .page")
    wait_for(lambda: ui.text("#live") == "live", "the event stream")
    height = ui.js("return Math.max(document.documentElement.scrollHeight, 700)")
    ui.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": ui.js("return innerWidth"), "height": min(height, 2400), "deviceScaleFactor": 1, "mobile": False})
    time.sleep(0.2)
    ui.driver.save_screenshot(str(path))


def main():
    is_doc = sys.argv[1] == "--doc"
    target = pathlib.Path(sys.argv[-1])
    driver = start_chromium()
    with tempfile.TemporaryDirectory() as directory:
        ui = Dashboard(pathlib.Path(directory), driver, EXPERIMENT)
        try:
            fill(ui, 70 if is_doc else 32)
            if is_doc:
                set_view(driver, 1180, 900, "light")
                take(ui, "", target)
                return
            target.mkdir(parents=True, exist_ok=True)
            pages = {"overview": "", "queues": "queues", "jobs": "jobs", "dead": "dead", "breakers": "breakers", "tasks": "tasks", "cron": "cron",
                     "workers": "workers", "limits": "limits", "experiments": "experiments", "simulate": "simulate?task=resize",
                     "submit": "submit?task=mail&delay=1h", "job-dead": f"jobs/{ui.dead}", "job-retrying": f"jobs/{ui.retrying}",
                     "jobs-none": "jobs?user=nobody"}
            for scheme in ("light", "dark"):
                for width in (1280, 360):
                    for name, page in pages.items():
                        set_view(driver, width, 800, scheme)
                        take(ui, page, target / f"{name}-{scheme}-{width}.png")
        finally:
            driver.quit()
            ui.close()


if __name__ == "__main__":
    main()
