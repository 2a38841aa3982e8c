"""tools/bootstrap: it names what it installs, and leaves no trace but the packages.

The machine is a folder (BOOTSTRAP_ROOT); apt-get, dpkg-query, systemctl and id are scripts before all others in PATH. That of
apt-get does what the maintainer scripts of Debian do: it brings a unit, enables it, asks policy-rc.d and starts it.
"""

import contextlib
import os
import signal
import subprocess

import pytest

from tests.kit.program import ROOT
from tests.kit.waiting import LIMIT_S, wait_for
from tests.packaging.files import output

TOOLS = {
    "id": "echo 0",
    "dpkg-query": """
        for package; do :; done
        if grep -qx "$package" $BOOTSTRAP_ROOT/installed; then echo installed; fi""",
    "systemctl": """
        echo "$*" >>$BOOTSTRAP_ROOT/systemctl-calls
        for unit; do :; done
        rm $BOOTSTRAP_ROOT/etc/systemd/system/multi-user.target.wants/$unit""",
    "apt-get": """
        [ "$1" = install ] || exit 0
        cp $BOOTSTRAP_ROOT/said $BOOTSTRAP_ROOT/said-before
        for word; do
            case $word in -*|install) continue;; esac
            echo $word >>$BOOTSTRAP_ROOT/installed
        done
        for server in postgresql redis-server other; do
            grep -qx $server $BOOTSTRAP_ROOT/installed || continue
            echo unit >$BOOTSTRAP_ROOT/lib/systemd/system/$server.service
            touch $BOOTSTRAP_ROOT/etc/systemd/system/multi-user.target.wants/$server.service
            for action in start restart; do
                allowed=0
                [ ! -x $BOOTSTRAP_ROOT/usr/sbin/policy-rc.d ] || $BOOTSTRAP_ROOT/usr/sbin/policy-rc.d $server.service $action || allowed=$?
                [ $allowed = 101 ] || echo $action $server >>$BOOTSTRAP_ROOT/done
            done
        done
        [ ! -e $BOOTSTRAP_ROOT/fails ] || exit 100
        [ ! -e $BOOTSTRAP_ROOT/hangs ] || { touch $BOOTSTRAP_ROOT/hanging; exec sleep 60; }""",
}
SERVERS = ["postgresql", "redis-server"]


def hear_signals():
    """In the process to be: a shell cannot trap signals that were ignored when it began, as nohup and background jobs ignore them."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Machine:
    def __init__(self, folder):
        self.root = folder
        for name in ("bin", "usr/sbin", "lib/systemd/system", "etc/systemd/system/multi-user.target.wants"):
            (folder / name).mkdir(parents=True)
        for name, text in TOOLS.items():
            self.script(f"bin/{name}", text)
        packages = output(ROOT / "tools" / "bootstrap", "--list", "test").split()
        (folder / "installed").write_text("".join(f"{name}\n" for name in packages if name not in SERVERS), "utf-8")

    def script(self, name, text):
        path = self.root / name
        path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        path.chmod(0o755)
        return path

    def start(self, *sets):
        environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "BOOTSTRAP_ROOT": str(self.root)}
        with open(self.root / "said", "wb") as said:
            return subprocess.Popen([ROOT / "tools" / "bootstrap", *sets], stdin=subprocess.DEVNULL, stdout=said,
                                    stderr=subprocess.STDOUT, env=environment, start_new_session=True, preexec_fn=hear_signals)

    def install(self, *sets):
        return self.start(*(sets or ["test"])).wait(LIMIT_S)

    def lines(self, name):
        path = self.root / name
        return path.read_text("utf-8").splitlines() if path.exists() else []

    def policy_files(self):
        return sorted(path.name for path in (self.root / "usr" / "sbin").iterdir())

    def at_boot(self):
        return sorted(path.name for path in (self.root / "etc/systemd/system/multi-user.target.wants").iterdir())

    def ask_policy(self, *words):
        return subprocess.run([self.root / "usr" / "sbin" / "policy-rc.d", *words], timeout=LIMIT_S, check=False).returncode


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_packages_are_named_before_they_are_installed(machine):
    assert machine.install() == 0
    said = machine.lines("said-before")
    assert said[0] == "bootstrap: installing postgresql redis-server, and what they depend on"
    assert [line.split()[1] for line in said[1:]] == SERVERS
    assert all("is not started, now or at boot" in line for line in said[1:])
    assert machine.lines("said") == said


def test_what_is_there_is_not_installed_again(machine):
    machine.install()
    (machine.root / "said-before").unlink()
    assert machine.install() == 0
    assert machine.lines("said") == []
    assert not (machine.root / "said-before").exists()


def test_new_servers_are_not_started_now_or_at_boot_and_can_be_started_later(machine):
    assert machine.install() == 0
    assert "start postgresql" not in machine.lines("done")
    assert "start redis-server" not in machine.lines("done")
    assert machine.at_boot() == []
    assert machine.policy_files() == []
    assert not (machine.root / "etc/systemd/system/redis-server.service").is_symlink()


def test_failed_installation_leaves_no_policy(machine):
    (machine.root / "fails").touch()
    assert machine.install() == 1
    assert machine.policy_files() == []
    assert machine.at_boot() == []


@contextlib.contextmanager
def hanging(machine):
    (machine.root / "hangs").touch()
    process = machine.start("test")
    try:
        wait_for(lambda: (machine.root / "hanging").exists(), "the installation hangs")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(LIMIT_S)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_installation_leaves_no_policy(machine, number):
    with hanging(machine) as process:
        assert machine.policy_files() == ["policy-rc.d"]
        os.killpg(process.pid, number)
        assert process.wait(LIMIT_S) == 128 + number
    assert machine.policy_files() == []
    assert machine.at_boot() == []


def test_policy_of_a_killed_installation_has_no_effect_and_is_removed_by_the_next(machine):
    own = machine.script("usr/sbin/policy-rc.d", "exit 104")
    text = own.read_text("utf-8")
    with hanging(machine):
        assert machine.ask_policy("redis-server", "start") == 101
    assert machine.ask_policy("redis-server", "start") == 104
    for name in ("hangs", "installed"):
        (machine.root / name).unlink()
    (machine.root / "installed").touch()
    assert machine.install() == 0
    assert machine.policy_files() == ["policy-rc.d"]
    assert own.read_text("utf-8") == text


def test_second_installation_waits_for_the_first(machine):
    with hanging(machine):
        (machine.root / "installed").write_text("", "utf-8")
        second = machine.start("test")
        try:
            wait_for(lambda: any("waiting for another installation" in line for line in machine.lines("said")), "it waits")
            assert second.poll() is None
        finally:
            second.kill()
            second.wait(LIMIT_S)


def test_policy_of_the_machine_is_asked_about_all_else_and_comes_back(machine):
    own = machine.script("usr/sbin/policy-rc.d", 'echo "$*" >>$BOOTSTRAP_ROOT/asked; exit 101')
    text = own.read_text("utf-8")
    with open(machine.root / "installed", "a", encoding="utf-8") as installed:
        installed.write("other\n")
    assert machine.install() == 0
    assert "other.service start" in machine.lines("asked")
    assert "redis-server.service start" not in machine.lines("asked")
    assert machine.lines("done") == []
    assert machine.policy_files() == ["policy-rc.d"]
    assert own.read_text("utf-8") == text


def test_other_services_are_started_and_restarted(machine):
    with open(machine.root / "installed", "a", encoding="utf-8") as installed:
        installed.write("other\n")
    assert machine.install() == 0
    assert set(machine.lines("done")) == {"start other", "restart other", "restart postgresql", "restart redis-server"}


def test_service_that_a_user_has_masked_stays_masked(machine):
    mask = machine.root / "etc/systemd/system/redis-server.service"
    mask.symlink_to("/dev/null")
    assert machine.install() == 0
    assert os.readlink(mask) == "/dev/null"
    assert not any("redis" in call for call in machine.lines("systemctl-calls"))
    assert "bootstrap: redis-server is not started now" in "\n".join(machine.lines("said"))


def test_service_that_was_there_before_is_not_disabled(machine):
    (machine.root / "lib/systemd/system/postgresql.service").touch()
    assert machine.install() == 0
    assert machine.at_boot() == ["postgresql.service"]
    assert "start postgresql" not in machine.lines("done")


def test_server_that_cannot_be_disabled_is_named(machine):
    machine.script("bin/systemctl", "echo no bus; exit 1")
    assert machine.install() == 0
    assert "hint: systemctl disable redis-server" in "\n".join(machine.lines("said"))
    assert "no bus" in machine.lines("said")


def test_all_is_every_set():
    def listed(*sets):
        return output(ROOT / "tools" / "bootstrap", "--list", *sets).split()

    unknown = subprocess.run([ROOT / "tools" / "bootstrap", "nonsense"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert unknown.returncode == 2
    sets = unknown.stderr.split("there are: ")[1].split()
    assert sets[-1] == "all"
    assert set(listed("all")) == {name for one in sets[:-1] for name in listed(one)}


@pytest.mark.parametrize("words, sets", [([], "all"), (["SETS=build test"], "build test")])
def test_make_deps_installs_all_sets_or_those_that_are_named(words, sets):
    assert output("make", "--no-print-directory", "--dry-run", "-C", ROOT, "deps", *words).strip() == f"tools/bootstrap {sets}"
