"""The completion scripts, in a real bash, zsh and fish."""

import os
import pathlib
import pty
import select
import shutil
import subprocess
import time

import pytest

HARNESS = r"""
source <("$0" completion bash) || exit 1
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_redrive
printf '%s\n' "${COMPREPLY[@]}"
"""


def complete(redrive, *words):
    """What bash offers for the last of `words`."""
    result = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", HARNESS, redrive.binary, redrive.binary, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=redrive.timeout,
        check=True,
    )
    assert result.stderr == ""
    return sorted(result.stdout.split())


def test_every_command_is_offered_below_its_parent(redrive):
    for path, node in redrive.commands():
        names = sorted(child["name"] for child in node["commands"])
        if names:
            assert complete(redrive, *path, "") == names


def test_every_option_is_offered(redrive):
    nodes = redrive.commands()
    everywhere = {"--" + option["name"] for option in nodes[0][1]["options"]}
    for path, node in nodes:
        own = {"--" + option["name"] for option in node["options"]}
        assert own | everywhere <= set(complete(redrive, *path, "--"))


def test_values_of_choices_are_offered(redrive):
    for path, node in redrive.commands():
        for option in node["options"]:
            if option["choices"]:
                name = "--" + option["name"]
                choices = sorted(option["choices"])
                assert complete(redrive, *path, name, "") == choices
                assert complete(redrive, *path, name, "=") == choices
                assert complete(redrive, *path, name, "=", choices[0][:2])[0] == choices[0]


def test_begun_words_are_completed(redrive):
    assert complete(redrive, "comp") == ["completion"]
    assert complete(redrive, "--json", "completion", "b") == ["bash"]
    assert complete(redrive, "version", "--log-f") == ["--log-format"]
    assert complete(redrive, "help", "completion", "") == ["bash", "fish", "zsh"]
    assert complete(redrive, "__") == []
    assert complete(redrive, "nonsense", "") == []


@pytest.mark.parametrize("cursor", ["0", "3", "-1", "x", "", "99999999999999999999"])
def test_cursor_beside_the_line_is_refused(redrive, cursor):
    result = redrive("__complete", "--", cursor, "redrive", "version")
    assert (result.returncode, result.stdout) == (2, "")


def read_until(master, wanted, deadline):
    seen = b""
    while wanted not in seen:
        ready, _, _ = select.select([master], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"no {wanted!r} in {seen!r}"
        seen += os.read(master, 65536)
    return seen


def test_tab_key_completes(redrive, tmp_path):
    """bash as a person uses it: a terminal, and the tab key."""
    (tmp_path / "settings file.yaml").touch()
    program = pathlib.Path(redrive.binary)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "> "}
    env["HOME"] = str(tmp_path)
    env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    master, slave = pty.openpty()
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=env,
        cwd=tmp_path,
        start_new_session=True,
    )
    os.close(slave)
    deadline = time.monotonic() + redrive.timeout
    try:
        os.write(master, b"source <(redrive completion bash); echo loa''ded\n")
        read_until(master, b"loaded", deadline)
        os.write(master, b"redrive vers\t--js\t; echo do''ne\n")
        assert b'{"version":"0.1.0"}' in read_until(master, b"done", deadline)
        # Names of files come from bash itself, which knows how to quote them.
        os.write(master, b"redrive -c sett\thelp --color=al\t| head -c 9; echo; echo do''ne\n")
        seen = read_until(master, b"done", deadline)
        assert b"settings\\ file.yaml" in seen
        assert b"--color=always" in seen
    finally:
        shell.kill()
        shell.wait(timeout=redrive.timeout)
        os.close(master)


ZSH_HARNESS = r"""
autoload -Uz compinit && compinit -D -u
source <("$0" completion zsh) || exit 1
[[ $_comps[redrive] == _redrive ]] || exit 1
compadd() { while [[ $1 == -* && $1 != -- ]]; do shift; done; shift; print -rl -- "$@" }
_files() { print -r -- :files }
words=("$@")
CURRENT=$#words
_redrive
"""

FISH_HARNESS = """
$argv[1] completion fish | source; or exit 1
complete -C (string join ' ' -- redrive (string escape -- $argv[2..-2]) $argv[-1])
"""


def shell_offers(redrive, command, tmp_path):
    """What a shell offers for the last word; file names only where the program asks for them."""
    program = pathlib.Path(redrive.binary)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb"}
    env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=redrive.timeout,
        env=env, cwd=tmp_path, check=True,
    )
    assert result.stderr == ""
    return sorted(line.split("\t")[0] for line in result.stdout.splitlines())


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_offer_the_same(redrive, tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    (tmp_path / "settings.yaml").touch()

    def offers(*words):
        if shell == "zsh":
            return shell_offers(redrive, ["zsh", "-f", "-c", ZSH_HARNESS, redrive.binary, "redrive", *words], tmp_path)
        return shell_offers(redrive, ["fish", "--no-config", "-c", FISH_HARNESS, redrive.binary, *words], tmp_path)

    names = sorted(child["name"] for child in redrive.commands()[0][1]["commands"])
    assert offers("") == names
    assert offers("comp") == ["completion"]
    assert offers("completion", "") == ["bash", "fish", "zsh"]
    assert offers("version", "--log-f") == ["--log-format"]
    assert offers("version", "--log-format", "") == ["json", "text"]
    assert offers("version", "--log-format=j") == ["--log-format=json"]
    assert offers("-c", "") == ([":files"] if shell == "zsh" else ["settings.yaml"])
