"""sabotage.py - bugs that are planted on purpose, and the words in which the rig must complain of them.

The rig is worth something only if it notices. A sabotage is a statement for the store (SQL, or a script
for Redis), or a function of a rig; what it gives says whether there was anything to spoil.
"""
import dataclasses
import json
import pathlib
import subprocess
import typing

DEAD_LETTER = 7

OPEN = """UPDATE job_states SET process_after_ms = 1, sort_key = 1 WHERE state = 1
          AND process_after_ms > (julianday('now') - 2440587.5) * 86400000 + 150"""
FIRST_COMPLETED = "seq IN (SELECT seq FROM {jobs} WHERE state = 5 ORDER BY seq LIMIT 10)"

SQLITE = {
    "lose": "DELETE FROM job_states WHERE seq = (SELECT min(seq) FROM job_states WHERE state = 5)",
    "repeat": """UPDATE job_states SET state = 2, attempts = 0, sort_key = partition_id << 32 | 2147483647 -
                 (SELECT priority FROM specs WHERE specs.seq = job_states.seq) WHERE state = 5""",
    "extra": "UPDATE job_states SET attempts = attempts - 1 WHERE state = 1 AND attempts > 1",
    "phantom": """UPDATE job_states SET state = 5, attempts = 1, started_ms = updated_ms, sort_key = updated_ms
                  WHERE seq = (SELECT max(seq) FROM job_states WHERE state = 2 AND attempts = 0)""",
    "lose_some": "DELETE FROM job_states WHERE " + FIRST_COMPLETED.format(jobs="job_states"),
    "unsettle": "UPDATE job_states SET state = 2 WHERE " + FIRST_COMPLETED.format(jobs="job_states"),
    "turn": f"UPDATE job_states SET state = {DEAD_LETTER} WHERE " + FIRST_COMPLETED.format(jobs="job_states"),
    "excuse": "DELETE FROM history WHERE outcome = 1",
    "overrun": "UPDATE job_states SET attempts = 6 WHERE " + FIRST_COMPLETED.format(jobs="job_states"),
    "miscount": "UPDATE partitions SET completed = completed + 1 WHERE task = 'remote'",
}

POSTGRES = {
    "lose": "DELETE FROM redrive.job_states WHERE seq = (SELECT min(seq) FROM redrive.job_states WHERE state = 5)",
    "repeat": "UPDATE redrive.job_states SET state = 2, attempts = 0 WHERE state = 5",
    "lose_some": "DELETE FROM redrive.job_states WHERE " + FIRST_COMPLETED.format(jobs="redrive.job_states"),
    "unsettle": "UPDATE redrive.job_states SET state = 2 WHERE " + FIRST_COMPLETED.format(jobs="redrive.job_states"),
    "turn": f"UPDATE redrive.job_states SET state = {DEAD_LETTER} WHERE " + FIRST_COMPLETED.format(jobs="redrive.job_states"),
    "excuse": "DELETE FROM redrive.history WHERE outcome = 1",
    "overrun": "UPDATE redrive.job_states SET attempts = 6 WHERE " + FIRST_COMPLETED.format(jobs="redrive.job_states"),
    "miscount": """INSERT INTO redrive.count_deltas SELECT partition_id, 0, 0, 0, 0, 0, 1, 0, 0, 0
                   FROM redrive.partitions WHERE task = 'remote'""",
}

# A row starts with its state.
REDIS_ROWS = """
    local changed = 0
    for _, bucket in ipairs(redis.call('ZRANGE', '{redrive}:b', 0, -1)) do
        local key = '{redrive}:j:' .. bucket
        local rows = redis.call('HGETALL', key)
        for i = 1, #rows, 2 do
            if changed < 10 and string.byte(rows[i + 1]) == 5 then
                ACT
                changed = changed + 1
            end
        end
    end
    return changed"""

REDIS = {
    "lose_some": REDIS_ROWS.replace("ACT", "redis.call('HDEL', key, rows[i])"),
    "unsettle": REDIS_ROWS.replace("ACT", r"redis.call('HSET', key, rows[i], '\2' .. string.sub(rows[i + 1], 2))"),
    "turn": REDIS_ROWS.replace("ACT", rf"redis.call('HSET', key, rows[i], '\{DEAD_LETTER}' .. string.sub(rows[i + 1], 2))"),
    "miscount": "return redis.call('HINCRBY', '{redrive}:n:1', 5, 1)",
}

STATEMENTS = {"sqlite": SQLITE, "postgres": POSTGRES, "redis": REDIS}


@dataclasses.dataclass
class Sabotage:
    act: typing.Union[str, typing.Callable]  # the name of a statement, or what does it
    noticed: str  # a pattern in one of the complaints

    def attempt(self, rig):
        if callable(self.act):
            return self.act(rig)
        return rig.store.change(STATEMENTS[rig.store.kind][self.act]) > 0

    def is_for(self, kind):
        """Whether it can be done to a store of this kind."""
        return callable(self.act) or self.act in STATEMENTS[kind]


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
    acknowledged = sum(entry["event"] == "acknowledged" for entry in rig.testimony())
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


def invent(rig):
    """A job comes in that no client has sent."""
    subprocess.run([*rig.store.command, "enqueue", "work", "{}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   check=True, timeout=60)
    return True


def second_winner(rig):
    """A second claim of a completed job is told that it has won."""
    told = next(entry for entry in rig.testimony() if entry["event"] == "settled" and entry["status"] == "SUCCESS")
    (rig.logs / "second.log").write_text(json.dumps({**told, "token": "0"}) + "\n")
    return True


# While workers are killed.
OF_WORKERS = {
    # A completed job disappears.
    "lose": Sabotage("lose", "acknowledged, but not in the store"),
    # Completed jobs are run once more; if the first of these runs is lost with its worker, only the
    # counters know.
    "twice": Sabotage("repeat", "an attempt was started twice|jobs_completed is"),
    "early": Sabotage(open_locks, "s early"),
    # Every retry has its attempts back.
    "extra": Sabotage("extra", "an attempt (was started|is in the history) twice"),
    # A job that has never run is called completed.
    "phantom": Sabotage("phantom", "its work was never done"),
}

# While servers are killed: between the kill and the next start.
OF_SERVERS = {
    "forget": Sabotage(forget, "acknowledged, but not in the store"),
    "twice": Sabotage("repeat", "run again after it was taken as completed"),
}

# The same where others are at it.
OF_SHARED = {
    "postgres": {"twice": OF_SERVERS["twice"]},
    "redis": {"lose": Sabotage("lose_some", "acknowledged, but not in the store")},
}

# When all is over.
OF_WHAT_IS_LEFT = {
    "lose": Sabotage("lose_some", "acknowledged, but not in the store"),
    "unsettle": Sabotage("unsettle", "taken as completed, is queued"),
    "turn": Sabotage("turn", "taken as completed, is dead_letter"),
    "excuse": Sabotage("excuse", "was taken as"),
    "overrun": Sabotage("overrun", "6 of 5 attempts"),
    "miscount": Sabotage("miscount", "figures: .* jobs completed"),
    "invent": Sabotage(invent, "nobody has submitted it"),
    "second_winner": Sabotage(second_winner, "taken as completed 2 times"),
}
