"""The page of experiments: arms, intervals, and differences that mean something or nothing."""

from tests.web.dashboard import EXPERIMENT, end_all, set_view


def test_arms_are_compared(start):
    ui = start(EXPERIMENT)
    ui.open("/ui/experiments").sees("of task remote", "#page").sees("too few jobs", "#page")
    ui.call("POST", "/v1/jobs", [{"task": "remote"}] * 120)
    end_all(ui, 120)
    ui.open("/ui/experiments").sees("+100.0 points against control", "#page")
    assert len(ui.all("#page strong")) >= 3  # two arms, and the difference that is significant
    ui.sees("not significant", "#page")  # every job has had one attempt
    assert len(ui.all("#page svg.interval")) == 5  # no time where no job was completed
    set_view(ui.driver, width=360, height=740)
    ui.open("/ui/experiments").find("#page .page")
    assert ui.js("return document.documentElement.scrollWidth") <= 360


def test_a_store_without_experiments_says_where_they_come_from(ui):
    ui.open("/ui/").find("#page .page")
    ui.press("g", "e").sees("There are no experiments.", "#page")
