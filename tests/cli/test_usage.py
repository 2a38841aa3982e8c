"""Help, versions, wrong use and exit codes."""

import json

import pytest


def test_without_words_lists_the_commands_on_stdout(redrive):
    text = redrive.output()
    for path, node in redrive.commands():
        if len(path) == 1:
            assert f"  {path[0]}" in text
            assert node["summary"] in text


def test_help_is_the_same_however_it_is_asked_for(redrive):
    for path, node in redrive.commands():
        page = redrive.output(*path, "--help")
        assert page == redrive.output(*path, "-h")
        assert page == redrive.output("--help", *path)
        assert page == redrive.output("help", *path)
        assert page.startswith(" ".join(["redrive", *path]) + " - " + node["summary"])


def test_every_help_page_looks_finished(redrive):
    for path, node in redrive.commands():
        page = redrive.output("help", *path)
        assert "Usage: " + node["usage"] in page
        assert all(len(line) <= 80 for line in page.splitlines())
        assert not any(line != line.rstrip() for line in page.splitlines())
        assert page.endswith("\n") and "\n\n\n" not in page
        assert node["examples"], f"no example for {path}"
        for option in node["options"]:
            assert "--" + option["name"] in page or "--[no-]" + option["name"] in page


def test_tables_are_sound(redrive):
    nodes = {tuple(path): node for path, node in redrive.commands()}
    for path, node in nodes.items():
        reachable = [o for n in range(len(path) + 1) for o in nodes[path[:n]]["options"]]
        names = [o["name"] for o in reachable]
        letters = [o["letter"] for o in reachable if o["letter"]]
        assert len(set(names)) == len(names) and len(set(letters)) == len(letters)
        assert len(set(child["name"] for child in node["commands"])) == len(node["commands"])
        assert not node["summary"].endswith(".")
        for option in node["options"]:
            assert option["help"] and not option["help"].endswith(".")
            assert (option["type"] == "flag") == (option["placeholder"] is None)
            # A list of words may say which words there are.
            assert option["choices"] or option["type"] != "choice"
            assert not option["choices"] or option["type"] in ("choice", "strings")
            assert option["type"] == "flag" or not option["negatable"]


def test_a_tenant_without_a_name_is_not_every_tenant(redrive, tmp_path):
    """`--tenant "$TENANT"`, and the variable is not set."""
    of_a_tenant = [path for path, node in redrive.commands() if any(o["name"] == "tenant" for o in node["options"])]
    assert len(of_a_tenant) > 10
    for path in of_a_tenant:
        result = redrive(*path, "--tenant", "", cwd=tmp_path)
        assert result.returncode == 2 and "--tenant: the value is empty" in result.stderr, (path, result)


def test_help_needs_no_complete_line(redrive):
    assert "Usage: redrive completion [OPTIONS]" in redrive.output("completion", "--help")
    assert "Usage: redrive __complete" in redrive.output("__complete", "-h")


def test_help_for_machines_is_one_json_object(redrive):
    whole = json.loads(redrive.output("--json", "help"))
    part = json.loads(redrive.output("help", "completion", "--json"))
    assert whole["name"] == "redrive"
    assert part in whole["commands"]
    assert json.loads(redrive.output("completion", "--help", "--json")) == part


@pytest.mark.parametrize("words", [["--version"], ["version"], ["help", "--version"]])
def test_version(redrive, words):
    assert redrive.output(*words) == "redrive 0.1.0\n"
    assert json.loads(redrive.output(*words, "--json")) == {"version": "0.1.0"}


WRONG = [
    (["--jsno"], "unknown option --jsno", None, "did you mean --json?"),
    (["version", "--jsno"], "unknown option --jsno", None, "did you mean --json?"),
    (["--vers"], "unknown option --vers", None, "did you mean --version?"),
    (["-json"], "unknown option -j", "in '-json'", "did you mean --json?"),
    (["--json=1"], "--json takes no value", None, None),
    (["--config"], "--config needs a value", None, "write --config FILE"),
    (["-c"], "-c needs a value", None, "write -c FILE"),
    (
        ["version", "--log-format", "jsn"],
        "--log-format: 'jsn' is not one of its values",
        "it takes text, json",
        "did you mean json?",
    ),
    (["verison"], "unknown command 'verison'", None, "did you mean 'redrive version'?"),
    (
        ["completion", "bsh"],
        "unknown command 'bsh' of 'redrive completion'",
        None,
        "did you mean 'redrive completion bash'?",
    ),
    (["help", "verison"], "unknown command 'verison'", None, "did you mean 'redrive version'?"),
    (
        ["help", "version", "x"],
        "'redrive version' has no commands below it",
        "so there is no 'redrive version x'",
        None,
    ),
    (
        ["version", "x"],
        "unexpected argument 'x'",
        "usage: redrive version [OPTIONS]",
        None,
    ),
    (
        ["completion"],
        "'redrive completion' needs a command",
        None,
        "run 'redrive completion --help' to see its commands",
    ),
    (["-c", "x"], "no command given", None, "run 'redrive --help' to see its commands"),
]


@pytest.mark.parametrize("words, message, detail, hint", WRONG)
def test_wrong_use_says_what_was_meant(redrive, words, message, detail, hint):
    result = redrive(*words)
    expected = f"redrive: {message}\n"
    expected += f"  {detail}\n" if detail else ""
    expected += f"hint: {hint}\n" if hint else ""
    assert (result.returncode, result.stdout, result.stderr) == (2, "", expected)


@pytest.mark.parametrize("words, message, detail, hint", WRONG)
def test_errors_are_json_where_json_is_asked_for(redrive, words, message, detail, hint):
    calls = [["--json", *words]]
    if words[-1] not in ("-c", "--config"):  # there --json would be the value
        calls.append([*words, "--json"])
    error = {"code": "USAGE", "message": message, "detail": detail, "hint": hint}
    for call in calls:
        result = redrive(*call)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.count("\n") == 1
        assert json.loads(result.stderr) == {"error": error}


def test_global_options_stand_before_or_after_the_command(redrive):
    expected = redrive.output("version", "--json")
    assert redrive.output("--json", "version") == expected
    assert redrive.output("-cf", "--json", "version", "--log-level=debug") == expected
    assert redrive.output("version", "--json", "--config", "f", "--") == expected


def test_control_characters_of_the_user_do_not_reach_the_terminal(redrive):
    result = redrive("\033[2Jx\n")
    assert result.stderr.splitlines()[0] == "redrive: unknown command '?[2Jx '"


def test_bytes_that_are_no_utf8_are_reported_cleanly(redrive):
    result = redrive(b"--\xff\xfe", "--json", text=False)
    assert result.returncode == 2
    assert json.loads(result.stderr.decode("utf-8"))["error"]["code"] == "USAGE"
