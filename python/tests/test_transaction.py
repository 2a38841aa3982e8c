"""Jobs that are part of the application's own transaction."""

import asyncio
import hashlib
import json
import re
import subprocess
from datetime import datetime, timedelta, timezone

import psycopg
import psycopg.rows
import pytest
import sqlalchemy
from conftest import BINARY
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from redrive import App, InvalidArgumentError, ServerError, UnreachableError
from redrive.queue import tracing, transaction

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def url(postgres, tmp_path_factory):
    config = tmp_path_factory.mktemp("store") / "redrive.yaml"
    config.write_text(json.dumps({"store": postgres.url}))
    subprocess.run([BINARY, "enqueue", "first", "-c", str(config)], check=True, capture_output=True)
    return postgres.url


@pytest.fixture
def send():
    app = App()

    @app.task(name="send", queue="mail")
    def send(to):
        pass

    return send


@pytest.fixture
def jobs(url):
    def read():
        with psycopg.connect(url, autocommit=True) as connection:
            rows = connection.execute("SELECT id, status, queue, priority FROM redrive.jobs_by_status").fetchall()
        return {row[0]: row[1:] for row in rows}

    return read


def engine_url(url):
    return sqlalchemy.engine.make_url(url).set(drivername="postgresql+psycopg")


def test_psycopg(url, send, jobs):
    with psycopg.connect(url) as connection:
        job = send.configure(connection=connection, priority=7).defer("ann")
        later = send.configure(connection=connection, schedule_in=90.5, deadline=600).defer("bob")
        assert job.id not in jobs()
    assert jobs()[job.id] == ("queued", "mail", 7)
    assert jobs()[later.id][0] == "scheduled"
    with psycopg.connect(url) as connection:
        gone = send.configure(connection=connection).defer("eve")
        connection.rollback()
    assert gone.id not in jobs()
    with psycopg.connect(url) as connection:
        first = send.configure(connection=connection, unique_key="k").defer("ann")
        second = send.configure(connection=connection, unique_key="k").defer("ann")
    assert (second.id, second.existed) == (first.id, True)


def test_a_delay_counts_from_the_submit_and_not_from_the_begin(url, send):
    with psycopg.connect(url) as connection:
        begun = connection.execute("SELECT now(), pg_sleep(0.05)").fetchone()[0]
        asked = connection.execute("SELECT clock_timestamp()").fetchone()[0]
        assert asked - begun >= timedelta(milliseconds=50)
        job = send.configure(connection=connection, schedule_in=90, deadline=600).defer("ann")
        after, deadline = connection.execute(
            "SELECT to_timestamp(j.process_after_ms / 1000.0), to_timestamp(j.deadline_ms / 1000.0)"
            " FROM redrive.specs s JOIN redrive.job_states j USING (seq) WHERE s.id = %s",
            [job.id],
        ).fetchone()
    rounded = timedelta(microseconds=500)  # to a millisecond
    assert after >= asked + timedelta(seconds=90) - rounded
    assert deadline >= asked + timedelta(seconds=600) - rounded


@pytest.mark.parametrize("factory", [psycopg.rows.dict_row, psycopg.rows.namedtuple_row, psycopg.rows.scalar_row])
def test_rows_of_every_kind(url, send, jobs, factory):
    with psycopg.connect(url, row_factory=factory) as connection:
        job = send.configure(connection=connection).defer("ann")

    async def main():
        async with await psycopg.AsyncConnection.connect(url, row_factory=factory) as connection:
            return await send.configure(connection=connection).defer_async("ann")

    second = asyncio.run(main())
    assert not job.existed
    assert not second.existed
    assert {job.id, second.id} <= set(jobs())


def parameter_types(url, job):
    """Of each parameter of the statement, as the server says it."""
    sql, values = transaction.statement(job, '{"to":"ann"}', "default", ":{}")
    numbers = {name: number for number, name in enumerate(values, 1)}
    with psycopg.connect(url) as connection:
        connection.execute("PREPARE submit AS " + re.sub(r":(\w+)", lambda found: f"${numbers[found[1]]}", sql))
        types = connection.execute("SELECT parameter_types::text[] FROM pg_prepared_statements").fetchone()[0]
    return dict(zip(values, types))


def test_every_time_is_a_parameter_of_type_text(url, send, jobs):
    """asyncpg asks the server for the type, and takes no text for an interval or a time."""
    soon = datetime.now(timezone.utc) + timedelta(hours=1)
    later = parameter_types(url, send.configure(schedule_in=90.5, deadline=600).job("ann"))
    assert (later["delay"], later["deadline"]) == ("text", "text")
    assert parameter_types(url, send.configure(schedule_at=soon).job("ann"))["at"] == "text"
    engine = sqlalchemy.create_engine(engine_url(url))
    with Session(engine) as session, session.begin():
        job = send.configure(connection=session, schedule_at=soon, deadline=7200).defer("ann")
    engine.dispose()
    assert jobs()[job.id][0] == "scheduled"


def test_psycopg_async(url, send, jobs):
    async def main():
        async with await psycopg.AsyncConnection.connect(url) as connection:
            with pytest.raises(InvalidArgumentError, match="asynchronous"):
                send.configure(connection=connection).defer("ann")
            return await send.configure(connection=connection).defer_async("ann")

    job = asyncio.run(main())
    assert jobs()[job.id][0] == "queued"


def test_sqlalchemy(url, send, jobs):
    engine = sqlalchemy.create_engine(engine_url(url))
    with Session(engine) as session, session.begin():
        job = send.configure(connection=session).defer("100 %(to)s :to")
    with engine.connect() as connection:
        gone = send.configure(connection=connection).defer("eve")
    assert job.id in jobs()
    assert gone.id not in jobs()
    engine.dispose()


def test_sqlalchemy_async(url, send, jobs):
    async def main():
        engine = create_async_engine(engine_url(url))
        async with AsyncSession(engine) as session, session.begin():
            job = await send.configure(connection=session).defer_async("ann")
        await engine.dispose()
        return job

    job = asyncio.run(main())
    assert job.id in jobs()


def test_django(url, send, jobs):
    import django
    from django.conf import settings

    parts = sqlalchemy.engine.make_url(url)
    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": parts.database,
                "USER": parts.username,
                "PASSWORD": parts.password or "",
                "HOST": parts.host,
                "PORT": parts.port,
            }
        }
    )
    django.setup()
    from django.db import connection, transaction

    with transaction.atomic():
        job = send.configure(connection=connection).defer("ann")
    with pytest.raises(RuntimeError), transaction.atomic():
        gone = send.configure(connection=connection).defer("eve")
        raise RuntimeError
    connection.close()
    assert job.id in jobs()
    assert gone.id not in jobs()


def test_a_job_of_a_transaction_can_be_waited_for(url, send, jobs, tmp_path):
    with psycopg.connect(url) as connection:
        job = send.configure(connection=connection).defer("ann")
    config = tmp_path / "redrive.yaml"
    config.write_text(json.dumps({"store": url}))
    words = [BINARY, "enqueue", "second", "--id", "second", "--after", job.id, "-c", str(config)]
    subprocess.run(words, check=True, capture_output=True)
    assert jobs()["second"][0] == "waiting"
    with psycopg.connect(url) as connection, pytest.raises(InvalidArgumentError, match="cannot wait for others"):
        send.configure(connection=connection, after=job).defer("bob")


def test_what_sql_cannot_carry(url, jobs):
    app = App()
    policy = app.task(name="own", retry=3)(lambda: None)
    with psycopg.connect(url) as connection:
        with pytest.raises(InvalidArgumentError, match="policy of its own"):
            policy.configure(connection=connection).defer()
        app.retry_in_config = True
        job = policy.configure(connection=connection).defer()
    assert job.id in jobs()
    with pytest.raises(InvalidArgumentError, match="not a connection"):
        policy.configure(connection=object()).defer()


def test_existed_is_true_of_the_second_defer_with_an_id(url, send):
    def defer(connection, **options):
        job = send.configure(connection=connection, **options).defer("ann")
        return job.id, job.existed

    with psycopg.connect(url) as connection:
        assert defer(connection, id="invoice-1") == ("invoice-1", False)
        assert defer(connection, id="invoice-1") == ("invoice-1", True)
        assert defer(connection, id="invoice-2", unique_key="2") == ("invoice-2", False)
    with psycopg.connect(url) as connection:
        assert defer(connection, id="invoice-1") == ("invoice-1", True)
        assert defer(connection, id="invoice-3", unique_key="2") == ("invoice-2", True)
        assert defer(connection, id="invoice-2", unique_key="2") == ("invoice-2", True)


def facts_of(url, job):
    """Tenant and traceparent as the store has them."""
    sql = """SELECT t.name, s.policy::json ->> 'traceparent' FROM redrive.specs s
             JOIN redrive.tenants t USING (tenant_id) WHERE s.id = %s"""
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(sql, [job.id]).fetchone()


def test_a_job_has_the_span_that_it_was_deferred_in(url, send):
    from opentelemetry import trace  # noqa: F401 - from now on the program has it

    other = PARENT.replace("-01", "-00")
    with psycopg.connect(url) as connection:
        task = send.configure(connection=connection)
        alone = task.defer("ann")
        with tracing.around(PARENT):
            inside = task.defer("ann")
            given = send.configure(connection=connection, traceparent=other).defer("ann")
    assert [facts_of(url, job)[1] for job in (alone, inside, given)] == [None, PARENT, other]


def defer_of(app, url, login=None, **options):
    """In a transaction of its own, by a role that logs in."""
    task = app.tasks.get("bill") or app.task(name="bill")(lambda: None)
    with psycopg.connect(url) as connection:
        if login is not None:
            connection.execute(f"SET SESSION AUTHORIZATION {login}")
        return task.configure(connection=connection, **options).defer()


@pytest.fixture
def shop(url, start_server):
    """A server on the same store, with the tokens of two tenants."""
    tokens = [
        {"name": name, "hash": "sha256:" + hashlib.sha256(name.encode()).hexdigest(), "scopes": ["enqueue"]}
        for name in ("acme", "globex")
    ]
    return start_server({"store": url, "tokens": [{**token, "tenant": token["name"]} for token in tokens]})


def test_a_job_belongs_to_the_tenant_of_the_token(url, shop):
    by_tenant = {"acme": App(shop.url, token="acme"), "globex": App(shop.url, token="globex", tenant="globex")}
    for tenant, app in by_tenant.items():
        assert facts_of(url, defer_of(app, url))[0] == tenant
        over_http = app.tasks["bill"].defer()
        assert facts_of(url, over_http)[0] == tenant
        # Each tenant has ids and keys of its own.
        assert not defer_of(app, url, id="same", unique_key="same").existed
        assert defer_of(app, url, id="same").existed
    with pytest.raises(InvalidArgumentError, match="tenant 'acme', and its token is of 'globex'"):
        defer_of(App(shop.url, token="globex", tenant="acme"), url)
    with pytest.raises(ServerError, match="does not know the token") as caught:
        defer_of(App(shop.url, token="nobody"), url)
    assert caught.value.status == 401


def test_a_server_that_is_away_need_not_be_asked_for_a_tenant_that_is_said(url):
    away = "http://127.0.0.1:1"
    assert facts_of(url, defer_of(App(away, tenant="acme"), url))[0] == "acme"
    assert facts_of(url, defer_of(App(tenant="acme"), url))[0] == "acme"
    assert facts_of(url, defer_of(App(), url))[0] == "default"
    with pytest.raises(UnreachableError) as caught:
        defer_of(App(away), url)
    assert "tenant=" in caught.value.hint


@pytest.mark.parametrize("tenant", ["", "a b", "a\n", "x" * 129])
def test_what_is_no_tenant_is_refused(tenant):
    with pytest.raises(InvalidArgumentError, match="is not a tenant"):
        App(tenant=tenant)


def test_the_database_keeps_a_role_to_its_tenant(url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE shop_acme; GRANT USAGE ON SCHEMA redrive TO shop_acme")
        connection.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA redrive TO shop_acme")
        connection.execute("INSERT INTO redrive.role_tenants VALUES ('shop_acme', 'acme')")
    job = defer_of(App(tenant="acme"), url, login="shop_acme")
    assert facts_of(url, job)[0] == "acme"
    for app in (App(), App(tenant="globex")):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not change jobs of the tenant"):
            defer_of(app, url, login="shop_acme")
