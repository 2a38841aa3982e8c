"""Two systems from end to end, as their users write them: the retry handler, and the application that fetches jokes."""

import asyncio
import threading
from datetime import datetime

import httpx
import pytest
from conftest import LIMIT_S, wait_for

from redrive import App, BreakerConfig, RetryHandler, RetryPolicy, Worker

# ---- The handler ---------------------------------------------------------------------------------


def quick(**fields):
    return RetryPolicy(**{"initial_delay": 0.01, "min_delay": 0, "jitter": False, **fields})


@pytest.mark.parametrize(
    ("strategy", "delays"),
    [("exponential", [1, 3, 9, 27]), ("linear", [1, 2.5, 4, 5.5]), ("fixed", [1] * 4), ("immediate", [0] * 4)],
)
def test_the_strategies_of_the_handler(strategy, delays):
    policy = RetryPolicy(strategy=strategy, initial_delay=1, max_delay=60, jitter=False, min_delay=0)
    assert [policy.delay(n) for n in (1, 2, 3, 4)] == delays


def test_the_handler_and_its_decorator_in_an_event_loop():
    events = []
    handler = RetryHandler("my_handler", retry=quick(max_retries=3, max_delay=10), monitor=events.append)

    async def my_processor(context, payload):
        if context.attempt < 3:
            raise ConnectionError("Temporary failure")
        if not payload:
            raise ValueError("Missing required field")
        return {"status": "success", "data": payload}

    @handler.retry("data_processing", retry=quick(max_retries=3), priority=1)
    async def process_data(calls):
        return process_data_now.__wrapped__(calls)

    @handler.retry("data_processing", retry=quick(max_retries=3), priority=1)
    def process_data_now(calls):
        calls.append("call")
        if len(calls) < 2:
            raise TimeoutError("API temporarily unavailable")
        return len(calls)

    async def main():
        job = handler.create_job("my_job", {"message": "Hello World"}, user="ann", project="sheets")
        result = await handler.submit_job_async(job, my_processor)
        assert (result.success, result.attempts) == (True, 3)
        assert result.value == {"status": "success", "data": {"message": "Hello World"}}
        assert await process_data([]) == 2
        dead = await handler.submit_job_async(handler.create_job("my_job", {}, id="dead"), my_processor)
        assert (dead.state, dead.reason, dead.attempts) == ("dead_letter", "not_retriable", 3)
        handler.dead_letters.edit("dead", {"message": "again"})
        assert (await handler.dead_letters.retry_async("dead")).success

    asyncio.run(main())
    assert process_data_now([]) == 2
    assert len(handler.dead_letters) == 0
    assert [event.type for event in events if event.task == "data_processing"] == [
        *("received", "started", "retrying", "started", "completed") * 2
    ]
    metrics = handler.metrics()
    assert (metrics.jobs_received, metrics.jobs_completed, metrics.jobs_dlq) == (4, 4, 1)


def test_a_service_of_the_handler_fails_and_recovers():
    is_down = True

    def call_service(context, payload):
        if is_down:
            raise ConnectionError("connection refused")
        return payload

    config = BreakerConfig(failure_threshold=5, recovery_timeout=0.05, recovery_jitter=0, success_threshold=1)
    events = []
    handler = RetryHandler("my_handler", retry=1, breaker=config, monitor=events.append)
    for n in range(5):
        handler.submit_job(handler.create_job("export", n, service="sheets"), call_service)
    assert handler.dead_letters.stats().by_class == {"network": 5}
    low = handler.health()
    assert low.status == "unhealthy"
    assert "open" in [event.breaker for event in events if event.type == "breaker"]
    is_down = False
    # Parked until the breaker lets a probe through.
    assert handler.submit_job(handler.create_job("export", 5, service="sheets"), call_service).success
    assert handler.breakers.get("sheets").state == "closed"
    assert handler.dead_letters.retry_all(failure_class="network").completed == 5
    assert handler.health().health_score > low.health_score


# ---- The application -----------------------------------------------------------------------------

NO_BREAKER = {"failure_threshold": 0, "failure_rate": 0}


class TaskError(Exception):
    pass


class Jokes:
    """Fetches jokes, with a policy for each task, and one by itself every two minutes."""

    def __init__(self, server, source):
        self.app = app = App(server.url)
        self.cache = cache = {}

        @app.task(
            name="fetch_and_cache_joke",
            queue="api_calls",
            retry=quick(max_attempts=5, multiplier=2),
            retry_on=[TaskError, httpx.HTTPError, httpx.TimeoutException],
            pass_context=True,
        )
        async def fetch_and_cache_joke(context, category):
            if not category.isalpha():
                raise ValueError(f"not a category: {category}")
            async with httpx.AsyncClient(trust_env=False) as client:
                answer = await client.get(f"{source.url}/{category}")
            if not answer.raise_for_status().text:
                raise TaskError(f"no joke at attempt {context.attempt}")
            cache[category] = answer.text
            return {"joke": answer.text}

        @app.periodic(cron="*/2 * * * *")
        @app.task(name="scheduled_fetch_random_joke", retry=quick(max_attempts=3, strategy="linear", backoff_factor=0))
        async def scheduled_fetch_random_joke():
            await fetch_and_cache_joke.defer_async("random")

        self.fetch = fetch_and_cache_joke

    def states(self, jobs):
        found = {name: self.app.job(job.id) for name, job in jobs.items()}
        return {name: (job["state"], job["attempts"]) for name, job in found.items()}

    def work_until(self, condition, **options):
        worker = Worker(self.app, poll=1, shutdown_timeout=5, **options)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        try:
            wait_for(condition)
        finally:
            worker.stop()
            thread.join(LIMIT_S)


@pytest.fixture
def jokes(postgres, start_server, source):
    server = start_server({"store": postgres.url, "defaults": {"breaker": NO_BREAKER}})
    return Jokes(server, source)


def test_only_the_exceptions_of_the_filter_are_retried(jokes, source):
    source.will_say("/flaky", 503, 503, "knock knock")
    source.will_say("/empty", "", "who is there")
    source.will_say("/down", 500)
    jobs = {name: jokes.fetch.defer(name) for name in ("flaky", "empty", "down", "13")}
    expected = {
        "flaky": ("completed", 3),
        "empty": ("completed", 2),
        "down": ("dead_letter", 5),
        "13": ("dead_letter", 1),
    }
    jokes.work_until(lambda: jokes.states(jobs) == expected)
    assert jokes.cache == {"flaky": "knock knock", "empty": "who is there"}
    history = jokes.app.job(jobs["down"].id)["history"]
    assert len(history) == 5
    assert "HTTPStatusError" in history[0]["error"]["stacktrace"]
    assert jokes.app.job(jobs["13"].id)["last_error"]["class"] == "validation"


def test_a_task_runs_every_two_minutes(jokes, source):
    source.will_say("/random", "why not")
    jokes.work_until(lambda: jokes.app.client._object("GET", "/cron")["items"])
    (entry,) = jokes.app.client._object("GET", "/cron")["items"]
    assert (entry["task"], entry["schedule"]) == ("scheduled_fetch_random_joke", "*/2 * * * *")
    tick = datetime.fromisoformat(entry["next_tick"].replace("Z", "+00:00"))
    assert (tick.minute % 2, tick.second) == (0, 0)
    jokes.app.client._object("POST", f"/cron/{entry['name']}/run")  # as the clock does
    jokes.work_until(lambda: jokes.cache == {"random": "why not"})


def test_a_stalled_job_is_rescued(jokes, source):
    source.will_say("/late", "at last")
    job = jokes.fetch.configure(queue="late").defer("late")
    body = {"worker": "stalled", "lease": "1s", "n": 1, "queues": ["late"]}
    assert jokes.app.client.claim(body, wait=20)[0]["id"] == job.id
    jokes.work_until(lambda: jokes.app.job(job.id)["state"] == "completed", name="rescuer")
    history = jokes.app.job(job.id)["history"]
    assert [attempt["worker"] for attempt in history] == ["stalled", "rescuer"]
