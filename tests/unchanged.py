"""unchanged.py - unit tests that need not run again: all that they are made of is as it was when they passed.

A test is made of the files that its command names (the program is one, with all that is linked into it; the name of the test within
it is another word), of the folders that its environment names, such as that of the vectors, of the variables for tests that
the caller has set, and of the system's libraries and time zones. `make check` leaves those out that passed so in this
build folder; `make check ALL=1` and `make test` do not.
"""
import hashlib
import json
import os
import pathlib

SYSTEM = (pathlib.Path("/etc/ld.so.cache"), pathlib.Path("/usr/share/zoneinfo"))  # they change when packages are installed
OF_CALLER = ("REDRIVE_", "TZ")  # how the variables begin that change what tests do


def _facts_of(path):
    found = path.stat()
    return [str(path), found.st_size, found.st_mtime_ns]


class Passed:
    def __init__(self, build):
        self._file = build / "passed.json"
        try:
            self._digests = json.loads(self._file.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            self._digests = {}
        self._of_path = {}
        self._around = [_facts_of(path) for path in SYSTEM if path.exists()]
        self._around += sorted((name, value) for name, value in os.environ.items() if name.startswith(OF_CALLER))

    def _digest_of(self, path):
        if path not in self._of_path:
            self._of_path[path] = (hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else
                                   [_facts_of(file) for file in sorted(path.rglob("*")) if file.is_file()])
        return self._of_path[path]

    def _digest(self, test):
        paths = [pathlib.Path(word) for word in (*test["cmd"], *test["env"].values())]
        known = [self._digest_of(path) for path in paths if path.is_absolute() and path.exists()]
        return hashlib.sha256(repr((test["cmd"], sorted(test["env"].items()), known, self._around)).encode()).hexdigest()

    def has(self, test):
        """A script may use others that no command names: only programs are looked at."""
        return bool(test["depends"]) and self._digests.get(test["name"]) == self._digest(test)

    def add(self, tests):
        self._digests.update((test["name"], self._digest(test)) for test in tests)
        self._file.write_text(json.dumps(self._digests), "utf-8")

    def forget(self, tests):
        for test in tests:
            self._digests.pop(test["name"], None)
        self._file.write_text(json.dumps(self._digests), "utf-8")
