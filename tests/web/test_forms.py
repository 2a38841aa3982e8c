"""Submitting a job and simulating an outage, from the page."""

import pytest
from selenium.webdriver.common.by import By

from tests.web.dashboard import tokens


def payload_of(ui, job_id):
    raw = ui.ask("GET", f"/v1/jobs/{job_id}")[2].decode()
    return raw.split('"payload":', 1)[1].split(',"priority"', 1)[0]


def test_a_job_is_submitted_with_its_options(ui):
    ui.open("/ui/jobs").click("Submit a job", "#page").sees("Payload", "#page")
    ui.type_into("#new-task", "mail")
    ui.sees("none: mail", "#help-queue")
    ui.type_into("#new-payload", '{"order": 12345678901234567890, "to": "ann"}')
    ui.js("document.querySelector('#page details').open = true")
    ui.type_into("#new-delay", "1h")
    ui.type_into("#new-priority", "7")
    ui.type_into("#new-id", "order-1")
    ui.click("Submit", "#page form").sees("Submitted: order-1", "#page").sees("scheduled", "#page .notice")
    job = ui.call("GET", "/v1/jobs/order-1")
    assert (job["task"], job["state"], job["priority"]) == ("mail", "scheduled", 7)
    assert payload_of(ui, "order-1") == '{"order": 12345678901234567890, "to": "ann"}'
    ui.click("Submit", "#page form").misses("Submitted: order-1", "#page").sees("Submitted:", "#page")  # another one, with an id of its own
    assert ui.call("GET", "/v1/counts")["total"] == 2


def test_mistakes_are_shown_with_their_hint(ui):
    ui.open("/ui/submit?task=mail&delay=soon").find("#new-payload")
    ui.type_into("#new-payload", "{to: ann}")
    ui.click("Submit", "#page form").sees("payload: that is not JSON", ".problem").sees("texts are in quotes", ".problem")
    assert ui.find("#new-payload").get_attribute("aria-invalid") == "true"
    ui.type_into("#new-payload", '{"to": "ann"}')
    ui.click("Submit", "#page form").sees("delay", ".problem").sees("expected", ".problem")
    assert ui.find("#new-delay").get_attribute("aria-invalid") == "true"
    assert ui.call("GET", "/v1/counts")["total"] == 0
    assert ui.find("#new-payload").get_property("value") == '{"to": "ann"}'  # nothing that was typed is lost


def test_who_may_not_submit_sees_no_form(start):
    ui = start(tokens(reader="read", clerk="read, enqueue"))
    ui.log_in("secret-reader")
    ui.find(".side")
    assert "Submit a job" not in ui.text(".side")
    ui.open("/ui/submit").sees("may not submit jobs", "#page")
    assert not ui.all("#page form")
    ui.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    ui.log_in("secret-clerk")
    ui.sees("reads and submits", ".who").click("Submit a job", ".side").find("#new-task")


def test_an_outage_is_simulated_and_drawn(ui):
    ui.open("/ui/simulate").sees("breaker that parks", "#page table")
    assert len(ui.all(".plot path.line")) == 6 and len(ui.all(".plot .shade")) == 1
    ui.type_into("#sim-outage", "10s")
    ui.find("#sim-task").find_element(By.CSS_SELECTOR, "option[value=resize]").click()
    ui.click("Simulate", "#page form").sees("your policy", "#page table").sees("from 60 s to 70 s", "#page")
    assert ui.driver.current_url.endswith("/ui/simulate?outage=10s&task=resize")
    assert len(ui.all(".plot path.line")) == 7


def test_too_large_a_simulation_is_refused_with_its_reason(ui):
    ui.open("/ui/simulate?rate=100000").sees("too many jobs to simulate", ".problem").sees("lower the rate", ".problem")
    ui.open("/ui/simulate?outage=long").sees("'long' is not a duration", ".problem")
    assert ui.find("#sim-outage").get_attribute("aria-invalid") == "true"
    assert ui.find("#sim-outage").get_property("value") == "long"


REDACT = "redact: [password]\n" + tokens(reader="read", ops="enqueue, work, read, admin")
OPS = {"Authorization": "Bearer secret-ops"}


@pytest.mark.parametrize("token, sees_it", [("secret-reader", False), ("secret-ops", True)])
def test_what_is_redacted_is_on_no_page(start, token, sees_it):
    ui = start(REDACT)
    job_id = ui.call("POST", "/v1/jobs", {"task": "remote", "payload": {"password": "hunter2", "to": "ann"}}, OPS)["id"]
    job = ui.call("POST", "/v1/claim", {"queues": ["remote"], "wait": 10}, OPS)["jobs"][0]
    ui.log_in(token)
    ui.find(".side")
    ui.js("""window.seen = ""; const source = new EventSource("/v1/events");
        source.addEventListener("dead_letter", (event) => { window.seen += event.data; });
        return new Promise((resolve) => { source.onopen = resolve; });""")
    ui.call("POST", "/v1/settle", {"items": [{"id": job_id, "token": job["token"], "class": "permanent", "message": "login with hunter2"}]}, OPS)
    ui.js("return new Promise((resolve) => { const wait = () => (window.seen ? resolve() : setTimeout(wait, 20)); wait(); })")
    assert ("hunter2" in ui.js("return window.seen")) == sees_it
    for page in (f"jobs/{job_id}", "jobs", "dead", "dead?task=remote"):
        ui.open(f"/ui/{page}").sees("login with", "#page")
        assert ("hunter2" in ui.js("return document.documentElement.outerHTML")) == sees_it, page
