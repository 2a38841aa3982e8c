"""`redrive simulate`, and that docs/simulate.md says what it prints."""

import json
import os
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


def test_a_longer_chart_is_replaced_as_a_whole(redrive, tmp_path):
    path = tmp_path / "chart.svg"
    path.write_text("x" * 1_000_000)
    redrive.output(*QUICK, "--svg", str(path))
    assert ET.fromstring(path.read_text("utf-8")) is not None


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


def test_the_picture_of_the_page_is_the_one_that_is_drawn(redrive, tmp_path):
    redrive.output("simulate", "--outage", "180s", "--svg", str(tmp_path / "chart.svg"))
    assert (tmp_path / "chart.svg").read_bytes() == (ROOT / "docs" / "img" / "simulate-180s.svg").read_bytes()
