"""The queries of docs/sql.md, asked of a store in which something has gone wrong.

Blocks of ```sql run in SQLite; those that are for PostgreSQL only follow theirs as ```plpgsql.
"""
import json
import re
import subprocess

import pytest

from tests.kit.program import BINARY, ROOT
from tests.kit.stores import Place
from tests.kit.waiting import LIMIT_S

DOC = (ROOT / "docs" / "sql.md").read_text("utf-8")
# How a session on PostgreSQL begins, and the queries.
FIRST, *BLOCKS = re.findall(r"^```(sql|plpgsql)\n(.*?)^```", DOC, re.M | re.S)
DATES = re.compile(r"datetime\('now'|julianday\(")

CONFIG = """
tasks:
  thumbnail: {run: {exec: [sh, -c, "printf 'Traceback:\\\\nValueError: no picture\\\\n' >&2; exit 65"]}}
  fine: {run: {exec: ["true"]}}
  late: {run: {exec: [sh, -c, exit 75]}, retry: {strategy: fixed, initial_delay: 1h, max_delay: 1h, total_timeout: 0}}
"""


def fill(place, directory):
    """A job that is done, one that is dead, one that has failed three times and waits; a breaker is open, a
    queue is paused."""
    config = directory / "redrive.yaml"
    config.write_text(CONFIG)

    def call(*words, codes=(0,)):
        done = subprocess.run([str(BINARY), *words, "-c", str(config), "--store", place.url], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=LIMIT_S)
        assert done.returncode in codes, done.stderr

    for task, job in (("fine", "done"), ("thumbnail", "job-id"), ("late", "waits")):
        call("enqueue", task, '{"n":1}', "--id", job)
        call("work", "--until-idle", "--worker", "w", codes=(0, 3))
    for _ in range(2):
        call("jobs", "retry", "waits")
        call("work", "--until-idle", "--worker", "w")
    call("breakers", "trip", "fine")
    call("queues", "pause", "slow")


def forms(kind):
    """Every query, in the form that the store understands."""
    found = []
    for n, (language, sql) in enumerate(BLOCKS):
        if language == "sql" and kind == "postgres" and DATES.search(sql):
            assert BLOCKS[n + 1][0] == "plpgsql", f"no form for PostgreSQL:\n{sql}"
            found.append(BLOCKS[n + 1][1])
        elif language == "sql":
            found.append(sql)
    return found


def plain(cell):
    """What is the same in every store: times and averages of times are not."""
    if cell is None:
        return None
    if re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", cell):
        return "TIME"
    try:
        return json.loads(cell)
    except ValueError:
        return cell


def answers(place, kind):
    rows = []
    for sql in forms(kind):
        width = 2 if "avg_s" in sql else None
        rows.append(sorted(([plain(cell) for cell in row][:width] for row in place.query(sql)), key=repr))
    return rows


@pytest.fixture
def on_a_file(tmp_path):
    place = Place("sqlite", tmp_path)
    fill(place, tmp_path)
    return place


def test_queries_find_what_went_wrong(on_a_file):
    found = dict(zip(forms("sqlite"), answers(on_a_file, "sqlite"), strict=True))
    assert len(found) >= 20

    def of(words):
        sql, = [sql for sql in found if words in sql]
        return found[sql]

    assert of("total_waiting") == [[1, 2, 2, "TIME"]]
    assert [row[:3] for row in of("WHERE retry_count >= 2")] == [["waits", 2, 3]]
    assert of("AS failed_count") == [["thumbnail", 1]]
    assert of("SELECT error_stacktrace FROM") == [["Traceback:\nValueError: no picture\n"]]
    assert of("SELECT job_id, last_error, created_at") == [["job-id", "ValueError: no picture", "TIME"]]
    assert len(of("'deferred_for_retry'")) == 3
    assert of("FROM breakers") == [["fine", "forced_open", 0, None]]
    assert of("FROM paused_queues") == [["slow", "TIME"]]
    # Nothing here is old, no limit is reached, nobody works.
    assert len([sql for sql, rows in found.items() if not rows]) == 4


def test_the_view_jobs_has_every_job(on_a_file):
    rows = on_a_file.query("SELECT id, status, attempts, last_error FROM jobs WHERE type='thumbnail'")
    assert [list(row) for row in rows] == [["job-id", "dead_letter", "1", "ValueError: no picture"]]


def test_forms_for_both_differ_in_nothing_but_dates():
    def without_dates(sql):
        sql = re.sub(r"datetime\('now', '-(\d+ \w+)'\)|now\(\) - interval '(\d+ \w+)'",
                     lambda m: f"AGO({m[1] or m[2]})", sql)
        return sql.replace("(julianday(ended_at) - julianday(started_at)) * 86400", "SECONDS").replace(
            "extract(epoch FROM ended_at - started_at)::numeric", "SECONDS")

    assert len([1 for language, _ in BLOCKS if language == "plpgsql"]) == sum(
        1 for language, sql in BLOCKS if language == "sql" and DATES.search(sql))
    for sqlite_form, postgres_form in zip(forms("sqlite"), forms("postgres"), strict=True):
        assert without_dates(sqlite_form) == without_dates(postgres_form)


def test_queries_find_the_same_in_postgres(tmp_path, on_a_file):
    directory = tmp_path / "postgres"
    directory.mkdir()
    place = Place("postgres", directory)
    fill(place, directory)
    for sql, expected, found in zip(forms("postgres"), answers(on_a_file, "sqlite"), answers(place, "postgres"),
                                    strict=True):
        assert found == expected, sql


# -- Roles -------------------------------------------------------------------------------------------

MANUAL = (ROOT / "docs" / "postgres.md").read_text("utf-8")
GRANTS, = re.findall(r"^```sql\n(-- Runs serve.*?)^```", MANUAL, re.M | re.S)
ROLES = re.search(r"Create the other roles \(here (.*?)\)", MANUAL, re.S).group(1)
ROLES = re.findall(r"`(\w+)`", ROLES)
READERS = ("worker", "analyst")


class Roles:
    """The roles of docs/postgres.md on a store; their names are the test's own, because they are the server's."""

    def __init__(self, place):
        self.place = place
        self.suffix = "_" + place.url.rsplit("/", 1)[1]
        place.query("; ".join(f"CREATE ROLE {self.name(role)}" for role in ROLES))
        place.query(re.sub(r"\b(" + "|".join(ROLES) + r")(?=;)", lambda found: self.name(found.group()), GRANTS))

    def name(self, role):
        return role + self.suffix

    def query(self, role, sql):
        """As the page begins; None is the owner."""
        assert FIRST == ("plpgsql", "SET search_path = redrive;\n")
        become = f"SET ROLE {self.name(role)};" if role else ""
        return self.place.query(f"SET search_path = public; {become} {FIRST[1]} {sql}")

    def refusal(self, role, sql):
        with pytest.raises(AssertionError) as refused:
            self.query(role, sql)
        return str(refused.value)

    def close(self):
        for role in map(self.name, ROLES):
            self.place.query(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.fixture(scope="module")
def roles(tmp_path_factory):
    place = Place("postgres", None)
    fill(place, tmp_path_factory.mktemp("postgres"))
    found = Roles(place)
    yield found
    found.close()


def test_every_role_of_the_manual_can_ask_what_it_may(roles):
    assert ROLES == ["worker", "redrive_submit", "redrive_operator", "analyst"]
    for sql in forms("postgres"):
        of_owner = sorted(map(repr, roles.query(None, sql)))
        for role in ROLES:
            if role in READERS:
                assert sorted(map(repr, roles.query(role, sql))) == of_owner, (role, sql)
            else:
                assert "permission denied" in roles.refusal(role, sql), (role, sql)


def test_functions_are_for_the_roles_that_they_are_granted_to(roles):
    calls = {
        "SELECT redrive.submit('fine', '{}', id => 'by-role')": ("worker", "redrive_submit"),
        "SELECT redrive.submit_job('fine', '{}', id => 'by-role')": ("worker", "redrive_submit"),
        "SELECT redrive.cancel('by-role')": ("worker", "redrive_submit"),
        "SELECT redrive.retry('nothing')": ("worker", "redrive_operator"),
        "SELECT redrive.purge('30 days')": ("worker", "redrive_operator"),
    }
    for sql, allowed in calls.items():
        for role in ROLES:
            if role in allowed:
                roles.query(role, sql)
            else:
                assert "permission denied" in roles.refusal(role, sql), (role, sql)


def test_a_view_that_is_written_to_names_the_function_to_call(roles):
    statements = {
        "DELETE FROM failed_jobs WHERE created_at < now() - interval '30 days'": "redrive.purge(",  # no row fits
        "DELETE FROM dead_letter_queue": "redrive.purge(",
        "DELETE FROM jobs WHERE id = 'waits'": "redrive.cancel(",
        "UPDATE failed_jobs SET status = 'PENDING', attempts = 0 WHERE job_id = 'job-id'": "redrive.retry(",
        "UPDATE retry_queue SET process_after = now()": "redrive.retry(",
        "INSERT INTO jobs (id, type) VALUES ('x', 'mail')": "redrive.submit(",
        "INSERT INTO retry_queue (sample_id) VALUES ('x')": "redrive.submit(",
        "DELETE FROM paused_queues": "redrive --help",
        "UPDATE tasks SET definition = '{}'": "redrive --help",
    }
    before = roles.query(None, "SELECT id, status, attempts FROM jobs UNION SELECT queue, '', 0 FROM paused_queues")
    for sql, function in statements.items():
        for role in (None, *READERS):
            said = roles.refusal(role, sql)
            assert "is read-only" in said and function in said, (role, sql, said)
    views = roles.place.query("SELECT viewname FROM pg_views WHERE schemaname = 'redrive'")
    assert len(views) >= 15
    for view, in views:
        for role in (None, *READERS):
            assert "is read-only" in roles.refusal(role, f"DELETE FROM {view}"), view
    assert roles.query(None, "SELECT id, status, attempts FROM jobs UNION SELECT queue, '', 0 FROM paused_queues") == before
