"""`redrive simulate`, and that docs/simulate.md says what it prints."""

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import xml.etree.ElementTree as ET

import pytest

from tests.kit.program import ROOT, environment
from tests.kit.waiting import LIMIT_S

PAGE = (ROOT / "docs" / "simulate.md").read_text("utf-8")

QUICK = ["simulate", "--outage", "30s", "--rate", "5"]


def rows(text):
    """The table that a call prints, as lists of cells."""
    lines = [line for line in text.splitlines() if re.match(r"[a-z/, ]+? {2,}\d", line)]
    return [re.split(r" {2,}", line) for line in lines]


def test_prints_a_table_and_its_reading(redrive):
    text = redrive.output(*QUICK)
    assert text.startswith("5 jobs/s for 180 s, 8 attempts each; the service is down from 60 s to 90 s")
    assert len(rows(text)) == 6
    assert all(len(row) == 8 for row in rows(text))
    assert "lost no job" in text.splitlines()[-1]


def test_the_same_seed_gives_the_same_bytes(redrive):
    assert redrive.output(*QUICK) == redrive.output(*QUICK)
    assert redrive.output(*QUICK, "--json") == redrive.output(*QUICK, "--json")
    assert redrive.output(*QUICK) != redrive.output(*QUICK, "--seed", "2")


def test_json_has_the_figures_of_the_table(redrive):
    table = rows(redrive.output(*QUICK))
    document = json.loads(redrive.output(*QUICK, "--json"))
    assert document["options"]["outage_ms"] == 30000
    assert [[s["title"], str(s["calls"]), str(s["wasted_calls"]), str(s["dead"])] for s in document["strategies"]] == [
        row[:4] for row in table
    ]
    for strategy in document["strategies"]:
        assert strategy["completed"] + strategy["dead"] == strategy["submitted"]


def test_strategies_are_compared_in_the_order_given(redrive):
    document = json.loads(redrive.output(*QUICK, "--json", "--strategies", "sidekiq, none,sidekiq"))
    assert [s["name"] for s in document["strategies"]] == ["sidekiq", "none"]


@pytest.mark.parametrize(
    "words, message",
    [
        (["--strategies", "sidekick"], "unknown strategy sidekick"),
        (["--strategies", ""], "--strategies: the value is empty"),
        (["--strategies", "none,,sidekiq"], "no strategy to compare"),
        (["--attempts", "0"], "--attempts"),
        (["--error-rate", "2"], "--error-rate"),
        (["--rate", "0"], "--rate: 0 is out of range"),
        (["--rate", "nan"], "rate"),
        (["--duration", "300h"], "--duration: 300h is out of range\n  it must be from 0s to 7d"),
        (["--outage", "2d"], "--outage: 2d is out of range\n  it must be from 0s to 1d"),
        (["--latency", "25h"], "--latency: 25h is out of range"),
        (["--svg", "-", "--json"], "--json and --svg - both want standard output"),
        (["--retry-max-retries", "many"], "--retry-max-retries: 'many' is not understood"),
        (["--duration", "80s"], "the run ends before the outage does"),
        (["--rate", "90000"], "too many jobs to simulate"),
    ],
)
def test_wrong_use_is_refused(redrive, words, message):
    result = redrive("simulate", "--outage", "30s", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


def test_the_nearest_strategy_is_suggested(redrive):
    assert "hint: did you mean breaker-parks?" in redrive("simulate", "--strategies", "breaker-park").stderr


def test_draws_a_chart_that_stands_alone(redrive, tmp_path):
    redrive.output(*QUICK, "--svg", str(tmp_path / "chart.svg"))
    text = (tmp_path / "chart.svg").read_text("utf-8")
    root = ET.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}polyline")) == 6
    assert not re.search(r"<script|<image|href|url\(", text)
    # It holds nothing private: as readable as the umask lets it be.
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "chart.svg").stat().st_mode & 0o777 == 0o666 & ~umask
    dashes = [line.get("stroke-dasharray") for line in root.findall(f"{space}polyline")]
    colours = [line.get("stroke") for line in root.findall(f"{space}polyline")]
    assert len(set(dashes)) == 6 and len(set(colours)) == 6


def test_a_chart_that_cannot_be_written_is_an_error(redrive, tmp_path):
    result = redrive(*QUICK, "--svg", str(tmp_path / "missing" / "chart.svg"))
    assert (result.returncode, result.stdout) == (1, "")
    assert "cannot write the chart: No such file or directory" in result.stderr


def test_a_bad_path_is_found_before_the_work(redrive, tmp_path):
    # A run of this size would take longer than the time limit of a call.
    words = ["--rate", "10", "--duration", "1d", "--error-rate", "0.9", "--retry-max-retries", "90000"]
    result = redrive("simulate", *words, "--svg", str(tmp_path))
    assert (result.returncode, result.stdout) == (1, "")
    assert "cannot write the chart: Is a directory" in result.stderr


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="needs /dev/full")
def test_figures_survive_a_full_disk(redrive):
    result = redrive(*QUICK, "--svg", "/dev/full")
    assert result.returncode == 1
    assert len(rows(result.stdout)) == 6
    assert "cannot write the chart: No space left on device" in result.stderr


def test_a_longer_chart_is_replaced_as_a_whole(redrive, tmp_path):
    path = tmp_path / "chart.svg"
    path.write_text("x" * 1_000_000)
    redrive.output(*QUICK, "--svg", str(path))
    assert ET.fromstring(path.read_text("utf-8")) is not None


def test_a_chart_on_standard_output_stands_alone_there(redrive, tmp_path):
    redrive.output(*QUICK, "--svg", str(tmp_path / "chart.svg"))
    result = redrive(*QUICK, "--svg", "-")
    assert result.returncode == 0
    assert result.stdout == (tmp_path / "chart.svg").read_text("utf-8")
    assert len(rows(result.stderr)) == 6


def configured(redrive, *words, **options):
    """The row of the configured policy, by itself."""
    document = json.loads(redrive.output(*QUICK, "--json", *words, **options))
    assert document["strategies"][-1]["name"] == "configured"
    return document["strategies"][-1]


def test_a_flag_of_the_configuration_adds_your_policy(redrive):
    text = redrive.output(*QUICK, "--retry-max-retries", "2")
    assert rows(text)[-1][0] == "your policy"
    assert len(rows(text)) == 7
    assert "8 attempts each (your policy: 3);" in text
    names = [s["name"] for s in json.loads(redrive.output(*QUICK, "--json", "--store", "memory:"))["strategies"]]
    assert "configured" not in names


def test_what_is_configured_changes_the_row(redrive):
    alone = ["--strategies", "configured"]
    plain = configured(redrive, *alone)
    assert plain["attempts"] == 6 and plain["dead"] == 0
    assert configured(redrive, *alone, "--attempts", "2") == plain
    dead = configured(redrive, *alone, "--breaker-on-open", "dead_letter")
    assert dead["dead"] > 0 and dead["rejected"] == 0
    rejected = configured(redrive, *alone, "--breaker-on-open", "reject")
    assert rejected["rejected"] > 0
    assert configured(redrive, *alone, "--breaker-recovery-timeout", "2s")["wasted_calls"] > plain["wasted_calls"]
    once = configured(redrive, *alone, "--retry-max-retries", "0")
    assert once["attempts"] == 1 and once["dead"] > 0


CONFIGURATION = """
tasks:
  patient: {retry: {max_retries: 20}}
  hasty: {retry: {max_retries: 0}}
"""


def test_a_task_of_the_file_is_simulated(redrive, tmp_path):
    path = tmp_path / "redrive.yaml"
    path.write_text(CONFIGURATION)
    patient = configured(redrive, "-c", str(path), "--task", "patient")
    hasty = configured(redrive, "-c", str(path), "--task", "hasty")
    assert (patient["attempts"], hasty["attempts"]) == (21, 1)
    assert patient["dead"] == 0 < hasty["dead"]
    assert configured(redrive, "--task", "hasty", cwd=tmp_path) == hasty
    assert configured(redrive, "-c", str(path))["attempts"] == 6
    result = redrive(*QUICK, "-c", str(path), "--task", "hasti")
    assert result.returncode != 0
    assert "no task 'hasti' in the configuration" in result.stderr
    assert "did you mean 'hasty'?" in result.stderr


def test_failures_are_classified_as_configured(redrive, tmp_path):
    path = tmp_path / "redrive.yaml"
    path.write_text(CONFIGURATION + "classify:\n  - {errno: ECONNREFUSED, class: permanent, task: patient}\n")
    assert configured(redrive, "-c", str(path), "--task", "patient")["dead"] > 1
    assert configured(redrive, "-c", str(path))["dead"] == 0


def test_a_missing_file_is_an_error(redrive, tmp_path):
    result = redrive(*QUICK, "-c", str(tmp_path / "none.yaml"))
    assert result.returncode != 0 and result.stdout == ""


def test_your_policy_has_a_line_of_its_own(redrive):
    result = redrive(*QUICK, "--retry-max-retries", "2", "--svg", "-")
    root = ET.fromstring(result.stdout)
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert len({(line.get("stroke"), line.get("stroke-dasharray")) for line in lines}) == 7
    assert ">your policy<" in result.stdout
    assert "8 attempts (your policy: 3);" in result.stdout


def test_a_terminal_sees_a_bar_that_goes_away(redrive):
    code, seen = redrive.on_terminal(*QUICK, columns=100)
    assert code == 0
    assert b"simulate  [" in seen
    bar = seen.rindex(b"\r\x1b[K")
    assert seen.index(b"5 jobs/s for") > bar


def test_an_interrupt_leaves_a_clean_line(redrive):
    master, slave = pty.openpty()
    words = ["--rate", "10", "--duration", "1d", "--error-rate", "0.9", "--retry-max-retries", "90000"]
    with subprocess.Popen(
        [redrive.binary, "simulate", *words],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
        env=environment(),
        # Whoever runs the tests in the background has it ignored, and the program would obey.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        os.close(slave)
        seen = b""
        try:
            while b"simulate  [" not in seen:
                seen += os.read(master, 65536)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=LIMIT_S) == -signal.SIGINT
        finally:
            process.kill()
    try:
        while block := os.read(master, 65536):
            seen += block
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(master)
    assert seen.endswith(b"\r\x1b[K")


@pytest.mark.parametrize(
    "words, reading",
    [
        (["--outage", "0"], "No strategy lost a job or wasted a call."),
        (["--rate", "0.001"], "No job arrived: there is nothing to compare."),
        (["--strategies", "breaker-parks", "--outage", "0"], "No job was lost and no call wasted."),
    ],
)
def test_the_reading_fits_what_happened(redrive, words, reading):
    text = redrive.output("simulate", *words)
    assert text.splitlines()[-1] == reading
    assert ">" not in text


def test_nothing_but_failures_is_simulated_in_time(redrive):
    text = redrive.output("simulate", "--error-rate", "1", "--strategies", "breaker-parks")
    assert text.splitlines()[-1].startswith("Lost: ")


@pytest.mark.parametrize("outage", ["180s", "900s"])
def test_the_page_shows_what_the_command_prints(redrive, outage):
    after = PAGE.split(f"    redrive simulate --outage {outage}\n", 1)[1]
    table = [line for line in after.splitlines() if line.startswith("| ")][1:7]
    shown = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in table]
    assert shown == rows(redrive.output("simulate", "--outage", outage))


def test_the_page_shows_what_capacity_does(redrive):
    names = "sidekiq,breaker-burns,breaker-parks"
    after = PAGE.split("| calls/s |", 1)[1]
    table = [line for line in after.splitlines()[2:] if line.startswith("| ")]
    assert len(table) == 6
    for line in table:
        capacity, *shown = [cell.strip() for cell in line.strip("|").split("|")]
        words = ["--capacity", "0" if capacity == "no limit" else capacity, "--strategies", names]
        printed = [" / ".join([row[2], row[3], row[4]]) for row in rows(redrive.output("simulate", *words))]
        assert shown == printed


@pytest.mark.parametrize("name", ["retry-budget", "adaptive-concurrency"])
def test_a_page_shows_what_is_printed_and_drawn(redrive, tmp_path, name):
    page = (ROOT / "docs" / f"{name}.md").read_text()
    command = re.search(r"^    redrive (simulate .*?)\n\n", page, re.M | re.S).group(1).replace("\\\n", " ")
    table = [line for line in page.split(command.split()[-1], 1)[1].splitlines() if line.startswith("| ")][1:3]
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert shown == rows(redrive.output(*command.split(), "--svg", str(tmp_path / "chart.svg")))
    assert (tmp_path / "chart.svg").read_bytes() == (ROOT / "docs" / "img" / f"{name}.svg").read_bytes()


def experiment_of_the_page(tmp_path):
    """The configuration, the command and the report of docs/experiments.md."""
    page = (ROOT / "docs" / "experiments.md").read_text()
    (tmp_path / "redrive.yaml").write_text(re.search(r"```yaml\n(.*?)```", page, re.S).group(1))
    found = re.search(r"^\$ redrive (simulate .*?)--svg experiment.svg\n(.*?)```", page, re.M | re.S)
    return found.group(1).replace("\\\n", " ").split(), found.group(2)


def test_the_page_shows_what_an_experiment_would_show(redrive, tmp_path):
    command, report = experiment_of_the_page(tmp_path)
    chart = tmp_path / "chart.svg"
    assert redrive.output(*command, "--svg", str(chart), cwd=tmp_path) == report
    assert chart.read_bytes() == (ROOT / "docs" / "img" / "experiment.svg").read_bytes()
    told = json.loads(redrive.output(*command, "--json", cwd=tmp_path))
    control, patient = told["experiment"]["arms"]
    assert [row["name"] for row in told["strategies"]] == [control["name"], patient["name"]] == ["control", "patient"]
    assert [row["dead"] for row in told["strategies"]] == [control["dead"], patient["dead"]]
    assert patient["against_base"]["completed"]["significant"]
    # With the breaker that tasks have by default there is nothing to find, as the page says.
    usual = json.loads(redrive.output("simulate", "-c", "redrive.yaml", "--experiment", "patience", "--outage", "20s", "--json",
                                      cwd=tmp_path))["experiment"]
    assert [arm["dead"] for arm in usual["arms"]] == [0, 0]
    assert not any(difference["significant"] for difference in usual["arms"][1]["against_base"].values())


def test_an_experiment_must_be_there_and_stand_alone(redrive, tmp_path):
    experiment_of_the_page(tmp_path)
    result = redrive("simulate", "--experiment", "patince", cwd=tmp_path)
    assert result.returncode == 1 and "did you mean 'patience'?" in result.stderr
    result = redrive("simulate", "--experiment", "xyz", cwd=tmp_path)
    assert result.returncode == 1 and "add it under `experiments:`" in result.stderr
    for other in (["--strategies", "none"], ["--task", "enrich"]):
        result = redrive("simulate", "--experiment", "patience", *other, cwd=tmp_path)
        assert result.returncode == 2 and f"--experiment has arms in place of {other[0]}" in result.stderr


def test_the_picture_of_the_page_is_the_one_that_is_drawn(redrive, tmp_path):
    redrive.output("simulate", "--outage", "180s", "--svg", str(tmp_path / "chart.svg"))
    assert (tmp_path / "chart.svg").read_bytes() == (ROOT / "docs" / "img" / "simulate-180s.svg").read_bytes()
