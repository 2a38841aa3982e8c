"""Prints the C files of libredrive, one a line: base, core, and lib without the files of the queue.

sources.py ROOT
"""

import pathlib
import sys

src = pathlib.Path(sys.argv[1]).resolve() / "src"
for module in ("base", "core", "lib"):
    for path in sorted((src / module).rglob("*.c")):
        if path.parent != src / "lib" / "queue":
            print(path)
