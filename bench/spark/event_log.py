"""Where the time of a batch goes, from Spark's event log.

The log is what Spark itself writes (spark.eventLog.enabled): jobs, tasks and SQL executions with their times. A job
belongs to the batch in whose window of time it began. "No job" is the time of a batch in which no job ran: the driver
plans a query, commits to a table, or lists files.
"""

import json
import os
import pathlib
from collections import Counter

_TICKS = os.sysconf("SC_CLK_TCK")


class Profile:
    def __init__(self, folder):
        self.jobs = {}  # id: [begin, end, description, stages]
        self.tasks = []  # (stage, metrics)
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_file():
                with path.open() as lines:
                    for line in lines:
                        self._take(json.loads(line))

    def _take(self, event):
        kind = event["Event"]
        if kind == "SparkListenerJobStart":
            properties = event.get("Properties") or {}
            text = properties.get("spark.job.description") or properties.get("callSite.short") or ""
            self.jobs[event["Job ID"]] = [event["Submission Time"], None, text, set(event["Stage IDs"])]
        elif kind == "SparkListenerJobEnd":
            self.jobs[event["Job ID"]][1] = event["Completion Time"]
        elif kind == "SparkListenerTaskEnd" and event.get("Task Metrics"):
            self.tasks.append((event["Stage ID"], event["Task Metrics"]))

    def of(self, begin_ms, end_ms):
        """Facts about one batch."""
        jobs = [job for job in self.jobs.values() if begin_ms <= job[0] <= end_ms and job[1] is not None]
        stages = set().union(*(job[3] for job in jobs)) if jobs else set()
        tasks = [metrics for stage, metrics in self.tasks if stage in stages]
        return {
            "seconds": (end_ms - begin_ms) / 1e3,
            "jobs": len(jobs),
            "tasks": len(tasks),
            "no_job": (end_ms - begin_ms - _covered([(job[0], min(job[1], end_ms)) for job in jobs])) / 1e3,
            "task_seconds": sum(one["Executor Run Time"] for one in tasks) / 1e3,
            "task_cpu": sum(one["Executor CPU Time"] for one in tasks) / 1e9,
            "gc": sum(one["JVM GC Time"] for one in tasks) / 1e3,
            "shuffle_mb": sum(one["Shuffle Write Metrics"]["Shuffle Bytes Written"] for one in tasks) / 1e6,
        }

    def longest(self, begin_ms, end_ms, n=12):
        """The longest jobs of a batch: seconds from its begin, seconds, description."""
        jobs = [job for job in self.jobs.values() if begin_ms <= job[0] <= end_ms and job[1] is not None]
        jobs = sorted(jobs, key=lambda job: job[0] - job[1])[:n]
        return [((job[0] - begin_ms) / 1e3, (job[1] - job[0]) / 1e3, job[2][:100]) for job in sorted(jobs)]


def _covered(spans):
    """Milliseconds in at least one of the spans."""
    total, last = 0, 0
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, last))
        last = max(last, end)
    return total


def commits(folder, since):
    """Commits to the tables of a folder since a time."""
    logs = pathlib.Path(folder).glob("*/_delta_log/*.json")
    return Counter(path.parts[-3] for path in logs if path.stat().st_mtime >= since)


_THREADS = {
    "C1 Comp": "compiler",
    "C2 Comp": "compiler",
    "G1 ": "gc",
    "GC Thread": "gc",
    "Executor task": "tasks",
    "stdout writer": "tasks",
}


def cpu_by_kind(pids):
    """CPU seconds of processes by what they were used for: threads of a JVM by their names, Python processes as one."""
    found = Counter()
    for stat in (path for pid in pids for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")):
        try:
            name, fields = stat.read_text().rsplit(")", 1)
        except OSError:  # it has ended
            continue
        name, fields = name.split("(", 1)[1], fields.split()
        kind = next((kind for begin, kind in _THREADS.items() if name.startswith(begin)), None)
        kind = kind or ("python" if name.startswith("python") else "planning and commits")
        found[kind] += (int(fields[11]) + int(fields[12])) / _TICKS
    return found
