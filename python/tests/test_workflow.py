"""Jobs that wait for others: what is sent, what a server makes of it, and what the inline queue makes of it."""

import asyncio
import itertools
import random

import pytest

import redrive
from redrive import After, App, InvalidArgumentError, RetryPolicy, ServerError, Worker, chain, group
from redrive.queue.workflow import PARENTS_MAX, edges
from redrive.testing import inline

# ---- What is sent: no server -----------------------------------------------------------------------------------------


def job(id_, **more):
    return {"task": "t", "id": id_, **more}


def waits(workflow):
    return {one["id"]: one.get("after", []) for one in workflow}


@pytest.fixture
def app():
    app = App("http://127.0.0.1:1")

    @app.task(name="step")
    def step(n=0):
        return n

    return app


def test_a_job_to_wait_for_can_be_given_in_every_form(app):
    step = app.tasks["step"]
    deferred = redrive.DeferredJob("b", "queued", False)
    made = step.configure(id="c").job()
    rules = [After("d", on="end"), After(deferred, on_dead="run"), After(made, "failure", "cancel")]
    assert step.configure(after=["a", deferred, made, *rules]).job()["after"] == [
        *("a", "b", "c"),
        {"id": "d", "on": "end"},
        {"id": "b", "on_dead": "run"},
        {"id": "c", "on": "failure", "on_dead": "cancel"},
    ]
    for one in ("a", deferred, made, After("a"), (id_ for id_ in ["a"])):
        assert len(step.configure(after=one).job()["after"]) == 1
    assert "after" not in step.configure(after=[]).job()
    assert "after" not in step.job()


@pytest.mark.parametrize("wrong", ["", 3, [None], [""], {"id": "a", "on": "end"}, [["a"]], After])
def test_what_is_not_a_job_cannot_be_waited_for(app, wrong):
    with pytest.raises(InvalidArgumentError, match=r"is not a job\nhint: .*After\(job"):
        app.tasks["step"].configure(after=wrong)


def test_words_of_a_rule():
    with pytest.raises(InvalidArgumentError, match=r"on: 'sometimes' is not known\nhint: one of success, end, failure"):
        After("a", on="sometimes")
    with pytest.raises(InvalidArgumentError, match=r"on_dead: 'die'.*\nhint: one of wait, cancel, run"):
        chain(job("a"), on_dead="die")


def test_how_many_jobs_can_be_waited_for():
    ids = [str(n) for n in range(PARENTS_MAX)]
    assert len(edges(ids)) == PARENTS_MAX
    with pytest.raises(InvalidArgumentError, match="at most 16384 others, not 16385\nhint: let groups") as caught:
        edges([*ids, "one more"])
    assert caught.value.code == "RANGE"


def test_each_step_of_a_chain_waits_for_the_one_before():
    flow = chain(job("a"), job("b"), job("c"))
    assert waits(flow) == {"a": [], "b": ["a"], "c": ["b"]}
    assert (flow.first, flow.last, len(flow)) == (("a",), ("c",), 3)


def test_a_group_waits_for_nothing_and_its_callback_for_all():
    flow = chain(group(job("a"), job("b")), job("c"))
    assert waits(flow) == {"a": [], "b": [], "c": ["a", "b"]}
    assert (flow.first, flow.last) == (("a", "b"), ("c",))


def test_chains_and_groups_inside_each_other():
    inside = chain(job("a"), group(job("b"), job("c")), job("d"))
    assert waits(inside) == {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    chains = group(chain(job("a"), job("b")), chain(job("c"), job("d")), job("e"))
    assert (chains.first, chains.last) == (("a", "c", "e"), ("b", "d", "e"))
    assert waits(chain(job("x"), chains, job("y"))) == {
        **{"x": [], "a": ["x"], "b": ["a"], "c": ["x"], "d": ["c"], "e": ["x"]},
        "y": ["b", "d", "e"],
    }
    two = chain(group(job("a"), job("b")), group(job("c"), job("d")))
    assert waits(two) == {"a": [], "b": [], "c": ["a", "b"], "d": ["a", "b"]}


def random_workflow(dice, ids, depth=4):
    """Chains and groups inside each other, and the pairs of ids of which the first must come before the second."""
    if depth == 0 or dice.random() < 0.3:
        id_ = f"j{next(ids)}"
        return job(id_), [id_], set()
    make = dice.choice((chain, group))
    parts = [random_workflow(dice, ids, depth - 1) for _ in range(dice.randrange(4))]
    pairs = set().union(*(part[2] for part in parts))
    if make is chain:
        for one, other in itertools.combinations(parts, 2):
            pairs |= set(itertools.product(one[1], other[1]))
    return make(*(part[0] for part in parts)), [id_ for part in parts for id_ in part[1]], pairs


@pytest.mark.parametrize("seed", range(100))
def test_a_step_comes_after_every_job_of_the_steps_before_it(seed):
    flow, ids, pairs = random_workflow(random.Random(seed), itertools.count())
    flow = chain(flow)
    assert [one["id"] for one in flow] == ids
    before = {}
    for id_, parents in waits(flow).items():
        assert set(parents) <= set(before)  # they come earlier in the array
        before[id_] = set(parents).union(*(before[parent] for parent in parents))
    assert {(one, id_) for id_, those in before.items() for one in those} == pairs


def test_a_step_without_jobs_is_left_out():
    assert waits(chain(job("a"), group(), chain(), job("b"))) == {"a": [], "b": ["a"]}
    assert len(chain(group(), chain())) == 0


def test_the_rule_of_a_chain_is_that_of_its_own_edges():
    flow = chain(chain(job("a"), job("b"), on_dead="cancel"), job("alarm"), on="failure")
    assert waits(flow) == {"a": [], "b": [{"id": "a", "on_dead": "cancel"}], "alarm": [{"id": "b", "on": "failure"}]}


def test_edges_of_a_job_itself_stay():
    own = job("b", after=["x", {"id": "a", "on": "end", "on_dead": "run"}])
    flow = chain(group(job("a"), job("c")), own)
    assert waits(flow)["b"] == ["x", {"id": "a", "on": "end", "on_dead": "run"}, "c"]
    assert own["after"] == ["x", {"id": "a", "on": "end", "on_dead": "run"}]  # what was given is not changed
    assert waits(chain(job("a"), job("b", after="x")))["b"] == ["x", "a"]
    assert waits(chain(job("a"), job("b", after={"id": "x", "on": "end"})))["b"] == [{"id": "x", "on": "end"}, "a"]


def test_what_is_not_a_step(app):
    for wrong in (app.tasks["step"], "a", redrive.DeferredJob("a", None, False), {"task": "t"}, {"id": "a"}):
        for make in (chain, group):
            with pytest.raises(InvalidArgumentError, match=r"is not a step.*\nhint: task.job"):
                make(job("x"), wrong)


def test_a_job_is_in_a_workflow_once():
    same = job("a")
    for make in (chain, group):
        with pytest.raises(InvalidArgumentError, match="job a is in the workflow twice"):
            make(same, chain(job("b"), same))


def test_every_job_of_a_task_has_an_id_of_its_own(app):
    step = app.tasks["step"]
    flow = chain(step.job(1), step.configure(priority=5).job(n=2))
    assert [one["payload"] for one in flow] == [{"n": 1}, {"n": 2}]
    assert flow.jobs[1]["priority"] == 5
    assert flow.jobs[1]["after"] == [flow.jobs[0]["id"]]


def test_edges_are_not_submitted_in_sql(app):
    step = app.tasks["step"]
    with pytest.raises(InvalidArgumentError, match=r"cannot wait for others.*\nhint: .*committed"):
        step.configure(connection=object(), after="a").defer()
    with pytest.raises(InvalidArgumentError, match="cannot wait for others"):
        asyncio.run(step.configure(connection=object(), after="a").defer_async())
    with pytest.raises(InvalidArgumentError, match="not sent cannot be part of a transaction"):
        step.configure(connection=object()).job()


# ---- With a server, and inline -----------------------------------------------------------------------------------


class Served:
    """An application of a server, whose worker runs until there is nothing to do."""

    def __init__(self, server):
        self.app = App(server.url)

    def work(self):
        Worker(self.app, until_idle=True).run()

    def look(self, id_):
        found = self.app.job(id_)
        return found["state"], found.get("reason") or ""


class Inlined:
    """The same in the inline queue."""

    def __init__(self, app, jobs):
        self.app = app
        self.jobs = jobs

    def work(self):
        self.jobs.drain()

    def look(self, id_):
        found = next(one for one in self.jobs if one.id == id_)
        return found.state, found.reason or ""


@pytest.fixture
def served(request):
    return Served(request.getfixturevalue("server"))


@pytest.fixture
def inlined():
    app = App()
    with inline(app, run=False) as jobs:
        yield Inlined(app, jobs)


@pytest.fixture(params=["served", "inlined"])
def queue(request):
    """Every test that has it says the same of both."""
    queue = request.getfixturevalue(request.param)
    queue.ran, queue.broken = [], set()

    @queue.app.task(name="step", retry=RetryPolicy(max_attempts=1))
    def step(name):
        queue.ran.append(name)
        if name in queue.broken:
            raise ValueError("broken")

    queue.step = lambda name, **more: step.configure(id=name, **more).job(name)
    queue.task = step
    return queue


def states(queue, *ids):
    return [" ".join(queue.look(id_)).strip() for id_ in ids]


def test_a_chain_of_three_runs_in_its_order(queue):
    made = queue.app.defer_many(chain(*map(queue.step, "abc")))
    assert [(one.id, one.state) for one in made] == [("a", "queued"), ("b", "waiting"), ("c", "waiting")]
    queue.work()
    assert queue.ran == ["a", "b", "c"]
    assert states(queue, *"abc") == ["completed"] * 3


def test_a_group_of_ten_and_its_callback(queue):
    names = [f"n{n}" for n in range(10)]
    queue.app.defer_many(chain(group(*map(queue.step, names)), queue.step("all")))
    queue.work()
    assert sorted(queue.ran[:10]) == names
    assert queue.ran[10:] == ["all"]


def test_a_step_is_given_the_results_of_those_before_it(queue):
    seen = {}

    @queue.app.task(name="give", retry=RetryPolicy(max_attempts=1))
    def give(value):
        if value is None:
            raise ValueError("nothing")
        return value

    @queue.app.task(name="gather", pass_context=True)
    def gather(context):
        seen[context.job_id] = context.parents

    values = {"a": {"n": (1, 2)}, "b": "x" * 200000, "c": "y" * 100000, "d": None, "e": 5}
    flow = chain(
        group(*(give.configure(id=name).job(value) for name, value in values.items())),
        gather.configure(id="all").job(),
        on="end",
    )
    queue.app.defer_many(flow)
    queue.app.defer_many([gather.configure(id="alone").job()])
    queue.work()
    assert seen["all"] == [
        redrive.Parent("a", "completed", {"n": [1, 2]}),
        redrive.Parent("b", "completed", "x" * 200000),
        redrive.Parent("c", "completed", None, result_omitted=True),
        redrive.Parent("d", "dead_letter"),
        redrive.Parent("e", "completed", 5),
    ]
    assert seen["alone"] == []


def test_a_chain_around_a_group_of_chains(queue):
    flow = chain(
        queue.step("a"), group(chain(queue.step("b"), queue.step("c")), queue.step("d")), *map(queue.step, "ef")
    )
    asyncio.run(queue.app.defer_many_async(flow))
    queue.work()
    assert queue.ran[0] == "a"
    assert queue.ran.index("b") < queue.ran.index("c")
    assert queue.ran[4:] == ["e", "f"]


def test_a_dead_job_holds_the_chain_until_it_is_redriven(queue):
    queue.broken.add("b")
    queue.app.defer_many(chain(*map(queue.step, "abc")))
    queue.work()
    assert queue.ran == ["a", "b"]
    assert states(queue, *"abc") == ["completed", "dead_letter not_retriable", "waiting"]
    with pytest.raises(ServerError, match="waiting") as caught:
        queue.app.retry("c")
    assert caught.value.status == 409
    queue.broken.clear()
    queue.app.retry("b")
    queue.work()
    assert queue.ran == ["a", "b", "b", "c"]
    assert states(queue, *"abc") == ["completed"] * 3


def test_a_chain_that_is_cancelled_by_a_dead_job_and_its_alarm(queue):
    queue.broken.add("a")
    flow = chain(*map(queue.step, "abc"), on_dead="cancel")
    queue.app.defer_many(chain(flow, queue.step("alarm"), on="failure"))
    queue.work()
    assert queue.ran == ["a", "alarm"]
    assert states(queue, "b", "c", "alarm") == ["cancelled skipped", "cancelled skipped", "completed"]


def test_an_alarm_that_is_not_needed_is_skipped(queue):
    queue.app.defer_many(chain(queue.step("a"), queue.step("alarm"), on="failure"))
    queue.work()
    assert states(queue, "a", "alarm") == ["completed", "cancelled skipped"]


@pytest.mark.parametrize("first", [True, False], ids=["child first", "parent first"])
def test_every_rule_with_every_end(queue, first):
    """The two tables of docs/workflows.md: the child is submitted before its parent ends, or afterwards."""
    rules = list(itertools.product(("success", "end", "failure"), ("wait", "cancel", "run")))
    ends = ("completed", "dead", "cancelled")
    children = []

    def submit(end, on, on_dead):
        after = After(end, on=on, on_dead=on_dead)
        queue.app.defer_many([queue.step(f"{end} {on} {on_dead}", after=after)])
        children.append(f"{end} {on} {on_dead}")

    queue.broken.add("dead")
    queue.app.defer_many(map(queue.step, ends))
    for end, rule in itertools.product(ends, rules) if first else ():
        submit(end, *rule)
    queue.app.cancel("cancelled")
    queue.work()
    for end, rule in itertools.product(ends, rules) if not first else ():
        submit(end, *rule)
    queue.work()
    found = dict(zip(children, states(queue, *children)))
    ran, skipped = "completed", "cancelled skipped"
    for on, on_dead in rules:
        of_dead = {"wait": "waiting", "cancel": skipped, "run": ran}[on_dead]
        expected = {
            "success": (ran, of_dead, ran if on_dead == "run" else skipped),
            "end": (ran, ran, ran),
            "failure": (skipped, ran, ran),
        }[on]
        assert tuple(found[f"{end} {on} {on_dead}"] for end in ends) == expected, (on, on_dead)


def test_after_jobs_that_were_deferred(queue):
    first = queue.app.defer_many([queue.step("a"), queue.step("b")])
    child = queue.task.configure(after=first).defer("c")
    late = asyncio.run(queue.task.configure(after=[child, After("a", on="end")]).defer_async("d"))
    assert (child.state, late.state) == ("waiting", "waiting")
    queue.work()
    assert queue.ran[2:] == ["c", "d"]


def test_a_job_may_be_followed_up_while_it_runs(queue):
    @queue.app.task(name="outer", pass_context=True)
    def outer(context):
        queue.task.configure(after=context.job_id, id="inner").defer("inner")
        queue.ran.append("outer")

    outer.defer()
    queue.work()
    assert queue.ran == ["outer", "inner"]


def test_a_parent_with_a_unique_key_may_be_there_already(queue):
    queue.app.defer_many([queue.step("a", unique_key="k")])
    again = queue.app.defer_many(chain(queue.step("b", unique_key="k"), queue.step("c")))
    assert [(one.id, one.existed, one.state) for one in again] == [("a", True, "queued"), ("c", False, "waiting")]
    queue.work()
    assert queue.ran == ["a", "c"]


def test_a_workflow_that_is_sent_twice_is_there_once(queue):
    flow = chain(*map(queue.step, "ab"))
    queue.app.defer_many(flow)
    assert [one.existed for one in queue.app.defer_many(flow)] == [True, True]
    queue.work()
    assert queue.ran == ["a", "b"]


def test_bad_edges_are_refused_with_the_hint_of_the_server(queue):
    queue.app.defer_many([queue.step("a")])
    for jobs, words, code in (
        ([queue.step("b", after="x")], "'x' is not there\nhint: submit it before, or earlier", "UNKNOWN"),
        (
            [queue.step("b", after="c"), queue.step("c")],
            "'c' comes later.*\nhint: put a job",
            "INVALID",
        ),
        ([queue.step("b", after="b")], "'b' would wait for itself", "INVALID"),
        ([queue.step("c"), queue.step("b", after=["a", "a"])], "'a' is named twice", "INVALID"),
    ):
        with pytest.raises(ServerError, match=words) as caught:
            queue.app.defer_many(jobs)
        assert (caught.value.status, caught.value.code) == (400, code)
    with pytest.raises(StopIteration if isinstance(queue, Inlined) else redrive.NotFoundError):
        queue.look("c")  # none of the array was taken


def test_a_worker_with_threads_keeps_the_order(server):
    app = App(server.url)
    ran = []

    @app.task(name="note")
    def note(name):
        ran.append(name)

    flows = [chain(*(note.job(f"{n}{letter}") for letter in "abc")) for n in range(20)]
    app.defer_many(chain(group(*flows), note.job("end")))
    Worker(app, concurrency=8, until_idle=True).run()
    assert len(ran) == 61
    assert ran[-1] == "end"
    for n in range(20):
        assert [name[-1] for name in ran if name[:-1] == str(n)] == ["a", "b", "c"]


def test_inline_runs_a_workflow_in_the_call_that_defers_it():
    app = App()

    @app.task(name="step", retry=RetryPolicy(max_attempts=1))
    def step(name):
        if name == "b" and not repaired:
            raise ValueError("broken")

    repaired = []
    with inline(app) as jobs:
        app.defer_many(chain(*(step.configure(id=name).job(name) for name in "abc")))
        assert [one.state for one in jobs] == ["completed", "dead_letter", "waiting"]
        step.configure(id="d", after=After("b", on_dead="cancel")).defer("d")
        assert str(jobs[3].exception) == "job 'b', which it waited for (on: success), ended as dead_letter"
        assert (jobs[3].state, jobs[3].reason) == ("cancelled", "skipped")
        repaired.append(True)
        app.retry("b")
        assert [one.state for one in jobs[:3]] == ["completed"] * 3
        app.defer_many([step.configure(id="e", after=After("b", on="end")).job("e")])
        assert jobs[4].state == "completed"
        long = chain(*(step.job(str(n)) for n in range(1000)))
        assert len(app.defer_many(long)) == 1000
        assert {one.state for one in jobs[5:]} == {"completed"}


def test_inline_releases_what_waits_for_a_cancelled_job():
    app = App()
    step = app.task(name="step", retry=RetryPolicy(max_attempts=1))(lambda: 1 / 0)
    after = app.task(name="after")(lambda: 7)
    with inline(app) as jobs:
        dead = step.defer()
        after.configure(after=dead).defer()
        after.configure(after=jobs[1], id="x").defer()
        assert jobs[2].state == "waiting"
        after.configure(after=After(jobs[1], on="failure")).defer()
        app.cancel(jobs[1].id)
    assert [(one.state, one.reason) for one in jobs[1:]] == [
        ("cancelled", None),
        ("cancelled", "skipped"),
        ("completed", None),
    ]
