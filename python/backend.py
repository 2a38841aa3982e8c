"""The build backend: that of meson-python, but for the name of the wheel.

meson-python names a wheel after the interpreter that has built it, as in cp311-abi3. The extension module is compiled
for the stable interface of CPython 3.9 (limited_api in meson.build), so that one wheel serves all later versions, and
is named after 3.9 wherever the wheel is built: by make wheel, pip install ./python, or of the source distribution.
"""

import pathlib
import subprocess
import sys

import mesonpy
from mesonpy import (  # noqa: F401  - called by pip
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

OLDEST = "cp39"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)
    # Another Python than CPython, or -Dpython.allow_limited_api=false: good for that interpreter alone.
    if "-abi3-" not in name or f"-{OLDEST}-" in name:
        return name
    wheel = pathlib.Path(wheel_directory, name)
    command = [sys.executable, "-m", "wheel", "tags", "--remove", "--python-tag", OLDEST, str(wheel)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1]
