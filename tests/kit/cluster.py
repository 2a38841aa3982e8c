"""A throw-away Redis cluster: six small servers, three of which follow the others.

    with Cluster() as cluster:
        ... cluster.url ...

Stores lie on the node that serves the slot of their prefix. Nodes may be killed; a slot can be moved while
it is in use.
"""
import re
import time

from tests.kit import servers
from tests.kit.ports import lasting_port
from tests.kit.waiting import wait_for

SLOTS = 16384
MANUAL_S = 6  # after which an operator's fail-over has ended, whether it has succeeded or not


class Cluster:
    """`node_timeout_ms` after the death of a primary its replica takes its place; a loaded machine must not
    make a living one look dead."""

    name = "cluster"

    def __init__(self, primaries=3, replicas=1, durable=False, node_timeout_ms=15000):
        self.durable = durable
        self.settings = {"cluster-enabled": "yes", "cluster-node-timeout": node_timeout_ms,
                         "cluster-replica-validity-factor": 0, "repl-diskless-sync-delay": 0}
        self.nodes = []
        try:
            self._start(primaries * (1 + replicas))
            self._join(primaries)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for node in self.nodes:
            node.kill()
            node.close()

    @property
    def url(self):
        return self.nodes[0].url

    # ---- Making it -------------------------------------------------------------------------------

    def _start(self, count):
        for i in range(count):
            settings = self.settings | {"cluster-port": lasting_port()}
            try:
                self.nodes.append(servers.Redis(durable=self.durable, port=lasting_port(), settings=settings.items()))
            except RuntimeError as failed:
                if i == 0 and "cluster" in str(failed):
                    raise servers.Missing("redis-server has no cluster mode, or not that of Redis 7") from failed
                raise
            self.nodes[-1].bus = settings["cluster-port"]
            self.nodes[-1].id = self.nodes[-1].call("CLUSTER", "MYID")

    def _join(self, primaries):
        for i, node in enumerate(self.nodes):
            self._do(node, "CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            if i < primaries:
                self._do(node, "CLUSTER", "ADDSLOTSRANGE", SLOTS * i // primaries, SLOTS * (i + 1) // primaries - 1)
            self._do(node, "CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, self.nodes[0].bus)
        wait_for(lambda: all(len(self.view(node)) == len(self.nodes) for node in self.nodes), "all nodes know each other")
        for i, node in enumerate(self.nodes[primaries:]):
            self._do(node, "CLUSTER", "REPLICATE", self.nodes[i % primaries].id)
        wait_for(self.is_whole, "the cluster is whole")

    @staticmethod
    def _do(node, *words):
        said = node.call(*words)
        assert said == "OK", f"{words}: {said}"

    def is_whole(self):
        """Each living node sees all slots served, and each that follows another one has caught up."""
        return all("cluster_state:ok" in node.call("CLUSTER", "INFO")
                   and "master_link_status:down" not in node.call("INFO", "replication") for node in self.living())

    # ---- Looking at it ---------------------------------------------------------------------------

    def living(self):
        return [node for node in self.nodes if node.process]

    def view(self, node):
        """How a node sees the others: flags and slots by id. Those that have not introduced themselves yet
        are left out."""
        rows = (line.split() for line in node.call("CLUSTER", "NODES").splitlines())
        return {row[0]: (row[2].split(","), row[8:]) for row in rows if "handshake" not in row[2]}

    @staticmethod
    def masters(node):
        """The node that this one follows, by its id, if it follows any."""
        row = next(line.split() for line in node.call("CLUSTER", "NODES").splitlines() if "myself" in line)
        return [row[3]] if row[3] != "-" else []

    def slot(self, prefix):
        return int(self.living()[0].call("CLUSTER", "KEYSLOT", "{" + prefix + "}"))

    def owner(self, prefix):
        """The node that serves a store, by its own word; None: there is none."""
        slot = self.slot(prefix)
        for node in self.living():
            flags, ranges = self.view(node)[node.id]
            pairs = [re.fullmatch(r"(\d+)(?:-(\d+))?", text) for text in ranges]
            if "master" in flags and any(p and int(p[1]) <= slot <= int(p[2] or p[1]) for p in pairs):
                return node
        return None

    # ---- Changing it -----------------------------------------------------------------------------

    def hand_over(self, primary, replica):
        """Their places are exchanged. A primary that has just become one may not hear of it the first time."""
        asked = []

        def is_done():
            if not asked or time.monotonic() > asked[-1] + MANUAL_S:
                replica.call("CLUSTER", "FAILOVER")
                asked.append(time.monotonic())
            return replica.id in self.masters(primary) and self.is_whole()

        wait_for(is_done, "the replica has the place")

    def move(self, prefix, to, midway=lambda: None):
        """Moves the slot of a store to another node, some keys at a time, as operators' tools do."""
        slot, source = self.slot(prefix), self.owner(prefix)
        self._do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        self._do(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
        moved = 0
        while keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, 10):
            self._do(source, "MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
            if moved == 0:
                midway()
            moved += len(keys)
        for node in (to, source):
            self._do(node, "CLUSTER", "SETSLOT", slot, "NODE", to.id)
        return moved
