"""faults.py - what is done to the processes of a rig while their clients write a history.

Each fault is a method that harms some of them and ends when they are whole again, or have been replaced. It writes down
what it does to which process.
"""
import os
import signal
import time

HOUR_S = 3600
PAUSE_S = (1.3, 2.0)  # longer than the leases of the rig, which are 1 s
CUT_S = (1.3, 3.0)


class Faults:
    """`cuts` are functions that cut a part of the processes off from the store, for so many seconds; `skew` is that of skew.py,
    `other` another program to upgrade to, and back."""

    def __init__(self, rig, cuts=(), skew=None, other=None):
        self.rig = rig
        self.random = rig.random
        self.cuts = list(cuts)
        self.skew_by = skew
        self.programs = [rig.members[0].program, other]
        self.counts = {}
        self.generation = 0

    def one(self, name):
        """Makes the fault of this name once."""
        self.counts[name] = self.counts.get(name, 0) + 1
        getattr(self, name)()

    def note(self, fault, of):
        self.rig.log.note("fault", None, fault=fault, of=of)

    # ---- Kills -----------------------------------------------------------------------------------

    def kill(self):
        """One process, all servers and workers at once, a client, or everything."""
        what = self.random.choice(("one", "one", "one", "all", "client", "everything"))
        members = {"one": [self.random.choice(self.rig.members)], "client": []}.get(what, self.rig.members)
        clients = {"client": [self.random.choice(sorted(self.rig.living_clients()))],
                   "everything": sorted(self.rig.living_clients())}.get(what, [])
        self.note("kill", [" ".join(member.words) for member in members] + clients)
        for member in members:
            self.rig.kill(member.process)
        for name in clients:
            self.rig.kill(self.rig.clients[name])
            self.rig.clients[name] = None
        for member in members:
            self.rig.launch(member)
        for name in clients:
            kind = name.split("-")[1]
            self.generation += 1
            self.rig.start_client(kind, f"client-{kind}-{self.generation}")

    # ---- Pauses and cuts -------------------------------------------------------------------------

    def pause(self):
        """A server, a worker or a client does nothing for longer than its leases, and does not know it."""
        victims = [(" ".join(member.words), member.process) for member in self.rig.members]
        victims += [(name, process) for name, process in self.rig.living_clients().items()]
        name, process = self.random.choice(victims)
        self.note("pause", [name])
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(self.random.uniform(*PAUSE_S))
        os.kill(process.pid, signal.SIGCONT)
        self.rig.stops += 1

    def partition(self):
        name, cut = self.random.choice(self.cuts)
        self.note("partition", [name])
        cut(self.random.uniform(*CUT_S))
        self.rig.stops += 1  # what was cut off may come back with jobs that others have by now

    # ---- Clocks and versions ---------------------------------------------------------------------

    def skew(self):
        """A process is replaced by one whose wall clock is an hour ahead, an hour behind, or right."""
        member = self.random.choice(self.rig.members)
        seconds = self.random.choice((-HOUR_S, HOUR_S, 0))
        self.note("skew", [" ".join(member.words), seconds])
        self.rig.kill(member.process)
        member.env = self.skew_by(seconds) if seconds else {}
        self.rig.launch(member)

    def upgrade(self):
        """One after the other is stopped in order and replaced by the other program, while the rest go on."""
        self.programs.reverse()
        for member in self.rig.members:
            self.note("upgrade", [" ".join(member.words), str(self.programs[0])])
            self.rig.end(member.process)
            member.program = self.programs[0]
            self.rig.launch(member)
            time.sleep(self.random.uniform(0.05, 0.3))
