"""Five things that people come for, from the overview on, by what can be seen and clicked.

Each says how many clicks it takes; `pytest -s` prints that with the time. Clicks are real ones, at the place of
what has the label, so that something which is hidden, covered or beside the window cannot be clicked.
"""

import time

import pytest
from selenium.common.exceptions import ElementClickInterceptedException, ElementNotInteractableException, StaleElementReferenceException
from selenium.webdriver.common.by import By

from tests.kit.waiting import wait_for


class Visitor:
    def __init__(self, ui, what):
        self.ui, self.what, self.clicks = ui, what, 0
        ui.open().sees("Overview", "#page")
        self.began = time.monotonic()

    def click(self, label, within="body"):
        """What shows just this text, and can be clicked."""
        def clicked():
            for element in self.ui.driver.find_elements(By.CSS_SELECTOR, f"{within} a, {within} button"):
                try:
                    if element.text.split("\n")[0].strip() == label and element.is_displayed():
                        element.click()
                        return True
                except (StaleElementReferenceException, ElementNotInteractableException, ElementClickInterceptedException):
                    pass
            return False

        wait_for(clicked, lambda: f"{label!r} in\n{self.ui.text(within)}")
        self.clicks += 1
        return self

    def sees(self, text, within="#page"):
        self.ui.sees(text, within)
        return self

    def done(self, clicks):
        print(f"\n{self.what}: {self.clicks} clicks, {time.monotonic() - self.began:.1f} s")
        assert self.clicks <= clicks


@pytest.fixture
def shop(ui):
    """What a visitor finds: some work that goes well, and some that does not."""
    for i in range(3):
        ui.wait_state(ui.submit("mail", {"file": "broken", "n": i}), "dead_letter")
    ui.kill_remote("no such bucket: pictures-eu", stacktrace="Traceback\n  File store.py, line 31", id="order-4711")
    ui.wait_state(ui.submit("mail", {"to": "ann"}), "completed")
    ui.wait_state(ui.submit("report", {"nap": 1}), "completed")
    ui.retrying = ui.wait_state(ui.submit("resize", {"host": "refused"}), "retrying")
    return ui


def test_why_a_job_died(shop):
    visitor = Visitor(shop, "find why a job died")
    visitor.click("Dead letters", ".side").sees("no such bucket: pictures-eu")
    visitor.click("1", "#page table").sees("order-4711").click("order-4711", "#page table")
    visitor.sees("Attempt 1").sees("no such bucket: pictures-eu").sees("Stack trace")
    visitor.done(3)


def test_one_group_is_redriven_at_ten_a_second(shop):
    visitor = Visitor(shop, "redrive one group at 10/s")
    visitor.click("Dead letters", ".side").sees("not a picture").click("Redrive group", "#page tbody tr:first-child")
    visitor.sees("3 dead letters will run again", "dialog")
    shop.find("dialog input").send_keys("10")
    visitor.click("Redrive", "dialog").sees("10", "#page")
    wait_for(lambda: shop.call("GET", "/v1/stats")["counters"]["jobs_redriven"] == 3, "three redrives")
    assert shop.state("order-4711") == "dead_letter"
    visitor.done(3)


def test_a_queue_is_paused(shop):
    visitor = Visitor(shop, "pause a queue")
    visitor.click("Queues", ".side").sees("pictures").click("Pause", "tr[data-key=pictures]").sees("paused", "tr[data-key=pictures]")
    visitor.done(2)


def test_the_slowest_task_is_found(shop):
    visitor = Visitor(shop, "find the slowest task")
    visitor.click("Tasks", ".side").sees("the slowest task first")
    wait_for(lambda: shop.find("[data-key='run times'] tbody tr").text.startswith("report"), "the slowest task")
    visitor.done(1)


def test_when_a_job_will_be_retried_next(shop):
    visitor = Visitor(shop, "see when a job will be retried next")
    visitor.click("retrying", ".states").sees(shop.retrying)
    assert "in " in shop.find(f"tr[data-key='{shop.retrying}'] time").text
    visitor.click(shop.retrying, "#page table").sees("What is ahead").sees("Attempt 2", ".ahead").sees("in ", ".ahead")
    visitor.done(2)
