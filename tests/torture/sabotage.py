"""sabotage.py - bugs that are planted in a store while processes are killed, and the words in which the judge must complain of them.

Bugs that are planted in histories (tests/judge/planted.py) show that the judge looks; these, that a rig tells it what happens. A sabotage
is a statement for the store (SQL, or a script for Redis), or a function of a rig; what it gives says whether there was anything to
spoil.
"""
import dataclasses
import pathlib
import typing

OPEN = """UPDATE job_states SET process_after_ms = 1, sort_key = 1 WHERE state = 1
          AND process_after_ms > (julianday('now') - 2440587.5) * 86400000 + 150"""

SQLITE = {
    "lose": "DELETE FROM job_states WHERE seq = (SELECT min(seq) FROM job_states WHERE state = 5)",
    "repeat": """UPDATE job_states SET state = 2, attempts = 0, sort_key = partition_id << 32 | 2147483647 -
                 (SELECT priority FROM specs WHERE specs.seq = job_states.seq) WHERE state = 5""",
    "extra": "UPDATE job_states SET attempts = attempts - 1 WHERE state = 1 AND attempts > 1",
    "phantom": """UPDATE job_states SET state = 5, attempts = 1, started_ms = updated_ms, sort_key = updated_ms
                  WHERE seq = (SELECT max(seq) FROM job_states WHERE state = 2 AND attempts = 0)""",
}

# A row starts with its state.
LOSE_ROWS = """
    local changed = 0
    for _, bucket in ipairs(redis.call('ZRANGE', '{redrive}:b', 0, -1)) do
        local key = '{redrive}:j:' .. bucket
        local rows = redis.call('HGETALL', key)
        for i = 1, #rows, 2 do
            if changed < 10 and string.byte(rows[i + 1]) == 5 then
                redis.call('HDEL', key, rows[i])
                changed = changed + 1
            end
        end
    end
    return changed"""

STATEMENTS = {
    "sqlite": SQLITE,
    "postgres": {"repeat": "UPDATE redrive.job_states SET state = 2, attempts = 0 WHERE state = 5"},
    "redis": {"lose_some": LOSE_ROWS},
}


@dataclasses.dataclass
class Sabotage:
    act: typing.Union[str, typing.Callable]  # the name of a statement, or what does it
    noticed: str  # a pattern in one of the complaints

    def attempt(self, rig):
        if callable(self.act):
            return self.act(rig)
        return rig.store.change(STATEMENTS[rig.store.kind][self.act]) > 0


def open_locks(rig):
    """The time locks of retries are opened well before their time, many of them, because a worker that
    sleeps does not look; new jobs wake it."""
    opened = 0
    for _ in range(10):
        opened += rig.store.change(OPEN)
        rig.submit_lines(20)
    return opened >= 5


def forget(rig):
    """The store is as it was a few kills ago: what was acknowledged since had not been committed."""
    before = pathlib.Path(rig.store.path + ".before")
    acknowledged = sum(entry["event"] == "acknowledged" for entry in rig.written())
    if not before.exists():
        rig.store.copy(before)
        rig.acknowledged_before = acknowledged
        return False
    if acknowledged < rig.acknowledged_before + 10:
        return False
    pathlib.Path(rig.store.path + "-shm").unlink(missing_ok=True)
    pathlib.Path(rig.store.path + "-wal").unlink(missing_ok=True)
    for companion in ("", "-wal"):
        saved = pathlib.Path(str(before) + companion)
        if saved.exists():
            saved.rename(rig.store.path + companion)
    return True


# While workers are killed.
OF_WORKERS = {
    # A completed job disappears.
    "lose": Sabotage("lose", "acknowledged.*, but not in the store"),
    # Completed jobs are run once more; if the first of these runs is lost with its worker, only the
    # counters know.
    "twice": Sabotage("repeat", "was started 2 times|jobs_completed is"),
    "early": Sabotage(open_locks, "before the time that the store had set"),
    # Every retry has its attempts back.
    "extra": Sabotage("extra", "was started 2 times|is in the records twice"),
    # A job that has never run is called completed.
    "phantom": Sabotage("phantom", "its work was never done"),
}

# While servers are killed: between the kill and the next start.
OF_SERVERS = {
    "forget": Sabotage(forget, "acknowledged.*, but not in the store"),
    "twice": Sabotage("repeat", "was handed out after the success"),
}

# The same where others are at it.
OF_SHARED = {
    "postgres": {"twice": OF_SERVERS["twice"]},
    "redis": {"lose": Sabotage("lose_some", "acknowledged.*, but not in the store")},
}
