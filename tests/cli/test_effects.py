"""An option that has no effect on a command is refused, with what to write in its place."""
import json
import re

import pytest

from tests.kit.program import BINARY, Program

# Which settings of the configuration change what a command does, by how their flags begin. A command that is in no
# row takes none; one of a row takes those of that row.
STORE = ["paths-retry-queue"]
SUBMIT = ["strict-tasks", "breaker-key", "breaker-on-open"]
RUN = [*STORE, *SUBMIT, "retry-", "breaker-", "retention-"]
TLS = ["listen-tls-", "listen-insecure"]
SERVER = [*TLS, "listen-http", "listen-faktory", "listen-max-", "listen-drain", "listen-socket-mode"]
EFFECTS = {
    "enqueue": [*STORE, *SUBMIT],
    "work": [*RUN, *TLS, "listen-metrics"],
    "serve": [*RUN, *SERVER, "health-"],
    "batch": [*RUN, "paths-"],
    "ui": [*STORE, "health-", "retry-", "breaker-"],
    "policy explain": ["retry-"],
    "simulate": ["retry-", "breaker-"],
    "config check": [""],
    "config show": [""],
    "doctor": [""],
    "cron set": [*STORE, *SUBMIT],
    "cron run": [*STORE, *SUBMIT],
    "stats": [*STORE, "health-"],
    "health": [*STORE, "health-"],
    "top": [*STORE, "health-"],
    **{f"breakers {verb}": [*STORE, "breaker-"]
       for verb in ("list", "show", "reset", "trip", "disable", "simulate-failure")},
    **{name: STORE for name in (
        "workflow show", "jobs list", "jobs show", "jobs cancel", "jobs retry", "jobs export", "dlq list", "dlq show",
        "dlq groups", "dlq stats", "dlq retry", "dlq edit", "dlq remove", "dlq purge", "dlq export", "limits list",
        "queues list", "queues pause", "queues resume", "cron list", "cron remove", "experiment list",
        "experiment report", "migrate", "move", "backup", "export", "import")},
}


def commands(described, path=()):
    """All commands of `help --json` that do something: name and description."""
    for command in described.get("commands", []):
        name = (*path, command["name"])
        if command.get("commands"):
            yield from commands(command, name)
        else:
            yield " ".join(name), command


def described():
    program = Program(BINARY)
    flags = json.loads(program.output("help", "config-flags", "--json"))["options"]
    return dict(commands(json.loads(program.output("help", "--json")))), flags


COMMANDS, FLAGS = described()


def takes(command, flag):
    return any(flag.startswith(begin) for begin in EFFECTS.get(command, []))


def words_of(name):
    """The command with as many arguments as it must have, so that nothing but an option is wrong."""
    usage = COMMANDS[name]["usage"].split("redrive " + name, 1)[1].replace("[OPTIONS]", "")
    return [*name.split(), *["x" for _ in re.findall(r"(?<![\[\w])[A-Z]+", re.sub(r"\[[^]]*\]", "", usage))]]


def test_the_table_names_commands_and_flags_that_exist():
    assert set(EFFECTS) <= set(COMMANDS)
    names = [flag["name"] for flag in FLAGS]
    for begin in {begin for row in EFFECTS.values() for begin in row}:
        assert any(name.startswith(begin) for name in names), begin


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_setting_has_an_effect_or_is_refused(redrive, tmp_path, name):
    """Goes through all settings that a command does not take; completion offers the others, and these alone."""
    offered = set(redrive.output("__complete", "--", str(len(name.split()) + 1), "redrive", *name.split(), "--").split())
    for flag in FLAGS:
        assert (f"--{flag['name']}" in offered) == takes(name, flag["name"]), flag["name"]
    refused = [flag["name"] for flag in FLAGS if not takes(name, flag["name"])]
    for flag in {flag.split("-")[0]: flag for flag in refused}.values():  # one of each section
        result = redrive(*words_of(name), f"--{flag}", "1", cwd=tmp_path)
        assert result.returncode == 2, (flag, result.stdout, result.stderr)
        assert f"--{flag} has no effect on `redrive {name}`" in result.stderr
        assert re.search(r"hint: (it is for `redrive|this job's own policy is --retry)", result.stderr), result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_setting_before_the_command_is_refused_as_well(redrive, tmp_path):
    result = redrive("--retry-initial-delay", "1s", "enqueue", "mail", cwd=tmp_path)
    assert result.returncode == 2 and "has no effect on `redrive enqueue`" in result.stderr
    assert "--retry '{\"initial_delay\"" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_hint_names_the_commands_that_take_the_setting(redrive, tmp_path):
    result = redrive("stats", "--retention-completed", "1d", cwd=tmp_path)
    assert "hint: it is for `redrive work`, `redrive serve`, `redrive batch`, `redrive config check`" in result.stderr


def test_an_option_that_needs_another_one_is_refused_without_it(redrive, tmp_path):
    """Help says "with --X: …" of such an option; each of them is checked by its row."""
    n = 0
    for name, command in COMMANDS.items():
        for option in command["options"]:
            needed = re.match(r"with --([a-z-]+):", option["help"])
            if not needed:
                continue
            n += 1
            value = [] if option["type"] == "flag" else [option["default"] or "1"]
            result = redrive(*words_of(name), f"--{option['name']}", *value, cwd=tmp_path)
            assert result.returncode == 2, (name, option["name"])
            assert f"--{option['name']} has no effect without --{needed[1]}" in result.stderr, result.stderr
    assert n >= 5


@pytest.mark.parametrize("line", ["serve --no-work --concurrency 3", "import --check file --force",
                                  "import --check file --into-existing"])
def test_an_option_that_does_nothing_beside_another_is_refused(redrive, tmp_path, line):
    result = redrive(*line.split(), cwd=tmp_path)
    assert result.returncode == 2 and " has no effect with --" in result.stderr, result.stderr


def test_a_file_that_is_not_written_is_not_replaced(redrive, tmp_path):
    result = redrive("jobs", "export", "--force", cwd=tmp_path)
    assert result.returncode == 2 and "--force has no effect without --output" in result.stderr
