"""The files of the dashboard over HTTP: types, caching, protection, and nothing but what is in the table."""

import gzip
import re

import pytest

from tests.kit.tokens import token_line

PAGES = ["", "queues", "jobs", "jobs/some-id", "jobs/a%2Fb", "dead", "breakers", "tasks", "cron", "workers"]


@pytest.fixture
def ui(api):
    return Browser(api)


class Browser:
    """Asks as browsers do, and gives status, headers and bytes."""

    def __init__(self, asked):
        self.api = asked

    def ask(self, method, path, body=None, headers=None):
        answer = self.api(method, path, body, {"Accept-Encoding": "gzip, deflate, br", **(headers or {})})
        return answer.status, answer.headers, answer.raw


def files_of(ui):
    """Every file that the first page loads, with what follows from it."""
    seen, todo = {}, ["/ui/"]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        status, headers, raw = ui.ask("GET", path)
        assert status == 200, path
        seen[path] = (headers, raw)
        text = gzip.decompress(raw).decode()
        if path == "/ui/":
            todo += re.findall(r'(?:src|href)="(/ui/[^"]+)"', text)
        if path.endswith(".js"):
            folder = path.rsplit("/", 1)[0]
            for name in re.findall(r'^import .* from "(\.[^"]+)"', text, re.M):  # those of types are comments
                up, down = name.count("../"), name.replace("../", "").replace("./", "")
                todo.append(folder.rsplit("/", up)[0] + "/" + down)
    return seen


def test_the_first_page_is_small_and_every_file_is_compressed(ui):
    files = files_of(ui)
    assert len(files) > 20
    assert sum(len(raw) for _, raw in files.values()) < 100_000
    for path, (headers, _) in files.items():
        assert headers["Content-Encoding"] == "gzip", path
        kind = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}.get(path.rsplit(".", 1)[-1], "text/html")
        assert headers["Content-Type"].split(";")[0] == kind, path


def test_an_unchanged_file_costs_a_304(ui):
    for path in ("/ui/", "/ui/app.js", "/ui/style.css"):
        _, headers, _ = ui.ask("GET", path)
        assert headers["Cache-Control"] == "no-cache"
        status, again, raw = ui.ask("GET", path, headers={"If-None-Match": headers["ETag"]})
        assert (status, raw, again["ETag"]) == (304, b"", headers["ETag"])
        assert ui.ask("GET", path, headers={"If-None-Match": f'"0", W/{headers["ETag"]}'})[0] == 304
        assert ui.ask("GET", path, headers={"If-None-Match": '"0"'})[0] == 200


def test_every_page_is_the_same_document_with_protection(ui):
    document = ui.ask("GET", "/ui/")[2]
    for page in PAGES:
        status, headers, raw = ui.ask("GET", f"/ui/{page}")
        assert (status, raw) == (200, document), page
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "http:" not in policy and "data:" not in policy
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    text = gzip.decompress(document).decode()
    assert not re.search(r"<script>|<style|style=|\son\w+=|https?://", text)


@pytest.mark.parametrize("path", [
    "/ui/../redrive.yaml", "/ui/..%2fredrive.yaml", "/ui/%2e%2e/%2e%2e/etc/passwd", "/ui//etc/passwd", "/ui/pages/../app.js",
    "/ui/app.js/", "/ui/app.js%00.css", "/ui/index.html/..", "/ui/APP.JS", "/ui/nothing", "/ui/meson.build", "/ui/%5c..%5capp.js",
])
def test_what_is_not_in_the_table_is_not_there(ui, path):
    status, _, raw = ui.ask("GET", path)
    assert status in (400, 404), raw
    assert b"root:" not in raw and b"store:" not in raw


def test_only_reading_and_only_gzip(ui):
    status, headers, _ = ui.ask("POST", "/ui/", body="{}")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    status, headers, raw = ui.ask("HEAD", "/ui/app.js")
    assert (status, raw) == (200, b"") and int(headers["Content-Length"]) > 0
    assert ui.ask("GET", "/ui/", headers={"Accept-Encoding": "br"})[0] == 406
    assert ui.ask("GET", "/ui/", headers={"Accept-Encoding": "br, gzip"})[0] == 200


def test_a_browser_finds_the_dashboard_by_the_address_alone(ui):
    status, headers, _ = ui.ask("GET", "/", headers={"Accept": "text/html,*/*"})
    assert (status, headers["Location"]) == (302, "/ui/")
    assert ui.ask("GET", "/ui")[1]["Location"] == "/ui/"
    assert ui.ask("GET", "/")[0] == 404  # for programs it is a path that is not there


def test_files_need_no_token_and_data_does(start):
    ui = Browser(start("tokens:\n" + token_line("ops", "read, admin", "default")).api)
    assert ui.ask("GET", "/ui/")[0] == 200
    assert ui.ask("GET", "/v1/jobs")[0] == 401
