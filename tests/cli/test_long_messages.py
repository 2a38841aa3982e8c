"""A message of 64 KiB: listings show the beginning of it, `jobs show` all of it, once."""

import json
import time


def test_long_message_is_cut_in_listings_only(redrive, tmp_path):
    store = f"sqlite:{tmp_path}/jobs.db"
    handler = "import sys; sys.exit('W' + 'é' * 20000)"
    config = tmp_path / "redrive.yaml"
    config.write_text(json.dumps({"store": store, "log": {"level": "off"}, "tasks": {
        "t": {"run": {"exec": ["python3", "-c", handler]}, "retry": {"max_attempts": 3, "initial_delay": "1ms", "jitter": "none"}}}}))
    where = ["-c", str(config)]
    redrive.output("enqueue", "t", "--id", "a", *where)
    until = time.monotonic() + 60
    while redrive("work", "--until-idle", *where).returncode != 3:
        assert time.monotonic() < until, "it never died"
    for words in (["jobs", "list"], ["dlq", "groups"]):
        text = redrive.output(*words, *where)
        assert 100 < text.count("é") <= 200 and "…" in text
    shown = redrive.output("jobs", "show", "a", *where)
    assert sum(1 for line in shown.splitlines() if line.count("é") > 1000) == 1
    assert json.loads(redrive.output("jobs", "show", "a", "--json", *where))["last_error"]["message"].count("é") > 4000
