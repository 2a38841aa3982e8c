"""What is stored is shown as text, whatever it says; and what is asked for is bounded."""

import urllib.parse

import pytest

from tests.kit.waiting import wait_for

EVIL = "<img src=x onerror=\"window.owned=1\"><script>window.owned=1</script>"


def assert_harmless(ui):
    assert ui.js("return window.owned === undefined")
    assert ui.js("return document.querySelectorAll('#page img, #page script, #page iframe, #page [onerror]').length") == 0


@pytest.fixture
def evil(ui):
    ui.evil = ui.kill_remote(EVIL, worker=EVIL[:60], stacktrace=f"trace: {EVIL}", error_type=EVIL, payload={EVIL: EVIL},
                             user=EVIL, id=f"id/{EVIL[:40]}", project=EVIL)
    return ui


def test_markup_in_payload_error_worker_user_and_id_is_text(evil):
    path = urllib.parse.quote(evil.evil, safe="")
    evil.open(f"/ui/jobs/{path}").sees("What has happened", "#page")
    assert EVIL in evil.text("pre.message") and EVIL[:60] in evil.text(".timeline")
    evil.js("document.querySelector('details').open = true")
    assert "onerror" in evil.text("pre.code") and EVIL in evil.text("details pre")
    assert_harmless(evil)
    for page in ("jobs", "jobs?" + urllib.parse.urlencode({"user": EVIL}), "dead", "dead?" + urllib.parse.urlencode({"type": EVIL}), "queues", "tasks", ""):
        evil.open(f"/ui/{page}").find("#page .page")
        assert_harmless(evil)
    evil.open("/ui/workers")
    wait_for(lambda: evil.press("r") and "onerror" in evil.text(), "the worker's name")
    assert_harmless(evil)


def test_markup_in_the_address_is_text(ui):
    for path in (f"/ui/jobs?text={urllib.parse.quote(EVIL)}", f"/ui/jobs/{urllib.parse.quote(EVIL, safe='')}", f"/ui/queues?name={urllib.parse.quote(EVIL)}"):
        ui.open(path).find("#page > *")
        assert_harmless(ui)


def test_an_address_with_an_escape_that_is_none_names_what_stands_there(ui):
    ui.open("/ui/queues").find("#page .page")
    for path, shown in (("/ui/jobs/%", "'%'"), ("/ui/jobs/100%25%zz", "'100%25%zz'")):
        ui.js("history.pushState(null, '', arguments[0]); dispatchEvent(new PopStateEvent('popstate'))", path)
        ui.sees(f"there is no job {shown}", "#page")


def test_a_name_of_a_task_with_markup_is_text(ui):
    ui.submit("task<b>bold</b>", delay="1h")
    for page in ("tasks", "jobs", "queues", "breakers"):
        ui.open(f"/ui/{page}").find("#page .page")
        assert_harmless(ui)
        assert not ui.all("#page b")
    ui.open("/ui/tasks").sees("task<b>bold</b>", "#page")


def test_no_other_page_can_frame_it(ui):
    ui.open().find("#page")
    ui.driver.get("about:blank")
    ui.js("const f = document.createElement('iframe'); f.src = arguments[0]; document.body.append(f)", ui.base + "/ui/")
    wait_for(lambda: ui.js("try { return document.querySelector('iframe').contentDocument === null } catch { return true }"), "the refusal")


def test_inline_code_does_not_run(ui):
    ui.open().find("#page")
    ui.js("""const s = document.createElement('div');
        try { s.innerHTML = '<img src=x onerror="window.owned=1">'; document.body.append(s) } catch (e) { window.refused = e.name }""")
    assert ui.js("return window.refused") == "TypeError"  # Trusted Types: no text becomes markup
    assert ui.js("return window.owned === undefined")


def test_large_and_strange_payloads(ui):
    text = "words and " * 104_800  # a mebibyte, the most that a payload may have
    big = ui.submit("mail", {"text": text}, delay="1h", id="big")
    ui.open(f"/ui/jobs/{big}").sees("Show all of it", "[data-key=Payload] > button")
    shown = "return document.querySelector('pre.code').textContent.length"
    assert ui.js(shown) < 200_000
    ui.click("Show all of it", "#page")
    wait_for(lambda: ui.js(shown) > 1_000_000, "the whole payload")
    strange = '{"b":1,"a":{"10":1,"9":12345678901234567890.10},"rtl":"\\u05e9\\u05dc\\u05d5\\u05dd","nul":"\\u0000\\u001b[31m","empty":{},"list":[[],[1]]}'
    ui.call("POST", "/v1/jobs", '{"task":"mail","delay":"1h","id":"strange","payload":' + strange + "}")
    ui.open("/ui/jobs/strange").sees("12345678901234567890.10", "pre.code").sees('"10": 1', "pre.code")
    shown = ui.text("pre.code").replace("\n", "").replace(" ", "")
    assert shown == strange.replace(" ", "")


def test_text_that_looks_like_binary_is_shown_as_it_is(ui):
    """Characters that JSON allows as they are, escapes of control characters, and base64 without a space."""
    strange = '{"raw":"\x7f\u0080\u0085\u2028\ufeff\ufffd","nul":"\\u0000\\u001b[31m","long":"' + "QUJD" * 500 + '","n":12345678901234567}'
    ui.call("POST", "/v1/jobs", ('{"task":"mail","delay":"1h","id":"binary","payload":' + strange + "}").encode())
    ui.open("/ui/jobs/binary").sees("12345678901234567", "pre.code")
    shown = ui.js("return document.querySelector('pre.code').textContent").replace("\n", "").replace(" ", "")
    assert shown == strange
    assert ui.js("return document.documentElement.scrollWidth <= innerWidth")


def test_right_to_left_text_leaves_the_text_beside_it_alone(ui):
    """An override that is never ended would turn round what follows it on the line."""
    override = "\u202egnp.tac"
    job = ui.kill_remote(f"{override} שלום", error_type=override, worker=override, id=f"a{override}", user=override, payload={"name": f"{override} שלום"})
    turned = """const own = (e) => e.tagName === "BDI" || (getComputedStyle(e).unicodeBidi !== "normal" || getComputedStyle(e).display !== "inline");
        const walker = document.createTreeWalker(document.getElementById("page"), NodeFilter.SHOW_TEXT);
        const found = [];
        for (let n = walker.nextNode(); n; n = walker.nextNode()) {
          let box = n.parentElement;
          while (!own(box)) box = box.parentElement;
          if (n.data.includes("\\u202e") && !box.textContent.trim().endsWith(n.data.trim())) found.push(box.outerHTML.slice(0, 300));
        }
        return found;"""
    for page in ("jobs/" + urllib.parse.quote(job, safe=""), "jobs", "jobs?" + urllib.parse.urlencode({"user": override}), "dead"):
        ui.open(f"/ui/{page}").sees("gnp.tac", "#page")
        assert ui.js(turned) == [], page
