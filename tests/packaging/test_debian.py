"""The recipe of the Debian packages agrees with the build."""

import re

from tests.kit.program import ROOT
from tests.packaging.files import PACKAGING, output, version

DEBIAN = PACKAGING / "debian"
CONTROL = (DEBIAN / "control").read_text("utf-8")


def paragraphs():
    """The fields of each paragraph of control; the first is that of the source."""
    return [{name: " ".join(value.split()) for name, value in re.findall(r"^([\w-]+):(.*(?:\n .*)*)", text, re.M)}
            for text in CONTROL.strip().split("\n\n")]


SOURCE, *PACKAGES = paragraphs()


def names(field):
    return {re.split(r"[ (]", item.strip())[0] for item in field.split(",") if item.strip()}


def soversion():
    """As meson.build has it: major and minor version before 1.0."""
    major, minor, _ = version().split(".")
    return f"0.{minor}" if major == "0" else major


def test_packages_of_libraries_are_named_after_their_soname():
    libraries = {package["Package"] for package in PACKAGES if package.get("Section") == "libs"}
    assert libraries == {f"libredrive{soversion()}", f"libredrive-queue{soversion()}"}
    for library in libraries:
        assert (DEBIAN / f"{library}.install").exists()


def test_no_other_soname_is_left_in_the_recipe():
    for path in DEBIAN.rglob("*"):
        if path.is_file():
            found = set(re.findall(r"(?:libredrive(?:-queue)?(?:\.so\.)?)(\d+(?:\.\d+)*)", path.read_text("utf-8")))
            assert found <= {soversion()}, path


def test_packages_to_build_with_are_those_of_bootstrap():
    essential = {"gcc", "libc6-dev", "binutils"}  # build-essential has them
    wanted = set(output(ROOT / "tools" / "bootstrap", "--list", "build").split()) - essential
    assert names(SOURCE["Build-Depends"]) == wanted | {"debhelper-compat", "dh-sequence-installsysusers", "python3"}


def test_development_package_brings_what_its_pkg_config_file_requires():
    text = (ROOT / "meson.build").read_text("utf-8")
    required = re.search(r"requires_private: \[(.*?)\]", text).group(1)
    packages = {"sqlite3": "libsqlite3-dev", "hiredis": "libhiredis-dev", "yaml-0.1": "libyaml-dev"}
    wanted = {packages[name] for name in re.findall(r"'([^']+)'", required)} | {"libgnutls28-dev", "libpq-dev", "libredrive-dev"}
    (queue,) = [package for package in PACKAGES if package["Package"] == "libredrive-queue-dev"]
    assert wanted <= names(queue["Depends"])


def test_lintian_overrides_have_a_reason():
    for path in DEBIAN.glob("*lintian-overrides"):
        lines = path.read_text("utf-8").splitlines()
        for before, line in zip(["", *lines], lines):
            assert line.startswith("#") or before.startswith("#"), f"{path.name}: {line}"


def test_unit_is_changed_by_the_recipe_as_it_expects():
    unit = (ROOT / "examples" / "systemd" / "redrive.service").read_text("utf-8")
    starts = re.findall(r"^Exec\w+=(.*redrive (?:serve|config).*)$", unit, re.M)
    assert len(starts) == 2
    assert all(line.startswith("/usr/bin/env redrive ") for line in starts)
