"""Logging in, what a login may do, and that no other site can use it."""

import base64

import pytest

from tests.kit.waiting import wait_for
from tests.web.dashboard import tokens

TOKENS = tokens(ops="enqueue, work, read, admin", reader="read", producer="enqueue")
OPS = {"Authorization": "Bearer secret-ops"}


@pytest.fixture
def guarded(start):
    return start(TOKENS)


def submit(ui, **members):
    return ui.call("POST", "/v1/jobs", {"task": "mail", "delay": "1h", **members}, OPS)["id"]


def test_people_log_in_see_their_pages_and_log_out(guarded):
    job_id = submit(guarded)
    guarded.open("/ui/jobs")
    guarded.type_into("#token", "wrong").submit()
    guarded.sees("the token is not known")
    guarded.type_into("#token", "secret-ops").submit()
    guarded.sees(job_id, "#page").sees("ops", ".who")
    assert guarded.driver.current_url == guarded.base + "/ui/jobs"
    guarded.open("/ui/queues").sees("mail", "#page")  # the login lasts
    guarded.click("Log out", ".side").find("#token")
    guarded.open("/ui/jobs").find("#token")


def test_a_token_without_read_is_told_so(guarded):
    guarded.log_in("secret-producer")
    guarded.sees("lacks the scope read")


def test_scripts_see_nothing_of_the_login(guarded):
    guarded.log_in("secret-ops")
    guarded.find(".side")
    assert guarded.js("return document.cookie") == ""
    assert "secret-ops" not in guarded.js("return JSON.stringify({...localStorage, ...sessionStorage})")


def test_tokens_are_in_no_address_and_in_no_log(guarded):
    guarded.log_in("secret-ops")
    guarded.find(".side")
    asked = guarded.js("return performance.getEntriesByType('resource').map((e) => e.name).join(' ') + location.href")
    assert "secret-" not in asked
    guarded.ask("POST", "/v1/session", headers={"Authorization": "Bearer secret-mistyped"})
    guarded.ask("GET", "/v1/jobs", headers={"Cookie": f"redrive_session={base64.b64encode(b'secret-unknown').decode()}"})
    log = guarded.server.log()
    assert "access_refused" in log
    assert "secret-" not in log and base64.b64encode(b"secret-").decode()[:8] not in log


def test_a_read_only_login_sees_no_buttons_and_changes_nothing(guarded):
    job_id = submit(guarded)
    guarded.log_in("secret-reader")
    guarded.sees("reads only", ".who")
    assert "Submit a job" not in guarded.text(".side")
    for page in ("queues", "jobs", f"jobs/{job_id}", "dead", "breakers", "limits", "experiments", "cron", "submit"):
        guarded.open(f"/ui/{page}").find("#page .page")
        assert [b for b in guarded.buttons() if b not in ("Copy",)] == [], page
        assert not guarded.all("#page input[type=checkbox]"), page
    refused = guarded.js("""const [id] = arguments;
        return Promise.all([["DELETE", `/v1/jobs/${id}`], ["POST", "/v1/queues/mail/pause"], ["DELETE", "/v1/retry/dead-letters?older_than_hours=0"],
            ["POST", "/v1/jobs"], ["POST", "/v1/bulk"],
            ["PATCH", `/v1/retry/dead-letters/${id}`]].map(([method, path]) => fetch(path, {method}).then((r) => r.status)))""", job_id)
    assert refused == [403] * 6
    assert guarded.call("GET", f"/v1/jobs/{job_id}", headers=OPS)["state"] == "scheduled"


def test_a_token_that_is_taken_away_ends_its_logins(guarded):
    guarded.log_in("secret-ops")
    guarded.find(".side")
    text = guarded.bench.config.read_text().replace("name: ops,", "name: other,")
    guarded.bench.config.write_text(text.replace(text.split("name: other, hash: '")[1].split("'")[0], "sha256:" + "0" * 64))
    guarded.server.reload()
    guarded.open("/ui/queues").find("#token")


def test_a_token_that_may_do_less_loses_its_buttons(guarded):
    submit(guarded, id="job-1")
    guarded.log_in("secret-ops")
    guarded.find(".side")
    guarded.open("/ui/queues").find("#page td.act button")
    wait_for(lambda: guarded.text("#live") == "live", "the event stream")
    guarded.bench.config.write_text(guarded.bench.config.read_text().replace("scopes: [enqueue, work, read, admin]", "scopes: [read]"))
    guarded.server.reload()
    guarded.sees("reads only", ".who").find("tr[data-key=mail]")
    assert guarded.buttons() == []


@pytest.mark.parametrize("is_seen", [True, False], ids=["a page that is seen", "a hidden page"])
def test_a_token_that_may_do_less_after_a_restart_loses_its_buttons(guarded, is_seen):
    submit(guarded, id="job-1")
    guarded.log_in("secret-ops")
    guarded.find(".side")
    guarded.open("/ui/queues").find("#page td.act button")
    wait_for(lambda: guarded.text("#live") == "live", "the event stream")
    if not is_seen:
        guarded.hide(True)
    guarded.server.kill()
    if is_seen:
        guarded.sees("The server does not answer", "#away")
    guarded.bench.config.write_text(guarded.bench.config.read_text().replace("scopes: [enqueue, work, read, admin]", "scopes: [read]"))
    guarded.restart()
    if not is_seen:
        guarded.hide(False)
    guarded.sees("reads only", ".who").find("tr[data-key=mail]")
    assert guarded.buttons() == []


def test_without_tokens_nobody_logs_in(ui):
    ui.open().sees("Overview", "#page")
    assert ui.call("GET", "/v1/session")["needs_token"] is False
    wait_for(lambda: ui.text("#live") == "live", "the event stream")
