"""Files with secrets that other users can read: told by `config check`, `doctor`, `serve` and `work`."""

import os
import re
import signal
import subprocess

import pytest

from tests.kit.program import BINARY, environment
from tests.kit.waiting import LIMIT_S

HASH = "sha256:" + "ab" * 32
TOKENS = f"tokens: [{{name: eye, hash: '{HASH}', scopes: [read]}}]\n"


def write(path, name, text, mode):
    file = path / name
    file.write_text(text)
    file.chmod(mode)
    return file


def check(redrive, path, **env):
    """The files that are told of, with the hint of each."""
    result = redrive("config", "check", cwd=path, env=env)
    assert result.returncode == 0, result.stderr
    told = re.findall(r"other users can read (\S+), which holds (.*)", result.stderr)
    for name, _ in told:
        assert f"chmod 600 {name}" in result.stderr
    return told


def test_a_group_may_read_what_root_shares_with_it(redrive, tmp_path):
    write(tmp_path, "redrive.yaml", TOKENS, 0o640)
    assert len(check(redrive, tmp_path)) == (0 if os.geteuid() == 0 else 1)


@pytest.fixture
def exposed(tmp_path):
    """A configuration whose password file is the only one that others can read."""
    password = write(tmp_path, "shop.password", "hunter2-hunter2\n", 0o644)
    text = (
        f"store: sqlite:{tmp_path}/jobs.db\nlisten: {{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}}\n{TOKENS}"
        f"faktory_passwords: [{{name: shop, password_file: {password}, scopes: [enqueue]}}]\n"
    )
    write(tmp_path, "redrive.yaml", text, 0o600)
    return tmp_path


def test_a_private_key_is_for_its_owner(redrive, tmp_path):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        + ["-subj", "/CN=me", "-keyout", "me.key", "-out", "me.pem"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    write(tmp_path, "redrive.yaml", "listen: {tls: {cert: me.pem, key: me.key}}\n", 0o644)
    (tmp_path / "me.pem").chmod(0o644)
    (tmp_path / "me.key").chmod(0o640 if os.geteuid() else 0o644)
    told = check(redrive, tmp_path)
    assert [holds for _, holds in told] == ["the private key of TLS"]
    (tmp_path / "me.key").chmod(0o600)
    assert check(redrive, tmp_path) == []


def first_lines(path, *words):
    """What a process logs until it is asked to stop, which is when it has said that it is there."""
    process = subprocess.Popen(
        [str(BINARY), *words], cwd=path, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if " serving " in line:
                process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0, lines
        return "".join(lines)
    finally:
        if process.poll() is None:
            process.kill()
        process.stderr.close()


def test_a_server_and_a_worker_warn_when_they_start(exposed):
    pattern = rf"WARN +secrets_exposed path={exposed}/shop.password .*which holds a password.*chmod 600"
    assert len(re.findall(pattern, first_lines(exposed, "serve"))) == 1
    (exposed / "redrive.yaml").chmod(0o644)
    (exposed / "shop.password").chmod(0o600)
    with open(exposed / "redrive.yaml", "a", encoding="utf-8") as file:
        file.write("tasks: {t: {run: {exec: ['true']}}}\n")
    log = first_lines(exposed, "work", "--until-idle")
    assert re.findall(r"WARN +secrets_exposed path=(\S+)", log) == ["redrive.yaml"]
    assert "secrets_exposed path=redrive.yaml" in first_lines(exposed, "serve")
    (exposed / "redrive.yaml").chmod(0o600)
    assert "secrets_exposed" not in first_lines(exposed, "serve")
