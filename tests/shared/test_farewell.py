"""How processes leave a PostgreSQL server: so that its log has nothing to say about it."""
import os
import subprocess
import tempfile

from tests.kit.program import BUILD
from tests.kit.stores import start_or_skip
from tests.kit.waiting import LIMIT_S


def test_nobody_hangs_up_on_an_answer():
    # Only over a socket of the file system the server hears of it before it has answered.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        with start_or_skip("postgres", settings=[("unix_socket_directories", folder)]) as server:
            url = f"postgres://redrive@/postgres?host={folder}&port={server.port}"
            for _ in range(5):
                subprocess.run([BUILD / "redrive", "enqueue", "mail", "{}", "--store", url], check=True,
                               capture_output=True, timeout=LIMIT_S)
            server.stop()
            said = server.log.read_text()
            assert "connection to client lost" not in said, said
