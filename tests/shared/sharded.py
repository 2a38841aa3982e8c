"""A store that is spread over several others: what its tests have in common."""
import json
import sqlite3
import subprocess

from tests.kit.program import BINARY, environment
from tests.kit.rest import Api
from tests.kit.server import Bench
from tests.kit.stores import start_or_skip
from tests.kit.tokens import token_line
from tests.kit.waiting import LIMIT_S

N_SHARDS = 4
TENANTS = ["acme", "globex", "initech", "umbrella", "hooli", "stark"]

CONFIG = """
store: {{shards: {shards}}}
listen: {{http: "127.0.0.1:0", faktory: off}}
tokens:
{tokens}
tasks:
  good: {{run: {{exec: ["true"], concurrency: 4}}}}
  held: {{run: {{exec: [sh, -c, "{held}"], concurrency: 4}}}}
  brief: {{run: {{exec: [sh, -c, "{held}"]}}, lease: 3s}}
  bad: {{run: {{exec: ["false"]}}, retry: {{max_attempts: 1}}, breaker: {{failure_threshold: 100, min_calls: 100}}}}
  torn: {{run: {{exec: [sh, -c, '[ "$REDRIVE_TENANT" = acme ] || {{ {held}; exit 1; }}'], concurrency: 4}},
    retry: {{strategy: fixed, initial_delay: 1h, max_delay: 1h, total_timeout: 0}}}}
  long: {{lease: 4s, heartbeat: 300ms}}
  far: {{}}
  slow: {{}}
cron:
  nightly: {{task: far, schedule: "0 3 * * *"}}
{more}
"""


class Place(Bench):
    """A folder with a configuration for shards, whose tasks `held`, `brief` and `torn` do not end before let_go."""

    def __init__(self, directory, urls, more=""):
        super().__init__(directory)
        self.urls = urls
        tokens = "".join(token_line(tenant, "enqueue, work, read, admin", tenant) for tenant in TENANTS)
        self.gate = self.config.with_name("go")
        held = f"until [ -e {self.gate} ]; do sleep 0.05; done"
        self.config.write_text(CONFIG.format(shards=json.dumps(urls), tokens=tokens, held=held, more=more))
        self.config.chmod(0o600)

    def let_go(self):
        self.gate.touch()

    def run(self, *words, code=0):
        done = subprocess.run([str(BINARY), *words, "-c", str(self.config)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT_S, env=environment())
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def json(self, *words, code=0):
        return json.loads(self.run(*words, "--json", code=code).stdout)

    def jobs(self, *words, page_size=5):
        """All of them, page by page."""
        found, cursor = [], []
        while True:
            page = self.json("jobs", "list", "--limit", str(page_size), *words, *cursor)
            found += page["items"]
            if not page["next"]:
                return found
            cursor = ["--cursor", page["next"]]

    def api(self, server, tenant):
        return Api(server.port()).of(tenant)


def urls_of(kind, directory, exits):
    if kind == "sqlite":
        return [f"sqlite:{directory}/shard-{i}.db" for i in range(N_SHARDS)]
    server = start_or_skip(kind)
    exits.append(server)
    if kind == "redis":
        return [f"{server.url}?prefix=shard{i}" for i in range(N_SHARDS)]
    for i in range(N_SHARDS):
        server.sql(f"CREATE DATABASE shard{i}")
    return [server.url.rsplit("/", 1)[0] + f"/shard{i}" for i in range(N_SHARDS)]


def rows(url, sql):
    db = sqlite3.connect(url.removeprefix("sqlite:"))
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


def state_of(api, job):
    answer = api("GET", f"/jobs/{job}")
    return answer["state"] if answer.status == 200 else None


def start_work(place):
    return subprocess.Popen([str(BINARY), "work", "--until-idle", "--json", "-c", str(place.config)],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment())
