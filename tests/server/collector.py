"""A strict receiver of OTLP over HTTP: what it takes has the shape that the protocol publishes.

It answers as the test says, keeps every span that it has taken, and counts what it was asked."""

import http.server
import json
import re
import threading

TRACE_ID = re.compile(r"[0-9a-f]{32}")
SPAN_ID = re.compile(r"[0-9a-f]{16}")
NANOSECONDS = re.compile(r"[1-9][0-9]{18}")
INTEGER = re.compile(r"-?[0-9]+")
KINDS = {1, 2, 3, 4, 5}  # internal, server, client, producer, consumer

REQUEST = {"resourceSpans"}
RESOURCE_SPANS = {"resource", "scopeSpans", "schemaUrl"}
SCOPE_SPANS = {"scope", "spans", "schemaUrl"}
SPAN = {"traceId", "spanId", "traceState", "parentSpanId", "flags", "name", "kind", "startTimeUnixNano", "endTimeUnixNano",
        "attributes", "droppedAttributesCount", "events", "droppedEventsCount", "links", "droppedLinksCount", "status"}
LINK = {"traceId", "spanId", "traceState", "attributes", "droppedAttributesCount", "flags"}


def check_known(thing, names):
    assert isinstance(thing, dict) and set(thing) <= names, thing


def check_attributes(attributes):
    """Name → value."""
    found = {}
    for one in attributes:
        assert set(one) == {"key", "value"} and one["key"] and one["key"] not in found, one
        ((kind, value),) = one["value"].items()
        if kind == "intValue":
            assert isinstance(value, str) and INTEGER.fullmatch(value), one
            value = int(value)
        else:
            assert kind == "stringValue" and isinstance(value, str), one
        found[one["key"]] = value
    return found


def check_id(value, pattern):
    assert isinstance(value, str) and pattern.fullmatch(value) and value.strip("0"), value


def check_span(span):
    check_known(span, SPAN)
    check_id(span["traceId"], TRACE_ID)
    check_id(span["spanId"], SPAN_ID)
    if "parentSpanId" in span:
        check_id(span["parentSpanId"], SPAN_ID)
    assert isinstance(span["name"], str) and span["name"]
    assert span["kind"] in KINDS and isinstance(span.get("flags", 0), int)
    for when in ("startTimeUnixNano", "endTimeUnixNano"):
        assert isinstance(span[when], str) and NANOSECONDS.fullmatch(span[when]), span[when]
    assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    for link in span.get("links", []):
        check_known(link, LINK)
        check_id(link["traceId"], TRACE_ID)
        check_id(link["spanId"], SPAN_ID)
        check_attributes(link.get("attributes", []))
    check_known(span["status"], {"code", "message"})
    assert span["status"].get("code", 0) in (0, 1, 2) and isinstance(span["status"].get("message", ""), str)
    return {**span, "attributes": check_attributes(span["attributes"])}


def read_request(document):
    """The spans of a request, each with the attributes of its resource."""
    check_known(document, REQUEST)
    spans = []
    for of_resource in document["resourceSpans"]:
        check_known(of_resource, RESOURCE_SPANS)
        check_known(of_resource["resource"], {"attributes", "droppedAttributesCount"})
        resource = check_attributes(of_resource["resource"]["attributes"])
        assert resource.get("service.name"), resource
        for of_scope in of_resource["scopeSpans"]:
            check_known(of_scope, SCOPE_SPANS)
            check_known(of_scope["scope"], {"name", "version", "attributes"})
            spans += [{**check_span(span), "resource": resource} for span in of_scope["spans"]]
    assert spans
    return spans


class Collector:
    """On a free port of this machine. `answer` gives status, headers and body of the next answer; None: 200."""

    def __init__(self, answer=None):
        self.answer = answer or (lambda: None)
        self.lock = threading.Lock()
        self.taken, self.faults, self.asked, self.headers = [], [], 0, []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                collector.handle(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def handle(self, request):
        body = request.rfile.read(int(request.headers["Content-Length"]))
        with self.lock:
            self.asked += 1
            self.headers.append(dict(request.headers.items()))
        status, headers, answer = self.answer() or (200, {}, "{}")
        if status == 200:
            self.take(request, body)
        try:
            request.send_response(status)
            for name, value in headers.items():
                request.send_header(name, value)
            request.send_header("Content-Length", str(len(answer)))
            request.end_headers()
            request.wfile.write(answer.encode())
        except OSError:
            pass  # the exporter has given up

    def take(self, request, body):
        try:
            assert request.path == "/v1/traces" and request.headers["Content-Type"] == "application/json"
            spans = read_request(json.loads(body))
        except (AssertionError, KeyError, ValueError) as fault:
            with self.lock:
                self.faults.append(f"{fault!r} in {body[:2000]!r}")
            return
        with self.lock:
            self.taken += spans

    def spans(self, name=None):
        with self.lock:
            assert not self.faults, self.faults
            return [span for span in self.taken if name in (None, span["name"])]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
