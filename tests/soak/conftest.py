"""Modules of the history checker and of the torture rig."""
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
for folder in ("servers", "torture", "history", "soak"):
    sys.path.insert(0, str(TESTS / folder))
