"""The two minutes of README.md go as they are told there, and commands elsewhere print what is shown."""

import re
import shutil
import subprocess

import pytest

from tests.docs.pages import blocks, difference, steps
from tests.kit.program import ROOT
from tests.kit.waiting import LIMIT_S

README = (ROOT / "README.md").read_text("utf-8")
START = README.split("## Two minutes\n")[1].split("\n## ")[0]


def test_first_two_minutes_go_as_they_are_told(open_shell, tmp_path):
    ((_, config),) = blocks(START, "yaml")
    ((_, script),) = blocks(START, "sh")
    (tmp_path / "redrive.yaml").write_text(config, "utf-8")
    (tmp_path / "resize.sh").write_text(script, "utf-8")
    shell = open_shell()
    commands = [step for _, text in blocks(START, "console") for step in steps(text)]
    assert len(commands) == 6
    for command, shown in commands:
        wrong = difference(shown, shell(command))
        assert not wrong, (command, wrong)
    assert shell("redrive work --until-idle --log-level off")[0].startswith("ran 1 in ")  # as edited, it succeeds


def test_handler_of_the_readme_stands_up_to_set_e(tmp_path):
    ((_, script),) = blocks(START, "sh")
    for payload, code in [('{"file":"a.png"}', 0), ('{"file":\n"broken.png"}', 65)]:
        done = subprocess.run(["sh", "-eu", "-c", script], cwd=tmp_path, input=payload, text=True, timeout=LIMIT_S,
                              capture_output=True, check=False)
        assert done.returncode == code, done


def test_ci_runs_the_commands_of_the_readme():
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    for command in ("make demo", "make test"):
        assert re.search(rf"^    {command} +#", README, re.M) and re.search(rf"^ +\w+\) {command} ;;$", script, re.M)


@pytest.mark.parametrize("words", ["redrive policy explain --profile", "redrive cron next"])
def test_configuration_page_shows_what_is_printed(words, open_shell):
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    shown_below = dict(step for _, text in blocks(page, "console") for step in steps(text))
    ((command, shown),) = [item for item in shown_below.items() if item[0].startswith(words)]
    assert open_shell()(command) == shown


@pytest.mark.parametrize("compiler", [["cc", "-std=c17"], ["c++", "-std=c++11"], ["c++", "-std=c++20"]])
def test_the_first_lines_of_the_library_page_compile_as_c_and_as_cpp(compiler, tmp_path):
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"needs {compiler[0]}")
    _, lines = blocks((ROOT / "docs" / "library.md").read_text("utf-8"), "c")[0]
    functions, marker, statements = lines.partition("struct redrive_handler *h =")
    assert marker, "the page has changed: say here which of its lines stand in a function"
    source = tmp_path / ("page.c" if compiler[0] == "cc" else "page.cc")
    source.write_text(
        "static int http_get(const char *url, void *into) { (void)url; (void)into; return 200; }\n"
        "static int rates;\n"
        f"{functions}int main(void)\n{{\n{marker}{statements}return rc;\n}}\n"
    )
    subprocess.run(
        [*compiler, "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-fsyntax-only",
         f"-I{ROOT / 'include'}", source],
        check=True, timeout=LIMIT_S,
    )
