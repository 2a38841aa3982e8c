"""Rows of a Redis store that are damaged under load stop no other job, and a repair takes them out; `make torture`
damages more of them."""
import contextlib

from tests.kit.stores import start_or_skip
from tests.torture.damage import DamageRig, torture


def test_damaged_rows_stop_no_other_job_and_are_set_aside(tmp_path):
    with start_or_skip("redis") as server, contextlib.closing(DamageRig("short", server.url, tmp_path)) as rig:
        did = torture(rig, rounds=3, letters=600)
        assert rig.judge_the_rest() == []
    assert did["kept"] > 300 and did["answers"] > 50, did
