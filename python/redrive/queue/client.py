"""HTTP to a Redrive server, with the standard library: keep-alive, tokens, errors with their hints."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Optional
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from redrive.errors import InvalidArgumentError, NotFoundError, RedriveError, ServerError, UnreachableError

JSON = dict[str, Any]

#: A claim is answered within its wait; everything else should be quick.
TIMEOUT_S = 30.0
#: For a question that is asked while a transaction of the application is open.
TIMEOUT_IN_TRANSACTION_S = 5.0


class Client:
    """One server. Threads may share it: each has a connection of its own, which is kept open."""

    def __init__(self, url: str, *, token: Optional[str] = None, timeout: float = TIMEOUT_S) -> None:
        parts = _parts_of(url)
        self.url = url
        self._https = parts.scheme == "https"
        self._address = (str(parts.hostname), parts.port or (443 if self._https else 80))
        self._path = parts.path.rstrip("/") + "/v1"
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        token = _usable_token(token if token is not None else os.environ.get("REDRIVE_TOKEN", ""))
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._local = threading.local()

    # ---- The verbs ------------------------------------------------------------------------------

    def submit(self, job: JSON) -> JSON:
        """The job must have an id: then a request whose answer was lost is repeated without harm."""
        return self._object("POST", "/jobs", job)

    def submit_many(self, jobs: Sequence[JSON]) -> list[JSON]:
        """All of them, or none; at most 1000."""
        items: list[JSON] = self._object("POST", "/jobs", list(jobs))["items"]
        return items

    def job(self, id_: str) -> JSON:
        return self._object("GET", f"/jobs/{quote(id_, safe='')}")

    def jobs(self, parameters: Mapping[str, Any]) -> JSON:
        """A page of jobs, as ``items``; with its ``next`` as ``cursor`` the page that follows is asked for."""
        return self._object("GET", f"/jobs?{urlencode(parameters)}")

    def session(self) -> JSON:
        """Whom the server takes this client for: name, tenant and scopes; their values are null if it is unknown."""
        return self._object("GET", "/session", timeout=TIMEOUT_IN_TRANSACTION_S)

    def cancel(self, id_: str) -> JSON:
        return self._object("DELETE", f"/jobs/{quote(id_, safe='')}")

    def retry(self, id_: str) -> JSON:
        """Sent once: a job that died again meanwhile would be retried twice."""
        return self._object("POST", f"/jobs/{quote(id_, safe='')}/retry", repeat=False)

    def declare_tasks(self, tasks: JSON) -> JSON:
        """Queues and policies, in the form of the configuration's section ``tasks``."""
        return self._object("PUT", "/tasks", tasks)

    def declare_cron(self, application: str, entries: JSON) -> JSON:
        """All cron entries of an application: those that it has declared before and are not among them are removed."""
        return self._object("PUT", f"/cron?{urlencode({'declared_by': application})}", entries)

    def claim(self, body: JSON, *, wait: float) -> list[JSON]:
        request = {**body, "wait": f"{int(wait * 1000)}ms"}
        jobs: list[JSON] = self._object("POST", "/claim", request, timeout=wait + self._timeout, repeat=False)["jobs"]
        return jobs

    def settle(self, items: Sequence[bytes], *, timeout: float) -> list[JSON]:
        """Each item is JSON already."""
        body = b'{"items":[' + b",".join(items) + b"]}"
        answers: list[JSON] = self._send("POST", "/settle", body, timeout=timeout)["items"]
        return answers

    def extend(self, items: Sequence[JSON], *, timeout: float) -> list[JSON]:
        """One try: the caller knows how long it has for the next."""
        body = {"items": list(items)}
        answers: list[JSON] = self._object("POST", "/extend", body, timeout=timeout, repeat=False)["items"]
        return answers

    # ---- Requests -------------------------------------------------------------------------------

    def _object(
        self, method: str, path: str, body: Any = None, *, timeout: Optional[float] = None, repeat: bool = True
    ) -> JSON:
        text = None if body is None else json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        data = None if text is None else text.encode("utf-8", "surrogatepass")
        return self._send(method, path, data, timeout=timeout, repeat=repeat)

    def _send(
        self, method: str, path: str, data: Optional[bytes], *, timeout: Optional[float] = None, repeat: bool = True
    ) -> JSON:
        status, answer = self._exchange(method, self._path + path, data, timeout or self._timeout, repeat)
        document = _parse(status, answer)
        if status >= 300:
            _raise_problem(status, document)
        return document

    def _exchange(
        self, method: str, path: str, data: Optional[bytes], timeout: float, repeat: bool
    ) -> tuple[int, bytes]:
        """Status and body. A kept connection may be closed at this very moment: then a second try on a new one.

        Not with ``repeat=False``: after a request was sent, the server may have carried it out.
        """
        kept = getattr(self._local, "connection", None)
        for is_last in (False, True) if kept is not None and repeat else (True,):
            connection = self._connection(timeout)
            try:
                connection.request(method, path, data, self._headers)
                response = connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException) as exc:
                self.close()
                if is_last:
                    raise UnreachableError(
                        f"no answer from {self.url}",
                        detail=f"{type(exc).__name__}: {exc}",
                        hint="is `redrive serve` running there? Repeating a submit with the same id is safe",
                    ) from exc
        raise AssertionError("not reached")

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if getattr(self._local, "pid", None) != os.getpid():
            # After a fork the socket is the parent's: it must not be written to.
            self._local.connection = None
            self._local.pid = os.getpid()
        connection: Optional[http.client.HTTPConnection] = getattr(self._local, "connection", None)
        if connection is not None and connection.sock is not None and _has_ended(connection.sock):
            self.close()
            connection = None
        if connection is None or connection.sock is None:
            kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
            connection = kind(self._address[0], self._address[1], timeout=timeout)
            try:
                connection.connect()
            except OSError as exc:
                raise UnreachableError(
                    f"cannot connect to {self.url}", detail=str(exc), hint="is `redrive serve` running there?"
                ) from exc
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._local.connection = connection
        connection.sock.settimeout(timeout)
        return connection

    def connect(self) -> socket.socket:
        """The socket of this thread's connection, so that another thread can end a long poll."""
        return self._connection(self._timeout).sock

    def close(self) -> None:
        """Closes the connection of this thread."""
        connection = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()


def _parts_of(url: str) -> SplitResult:
    hint = "http://HOST:PORT of a `redrive serve`; a store such as postgres:// is given to the server"
    if "://" not in url:  # such as that of another protocol of the same server
        hint = (
            f"with its scheme: http://{url}, if that is where `redrive serve` listens for HTTP (port 7070, unless set)"
        )
    try:
        parts = urlsplit(url)
        is_usable = "://" in url and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise InvalidArgumentError(f"{url!r} is not the address of a server", hint=hint)
    return parts


def _has_ended(connection: socket.socket) -> bool:
    """Whether a connection that waits for no answer has something to read: its end, or what no request asked for."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([connection], [], [], 0)[0])


def _usable_token(token: str) -> str:
    """Without the line end that a file or a shell leaves. What is wrong with it is said without showing it."""
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidArgumentError(
            "the token has characters that no token has",
            hint="is it one line of printable ASCII? It is given as App(url, token=…), or in REDRIVE_TOKEN",
        )
    return token


def _parse(status: int, answer: bytes) -> JSON:
    try:
        document = json.loads(answer) if answer.strip() else {}
    except ValueError:
        raise ServerError(
            "what answers there is not a Redrive server",
            status=status,
            detail=answer[:200].decode("utf-8", "replace"),
            hint="check host and port",
        ) from None
    return document if isinstance(document, dict) else {"items": document}


def _raise_problem(status: int, problem: JSON) -> None:
    """What a problem document says."""
    message = str(problem.get("detail") or problem.get("title") or f"status {status}")
    code = str(problem.get("type", "")).rsplit(":", 1)[-1].upper() or None
    detail = str(problem.get("expected") or "")
    hint = str(problem.get("hint") or "")
    if status == 404:
        raise NotFoundError(message, detail=detail, hint=hint)
    if status in (401, 403) and not hint:
        hint = "App(url, token=…), or the environment variable REDRIVE_TOKEN"
    raise ServerError(message, status=status, code=code, detail=detail, hint=hint)


def is_temporary(exc: RedriveError) -> bool:
    """Whether the same request may be answered later."""
    return isinstance(exc, UnreachableError) or (
        isinstance(exc, ServerError) and exc.status in (429, 500, 502, 503, 504)
    )
