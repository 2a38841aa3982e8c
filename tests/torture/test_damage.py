"""Rows of a Redis store that are damaged under load stop no other job, and a repair takes them out; `make torture`
damages more of them."""
import contextlib

import pytest

import servers
from damage import DamageRig, torture
from rig import BINARY


@pytest.mark.limit(400)
def test_damaged_rows_stop_no_other_job_and_are_set_aside(tmp_path):
    if not servers.knows(BINARY, "redis"):
        pytest.skip("this redrive has no redis store")
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(servers.KINDS["redis"]())
        except servers.Missing as missing:
            pytest.skip(str(missing))
        rig = stack.enter_context(contextlib.closing(DamageRig("short", server.url, tmp_path)))
        did = torture(rig, rounds=3, letters=600)
        assert rig.judge_the_rest() == []
    assert did["kept"] > 300 and did["answers"] > 50, did
