"""The files for contributors name targets, parts, tools and versions that exist."""

import json
import os
import re
import subprocess

import pytest
import yaml

from tests.kit.program import ROOT
from tests.kit.waiting import LIMIT_S

FORGE = ROOT / ".github"
WORKFLOW = yaml.safe_load((FORGE / "workflows" / "ci.yaml").read_text("utf-8"))
JOBS = WORKFLOW["jobs"]
CI = (ROOT / ".ci" / "run").read_text("utf-8")


def targets_exist(text):
    """Names of the targets in commands `make TARGET`."""
    found = [word for words in re.findall(r"(?:^|&& )make((?: [a-z][\w-]*)*)(?:\s|$)", text, re.M) for word in words.split()]
    for target in found:
        done = subprocess.run(["make", "--dry-run", "-C", ROOT, target], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
    return found


def matrix(job):
    return JOBS[job]["strategy"]["matrix"]


# ---- The workflow --------------------------------------------------------------------------------


def test_every_part_of_the_whole_check_is_a_job_of_its_own():
    assert matrix("part")["part"] == re.search(r'^PARTS="(.*)"$', CI, re.M).group(1).split()
    assert any(step.get("run") == "make ci-${{ matrix.part }}" for step in JOBS["part"]["steps"])


def test_commands_of_the_workflow_exist():
    found = targets_exist("\n".join(step.get("run", "") for job in JOBS.values() for step in job["steps"]))
    assert {"check", "ci-test"} <= set(found)
    for tool in re.findall(r"\btools/[\w-]+", "\n".join(step.get("run", "") for job in JOBS.values() for step in job["steps"])):
        assert os.access(ROOT / tool, os.X_OK), tool


def test_versions_of_python_go_from_the_oldest_that_the_package_takes():
    oldest = re.search(r'^requires-python = ">=3\.(\d+)"$', (ROOT / "python" / "pyproject.toml").read_text("utf-8"), re.M).group(1)
    assert matrix("python")["python"] == [f"3.{minor}" for minor in range(int(oldest), 15)]


def test_compilers_and_systems_are_those_that_are_promised():
    for job in ("debian", "fedora"):
        assert matrix(job)["cc"] == ["gcc", "clang"]
    assert {"debian:stable", "debian:testing"} <= set(matrix("debian")["image"])
    assert any(image.startswith("ubuntu:") for image in matrix("debian")["image"])
    assert JOBS["arm64"]["runs-on"].endswith("-arm")


def test_linter_of_the_workflow_says_when_its_registry_cannot_be_reached(tmp_path):
    environment = {**os.environ, "GOPROXY": "off", "GOFLAGS": "-mod=mod", "PIP_NO_INDEX": "1"}
    done = subprocess.run([ROOT / "tools" / "lint-actions", tmp_path], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 1
    assert "can its registry be reached?" in done.stderr


# ---- Forms, hooks, container ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bug.yml", "feature.yml"])
def test_form_has_what_the_forge_wants(name):
    form = yaml.safe_load((FORGE / "ISSUE_TEMPLATE" / name).read_text("utf-8"))
    assert set(form) == {"name", "description", "labels", "body"}
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    for field in fields:
        assert field["type"] in ("input", "textarea", "dropdown")
        assert field["attributes"]["label"]
        assert (field["type"] == "dropdown") == ("options" in field["attributes"])
        assert all(isinstance(option, str) for option in field["attributes"].get("options", []))
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_targets_and_files_of_the_pull_request_template_exist():
    text = (FORGE / "pull_request_template.md").read_text("utf-8")
    assert targets_exist("\n".join(re.findall(r"`(make [^`]*)`", text))) == ["check", "lint"]
    assert all((ROOT / name).is_file() for name in re.findall(r"\b[A-Z]+\.md\b", text))


def test_hooks_run_programs_of_the_tree_or_of_the_lint_packages():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    assert [repository["repo"] for repository in config["repos"]] == ["local"]
    hooks = config["repos"][0]["hooks"]
    for hook in hooks:
        assert hook["language"] == "system"
        program = hook["entry"].split()[0]
        assert os.access(ROOT / program, os.X_OK) or program == "clang-format", hook
    lint = (ROOT / "tools" / "lint").read_text("utf-8")
    assert all(hook["entry"].split()[0] in lint for hook in hooks)


def test_container_for_development_is_made_by_make_deps():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    assert container["onCreateCommand"].endswith("make deps")
    assert targets_exist("make deps") == ["deps"]
