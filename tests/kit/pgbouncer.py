"""A throw-away PgBouncer in front of a PostgreSQL server.

    with Postgres() as pg, PgBouncer(pg, "session") as pool:
        ... pool.url ...
"""
import os
import shutil
import subprocess

from tests.kit.servers import Missing, Postgres, ThrowAway, find_postgres


class PgBouncer(ThrowAway):
    name = "pgbouncer"

    def __init__(self, behind, mode, **options):
        self.behind, self.mode = behind, mode
        super().__init__(**options)

    @property
    def url(self):
        return f"postgres://{Postgres.superuser}@127.0.0.1:{self.port}/postgres"

    def user(self):
        # It refuses to run as root, too.
        return self.behind.user()

    def prepare(self):
        settings = {
            "listen_addr": "127.0.0.1", "listen_port": self.port, "unix_socket_dir": "", "auth_type": "any",
            "pool_mode": self.mode, "default_pool_size": 10, "max_client_conn": 100,
        }
        settings |= dict(self.settings)
        lines = ["[databases]", f"* = host=127.0.0.1 port={self.behind.port} user={Postgres.superuser}", "[pgbouncer]",
                 *(f"{key} = {value}" for key, value in settings.items())]
        (self.folder / "ini").write_text("\n".join(lines) + "\n")
        who = self.user()
        if who:
            os.chown(self.folder, who["user"], who["group"])

    def command(self):
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
        if not program:
            raise Missing("pgbouncer is not installed (Debian: pgbouncer)")
        return [program, str(self.folder / "ini")]

    def answers(self):
        return subprocess.run([find_postgres("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)],
                              stdout=subprocess.DEVNULL).returncode == 0
