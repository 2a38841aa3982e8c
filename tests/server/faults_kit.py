"""A program for which memory runs out, or whose disk cannot be read: see tests/faults/faults.c."""

import os
import pathlib
import struct

import pytest

from serve_kit import ROOT

LIBRARY = pathlib.Path(os.environ.get("REDRIVE_BUILD", ROOT / "build")).resolve() / "tests" / "faults" / "faults.so"


class Faults:
    def __init__(self, folder):
        if not LIBRARY.exists():
            pytest.skip("the library of faults is not built")
        self.path = folder / "faults"
        self.path.write_bytes(bytes(8))

    def env(self, **extra):
        return {"LD_PRELOAD": str(LIBRARY), "FAULTS": str(self.path), **extra}

    def set(self, memory_per_million=0, reads=False):
        """In place: the program has the file mapped."""
        with open(self.path, "r+b") as file:
            file.write(struct.pack("=II", memory_per_million, int(reads)))

    def clear(self):
        self.set()
