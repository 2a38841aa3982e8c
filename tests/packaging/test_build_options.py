"""The program is built without the packages of tests, benchmarks and examples."""

import json
import os
import pathlib
import subprocess

import pytest

from tests.kit.program import ROOT
from tests.kit.waiting import LIMIT_S
from tests.packaging.files import output

HIDDEN = ["cmocka", "jansson", "libcjson"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """pkg-config finds all but the packages of tests and benchmarks; CMake, which Meson asks after it, finds none."""
    folder = tmp_path_factory.mktemp("pkgconfig")
    names = output("pkg-config", "--variable", "pc_path", "pkg-config").strip().split(":")
    for path in (path for name in reversed(names) for path in pathlib.Path(name).glob("*.pc")):
        link = folder / path.name
        link.unlink(missing_ok=True)
        link.symlink_to(path)
    for name in HIDDEN:
        (folder / f"{name}.pc").unlink(missing_ok=True)
    return {**os.environ, "PKG_CONFIG_LIBDIR": str(folder), "PKG_CONFIG_PATH": "", "CMAKE": "/nonexistent/cmake"}


def configure(build, environment, *options):
    return subprocess.run(["meson", "setup", build, ROOT, *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=2 * LIMIT_S, check=False, env=environment)


def folders(build):
    """Folders of the source whose programs are built."""
    targets = json.loads(output("meson", "introspect", "--targets", build))
    return {pathlib.Path(target["defined_in"]).parent.relative_to(ROOT).parts[:1] for target in targets}


def test_without_tests_bench_and_examples_nothing_of_them_is_looked_for_or_built(environment, tmp_path):
    done = configure(tmp_path, environment, "-Dtests=disabled", "-Dbench=disabled", "-Dexamples=disabled")
    assert done.returncode == 0, done.stdout
    assert not [line for line in done.stdout.splitlines() if any(name in line for name in HIDDEN) and "skipped" not in line]
    found = folders(tmp_path)
    assert ("src",) in found
    assert not found & {("tests",), ("bench",), ("examples",)}


@pytest.mark.parametrize("option, missing", [("tests", "cmocka"), ("bench", "libcjson")])
def test_what_is_enabled_needs_its_packages(environment, tmp_path, option, missing):
    done = configure(tmp_path, environment, f"-D{option}=enabled")
    assert done.returncode != 0
    assert f'Dependency "{missing}" not found' in done.stdout, done.stdout
