"""The program under test, called as a user calls it."""

import subprocess

import pytest

from tests.kit.program import BINARY, BUILD, TIMEOUT_S, Program


@pytest.fixture(scope="session")
def redrive():
    return Program(BINARY)


@pytest.fixture(scope="session")
def frame():
    """The frame around commands made for tests (fake_main.c)."""
    return Program(BUILD / "tests" / "cli" / "fake_redrive")


@pytest.fixture
def store(tmp_path):
    """The URL of a store that is not there yet."""
    return f"sqlite:{tmp_path}/jobs.db"


@pytest.fixture
def seeded(store):
    """The URL of a store in which there is something to see (seed_main.c)."""
    subprocess.run([BUILD / "tests" / "cli" / "seed_store", store], check=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    return store
