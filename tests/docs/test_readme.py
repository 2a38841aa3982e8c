"""The two minutes of README.md go as they are told there, and what it shows further on is so."""

import re
import shutil
import subprocess

import pytest

from conftest import ROOT, clean_environment

TEXT = (ROOT / "README.md").read_text("utf-8")
START = TEXT.split("## Two minutes\n")[1].split("\n## ")[0]
LIMIT_S = 60


@pytest.fixture
def place(redrive, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "redrive").symlink_to(redrive.binary)
    (tmp_path / "first").mkdir()
    return tmp_path / "first"


def shell(place, command):
    """All that a terminal would show."""
    environment = clean_environment()
    environment["PATH"] = f"{place.parent / 'bin'}:{environment['PATH']}"
    done = subprocess.run(["sh", "-c", command], cwd=place, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False)
    return done.stdout


def block(text, language):
    return re.search(rf"^```{language}\n(.*?)^```", text, re.M | re.S).group(1)


def steps(text):
    """Each command with what is shown below it."""
    for step in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, shown = step.partition("\n")
        yield command, shown.splitlines()


def plain(line):
    """Without what differs from run to run, and without the end of a line that is cut off."""
    line = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "ID", line)
    line = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", line)
    return re.sub(r"\b[\d.]+(ms|s)\b", "SPAN", re.sub(r" +", " ", line)).rstrip()


def same(shown, line):
    return line.startswith(shown[:-1]) if shown.endswith("…") else line == shown


def test_first_two_minutes_go_as_they_are_told(place):
    (place / "redrive.yaml").write_text(block(START, "yaml"), "utf-8")
    (place / "resize.sh").write_text(block(START, "sh"), "utf-8")
    commands = list(steps(block(START, "console")))
    assert len(commands) == 7
    for command, shown in commands:
        if command.startswith("redrive work  "):
            command = "redrive work --until-idle --log-level error"
            shown = ["ran 1 in 9ms: 1 completed, 0 retried, 0 dead, 0 failed, 0 released",
                     "left: 0 waiting for their time, 0 parked"]
        told = sorted(map(plain, shown))  # the log and the answer are two streams
        said = sorted(map(plain, shell(place, command).splitlines()))
        assert len(told) == len(said) and all(map(same, told, said)), (command, told, said)


def test_handler_stands_up_to_set_e(place):
    script = block(START, "sh")
    for payload, code in [('{"file":"a.png"}', 0), ('{"file":\n"broken.png"}', 65)]:
        done = subprocess.run(["sh", "-eu", "-c", script], cwd=place, input=payload, text=True, timeout=LIMIT_S,
                              capture_output=True, check=False)
        assert done.returncode == code, done


@pytest.mark.parametrize("words", ["redrive policy explain --profile", "redrive cron next"])
def test_what_is_shown_is_what_is_said(place, words):
    for text in re.findall(r"^```console\n(.*?)^```", TEXT, re.M | re.S):
        for command, shown in steps(text):
            if command.startswith(words):
                assert shell(place, command).splitlines() == shown
                return
    pytest.fail(f"{words} is not shown")


def test_batch_runs_in_the_folder_of_its_example(place):
    shutil.copytree(ROOT / "examples" / "records", place / "examples" / "records")
    text = next(t for t in re.findall(r"^```console\n(.*?)^```", TEXT, re.M | re.S) if "redrive batch" in t)
    said = shell(place, "\n".join(command for command, _ in steps(text)))
    assert "1000 read: 1000 new" in said and "60 dead" in said
    assert (place / "examples/records/done.csv").exists() and (place / "examples/records/dead.jsonl").exists()


@pytest.mark.parametrize("compiler", [["cc", "-std=c17"], ["c++", "-std=c++11"], ["c++", "-std=c++20"]])
def test_the_lines_of_c_compile_as_c_and_as_cpp(compiler, tmp_path):
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"needs {compiler[0]}")
    (block,) = re.findall(r"^```c\n(.*?)^```", TEXT, re.M | re.S)
    functions, marker, statements = block.partition("struct redrive_handler *h =")
    assert marker, "the README has changed: say here which of its lines stand in a function"
    source = tmp_path / ("readme.c" if compiler[0] == "cc" else "readme.cc")
    source.write_text(
        "static int http_get(const char *url, void *into) { (void)url; (void)into; return 200; }\n"
        "static int rates;\n"
        f"{functions}int main(void)\n{{\n{marker}{statements}redrive_handler_free(h); return rc;\n}}\n"
    )
    subprocess.run(
        [*compiler, "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-fsyntax-only", f"-I{ROOT / 'include'}", source],
        check=True, timeout=60,
    )
