"""skew.py - programs whose wall clock is off (skew.c)."""
import pathlib
import shutil
import subprocess

from tests.kit.network import Unavailable

SOURCE = pathlib.Path(__file__).resolve().with_name("skew.c")


def skewed_clock(folder):
    """A function from seconds to the environment of a program whose clock is so far off."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        raise Unavailable("a clock that is off needs a C compiler")
    library = folder / "skew.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)], check=True)
    return lambda seconds: {"LD_PRELOAD": str(library), "SKEW_S": str(seconds)}
