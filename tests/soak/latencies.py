"""latencies.py - how long submits and starts took, as told by the events that are judged."""
import dataclasses

from tests.judge.verdict import Judge


@dataclasses.dataclass
class Latencies:
    """Seconds: from a submit to its answer, and from then, or from the time lock, to the first start."""

    submit: list = dataclasses.field(default_factory=list)
    start: list = dataclasses.field(default_factory=list)


class TimedJudge(Judge):
    """`latencies` are those of the events since they were last taken."""

    def __init__(self, *contract):
        super().__init__(*contract)
        self.latencies = Latencies()

    def hear(self, event):
        life = super().hear(event)
        if event["event"] == "acknowledged":
            self.latencies.submit.append(event["mono"] - life.first("submit"))
        elif event["event"] == "start" and len(life.of("start")) == 1:
            self.add_start(life, event)
        return life

    def add_start(self, life, start):
        """A job may start before its submitter is answered: it has not waited at all."""
        submit = life.of("submit")[0] if life.of("submit") else None
        if submit:
            ready = max(life.first("acknowledged") or submit["mono"], submit.get("not_before") or 0)
            self.latencies.start.append(max(0.0, start["mono"] - ready))

    def take_latencies(self):
        taken, self.latencies = self.latencies, Latencies()
        return taken
