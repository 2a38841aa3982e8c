"""events.py - the events of which a history is made, and the logs in which clients, handlers and rigs write them.

An event is a dict with `event`, `id` (of the job) and `mono`, the time: CLOCK_MONOTONIC in seconds, one clock for all processes of
a machine, which no test sets. `at` is the wall clock at the same moment, for the times of a store; without it both clocks are the
same. Clients, handlers and rigs write each event as one line of a log, by one call, at that moment; the program under test neither
reads nor writes these logs:

    submit        a client is about to ask; payload (digest); not_before: it asked for a start no earlier than this; queue and
                  priority where the order counts. A rig that learns the id only with the answer sets mono to when it asked
    acknowledged  the answer: the job is kept
    rejected      the answer: no job was made. A submit without either answer is unknown: it may be there or not
    start         a handler has the job: attempt, payload; from a client that claims by itself also `claimed`, the time at
                  which it asked, and `lease` in seconds
    extended      a heartbeat was answered: attempt; asked, the time at which it was sent; lease
    gone          the handler ends before its first answer: attempt; the start does not count, unless the job is blamed for it
    end:STATUS    the handler has done its work, and is about to say so: attempt; DIED: it dies instead
    settled       the answer to that: it was taken; attempt, status; over HTTP also token and the new state
    refused       the answer to that: it was not taken, because the job is another worker's by now; attempt, status
    held          a client submits nothing now, and waits for no answer to a submit; of no job
    fault         what a rig does to a process: fault, of; of no job

Then the store is asked; the rig adds the answers as events:

    record        an attempt has ended: attempt (0: taken back), outcome, error (its type), and by the wall clock `ended` and
                  `next`, before which the job is not tried again
    final         the job in the end: state, attempts, max_attempts
    figures       what is shown to operators: sizes by state, counters; of no job
    damaged       what is wrong with the store itself: text; of no job
"""
import collections
import hashlib
import json
import os
import subprocess
import time


class Log:
    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, event, job_id, **facts):
        line = json.dumps({"at": time.time(), "mono": time.monotonic(), "event": event, "id": job_id, **facts})
        os.write(self.file, line.encode() + b"\n")

    def close(self):
        os.close(self.file)


class Follower:
    """Reads the logs of a folder as they grow."""

    def __init__(self, folder):
        self.folder = folder
        self.done = collections.Counter()  # path -> bytes that were read

    def read(self):
        """The events that are new, in the order of time. A line that is half written is read when it is whole."""
        events = []
        for path in sorted(self.folder.glob("*.log")):
            with open(path, "rb") as log:
                log.seek(self.done[path])
                text = log.read()
            text = text[:text.rfind(b"\n") + 1]
            events += map(json.loads, text.splitlines())
            self.done[path] += len(text)
        return in_order(events)

    def free(self):
        """Gives the disk back what was read."""
        for path, size in self.done.items():
            subprocess.run(["fallocate", "--punch-hole", "--offset", "0", "--length", str(size), str(path)],
                           check=False, capture_output=True)


KNOWN = {}  # folder -> its follower, and the events that were read: logs are read again and again


def read(folder):
    """All events of a folder's logs, in the order of time."""
    follower, events = KNOWN.setdefault(folder, (Follower(folder), []))
    events += follower.read()
    events.sort(key=lambda event: event["mono"])
    return list(events)


def counts(events):
    """How often each event was written down, by interface where there is one: the load that there was."""
    return collections.Counter((event.get("interface"), event["event"]) for event in events)


def in_order(events):
    return sorted(events, key=lambda event: event["mono"])


def digest(payload):
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()


# ---- The events of one job -----------------------------------------------------------------------


class Life:
    """The events of one job by their kind, each kind in the order of time."""

    def __init__(self, job_id):
        self.id = job_id
        self.events = collections.defaultdict(list)

    def add(self, event):
        self.events[event["event"]].append(event)

    def sort(self):
        for kind, events in self.events.items():
            self.events[kind] = in_order(events)

    def of(self, kind):
        return self.events[kind]

    def all(self):
        return [event for events in self.events.values() for event in events]

    def first(self, kind):
        """The time of the first; None: there is none."""
        return self.events[kind][0]["mono"] if self.events[kind] else None

    def span(self):
        """The times of its first and of its last event."""
        times = [event["mono"] for event in self.all()]
        return min(times), max(times)

    @property
    def ends(self):
        return [event for kind, events in self.events.items() if kind.startswith("end:") for event in events]

    @property
    def answers(self):
        """What workers were told of their ends."""
        return self.of("settled") + self.of("refused")

    def end_of(self, attempt):
        """The time at which the handler of this attempt was about to answer or to die; None: it was never heard of."""
        times = [event["mono"] for event in self.ends + self.of("gone") if event["attempt"] == attempt]
        return min(times, default=None)

    def records_of(self, attempt):
        return [event for event in self.of("record") if event["attempt"] == attempt]

    def successes(self):
        """Answers that said: this attempt has completed the job."""
        return [event for event in self.of("settled") if event["status"] == "SUCCESS"]

    @property
    def final(self):
        """What the store says in the end; {}: it has no such job."""
        return self.of("final")[-1] if self.of("final") else {}

    @property
    def state(self):
        return self.final.get("state")


def story(events, job_id):
    """The events of one job as lines of text, with the faults about that time, by seconds since the first of all events."""
    begin = min(event["mono"] for event in events)
    times = [event["mono"] for event in events if event["id"] == job_id]
    own = [event for event in events if event["id"] == job_id
           or (event["event"] == "fault" and times and min(times) - 2 <= event["mono"] <= max(times) + 2)]
    return [f"{event['mono'] - begin:9.3f}  {event['event']}  " + " ".join(
        f"{key}={value}" for key, value in event.items() if key not in ("event", "id", "mono", "at", "payload"))
            for event in in_order(own)]
