"""The log is data: docs/monitoring.md names every event and field, the sources write no others, and real lines hold to it."""

import json
import re
import subprocess

import pytest

from tests.kit.program import BINARY, ROOT, environment
from tests.kit.waiting import LIMIT_S

SOURCES = ROOT / "src"
MANUAL = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
HEAD = {"at": "string", "level": "string", "event": "string"}
TYPES = {"S": "string", "STR": "string", "I": "integer", "D": "number", "B": "boolean"}

# ---- What the manual says ----------------------------------------------------------------------


def section(title):
    return re.search(rf"^### {title}\n(.*?)(?=^##|\Z)", MANUAL, re.M | re.S).group(1)


def rows(text):
    """The cells of each row of a table whose first cell is a name in code."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| `"):
            yield cells


def names(text):
    return set(re.findall(r"`(\w+)`", text))


FIELDS = {cells[0].strip("`"): cells[1] for cells in rows(section("Fields"))}
JOB_SECTION = section("Events of jobs and breakers")
JOB_FIELDS = names(JOB_SECTION.strip().split("\n\n")[0])
BREAKER_FIELDS = names([cells for cells in rows(JOB_SECTION) if cells[0] == "`breaker`"][0][2])
OTHER = {cells[0].strip("`"): names(cells[2]) for cells in rows(section("Other events"))}
EVENTS = {cells[0].strip("`"): JOB_FIELDS for cells in rows(JOB_SECTION)}
EVENTS.update(OTHER, breaker=BREAKER_FIELDS)
LEVELS = {cells[0].strip("`"): cells[1] for cells in [*rows(JOB_SECTION), *rows(section("Other events"))]}

# ---- What the sources write --------------------------------------------------------------------


def functions(text):
    """Name, parameters and body of each function of a source file."""
    pattern = r"^[a-z][^;{}#]*?\b(\w+)\(([^;{}]*?)\)\n\{\n(.*?)^\}"
    for found in re.finditer(pattern, text, re.M | re.S):
        yield found.group(1), [word.split()[-1].strip("*") for word in arguments(found.group(2))], found.group(3)


def arguments(text):
    """The arguments of a call, up to the parenthesis that ends it."""
    depth, quoted, current, found = 0, False, "", []
    for i, c in enumerate(text):
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        if not quoted and c in "([{":
            depth += 1
        if not quoted and c in ")]}":
            depth -= 1
            if depth < 0:
                break
        if c == "," and depth == 0 and not quoted:
            found.append(current.strip())
            current = ""
        else:
            current += c
    return found + [current.strip()] if current.strip() else found


def literals(text):
    return re.findall(r'"(\w+)"', text)


def engine_events():
    text = (SOURCES / "engine" / "event.h").read_text("utf-8")
    return re.findall(r'^ +XX\(\w+, "(\w+)",', text, re.M)


def calls(folder, function, position):
    """What is given for a parameter of a function, wherever the folder calls it; what the caller only passes on is
    looked for in its own calls."""
    for path in folder.rglob("*.c"):
        for caller, parameters, body in functions(path.read_text("utf-8")):
            for found in re.finditer(rf"\b{function}\(", body):
                given = arguments(body[found.end():])
                if len(given) <= position:
                    continue
                if given[position] in parameters and caller != function:
                    yield from calls(folder, caller, parameters.index(given[position]))
                else:
                    yield from literals(given[position])


def events_of(expression, path, function, parameters):
    if "engine_event_name" in expression:
        return ["breaker"] if "breaker" in function else [name for name in engine_events() if name != "breaker"]
    if expression in parameters:
        return list(calls(path.parent, function, parameters.index(expression)))
    return literals(expression)


def written():
    """Event, key and type of every field of every line that the sources can write, and where."""
    for path in sorted(SOURCES.rglob("*.c")):
        if path.name == "log.c":
            continue
        for function, parameters, body in functions(path.read_text("utf-8")):
            for found in re.finditer(r"\blog_(event|write)\(", body):
                given = arguments(body[found.end():])
                events = events_of(given[3], path, function, parameters)
                assert events, f"{path}: {function}: no event is found for {given[3]}"
                text = body if found.group(1) == "write" else ",".join(given[4:])
                for kind, key in re.findall(r'\bLOG_(S|STR|I|D|B)\("(\w+)"', text):
                    for event in events:
                        yield event, key, TYPES[kind], f"{path.name}: {function}"


WRITTEN = list(written())


def test_sources_were_read():
    assert {"completed", "claim_failed", "lease_lost", "breaker"} <= {event for event, *_ in WRITTEN}
    calls_in_all = sum(len(re.findall(r"\blog_(?:event|write)\(", path.read_text("utf-8")))
                       for path in SOURCES.rglob("*.c") if path.name != "log.c")
    assert calls_in_all == sum(len(re.findall(r"\blog_(?:event|write)\(", body))
                               for path in SOURCES.rglob("*.c") if path.name != "log.c"
                               for _, _, body in functions(path.read_text("utf-8")))


def test_every_event_is_in_the_manual_and_no_other():
    assert {event for event, *_ in WRITTEN} == set(EVENTS)


def test_every_field_is_in_the_manual_with_its_type_and_no_other():
    wrong = {(key, kind, where) for _, key, kind, where in WRITTEN if FIELDS.get(key) != kind}
    assert not wrong
    assert set(FIELDS) == {key for _, key, *_ in WRITTEN}


@pytest.mark.parametrize("event", sorted(EVENTS))
def test_an_event_has_the_fields_of_the_manual(event):
    assert {key for name, key, *_ in WRITTEN if name == event} == EVENTS[event]


def test_numbers_that_have_a_unit_say_so():
    for key, kind in FIELDS.items():
        if re.search(r"milliseconds", [cells[2] for cells in rows(section("Fields")) if cells[0] == f"`{key}`"][0]):
            assert key.endswith("_ms") and kind == "integer", key


# ---- What is written ---------------------------------------------------------------------------

CONFIG = """
store: sqlite:{dir}/jobs.db
listen: {{http: 127.0.0.1:0, faktory: 127.0.0.1:0}}
tasks:
  quick: {{queue: fast, run: {{exec: [cat]}}}}
  flaky: {{run: {{exec: [sh, -c, 'test $REDRIVE_ATTEMPT -ge 2 || {{ echo "not yet" >&2; exit 75; }}']}}, retry: {{strategy: immediate}}}}
  never: {{run: {{exec: [sh, -c, 'echo "no use" >&2; exit 65']}}}}
"""


@pytest.fixture(name="place")
def fixture_place(redrive, tmp_path):
    (tmp_path / "redrive.yaml").write_text(CONFIG.format(dir=tmp_path), "utf-8")
    for task in ("quick", "flaky", "never"):
        redrive.output("enqueue", task, "{}", "--id", task, cwd=tmp_path)
    return tmp_path


def work(place, *words):
    done = subprocess.run([str(BINARY), "work", "--until-idle", "--worker", "w1", *words], cwd=place, env=environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 3, done.stderr
    return [line for line in done.stderr.splitlines() if not line.startswith("redrive: ")]


def check_line(line):
    """An object of the log against the manual."""
    assert line["event"] in EVENTS
    assert set(line) - set(HEAD) <= EVENTS[line["event"]], line
    for key, value in line.items():
        kind = {**HEAD, **FIELDS}[key]
        assert isinstance(value, {"string": str, "integer": int, "number": (int, float), "boolean": bool}[kind]), line


def test_lines_in_json_are_as_in_the_manual(place):
    lines = [json.loads(line) for line in work(place, "--log-format", "json", "--log-level", "debug")]
    for line in lines:
        check_line(line)
        level = LEVELS[line["event"]].removeprefix("debug; of `redrive work`: ")
        if level in ("debug", "info", "warning", "error"):
            assert line["level"] == level
    steps = [(line["event"], line["attempt"]) for line in lines if line.get("job_id") == "flaky"]
    assert steps == [("started", 1), ("retrying", 1), ("started", 2), ("completed", 2)]
    retried = next(line for line in lines if line["event"] == "retrying")
    assert (retried["delay_ms"], retried["max_attempts"], retried["queue"], retried["worker"]) == (0, 6, "default", "w1")
    assert retried["duration_ms"] >= 0 and retried["error"] == "not yet"
    dead = next(line for line in lines if line["event"] == "dead_letter")
    assert (dead["job_id"], dead["class"], dead["reason"]) == ("never", "validation", "not_retriable")


def test_worker_has_one_line_for_the_start_of_each_attempt_and_one_for_its_end(place):
    lines = [json.loads(line) for line in work(place, "--log-format", "json", "--log-level", "info")]
    assert [line["event"] for line in lines if line.get("job_id") == "quick"] == ["started", "completed"]
    flaky = [(line["event"], line["attempt"], line["max_attempts"]) for line in lines if line.get("job_id") == "flaky"]
    assert flaky == [("started", 1, 6), ("retrying", 1, 6), ("started", 2, 6), ("completed", 2, 6)]


def test_server_has_one_line_for_a_job_that_succeeds(place):
    server = subprocess.Popen([str(BINARY), "serve", "--log-format", "json", "--log-level", "info"], cwd=place, env=environment(),
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        lines = []
        for text in server.stderr:
            lines.append(json.loads(text))
            if {"quick", "flaky"} <= {line["job_id"] for line in lines if line["event"] == "completed"}:
                break
    finally:
        server.terminate()
        server.communicate(timeout=LIMIT_S)
    assert [line["event"] for line in lines if line.get("job_id") == "quick"] == ["completed"]
    assert [line["event"] for line in lines if line.get("job_id") == "flaky"] == ["retrying", "completed"]


def test_lines_of_text_have_the_same_fields(place):
    seen = 0
    for line in work(place, "--log-level", "debug"):
        _, level, event, rest = re.fullmatch(r"(\S+Z) (DEBUG|INFO|WARN|ERROR) +(\w+)(.*)", line).groups()
        fields = re.findall(r' (\w+)=("(?:[^"\\]|\\.)*"|\S+)', rest)
        assert "".join(f" {key}={value}" for key, value in fields) == rest
        assert {key for key, _ in fields} <= EVENTS[event]
        for key, value in fields:
            assert FIELDS[key] != "integer" or re.fullmatch(r"-?\d+", value), line
        seen += event == "started"
    assert seen >= 4
