"""A shell in which the commands of documents are run one after the other."""

import os
import signal
import subprocess
import threading

import pytest

from tests.kit.program import BINARY, environment
from tests.kit.waiting import LIMIT_S

COMMAND_S = LIMIT_S
END = "--- the command has ended ---"


class Shell:
    """One bash for all commands of a page, so that cd, variables and background jobs hold for the next command."""

    def __init__(self, folder, **extra):
        if not BINARY.exists():
            pytest.fail(f"no program at {BINARY}: build it, or set REDRIVE_BIN")
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "redrive").symlink_to(BINARY)
        env = environment(PATH=f"{bin_folder}:{os.environ['PATH']}", **extra)
        self.bash = subprocess.Popen(["bash", "--norc", "--noprofile"], cwd=folder, env=env, text=True, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

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
