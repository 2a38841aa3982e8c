"""Puts what the extension module is made of into a source distribution, below native/. Run by meson dist.

dist.py ROOT
"""

import os
import pathlib
import shutil
import sys

root = pathlib.Path(sys.argv[1]).resolve()
native = pathlib.Path(os.environ["MESON_PROJECT_DIST_ROOT"]) / "native"
for folder in ("include", "src/base", "src/core", "src/lib"):
    queue = shutil.ignore_patterns("queue") if folder == "src/lib" else None
    shutil.copytree(root / folder, native / folder, ignore=queue)
shutil.copy(root / "LICENSE", native.parent)
