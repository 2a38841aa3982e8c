"""standby.py - a second PostgreSQL server that follows a first one, and takes its place."""
from tests.kit import servers


class Standby(servers.Postgres):
    """Starts as a copy of a primary that runs."""

    name = "standby"

    def __init__(self, primary, **options):
        self.primary = primary
        super().__init__(**options)

    def prepare(self):
        self.run("pg_basebackup", "-h", "127.0.0.1", "-p", self.primary.port, "-U", self.superuser, "-D", self.data,
                 "-R", "-X", "stream", "--checkpoint=fast", "--no-sync")

    def promote(self):
        self.sql("SELECT pg_promote(true, 60)")


def url_of_both(primary, standby):
    """Whichever of the two can be written to."""
    return (f"postgres://{primary.superuser}@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
            "?target_session_attrs=read-write")
