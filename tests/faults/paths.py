"""What a program does while one of its calls fails: commands, and a program of the C library. Each run begins with a fresh
copy of a store, and is judged by its exit status, by what it says, and by what is in the store."""
import dataclasses
import re
import subprocess
import time

from tests.faults import places
from tests.kit.failing import Failing

#: Words of messages for something else than memory that ran out.
OTHER_CAUSES = ("too long", "damaged", "refused a statement", "not JSON", "malformed", "not a database", "unknown")
MEMORY = ("memory", "sqlite-memory", "library-memory")
SANITIZER_EXIT = 99
#: Aborts of libraries that have no other way to say that a call has failed: (text of the stack of the crash, what it is).
LIBRARY_ABORTS = (
    (r"abort\+.*\n.*/libuv\.so", "libuv aborts without memory for its table of descriptors, and when epoll_ctl fails"),
)


@dataclasses.dataclass(frozen=True)
class Case:
    path: str
    kind: str
    at: int
    lasting: bool

    def __str__(self):
        return f"{self.path}: {self.kind} call {self.at}{' and all after it' if self.lasting else ''}"


@dataclasses.dataclass
class Outcome:
    case: Case
    hit: bool = False  # the call was made, and failed
    refused: bool = False  # the program said that it could not do it
    in_library: str = ""  # a library ended the process
    complaints: list = dataclasses.field(default_factory=list)
    trace: str = ""


def aborted_library(trace):
    crash = trace.partition("crashed:\n")[2]
    return next((what for text, what in LIBRARY_ABORTS if re.search(text, crash)), "")


def judge_death(outcome, code, said):
    """Whether the process was ended by a signal or by a sanitizer."""
    if code == SANITIZER_EXIT or "Sanitizer" in said:
        outcome.complaints.append(f"sanitizer: {said[-3000:]}")
    elif code < 0:
        outcome.in_library = aborted_library(outcome.trace)
        if not outcome.in_library:
            outcome.complaints.append(f"ended by signal {-code}: {said[-500:]}")
    else:
        return False
    return True


def judge_message(outcome, said, program="redrive"):
    """Of a program that has refused."""
    case = outcome.case
    if case.kind == "write" and case.lasting:
        return  # there is nowhere to say it
    if not re.search(rf"{program}: \S|level=error|ERROR|error", said):
        outcome.complaints.append(f"failed without a message: {said[-500:]!r}")
    elif case.kind in MEMORY:
        if not any(words in said for words in ("out of memory", "Cannot allocate memory", "left running", "cannot start")):
            outcome.complaints.append(f"memory ran out, and it says: {said[-500:]}")
        elif any(cause in said for cause in OTHER_CAUSES):
            outcome.complaints.append(f"memory ran out, and it speaks of another cause: {said[-500:]}")


@dataclasses.dataclass
class CommandPath:
    name: str
    words: tuple
    make: callable = places.make_busy
    program: str = "redrive"
    allowed: dict = dataclasses.field(default_factory=dict)  # states of jobs that it may change, after a failure
    success: dict = dataclasses.field(default_factory=dict)  # and after success
    final: dict = dataclasses.field(default_factory=dict)  # and after it was done again without faults
    recovery: tuple = ()  # what is done then; (): the same
    must_recover: bool = False  # one failed call is made good by the program itself
    is_patient: bool = False  # it may wait for a fault to end, if it says so
    same_output: bool = True
    file: str = ""  # that it makes, whole or not at all

    def begin(self, root):
        return CommandSession(self, places.Places(root))


class CommandSession:
    def __init__(self, path, spots):
        self.path, self.spots = path, spots
        folder, self.sound, self.calls = self.run(None)
        self.before = places.states(spots.root / path.make.__name__)
        self.file_size = (folder / path.file).stat().st_size if path.file else 0
        spots.drop(folder)

    def run(self, case):
        path, folder = self.path, self.spots.copy(self.path.make)
        failing = Failing(folder / "faults")
        if case:
            failing.set(kind=case.kind, at=case.at, lasting=case.lasting)
        program = places.LIFE if path.program == "life" else places.BINARY
        try:
            done = places.call(folder, *path.words, env=failing.env(folder / "trace"), executable=program, end_fault=failing.stop)
        except subprocess.TimeoutExpired:
            done = None
        calls = failing.counts() if case is None else failing.n_failed()
        failing.close()
        return folder, done, calls

    def counts(self):
        return self.calls

    def attempt(self, case):
        """The outcome, and what is still to be looked at: (from when, call)."""
        folder, done, failed = self.run(case)
        outcome = Outcome(case, hit=failed > 0)
        if (folder / "trace").exists():
            outcome.trace = (folder / "trace").read_text(errors="replace")
        if done is None:
            outcome.complaints.append("did not end")
        else:
            self.judge(outcome, done, folder)
        return outcome, time.monotonic() + places.LEASE_S + 0.1, lambda: self.finish(outcome, folder)

    def judge(self, outcome, done, folder):
        path, said = self.path, done.stdout + done.stderr
        outcome.refused = done.returncode != self.sound.returncode
        died = judge_death(outcome, done.returncode, said)
        is_locked = outcome.case.kind == "lock"  # which SQLite takes for a lock of another process, and waits
        if done.outlasted and not path.is_patient and not is_locked:
            outcome.complaints.append("did not end before the fault did")
        if done.returncode == 1 or done.outlasted and not is_locked:
            judge_message(outcome, said, path.program)
        if not died and outcome.refused:
            if done.returncode not in self.codes(outcome.case):
                outcome.complaints.append(f"exit status {done.returncode}: {said[-500:]}")
            if path.must_recover and not outcome.case.lasting:
                outcome.complaints.append(f"one failed call was not made good: {said[-500:]}")
        if not died and not outcome.refused and path.same_output and plain(done.stdout) != plain(self.sound.stdout):
            outcome.complaints.append(f"exit status {done.returncode}, and another output: {said[-500:]}")
        self.judge_store(outcome, folder, path.allowed if outcome.refused or died else {**path.allowed, **path.success})
        self.judge_file(outcome, folder, outcome.refused or died)

    def codes(self, case):
        """The exit statuses of a failure; a worker may also have done less, and 2 is for files that cannot be read."""
        return (1, *((0, 3) if self.path.is_patient else ()), *(() if case.kind in MEMORY else (2,)))

    def judge_store(self, outcome, folder, expected):
        damage = places.damage(folder)
        if damage:
            outcome.complaints.append(f"the store is damaged: {damage}")
            return
        found = places.states(folder)
        for job in {*self.before, *found, *expected}:
            allowed = expected.get(job, (self.before.get(job),))
            if found.get(job) not in allowed:
                outcome.complaints.append(f"{job} is {found.get(job)}, not {' or '.join(map(str, allowed))}")

    def judge_file(self, outcome, folder, failed):
        if not self.path.file:
            return
        file = folder / self.path.file
        left = [path.name for path in folder.glob(self.path.file + ".*")]
        if left and outcome.case.kind != "name":
            outcome.complaints.append(f"left behind: {left}")
        if not file.exists():
            if not failed:
                outcome.complaints.append(f"{self.path.file} was not made")
        elif abs(file.stat().st_size - self.file_size) > self.file_size // 10:
            outcome.complaints.append(f"{self.path.file} has {file.stat().st_size} bytes, not {self.file_size}")

    def finish(self, outcome, folder):
        """Without faults all must go on."""
        path = self.path
        if path.file:
            (folder / path.file).unlink(missing_ok=True)
        program = places.LIFE if path.program == "life" and not path.recovery else places.BINARY
        for _ in range(20):
            done = places.call(folder, *(path.recovery or path.words), executable=program)
            after = Outcome(outcome.case)
            self.judge_store(after, folder, {**path.allowed, **path.success, **path.final})
            if not after.complaints:
                break
            time.sleep(0.1)
        outcome.complaints += [f"after the fault: {text}" for text in after.complaints]
        if not path.final and done.returncode != self.sound.returncode:
            outcome.complaints.append(f"after the fault: exit status {done.returncode}: {done.stderr[-500:]}")
        self.spots.drop(folder)

    def end(self):
        return []


def plain(text):
    """Without what differs between two runs: numbers, and columns that are as wide as these."""
    return re.sub(r" +", " ", re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|(\d+(\.\d+)?(ms|s|m|h)?)+", "N", text))


WAITING = ("queued", "scheduled", "running", "retrying")
#: What a worker leaves for later when it could not run it.
NOT_NOW = ("queued", "scheduled", "retrying")
ENDS = {"good-1": "completed", "bad-1": "dead_letter", "web-1": "completed", "lines-1": "completed"}
WORKED = {job: (*WAITING, end) for job, end in ENDS.items()}
LIFE_ALLOWED = {"lib-good": (None, *WAITING, "completed"), "lib-bad": (None, *WAITING, "dead_letter")}
LIFE_DONE = {"lib-good": ("completed",), "lib-bad": ("dead_letter",)}
#: A failure whose words there was no memory for is one of which nothing is known, and is retried.
LIFE_SAID_DONE = {job: (*NOT_NOW, *ends) for job, ends in LIFE_DONE.items()}


def reads(name, *words, **more):
    return CommandPath(name, words, **more)


COMMANDS = (
    CommandPath("enqueue", ("enqueue", "good", "{}", "--id", "new-1"), allowed={"new-1": (None, "queued")},
                success={"new-1": ("queued",)}),
    CommandPath("enqueue-new-store", ("enqueue", "good", "{}", "--id", "new-1"), make=places.make_empty,
                allowed={"new-1": (None, "queued")}, success={"new-1": ("queued",)}),
    CommandPath("work", ("work", "--until-idle", "--log-level", "warning"), allowed=WORKED,
                success={job: (*NOT_NOW, end) for job, end in ENDS.items()}, final={job: (end,) for job, end in ENDS.items()},
                is_patient=True, same_output=False),
    CommandPath("redrive", ("dlq", "retry", "dead-1"), allowed={"dead-1": ("dead_letter", "queued")},
                success={"dead-1": ("queued",)}, final={"dead-1": ("queued",)}),
    CommandPath("edit", ("dlq", "edit", "dead-1", '{"n":3}', "--retry"), allowed={"dead-1": ("dead_letter", "queued")},
                success={"dead-1": ("queued",)}, final={"dead-1": ("queued",)}),
    CommandPath("cancel", ("jobs", "cancel", "good-1"), allowed={"good-1": ("queued", "cancelled")},
                success={"good-1": ("cancelled",)}, final={"good-1": ("cancelled",)}),
    CommandPath("batch", ("batch", "good", "records.jsonl"),
                allowed={"r1": (None, *WAITING, "completed"), "r2": (None, *WAITING, "completed"), "good-1": WORKED["good-1"]},
                success={job: (*NOT_NOW, "completed") for job in ("r1", "r2", "good-1")},
                final={job: ("completed",) for job in ("r1", "r2", "good-1")}, is_patient=True,
                same_output=False),
    CommandPath("library", ("sqlite:jobs.db", "redrive.yaml"), program="life", make=places.make_empty, allowed=LIFE_ALLOWED,
                success=LIFE_SAID_DONE, final=LIFE_DONE, must_recover=True, is_patient=True, same_output=False),
    reads("config-check", "config", "check"),
    reads("config-show", "config", "show"),
    reads("jobs-list", "jobs", "list", "--json"),
    reads("jobs-show", "jobs", "show", "dead-1"),
    reads("dlq-groups", "dlq", "groups"),
    reads("stats", "stats"),
    reads("top", "top", "--once"),
    reads("health", "health"),
    reads("cron-list", "cron", "list"),
    reads("doctor", "doctor"),
    reads("export", "jobs", "export", "-o", "out.jsonl", file="out.jsonl"),
    reads("backup", "backup", "copy.db", file="copy.db"),
)
