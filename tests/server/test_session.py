"""The login of browsers: a cookie that stands for a token, and that other sites cannot use."""

import base64

import pytest

from tests.kit.tokens import token_line

CHANGES = [("POST", "/v1/queues/mail/pause"), ("DELETE", "/v1/retry/dead-letters?older_than_hours=0"), ("DELETE", "/v1/jobs/x"),
           ("POST", "/v1/retry/dead-letters/retry"), ("PUT", "/v1/cron/x"), ("POST", "/v1/session")]


@pytest.fixture
def guarded(start):
    return start("tokens:\n" + token_line("ops", "enqueue, work, read, admin", "default") + token_line("reader", "read", "default")).api


def cookie_of(guarded, name="ops", **headers):
    answer = guarded.of(name)("POST", "/v1/session", headers=headers)
    assert answer.status == 200
    return answer.headers["Set-Cookie"]


def test_the_session_says_who_asks(guarded):
    nobody = guarded.ok("GET", "/v1/session")
    assert (nobody["needs_token"], nobody["name"], nobody["tenant"], nobody["scopes"]) == (True, None, None, [])
    ops = guarded.of("ops").ok("GET", "/v1/session")
    assert (ops["name"], ops["scopes"]) == ("ops", ["enqueue", "work", "read", "admin"])
    assert ops["at"] and ops["version"]


def test_a_cookie_stands_for_its_token(guarded):
    cookie = cookie_of(guarded, "reader").split(";")[0]
    assert guarded.ok("GET", "/v1/session", headers={"Cookie": cookie})["name"] == "reader"
    assert guarded("GET", "/v1/jobs", headers={"Cookie": cookie}).status == 200
    own = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
    assert guarded("POST", "/v1/queues/mail/pause", headers=own).status == 403  # it lacks the scope admin
    assert guarded("POST", "/v1/session", headers=own).headers.get("Set-Cookie") is None


def test_the_cookie_is_for_the_browser_alone(guarded):
    words = set(cookie_of(guarded).split("; "))
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} <= words
    assert "Secure" not in words  # the server speaks plain HTTP
    assert "Secure" in cookie_of(guarded, **{"X-Forwarded-Proto": "https"}).split("; ")
    gone = guarded("DELETE", "/v1/session")
    assert gone.headers["Set-Cookie"].startswith("redrive_session=; ") and "Max-Age=0" in gone.headers["Set-Cookie"]
    assert gone["name"] is None


@pytest.mark.parametrize("headers,allowed", [
    ({"Sec-Fetch-Site": "same-origin"}, True),
    ({"Sec-Fetch-Site": "cross-site"}, False),
    ({"Sec-Fetch-Site": "same-site"}, False),
    ({"Sec-Fetch-Site": "none"}, False),
    ({"Sec-Fetch-Site": "cross-site", "Origin": "SELF"}, False),
    ({"Origin": "SELF"}, True),
    ({"Origin": "http://evil.example"}, False),
    ({"Origin": "null"}, False),
    ({"Origin": "http://"}, False),
    ({}, False),
])
def test_a_login_changes_things_only_from_pages_of_this_server(guarded, headers, allowed):
    cookie = cookie_of(guarded).split(";")[0]
    headers = {name: value.replace("SELF", f"http://127.0.0.1:{guarded.port}") for name, value in headers.items()}
    for method, path in CHANGES:
        answer = guarded(method, path, "{}", headers={**headers, "Cookie": cookie})
        assert (answer.status != 403) == allowed, (method, path, answer.raw)


def test_a_login_is_not_read_by_other_sites_either(guarded):
    cookie = {"Cookie": cookie_of(guarded).split(";")[0]}
    assert guarded("GET", "/v1/jobs", headers={**cookie, "Sec-Fetch-Site": "none"}).status == 200
    assert guarded("GET", "/v1/jobs", headers={**cookie, "Sec-Fetch-Site": "cross-site"}).status == 403
    assert guarded("GET", "/v1/jobs", headers={**cookie, "Origin": "http://evil.example"}).status == 403
    # A program with a header of its own is no browser that was talked into something.
    assert guarded.of("ops")("GET", "/v1/jobs", headers={"Sec-Fetch-Site": "cross-site"}).status == 200


def test_broken_cookies_are_no_login(guarded):
    good = cookie_of(guarded).split(";")[0]
    unknown = "redrive_session=" + base64.b64encode(b"secret-unknown").decode()
    for cookie in ("redrive_session=", "redrive_session=!!", "redrive_session", f"x{good}", "redrive_session=" + "A" * 9000, "; ;=;", unknown):
        assert guarded("GET", "/v1/jobs", headers={"Cookie": cookie}).status == 401, cookie
    assert guarded("GET", "/v1/jobs", headers={"Cookie": f"a=b;  {good} ; c=d"}).status == 200


def test_without_tokens_there_is_no_cookie(api):
    session = api.ok("POST", "/v1/session")
    assert (session["needs_token"], session["name"]) == (False, "anonymous")
    assert api("POST", "/v1/session").headers.get("Set-Cookie") is None
    assert api("POST", "/v1/queues/mail/pause", headers={"Sec-Fetch-Site": "same-origin"}).status == 200
    assert api("POST", "/v1/queues/mail/pause", headers={"Sec-Fetch-Site": "cross-site"}).status == 403
