"""unchanged.py - unit tests that need not run again: all that they are made of is as it was when they passed.

A test is made of the files that its command names (the program is one, with all that is linked into it, the name of the test within
it another word) and of the folders that its environment names, such as that of the vectors. `make check` leaves those out
that passed so in this build folder; `make test` runs everything.
"""
import hashlib
import json
import pathlib


class Passed:
    def __init__(self, build):
        self._file = build / "passed.json"
        try:
            self._digests = json.loads(self._file.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            self._digests = {}
        self._of_path = {}

    def _digest_of(self, path):
        if path not in self._of_path:
            if path.is_file():
                said = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                files = sorted(file for file in path.rglob("*") if file.is_file())
                said = repr([(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files])
            self._of_path[path] = said
        return self._of_path[path]

    def _digest(self, test):
        words = [*test["cmd"], *(f"{name}={value}" for name, value in sorted(test["env"].items()))]
        paths = [pathlib.Path(word.rpartition("=")[2]) for word in words]
        known = [self._digest_of(path) for path in paths if path.is_absolute() and path.exists()]
        return hashlib.sha256(repr((words, known)).encode()).hexdigest()

    def has(self, test):
        """A script may use others that no command names: only programs are looked at."""
        return bool(test["depends"]) and self._digests.get(test["name"]) == self._digest(test)

    def note(self, tests, names):
        """Of these tests those with these names have passed."""
        for test in tests:
            self._digests.pop(test["name"], None)
            if test["name"] in names:
                self._digests[test["name"]] = self._digest(test)
        self._file.write_text(json.dumps(self._digests), "utf-8")
