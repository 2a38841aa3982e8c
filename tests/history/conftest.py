"""Modules of the torture rig, of its servers and of its faults."""
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
for folder in ("servers", "torture", "shared", "history"):
    sys.path.insert(0, str(TESTS / folder))
