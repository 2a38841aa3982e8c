"""skew.py - programs whose wall clock is off, or stands still (skew.c)."""
import atexit
import functools
import pathlib
import shutil
import subprocess
import tempfile

from tests.kit.network import Unavailable

SOURCE = pathlib.Path(__file__).resolve().with_name("skew.c")


@functools.cache
def _library():
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        raise Unavailable("a clock that is off needs a C compiler")
    folder = tempfile.mkdtemp(prefix="redrive-skew-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = f"{folder}/skew.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, str(SOURCE)], check=True)
    return library


def skewed_clock():
    """A function from seconds to the environment of a program whose clock is so far off."""
    library = _library()
    return lambda seconds: {"LD_PRELOAD": library, "SKEW_S": str(seconds)}


def stopped_clock():
    """A function from milliseconds since 1970 to the environment of a program whose wall clock stands still there."""
    library = _library()
    return lambda now_ms: {"LD_PRELOAD": library, "WALL_MS": str(now_ms)}
