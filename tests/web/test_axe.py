"""Accessibility, as axe-core finds it: nothing serious on any page, light and dark, wide and narrow."""

import pathlib
import shutil
import subprocess

import pytest

from tests.kit.waiting import wait_for
from tests.web.dashboard import set_view, tokens

PAGES = ("", "queues", "jobs", "dead", "breakers", "limits", "tasks", "cron", "workers", "experiments", "simulate?outage=long",
         "simulate?outage=5s&strategies=none", "submit?delay=1h")
RUN = """;const done = arguments[arguments.length - 1];
axe.run({resultTypes: ["violations"]}).then((found) => done(found.violations.map((v) => `${v.impact} ${v.id}: ${v.nodes[0].html.slice(0, 200)}`)),
  (error) => done([`critical ${error}`]));"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The text of axe-core, fetched with npm: it is no part of this project."""
    if not shutil.which("npm"):
        pytest.skip("axe-core is not checked: there is no npm")
    folder = tmp_path_factory.mktemp("axe")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0",
               "--fetch-timeout=10000", "--prefix", folder, "axe-core@4.10.3"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=30)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip("axe-core is not checked: npm cannot fetch it")
    return (pathlib.Path(folder) / "node_modules" / "axe-core" / "axe.min.js").read_text()


def findings(ui, axe, page):
    """Goes to the page within the dashboard, so that axe-core is loaded once."""
    if not ui.js("return Boolean(window.axe)"):
        ui.open().find("#page .page")
        ui.driver.execute_script(axe)
    ui.js("history.pushState(null, '', arguments[0]); dispatchEvent(new PopStateEvent('popstate'))", f"/ui/{page}")
    wait_for(lambda: not ui.all("#page[aria-busy]"), f"the page {page}")
    return [f"{page}: {line}" for line in ui.driver.execute_async_script(RUN) if line.startswith(("serious", "critical"))]


def test_nothing_serious_is_found_on_any_page(ui, axe):
    dead = ui.kill_remote("no such bucket", stacktrace="at x", payload={"to": "ann"})
    ui.submit("mail", {"to": "bob"}, delay="1h")
    ui.call("POST", "/v1/retry/circuit-breakers/mail/trip")
    found = []
    for page in (*PAGES, f"jobs/{dead}", "dead?task=remote"):
        found += findings(ui, axe, page)
    set_view(ui.driver, scheme="dark")
    for page in (f"jobs/{dead}", "breakers"):
        found += findings(ui, axe, page)
    set_view(ui.driver, width=360, height=740)
    for page in ("jobs",):
        found += findings(ui, axe, page)
    assert found == []


def test_the_login_has_nothing_serious(start, axe):
    ui = start(tokens(ops="read"))
    ui.open().find("#token")
    lines = ui.driver.execute_async_script(axe + RUN)
    assert [line for line in lines if line.startswith(("serious", "critical"))] == []


def test_a_page_that_is_worse_is_found(ui, axe):
    """The check can fail."""
    ui.open("/ui/queues").find("#page .page")
    ui.js("const bad = document.createElement('input'); document.querySelector('#page').append(bad)")
    assert any("label" in line for line in ui.driver.execute_async_script(axe + RUN))
