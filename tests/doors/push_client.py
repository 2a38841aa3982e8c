"""push_client.py http|faktory PORT FILE PREFIX: submits jobs one after the other until the server is
gone, and writes the id of each that was acknowledged to the file."""

import http.client
import json
import socket
import sys


def push_http(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def push(job_id):
        connection.request("POST", "/jobs", json.dumps({"id": job_id, "task": "quick"}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 201, body
        return True

    return push


def push_faktory(port):
    stream = socket.create_connection(("127.0.0.1", port), timeout=60).makefile("rwb")
    assert stream.readline().startswith(b"+HI")

    def ask(line):
        stream.write(line.encode() + b"\r\n")
        stream.flush()
        answer = stream.readline()
        if not answer.endswith(b"\n"):
            raise ConnectionResetError
        assert answer == b"+OK\r\n", answer

    ask("HELLO " + json.dumps({"v": 2}))
    return lambda job_id: ask("PUSH " + json.dumps({"jid": job_id, "jobtype": "quick", "args": []}))


def main():
    door, port, path, prefix = sys.argv[1:]
    push = {"http": push_http, "faktory": push_faktory}[door](int(port))
    with open(path, "a", buffering=1, encoding="utf-8") as told:
        for n in range(1_000_000):
            job_id = f"kill-{prefix}-{n:06}"
            try:
                push(job_id)
            except (OSError, http.client.HTTPException):
                return
            told.write(job_id + "\n")


main()
