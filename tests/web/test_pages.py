"""Every page with its actions, as a person does them."""

import time
import urllib.parse

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.kit.waiting import wait_for
from tests.web.dashboard import set_view


@pytest.fixture
def busy(ui):
    """A server with a job in most states."""
    ui.done = ui.wait_state(ui.submit("mail", {"to": "ann"}, user="ann"), "completed")
    ui.dead = ui.wait_state(ui.submit("mail", {"file": "broken.png", "big": 12345678901234567}), "dead_letter")
    ui.retrying = ui.wait_state(ui.submit("resize", {"host": "refused"}), "retrying")
    ui.scheduled = ui.submit("mail", {"to": "bob"}, delay="1h")
    return ui


def test_the_overview_shows_states_and_queues(busy):
    busy.open().sees("Overview", "#page").sees("Dead letters", ".tiles").sees("pictures", "#page table")
    assert busy.find(".states a[href='/ui/jobs?state=retrying'] .n").text == "1"


def test_the_overview_is_live(busy):
    busy.open().sees("Overview", "#page")
    wait_for(lambda: busy.text("#live") == "live", "the event stream")
    for i in range(3):
        busy.submit("mail", {"n": i})
    wait_for(lambda: busy.find(".states a[href='/ui/jobs?state=completed'] .n").text == "4", "four completed jobs")


def test_a_queue_is_paused_and_resumed(busy):
    busy.open("/ui/queues").sees("pictures", "#page")
    row = "tr[data-key=mail]"
    busy.find(row)
    busy.click("Pause", row).sees("paused", row).sees("starts no more jobs")
    waits = busy.submit("mail", {"to": "eve"})
    busy.click("Resume", row).misses("paused", row)
    busy.wait_state(waits, "completed")


def test_jobs_are_filtered_by_the_address(busy):
    busy.open("/ui/jobs").sees(busy.dead, "#page").sees(busy.scheduled, "#page")
    busy.find(".chips a[href$='state=dead_letter']").click()
    busy.misses(busy.done, "#page").sees(busy.dead, "#page")
    assert busy.driver.current_url.endswith("/ui/jobs?state=dead_letter")
    busy.driver.back()
    busy.sees(busy.done, "#page")
    busy.open("/ui/jobs?task=resize&queue=pictures").sees(busy.retrying, "#page").misses(busy.done, "#page")
    busy.open("/ui/jobs?user=nobody").sees("No job matches", "#page")
    busy.open("/ui/jobs?state=nonsense").sees("there is no 'nonsense'")


@pytest.mark.parametrize("filters, by_end", [("state=completed&task=mail", True), ("older_than=1h&queue=mail", True),
                                             ("task=mail", False), ("state=completed&user=ann", False)])
def test_ended_jobs_of_a_task_come_by_their_end(busy, filters, by_end):
    busy.open(f"/ui/jobs?{filters}").find("#page .page")
    asked = busy.js("return performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => name.includes('/v1/jobs?'))")
    assert asked and all(("order=finished" in name) == by_end for name in asked)


def test_search_understands_ids_filters_and_words(busy):
    busy.open().sees("Overview", "#page")
    busy.press("/")
    busy.press("state:retrying task:resize", Keys.ENTER)
    busy.sees(busy.retrying, "#page")
    assert "state=retrying&task=resize" in busy.driver.current_url
    busy.type_into("#search", f"not a picture{Keys.ENTER}")
    busy.sees(busy.dead, "#page").misses(busy.retrying, "#page")
    busy.type_into("#search", f"{busy.done}{Keys.ENTER}")
    busy.sees("What has happened", "#page").sees(busy.done, "#page")
    busy.submit("mail", delay="1h", id="plain")
    busy.type_into("#search", f"plain{Keys.ENTER}")
    busy.sees("The job with this id: plain", "#page")


def test_pages_of_jobs_follow_each_other(ui):
    ui.call("POST", "/v1/jobs", [{"task": "mail", "delay": "1h", "id": f"job-{i:03}"} for i in range(120)])
    ui.open("/ui/jobs").sees("job-119", "#page").sees("120", "h1")
    ui.click("next page »", "#page").sees("job-069", "#page").misses("job-119", "#page")
    ui.click("next page »", "#page").sees("job-000", "#page").misses("next page", "#page")
    ui.click("« first page", "#page").sees("job-119", "#page")


def test_selected_jobs_and_all_that_match_are_changed(ui):
    ui.call("POST", "/v1/jobs", [{"task": "mail", "delay": "1h", "id": f"job-{i:03}"} for i in range(230)])
    ui.open("/ui/jobs?state=scheduled").sees("job-229", "#page")
    for number in (229, 228):
        ui.find(f"tr[data-key=job-{number}] input").click()
    ui.sees("2 selected", "#page").click("Cancel", ".bulk").sees("This ends 2 selected jobs", "dialog")
    ui.click("Cancel jobs", "dialog").sees("2 cancelled").misses("job-229", "#page")
    assert ui.state("job-229") == "cancelled" and ui.state("job-227") == "scheduled"
    ui.click("Cancel", ".bulk").sees("This ends 228 jobs", "dialog")
    ui.click("Keep them", "dialog").misses("This ends 228 jobs")
    assert ui.state("job-227") == "scheduled"
    ui.click("Cancel", ".bulk").click("Cancel jobs", "dialog").sees("Cancelling: 228 of 228, done", "#page")
    assert ui.call("GET", "/v1/counts")["by_state"]["cancelled"] == 230


def test_a_job_tells_its_life_and_what_is_ahead(busy):
    busy.open(f"/ui/jobs/{busy.retrying}")
    busy.sees("Attempt 1", "#page").sees("connection refused", "#page").sees("What is ahead", "#page")
    busy.sees("Attempt 2", ".ahead").sees("if that fails", "#page").sees("dead letter", "#page")
    busy.click("Run now", "#page").sees("The job is queued")
    wait_for(lambda: busy.call("GET", f"/v1/jobs/{busy.retrying}")["attempts"] == 2, "the second attempt")
    busy.sees("Attempt 2", ".timeline")
    busy.click("Cancel", "#page").click("Cancel the job", "dialog").sees("cancelled", "h1")


def test_a_dead_letter_is_edited_with_its_big_integers_and_redriven(busy):
    busy.open(f"/ui/jobs/{busy.dead}").sees("12345678901234567", "[data-key=Payload] pre").sees("not a picture", "#page")
    busy.click("Edit", "#page")
    field = busy.find("dialog textarea")
    assert "12345678901234567" in field.get_property("value")
    busy.js("arguments[0].value = arguments[0].value.replace('broken.png', 'mended.png')", field)
    busy.click("Save and redrive", "dialog")
    busy.wait_state(busy.dead, "completed")
    assert b'12345678901234567' in busy.ask("GET", f"/v1/jobs/{busy.dead}")[2]
    busy.sees("completed", "h1").sees("redriven", ".timeline")


def test_what_is_not_json_is_not_saved(busy):
    busy.open(f"/ui/jobs/{busy.dead}").click("Edit", "#page")
    field = busy.find("dialog textarea")
    busy.js("arguments[0].value = '{nonsense'", field)
    busy.click("Save", "dialog").sees("That is not JSON")
    assert busy.find("dialog textarea").get_property("value").startswith("{nonsense")


def test_groups_of_dead_letters_are_redriven_at_a_rate_and_removed(ui):
    for i in range(3):
        ui.wait_state(ui.submit("mail", {"file": "broken", "n": i}), "dead_letter")
    ui.kill_remote("no such bucket")
    ui.open("/ui/dead").sees("By error", "#page").sees("not a picture", "#page").sees("no such bucket", "#page")
    assert ui.find(".big").text == "3"
    ui.click("3", "#page td").sees("One by one", "#page").misses("no such bucket", "#page")
    ui.click("Redrive", ".heading").sees("3 dead letters will run again", "dialog")
    ui.find("dialog input").send_keys("50")
    ui.click("Redrive", "dialog")
    wait_for(lambda: ui.call("GET", "/v1/stats")["counters"]["jobs_redriven"] == 3, "three redrives")
    ui.open("/ui/dead?task=remote").sees("no such bucket", "#page")
    ui.click("Remove", ".heading").sees("1 dead letter will be gone", "dialog").click("Remove 1", "dialog")
    ui.sees("1 removed").sees("No dead letter matches", "#page")


def test_dead_letters_by_words_are_looked_for_once_where_there_are_none(busy):
    asked = "return performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => name.includes('dead-letters?')).length"
    for words, found in (("not a picture", True), ("no such words", False)):
        busy.open("/ui/dead?" + urllib.parse.urlencode({"text": words}))
        busy.sees("One by one" if found else "No dead letter matches.", "#page")
        assert (busy.js(asked) > 0) is found
    busy.open("/ui/dead?user=nobody").sees("No dead letter matches.", "#page")
    assert busy.js(asked) > 0


def test_a_breaker_is_tripped_and_reset(busy):
    busy.open("/ui/breakers").sees("closed", "#page")
    row = "tr[data-key=resize]"
    busy.find(row)
    busy.click("Trip", row).sees("Jobs of resize are parked", "dialog").click("Trip the breaker", "dialog").sees("forced open", row)
    parked = busy.submit("resize", {"to": "x"})
    busy.wait_state(parked, "parked")
    busy.open(f"/ui/jobs/{parked}").sees("held by the breaker resize", "#page")
    busy.open("/ui/breakers").click("Reset", row).sees("closed", row)
    busy.wait_state(parked, "completed")
    busy.find(".lane[data-key=resize] rect.s-forced_open")
    busy.click("1d", ".chips").find(".lane[data-key=resize] rect.s-forced_open")
    busy.js("document.querySelector('#page details').open = true")
    busy.sees("forced open →", "#page details")


def test_tasks_draw_their_policies(busy):
    busy.open("/ui/tasks").sees("6 attempts within", "#page").sees("resize", "#page")
    card = busy.find("[data-key=resize]")
    assert len(card.find_elements(By.CSS_SELECTOR, ".schedule .attempt")) == 6
    busy.sees("at most 600/min", "[data-key=mail]").sees("No retry", "[data-key=mail]")


def test_tasks_tell_the_slowest_first(ui):
    for i in range(3):
        ui.wait_state(ui.submit("mail", {"n": i}), "completed")
    ui.wait_state(ui.submit("report", {"nap": 1}), "completed")

    def run_times():
        return {task["task"]: task["run_time"] for task in ui.call("GET", "/v1/tasks")["items"]}

    wait_for(lambda: (run_times()["report"] or {}).get("attempts") == 1 and run_times()["mail"]["attempts"] == 3, "all to be counted")
    took = run_times()
    assert took["remote"] is None
    assert took["report"]["mean"] > took["mail"]["mean"]
    ui.open("/ui/tasks").sees("the slowest task first", "#page")
    assert [row.text.split()[0] for row in ui.all("[data-key='run times'] tbody tr")] == ["report", "mail"]


def test_cron_is_in_words(ui):
    ui.call("PUT", "/v1/cron/stored", {"task": "mail", "schedule": "0 3 1 * *", "timezone": "UTC"})
    ui.call("PUT", "/v1/cron/often", {"task": "mail", "schedule": "*/15 * * * *", "timezone": "UTC"})
    ui.open("/ui/cron").sees("at 07:30, Monday to Friday", "#page").sees("every 15 minutes", "#page")
    ui.sees("at 03:00, on day 1 of the month", "#page").sees("Europe/Berlin", "#page")
    ui.click("Remove", "tr[data-key=stored]").click("Remove the entry", "dialog").sees("stored is removed").misses("at 03:00", "#page")


def test_workers_are_shown(ui):
    ui.call("POST", "/v1/jobs", {"task": "remote"})
    ui.call("POST", "/v1/claim", {"queues": ["remote"], "worker": "far away"})
    ui.open("/ui/workers").sees("process", "#page")
    wait_for(lambda: ui.press("r") and "far away" in ui.text(), "the remote worker")


def test_the_keyboard_goes_everywhere(busy):
    busy.open("/ui/jobs").find("#page tbody tr")
    busy.press("j", "j", "k")
    first = busy.find("#page tbody tr")
    assert first.get_attribute("data-current") is not None
    busy.press("x").sees("1 selected", "#page").press("x")
    busy.press("?").sees("next row", "dialog").press(Keys.ESCAPE).misses("next row")
    busy.press_until("g", "q", sees="Queues", where="h1")
    busy.press_until("g", "d", sees="Dead letters", where="h1")


def test_a_row_that_is_looked_at_stays_when_the_list_changes(busy):
    busy.open(f"/ui/jobs/{busy.retrying}").sees("Attempt 1", "#page")
    busy.open("/ui/jobs").find(f"tr[data-key='{busy.scheduled}']")
    busy.press("j")
    assert busy.find("tr[data-current]").get_attribute("data-key") == busy.scheduled
    busy.submit("mail", delay="1h", id="newer")
    busy.sees("newer", "#page")
    assert busy.find("tr[data-current]").get_attribute("data-key") == busy.scheduled


def test_light_and_dark_by_the_system_and_by_the_switch(ui):
    ground = "return getComputedStyle(document.documentElement).backgroundColor"
    ui.open().find("#page")
    light = ui.js(ground)
    set_view(ui.driver, scheme="dark")
    dark = ui.js(ground)
    assert light != dark
    ui.find(".top button.icon").click()
    assert ui.js(ground) == light
    ui.open().find("#page")
    assert ui.js(ground) == light  # it is remembered
    ui.js("localStorage.clear()")


def test_nothing_is_wider_than_a_narrow_screen(busy):
    set_view(busy.driver, width=360, height=740)
    for page in ("", "queues", "jobs", f"jobs/{busy.dead}", "dead", "breakers", "limits", "tasks", "cron", "workers", "experiments", "simulate", "submit"):
        busy.open(f"/ui/{page}").find("#page .page")
        assert busy.js("return document.documentElement.scrollWidth") <= 360, page


def test_a_narrow_screen_shows_parked_jobs_and_words_of_a_readable_size(busy):
    busy.call("POST", "/v1/retry/circuit-breakers/resize/trip")
    parked = busy.wait_state(busy.submit("resize", {"picture": 1}), "parked")
    assert parked
    set_view(busy.driver, width=360, height=740)
    busy.open("/ui/queues").sees("1", "tr[data-key=pictures] td[data-label=Parked]")
    assert busy.find("tr[data-key=pictures] td[data-label=Parked]").is_displayed()
    assert not busy.find("tr[data-key=mail] td[data-label=Parked]").is_displayed()
    busy.open("/ui/tasks").find(".schedule text")
    assert busy.js("return document.querySelector('.schedule text').getBoundingClientRect().height") >= 10


def test_the_top_of_a_scale_hides_no_line(busy):
    busy.open().sees("Overview", "#page")
    # A server notes its first rates after ten seconds.
    busy.js("""const real = window.fetch, spans = [0, 5].map((n) => ({ at: new Date(Date.now() - n * 1e4).toISOString(), seconds: 10,
                 submitted: n, started: n, completed: n, retrying: n, dead_letter: n, failed: n }));
               window.fetch = async (url, options) => !String(url).includes("/rates") ? real(url, options)
                 : new Response(JSON.stringify({ at: spans[0].at, step: 10, items: spans.toReversed() }),
                     { headers: { "Content-Type": "application/json" } });""")
    busy.press("r").find(".plot .max")
    assert busy.js("return [...document.querySelectorAll('.plot')].every((plot) => "
                   "plot.querySelector('.max').getBoundingClientRect().bottom <= plot.querySelector('svg').getBoundingClientRect().top + 1)")


def test_a_server_that_goes_away_is_waited_for(ui):
    ui.submit("mail", delay="1h", id="before")
    ui.open("/ui/jobs").sees("before", "#page")
    ui.server.kill()
    ui.sees("The server does not answer", "#away").sees("before", "#page")
    ui.restart()
    ui.submit("mail", delay="1h", id="after")
    ui.sees("after", "#page").misses("The server does not answer")
    wait_for(lambda: ui.text("#live") == "live", "the event stream")


def test_mistakes_of_the_page_are_shown(ui):
    ui.open().find("#page")
    ui.js("window.dispatchEvent(new ErrorEvent('error', {message: 'a slip'}))")
    ui.sees("The page made a mistake: a slip")
    ui.js("setTimeout(() => { throw new Error('of a script that is not the page\\'s own') })")
    ui.sees("The page made a mistake: Script error.")
    ui.js("window.dispatchEvent(Object.assign(new Event('unhandledrejection'), {reason: new Error('another slip')}))")
    ui.sees("The page made a mistake: another slip")


def test_an_answer_that_is_no_json_is_told(ui):
    """As of a proxy that answers for the server, with 200 and a page of its own."""
    ui.submit("mail", delay="1h", id="before")
    ui.open("/ui/jobs").sees("before", "#page")
    ui.js("window.fetch = () => Promise.resolve(new Response('<h1>Bad gateway</h1>'))")
    ui.press("r").sees("the answer is not one of Redrive", ".notices").sees("proxy", ".notices")
    assert "before" in ui.text("#page") and "Bad gateway" not in ui.text("body")


def test_a_hidden_page_asks_for_nothing(ui):
    """Also while a run over many jobs goes on, which a page that is seen follows every second."""
    ui.call("POST", "/v1/jobs", [{"task": "mail", "delay": "1h"}] * 5)
    ui.open("/ui/jobs").find("#page tbody tr")
    run = ui.call("POST", "/v1/bulk", {"verb": "cancel", "all": True, "rate": "1/h"})["id"]
    ui.sees("Cancelling", "#page")
    ui.hide(True)
    wait_for(lambda: not ui.all("#page[aria-busy]"), "the load that was under way")
    ui.js("window.asked = 0; const real = window.fetch; window.fetch = (...words) => { window.asked++; return real(...words); }")
    time.sleep(1.5)  # longer than between two looks at a run
    assert ui.js("return window.asked") == 0
    ui.hide(False)
    wait_for(lambda: ui.js("return window.asked") > 0, "the page to load again")
    ui.call("DELETE", f"/v1/bulk/{run}")


def test_a_hidden_page_has_no_stream(ui):
    ui.open().find("#page")
    wait_for(lambda: ui.text("#live") == "live", "the event stream")
    ui.driver.switch_to.new_window("tab")
    try:
        first, second = ui.driver.window_handles
        ui.driver.switch_to.window(first)
        ui.hide(True)
        ui.sees("paused", "#live")
        ui.hide(False)
        wait_for(lambda: ui.text("#live") == "live", "the event stream")
        ui.driver.switch_to.window(second)
        ui.driver.close()
    finally:
        ui.driver.switch_to.window(ui.driver.window_handles[0])


def test_the_console_stays_silent(busy):
    busy.driver.get_log("browser")
    for page in ("", "queues", "jobs", f"jobs/{busy.dead}", "dead", "breakers", "limits", "tasks", "cron", "workers", "experiments", "simulate", "submit"):
        busy.open(f"/ui/{page}").find("#page .page")
        time.sleep(0.05)
    assert [line["message"] for line in busy.driver.get_log("browser")] == []
