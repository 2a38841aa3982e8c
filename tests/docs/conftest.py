"""The documents, and a shell in which their commands are run one after the other."""

import os
import pathlib
import re
import signal
import subprocess
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("REDRIVE_BIN", ROOT / "build" / "redrive")).resolve()
COMMAND_S = 60  # a command that takes longer hangs
END = "--- the command has ended ---"


class Shell:
    """One bash for all commands of a page, so that cd, variables and background jobs hold for the next command."""

    def __init__(self, folder, **extra):
        if not BINARY.exists():
            pytest.fail(f"no program at {BINARY}: build it, or set REDRIVE_BIN")
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "redrive").symlink_to(BINARY)
        keep = {k: v for k, v in os.environ.items() if k in ("HOME", "LANG", "TMPDIR") or k.endswith("SAN_OPTIONS")}
        environment = {**keep, "TERM": "xterm", "PATH": f"{bin_folder}:{os.environ['PATH']}", **extra}
        self.bash = subprocess.Popen(["bash", "--norc", "--noprofile"], cwd=folder, env=environment, text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     start_new_session=True)

    def __call__(self, command):
        """The lines that a terminal would show below the command."""
        overdue = threading.Timer(COMMAND_S, self.kill)
        overdue.start()
        try:
            # A result without a line end must not swallow the mark.
            self.bash.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n%s\\n' '{END}'\n")
            self.bash.stdin.flush()
            lines = []
            for line in self.bash.stdout:
                if line.rstrip("\n") == END:
                    return (lines[:-1] if lines and lines[-1] == "" else lines)
                lines.append(line.rstrip("\n"))
        except BrokenPipeError:
            pass
        finally:
            overdue.cancel()
        return pytest.fail(f"the shell has ended, or the command took over {COMMAND_S} s: {command}")

    def kill(self):
        os.killpg(self.bash.pid, signal.SIGKILL)

    def close(self):
        """Also what was left running in the background."""
        self.kill()
        self.bash.communicate(timeout=COMMAND_S)


@pytest.fixture
def open_shell(tmp_path):
    """Starts shells in a temporary folder, with `redrive` in the PATH."""
    shells = []

    def start(**extra):
        shells.append(Shell(tmp_path, **extra))
        return shells[-1]

    yield start
    for shell in shells:
        shell.close()


def blocks(text, language):
    """(attributes, text) of the fenced blocks of a language, in their order."""
    return re.findall(rf"^```{language}\b *([^\n]*)\n(.*?)^```", text, re.M | re.S)


def steps(text):
    """Each command of a console block with the lines that are shown below it. `> ` continues a command."""
    for step in re.split(r"^\$ ", text, flags=re.M)[1:]:
        lines = step.rstrip("\n").split("\n")
        command = [lines.pop(0)]
        while lines and lines[0].startswith("> "):
            command.append(lines.pop(0)[2:])
        yield "\n".join(command), lines


def plain(line):
    """A line without what differs from run to run: ids, times, durations, names of workers, widths of columns."""
    line = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "ID", line)
    line = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", line)
    line = re.sub(r"(?<![\w.:])[\w.-]+:\d{2,}(?= |$)", "WORKER", line)
    line = re.sub(r"\b[\d.]+(ms|s|m)\b", "SPAN", line)
    line = re.sub(r"\((in )?SPAN( ago)?\)", "AGE", line)
    return re.sub(r" +", " ", line).strip()


def is_same(shown, line):
    """… stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), line) is not None


def difference(shown, lines):
    """What keeps the lines from being those that are shown, or None. Their order may differ: the log and the answer
    are two streams. A line … stands for any number of lines."""
    rest = [plain(line) for line in lines]
    wanted = [plain(line) for line in shown]
    for line in wanted:
        if line == "…":
            continue
        found = next((other for other in rest if is_same(line, other)), None)
        if found is None:
            return f"not printed: {line!r}"
        rest.remove(found)
    rest = [line for line in rest if line]
    return f"not shown: {rest}" if rest and "…" not in wanted else None
