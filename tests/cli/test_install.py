"""`make install` builds what it installs, and nothing else."""
import json
import pathlib
import subprocess

import pytest

from tests.kit.program import BUILD, ROOT, TIMEOUT_S


def run(*words, **options):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3 * TIMEOUT_S,
                          check=True, **options).stdout


@pytest.fixture(scope="module")
def inputs():
    """Every file that the target of `make install` is made of."""
    if not (BUILD / "build.ninja").exists():
        pytest.skip("this redrive was not built here")
    ninja = ["ninja", "-C", str(BUILD), "-t"]
    direct = [line.strip(" |") for line in run(*ninja, "query", "installed").splitlines() if line.startswith("    ")]
    return {*direct, *run(*ninja, "inputs", *direct).splitlines()}


def test_all_that_is_installed_is_built(inputs):
    targets = json.loads(run("meson", "introspect", str(BUILD), "--targets"))
    wanted = {str(pathlib.Path(name).relative_to(BUILD)) for target in targets if target.get("installed")
              for name in target["filename"]}
    assert "redrive" in wanted
    assert wanted <= inputs


def test_no_test_is_built(inputs):
    assert [name for name in inputs if name.startswith(("tests/", "bench/", "examples/"))] == []


def test_the_makefile_builds_that_target_alone():
    steps = run("make", "-n", "install", f"BUILD={BUILD}", "PREFIX=/opt/redrive", "DESTDIR=/stage", cwd=ROOT)
    assert f'tools/install {BUILD} "/opt/redrive" "/stage"' in steps
    assert "ninja" not in steps
    assert 'ninja --quiet -C "$build" installed' in (ROOT / "tools" / "install").read_text()
