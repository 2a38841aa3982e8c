"""The help of every command. Wrong use and versions: transcripts/usage.md."""

import json


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
        assert result.returncode == 2 and "--tenant: it is empty" in result.stderr, (path, result)


def test_help_for_machines_is_one_json_object(redrive):
    whole = json.loads(redrive.output("--json", "help"))
    part = json.loads(redrive.output("help", "completion", "--json"))
    assert whole["name"] == "redrive"
    assert part in whole["commands"]
    assert json.loads(redrive.output("completion", "--help", "--json")) == part
