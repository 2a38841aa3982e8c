"""sabotage.py - bugs that are planted on purpose, and the words in which the rig must complain of them.

The rig is worth something only if it notices. A sabotage is a statement for the SQLite store, or a
function of a rig; what it gives says whether there was anything to spoil.
"""
import dataclasses
import json
import pathlib
import subprocess
import typing

DEAD_LETTER = 7

REPEAT = """UPDATE jobs SET state = 2, attempts = 0, rank = line_id << 32 | 2147483647 -
            (SELECT priority FROM specs WHERE specs.seq = jobs.seq) WHERE state = 5"""
OPEN = """UPDATE jobs SET process_after_ms = 1, rank = 1 WHERE state = 1
          AND process_after_ms > (julianday('now') - 2440587.5) * 86400000 + 150"""
FIRST_COMPLETED = "seq IN (SELECT seq FROM jobs WHERE state = 5 ORDER BY seq LIMIT 10)"


@dataclasses.dataclass
class Sabotage:
    act: typing.Union[str, typing.Callable]
    noticed: str  # a pattern in one of the complaints

    def attempt(self, rig):
        return rig.store.change(self.act) > 0 if isinstance(self.act, str) else self.act(rig)


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
    "lose": Sabotage("DELETE FROM jobs WHERE seq = (SELECT min(seq) FROM jobs WHERE state = 5)",
                     "acknowledged, but not in the store"),
    # Completed jobs are run once more; if the first of these runs is lost with its worker, only the
    # counters know.
    "twice": Sabotage(REPEAT, "an attempt was started twice|jobs_completed is"),
    "early": Sabotage(open_locks, "s early"),
    # Every retry has its attempts back.
    "extra": Sabotage("UPDATE jobs SET attempts = attempts - 1 WHERE state = 1 AND attempts > 1",
                      "an attempt (was started|is in the history) twice"),
    # A job that has never run is called completed.
    "phantom": Sabotage("""UPDATE jobs SET state = 5, attempts = 1, started_ms = updated_ms, rank = updated_ms
                           WHERE seq = (SELECT max(seq) FROM jobs WHERE state = 2 AND attempts = 0)""",
                        "its work was never done"),
}

# While servers are killed: between the kill and the next start.
OF_SERVERS = {
    "forget": Sabotage(forget, "acknowledged, but not in the store"),
    "twice": Sabotage(REPEAT, "run again after it was taken as completed"),
}

# When all is over.
OF_WHAT_IS_LEFT = {
    "lose": Sabotage(f"DELETE FROM jobs WHERE {FIRST_COMPLETED}", "acknowledged, but not in the store"),
    "unsettle": Sabotage(f"UPDATE jobs SET state = 2 WHERE {FIRST_COMPLETED}", "taken as completed, is queued"),
    "turn": Sabotage(f"UPDATE jobs SET state = {DEAD_LETTER} WHERE {FIRST_COMPLETED}", "taken as completed, is dead_letter"),
    "excuse": Sabotage("DELETE FROM history WHERE outcome = 1", "was taken as"),
    "overrun": Sabotage(f"UPDATE jobs SET attempts = 6 WHERE {FIRST_COMPLETED}", "6 of 5 attempts"),
    "miscount": Sabotage("UPDATE lines SET completed = completed + 1 WHERE task = 'remote'", "figures: .* jobs completed"),
    "invent": Sabotage(invent, "nobody has submitted it"),
    "second_winner": Sabotage(second_winner, "taken as completed 2 times"),
}
