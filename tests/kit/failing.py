"""Which call of a program fails: the page that it shares with the test (tests/faults/control.h)."""
import mmap
import pathlib
import struct

from tests.kit.program import BUILD

LIBRARY = BUILD / "tests" / "faults" / "faults.so"

#: In the order of enum call_kind; 0 is none.
KINDS = ("memory", "sqlite-memory", "library-memory", "open", "read", "write", "sync", "truncate", "name", "lock", "map",
         "socket", "transfer", "poll", "thread", "process")


class Failing:
    """Programs that are started with `env()` heed it, also while they run."""

    HEAD = struct.Struct("=IIIIQQ")
    COUNTS = struct.Struct(f"={len(KINDS) + 1}Q")

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.write_bytes(bytes(self.HEAD.size + self.COUNTS.size))
        with open(self.path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 0)

    def env(self, trace=None, **extra):
        """`trace`: the file for the stack of the failed call."""
        more = {"FAULTS_TRACE": str(trace)} if trace else {}
        return {"LD_PRELOAD": str(LIBRARY), "FAULTS": str(self.path), **more, **extra}

    def set(self, memory_per_million=0, reads=False, kind=None, at=0, lasting=False):
        """What fails from now on; counting begins anew."""
        self.page[: self.HEAD.size] = bytes(self.HEAD.size)
        self.page[self.HEAD.size :] = bytes(self.COUNTS.size)
        number = KINDS.index(kind) + 1 if kind else 0
        self.page[: self.HEAD.size] = self.HEAD.pack(memory_per_million, int(reads), number, int(lasting), at, 0)

    def stop(self):
        """Nothing fails any more; what was counted stays."""
        self.page[8:12] = bytes(4)

    def clear(self):
        """Nothing fails any more; how many calls have failed, before it is forgotten."""
        failed = self.n_failed()
        self.set()
        return failed

    def n_failed(self):
        return self.HEAD.unpack_from(self.page)[5]

    def counts(self):
        """Calls of each kind since it was set."""
        return dict(zip(KINDS, self.COUNTS.unpack_from(self.page, self.HEAD.size)[1:]))

    def close(self):
        self.page.close()
