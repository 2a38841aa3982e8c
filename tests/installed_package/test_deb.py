"""The Debian packages: what is in them, and their life from installation to purge."""

import re
import shutil
import subprocess

import pytest

from tests.installed_package.service import UNIT, Service
from tests.kit.program import ROOT

LIMIT_S = 200
VERSION = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text("utf-8")).group(1)

# Data that every installation of a package changes.
DATABASES = ("/var/lib/dpkg/", "/var/cache/", "/var/log/", "/etc/ld.so.cache", "/var/lib/systemd/deb-systemd-helper-")
ACCOUNTS = {f"/etc/{name}{end}" for name in ("passwd", "group", "shadow", "gshadow") for end in ("", "-")}
ACCOUNTS.add("/etc/.pwd.lock")


def output(*words):
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False)


def depends(path):
    text = output("dpkg-deb", "--field", path, "Depends").stdout
    return {re.split(r"[ (:]", item.strip())[0] for item in text.split(",")}


def test_there_is_a_package_for_each_soname_and_use(packages):
    names = {name for name in packages if not name.endswith("-dbgsym")}
    assert names == {"redrive", "libredrive0.1", "libredrive-queue0.1", "libredrive-dev", "libredrive-queue-dev"}
    for name in ("libredrive0.1", "libredrive-queue0.1"):
        library = name.removesuffix("0.1")
        assert f"/{library}.so.0.1\n" in output("dpkg-deb", "--contents", packages[name]).stdout.replace(" -> ", "\n")


def test_packages_depend_on_what_they_are_linked_with(packages):
    assert {"libcurl4", "libpq5", "libsqlite3-0", "libuv1"} <= depends(packages["redrive"])
    assert depends(packages["libredrive0.1"]) == {"libc6"}
    assert "libcurl4" not in depends(packages["libredrive-queue0.1"])
    assert {"libredrive-dev", "libredrive-queue0.1"} <= depends(packages["libredrive-queue-dev"])


def test_lintian_has_no_complaint(packages):
    if shutil.which("lintian") is None:
        pytest.skip("needs lintian")
    done = output("lintian", "--allow-root", "--fail-on", "error,warning", *packages.values())
    assert done.returncode == 0, done.stdout


def test_unit_is_valid_and_confined(machine):
    machine.install()
    if machine.root.run("sh", "-c", "command -v systemd-analyze || true") == "":
        pytest.skip("needs systemd-analyze")
    assert machine.root.run("systemd-analyze", "verify", "--man=no", UNIT) == ""
    # Of 10, in tenths: 2.0 is what systemd calls OK.
    machine.root.run("systemd-analyze", "security", "--offline=true", "--threshold=20", UNIT)


def test_service_runs_and_purge_leaves_data_and_account_alone(machine):
    root = machine.root
    machine.install()
    assert root.run("stat", "--format=%U:%G %a", "/var/lib/redrive", "/etc/redrive/redrive.yaml").splitlines() == [
        "redrive:redrive 700", "root:redrive 640"]
    assert root.run("getent", "passwd", "redrive").split(":")[5:] == ["/var/lib/redrive", "/usr/sbin/nologin\n"]

    with Service(root) as service:
        service.told("READY=1")
        assert service.ask("GET", "/health") == 200
        assert service.ask("GET", "/ui/") == 200
        assert service.ask("POST", "/v1/jobs", {"task": "mail", "id": "one"}) == 201
        service.reload()
        service.told("RELOADING=1")
        assert service.stop() == 0
        service.told("STOPPING=1")
    job = root.run("redrive", "jobs", "show", "one", "--config", "/etc/redrive/redrive.yaml", user="redrive:redrive")
    assert "queued" in job
    assert root.run("stat", "--format=%U %a", "/var/lib/redrive/redrive.db") == "redrive 600\n"

    machine.remove("--purge")
    changed = root.changed()
    left = {path for path in changed if not path.startswith(DATABASES) or "redrive" in path} - ACCOUNTS
    assert {path for path in left if not path.startswith("/var/lib/redrive")} == set()
    assert "/var/lib/redrive/redrive.db" in left
    assert root.run("getent", "passwd", "redrive") != ""  # the owner of what is left


def test_changed_configuration_survives_an_upgrade_and_a_removal(machine):
    root = machine.root
    machine.install()
    root.run("sh", "-c", "echo '# mine' >>/etc/redrive/redrive.yaml")
    machine.install()
    machine.remove("--remove")
    assert root.run("tail", "--lines=1", "/etc/redrive/redrive.yaml") == "# mine\n"
    assert root.run("stat", "--format=%U:%G %a", "/etc/redrive/redrive.yaml") == "root:redrive 640\n"
    machine.install()
    assert root.run("tail", "--lines=1", "/etc/redrive/redrive.yaml") == "# mine\n"


def test_manual_completions_and_papers_are_where_they_are_looked_for(machine):
    root = machine.root
    machine.install()
    assert root.run("redrive", "--version") == f"redrive {VERSION}\n"
    assert "redrive completion bash" in root.run("sh", "-c", "zcat /usr/share/man/man1/redrive.1.gz")
    for name in ("bash-completion/completions/redrive.bash", "zsh/vendor-completions/_redrive",
                 "fish/vendor_completions.d/redrive.fish", "doc/redrive/copyright", "doc/redrive/redrive.spdx.json",
                 "doc/redrive/examples/grafana/redrive.json"):
        assert root.run("test", "-s", f"/usr/share/{name}") == ""
    assert f"## {VERSION}" in root.run("zcat", "/usr/share/doc/redrive/changelog.gz")


def flags_for(root, library, how):
    """What pkg-config says. Static archives are named, because the linker prefers shared libraries."""
    words = ["--static"] if how == "static" else []
    flags = root.run("pkg-config", *words, "--cflags", "--libs", library).split()
    archives = {f"-l{name}": f"-l:lib{name}.a" for name in ("redrive", "redrive-queue")}
    return [archives.get(flag, flag) for flag in flags] if how == "static" else flags


def test_programs_are_built_with_the_development_packages(machine):
    root = machine.root
    machine.install()
    if root.run("sh", "-c", "command -v cc && command -v pkg-config || true").count("\n") < 2:
        pytest.skip("needs a C compiler and pkg-config")
    for example, library in (("handler", "redrive"), ("queue", "redrive-queue")):
        for how in ("shared", "static"):
            root.run("cc", "-o", "/tmp/example", f"/mnt/{example}.c", *flags_for(root, library, how))
            loaded = root.run("ldd", "/tmp/example")
            assert "not found" not in loaded
            assert (f"lib{library}.so.0.1 => " in loaded) == (how == "shared")
