"""`make dist`: a commit gives one tarball, wherever and by whichever user it is made."""

import os
import shutil
import subprocess
import tarfile

import pytest

from tests.kit.program import ROOT
from tests.kit.waiting import LIMIT_S
from tests.packaging.files import output, version


def run(*words, cwd, **extra):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", **extra}
    subprocess.run(words, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S,
                   check=True)


@pytest.fixture
def source(tmp_path):
    """A small repository that has the tools of this one."""
    folder = tmp_path / "source"
    (folder / "tools").mkdir(parents=True)
    for name in ("meson.build", "tools/version", "tools/dist", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", "2026-01-02T03:04:05+0000"))}
    run("git", "init", "--quiet", "--initial-branch=main", cwd=folder)
    run("git", "add", ".", cwd=folder)
    run("git", "commit", "--quiet", "--message=all", cwd=folder, **who)
    return folder


def tarball(folder):
    return folder / "build" / "dist" / f"redrive-{version()}.tar.xz"


def test_another_clone_umask_and_time_zone_give_the_same_bytes(source, tmp_path):
    run("tools/dist", "build", cwd=source)
    run("sh", "-c", f"umask 077 && git clone --quiet {source} {tmp_path}/clone", cwd=tmp_path)
    run("sh", "-c", "umask 077 && TZ=Asia/Tokyo tools/dist build", cwd=tmp_path / "clone")
    assert tarball(source).read_bytes() == tarball(tmp_path / "clone").read_bytes()


def test_tarball_has_the_committed_files_with_the_time_of_the_commit(source):
    (source / "README.md").write_text("changed", "utf-8")
    (source / "untracked").write_text("", "utf-8")
    run("tools/dist", "build", cwd=source)
    with tarfile.open(tarball(source)) as archive:
        members = archive.getmembers()
        readme = archive.extractfile(f"redrive-{version()}/README.md").read()
    assert {member.name.partition("/")[2] for member in members} == {
        "", "README.md", "meson.build", "tools", "tools/dist", "tools/version"}
    assert {(member.mtime, member.uid, member.gid) for member in members} == {(1767323045, 0, 0)}
    assert {member.mode for member in members if member.name.endswith("tools/dist")} == {0o755}
    assert readme != b"changed"


def test_checksum_is_that_of_the_tarball(source):
    run("tools/dist", "build", cwd=source)
    output("sha256sum", "--check", f"{tarball(source).name}.sha256", cwd=tarball(source).parent)


def test_version_is_that_of_the_header():
    assert f'#define REDRIVE_VERSION       "{version()}"\n' in (ROOT / "include" / "redrive.h").read_text("utf-8")
