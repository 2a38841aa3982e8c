"""The completion scripts, in a real bash, zsh and fish."""

import os
import pathlib
import pty
import select
import shutil
import subprocess
import time

import pytest

# Reads lines of words, each with the number of its words before it, from a file with NUL after each.
HARNESS = r"""
source <("$0" completion bash) || exit 1
while IFS= read -r -d '' n <&3; do
    COMP_WORDS=("$0")
    for ((i = 0; i < n; i++)); do IFS= read -r -d '' word <&3; COMP_WORDS+=("$word"); done
    COMP_CWORD=$n
    COMPREPLY=()
    _redrive
    printf '%s\n' "${COMPREPLY[@]}"
    printf '\036'
done
"""


def nul_ended(lines):
    return "".join(f"{part}\0" for words in lines for part in (len(words), *words))


def complete_each(redrive, lines, tmp_path):
    """What bash offers for the last word of each line."""
    asked = tmp_path / "lines"
    asked.write_text(nul_ended(lines))
    result = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", f"exec 3<'{asked}'\n{HARNESS}", redrive.binary],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=redrive.timeout * 3,
        check=True,
    )
    assert result.stderr == ""
    offered = [sorted(text.split()) for text in result.stdout.split("\036")[:-1]]
    assert len(offered) == len(lines)
    return offered


def test_every_command_is_offered_below_its_parent(redrive, tmp_path):
    expected = {(*path, ""): sorted(child["name"] for child in node["commands"])
                for path, node in redrive.commands() if node["commands"]}
    assert len(expected) > 5
    assert complete_each(redrive, list(expected), tmp_path) == list(expected.values())


def test_every_option_is_offered(redrive, tmp_path):
    nodes = redrive.commands()
    everywhere = {"--" + option["name"] for option in nodes[0][1]["options"]}
    offered = complete_each(redrive, [(*path, "--") for path, _ in nodes], tmp_path)
    for (path, node), names in zip(nodes, offered):
        own = {"--" + option["name"] for option in node["options"]}
        assert own | everywhere <= set(names), path


def test_values_of_choices_are_offered(redrive, tmp_path):
    options = [([*path, "--" + option["name"]], sorted(option["choices"]))
               for path, node in redrive.commands() for option in node["options"] if option["choices"]]
    assert len(options) > 5
    words = [[(*line, ""), (*line, "="), (*line, "=", choices[0][:2])] for line, choices in options]
    offered = iter(complete_each(redrive, [line for three in words for line in three], tmp_path))
    for line, choices in options:
        assert next(offered) == choices, line
        assert next(offered) == choices, line
        assert next(offered)[0] == choices[0], line


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


# As that of bash. What compinit does is done once.
ZSH_HARNESS = r"""
autoload -Uz compinit && compinit -D -u
source <("$0" completion zsh) || exit 1
[[ $_comps[redrive] == _redrive ]] || exit 1
compadd() { while [[ $1 == -* && $1 != -- ]]; do shift; done; shift; print -rl -- "$@" }
_files() { print -r -- :files }
while IFS= read -r -d $'\0' -u 3 n; do
    words=(redrive)
    repeat $n; do IFS= read -r -d $'\0' -u 3 word; words+=("$word"); done
    CURRENT=$#words
    _redrive
    printf '\036'
done
"""

FISH_HARNESS = """
$argv[1] completion fish | source; or exit 1
complete -C (string join ' ' -- redrive (string escape -- $argv[2..-2]) $argv[-1])
"""


def run_shell(redrive, command, tmp_path):
    program = pathlib.Path(redrive.binary)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb"}
    env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=redrive.timeout,
        env=env, cwd=tmp_path, check=True,
    )
    assert result.stderr == ""
    return result.stdout


def shell_offers(redrive, shell, lines, tmp_path):
    """What a shell offers for the last word of each line; file names only where the program asks for them."""
    if shell == "zsh":
        asked = tmp_path.with_suffix(".lines")
        asked.write_text(nul_ended(lines))
        said = run_shell(redrive, ["zsh", "-f", "-c", f"exec 3<'{asked}'\n{ZSH_HARNESS}", redrive.binary], tmp_path)
        texts = said.split("\036")[:-1]
    else:
        fish = ["fish", "--no-config", "-c", FISH_HARNESS, redrive.binary]
        texts = [run_shell(redrive, [*fish, *words], tmp_path) for words in lines]
    return [sorted(line.split("\t")[0] for line in text.splitlines()) for text in texts]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_offer_the_same(redrive, tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    (tmp_path / "settings.yaml").touch()
    expected = {
        ("",): sorted(child["name"] for child in redrive.commands()[0][1]["commands"]),
        ("comp",): ["completion"],
        ("completion", ""): ["bash", "fish", "zsh"],
        ("version", "--log-f"): ["--log-format"],
        ("version", "--log-format", ""): ["json", "text"],
        ("version", "--log-format=j"): ["--log-format=json"],
        ("-c", ""): [":files"] if shell == "zsh" else ["settings.yaml"],
    }
    assert shell_offers(redrive, shell, list(expected), tmp_path) == list(expected.values())
