"""`redrive config` on the example, and on a terminal. What else it prints: transcripts/config-*.md."""

import json

from tests.kit.program import ROOT

EXAMPLE = ROOT / "examples" / "redrive.yaml"


def test_the_example_is_right(redrive):
    result = redrive("config", "check", "-c", str(EXAMPLE))
    assert result.returncode == 0
    assert result.stdout.splitlines()[0] == f"{EXAMPLE}: ok"
    # Its programs are anybody's own, and its secrets are known to all.
    harmless = ("there is no program", "other users can read")
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning:")]
    assert all(any(text in line for text in harmless) for line in warnings)


def test_what_is_shown_can_be_read_again(redrive, tmp_path):
    shown = redrive("config", "show", "-c", str(EXAMPLE)).stdout
    again = tmp_path / "again.yaml"
    again.write_text(shown.replace("sha256:***", "sha256:" + "0" * 64))
    result = redrive("config", "check", "-c", str(again), cwd=tmp_path)
    assert result.returncode == 0, result.stderr


def test_show_is_laid_out_on_a_terminal_only(redrive):
    _, seen = redrive.on_terminal("config", "show", columns=80)
    text = seen.decode().replace("\r\n", "\n")
    text = text[text.index("{"):]
    assert len(text.splitlines()) > 20
    plain = redrive("config", "show").stdout
    assert len(plain.splitlines()) == 1 and json.loads(plain) == json.loads(text)
