"""`redrive config`: what is wrong is said with its place and the nearest right word."""

import json
import re

import pytest

from tests.kit.program import ROOT

EXAMPLE = ROOT / "examples" / "redrive.yaml"


def check(redrive, tmp_path, text, *words, **env):
    (tmp_path / "redrive.yaml").write_text(text)
    return redrive("config", "check", *words, cwd=tmp_path, env=env)


def test_the_example_is_right(redrive):
    result = redrive("config", "check", "-c", str(EXAMPLE))
    assert result.returncode == 0
    assert result.stdout.splitlines()[0] == f"{EXAMPLE}: ok"
    # Its programs are anybody's own, and its secrets are known to all.
    harmless = ("there is no program", "other users can read")
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning:")]
    assert all(any(text in line for text in harmless) for line in warnings)


def test_no_file_means_the_defaults(redrive, tmp_path):
    result = redrive("config", "check", cwd=tmp_path)
    assert result.returncode == 0
    assert result.stdout.startswith("defaults (no file): ok\n")


def test_a_file_that_was_named_must_be_there(redrive, tmp_path):
    result = redrive("config", "check", "-c", "missing.yaml", cwd=tmp_path)
    assert result.returncode in (1, 2)
    assert "missing.yaml" in result.stderr


def test_every_error_of_a_file_is_told(redrive, tmp_path):
    result = check(
        redrive,
        tmp_path,
        "tasks:\n"
        "  enrich:\n"
        "    retry: {max_dealy: 5s}\n"
        "  notify:\n"
        "    retry: {initial_delay: 5}\n"
        "    breaker: {on_open: prak}\n",
    )
    assert (result.returncode, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    heads = [line for line in lines if line.startswith("redrive: ")]
    assert [head.split(":")[2] for head in heads] == ["3", "5", "6"]
    assert "hint: did you mean 'max_delay'?" in lines
    assert any("unit" in line for line in lines)
    assert "hint: did you mean 'park'?" in lines


def test_errors_are_one_json_object_a_line(redrive, tmp_path):
    result = check(redrive, tmp_path, "stroe: x\nlisten: 5\n", "--json")
    errors = [json.loads(line)["error"] for line in result.stderr.splitlines()]
    assert len(errors) == 2
    assert errors[0]["hint"] == "did you mean 'store'?"


@pytest.mark.parametrize(
    "policy",
    [
        "max_delay: -5s",
        "multiplier: .nan",
        "multiplier: 0.5",
        "max_delay: 1s, min_delay: 2s",
        "max_retries: 100001",
        "max_retries: 3, max_attempts: 4",
    ],
)
def test_absurd_policies_are_refused_at_load(redrive, tmp_path, policy):
    result = check(redrive, tmp_path, "retry: {%s}\n" % policy)
    assert result.returncode == 2
    assert result.stderr.startswith("redrive: redrive.yaml:1: ")


def test_flags_beat_environment_beats_dotenv_beats_file(redrive, tmp_path):
    (tmp_path / "redrive.yaml").write_text("retry: {max_delay: 10s}\n")

    def max_delay(*flags, **env):
        result = redrive("config", "show", *flags, cwd=tmp_path, env=env)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)["defaults"]["retry"]["max_delay"]

    assert max_delay() == "10s"
    (tmp_path / ".env").write_text("REDRIVE_RETRY_MAX_DELAY=20s\n")
    assert max_delay() == "20s"
    assert max_delay(REDRIVE_RETRY_MAX_DELAY="30s") == "30s"
    assert max_delay("--retry-max-delay", "40s", REDRIVE_RETRY_MAX_DELAY="30s") == "40s"


def test_a_dotenv_that_cannot_be_read_is_an_error(redrive, tmp_path):
    """What it says may matter: to go on without it would be to run with other settings."""
    (tmp_path / ".env").write_text("REDRIVE_RETRY_MAX_DELAY=20s\n" + "# much too long\n" * 100_000)
    result = check(redrive, tmp_path, "retry: {max_delay: 10s}\n")
    assert result.returncode == 2
    assert ".env" in result.stderr and "bytes" in result.stderr, result.stderr
    (tmp_path / ".env").unlink()
    (tmp_path / ".env").symlink_to(".env")
    result = check(redrive, tmp_path, "retry: {max_delay: 10s}\n")
    assert result.returncode == 1
    assert ".env" in result.stderr and "symbolic links" in result.stderr, result.stderr


def test_a_wrong_flag_is_named_as_it_was_written(redrive, tmp_path):
    result = redrive("config", "check", "--retry-max-delay=5", cwd=tmp_path)
    assert result.returncode == 2
    assert "--retry-max-delay" in result.stderr


def test_what_is_shown_can_be_read_again(redrive, tmp_path):
    shown = redrive("config", "show", "-c", str(EXAMPLE)).stdout
    again = tmp_path / "again.yaml"
    again.write_text(shown.replace("sha256:***", "sha256:" + "0" * 64))
    result = redrive("config", "check", "-c", str(again), cwd=tmp_path)
    assert result.returncode == 0, result.stderr


def test_a_policy_without_time_for_its_attempts_is_a_warning(redrive, tmp_path):
    config = tmp_path / "redrive.yaml"
    config.write_text("tasks: {call: {retry: {max_retries: 25, max_delay: 1h, total_timeout: 5m}}}\n")
    result = redrive("config", "check", "-c", str(config), cwd=tmp_path)
    assert result.returncode == 0
    assert re.search(r"task call: total_timeout of 5m leaves time for about \d+ of 26 attempts", result.stderr)
    config.write_text("tasks: {call: {retry: {max_retries: 25, max_delay: 1h, total_timeout: 0s}}}\n")
    assert redrive("config", "check", "-c", str(config), cwd=tmp_path).stderr == ""
    config.write_text("tasks: {call: {run: {exec: [sh], timeout: 2m}, retry: {strategy: fixed, total_timeout: 5m}}}\n")
    result = redrive("config", "check", "-c", str(config), cwd=tmp_path)
    assert "leaves time for about 3 of 6 attempts that run into run.timeout (2m)" in result.stderr


def test_a_variable_that_nobody_knows_is_a_warning(redrive, tmp_path):
    result = redrive("config", "check", cwd=tmp_path, env={"REDRIVE_RETRY_MAX_DEALY": "5s"})
    assert result.returncode == 0
    assert result.stderr.startswith("warning: ")
    assert "REDRIVE_RETRY_MAX_DELAY" in result.stderr


@pytest.mark.parametrize("store", ["sqlite:", "postgres:db", "redis:", "memory:x"])
def test_a_scheme_that_is_right_is_not_suggested(redrive, tmp_path, store):
    result = redrive("config", "check", "--store", store, cwd=tmp_path)
    assert result.returncode == 2
    assert "expected sqlite:PATH" in result.stderr
    assert "did you mean" not in result.stderr


def test_check_warns_of_programs_that_serve_would_refuse(redrive, tmp_path):
    config = tmp_path / "redrive.yaml"
    (tmp_path / "plain").write_text("no program\n")
    config.write_text(f"tasks: {{a: {{run: {{exec: [no-such-program]}}}}, b: {{run: {{stream: [{tmp_path}/plain]}}}}, "
                      "c: {run: {exec: [sh]}}}\n")
    result = redrive("config", "check", "-c", str(config))
    assert result.returncode == 0
    assert "task 'a': there is no program 'no-such-program'" in result.stderr
    assert "task 'b': cannot execute" in result.stderr and "task 'c'" not in result.stderr
    assert json.loads(redrive("config", "check", "--json", "-c", str(config)).stdout)["warnings"] == 2


def test_show_is_laid_out_on_a_terminal_only(redrive):
    _, seen = redrive.on_terminal("config", "show", columns=80)
    text = seen.decode().replace("\r\n", "\n")
    text = text[text.index("{"):]
    assert len(text.splitlines()) > 20
    plain = redrive("config", "show").stdout
    assert len(plain.splitlines()) == 1 and json.loads(plain) == json.loads(text)


def test_show_says_where_settings_come_from(redrive, tmp_path):
    (tmp_path / "redrive.yaml").write_text("log: {level: info}\nretry: {initial_delay: 2s}\n")
    env = {"DATABASE_URL": "postgres://app:secret@db.invalid/shop", "MAX_RETRIES": "5"}
    result = redrive("config", "show", "--retry-max-delay", "9s", cwd=tmp_path, env=env)
    assert result.stderr.splitlines()[1:] == [
        "store: DATABASE_URL", "retry.max_delay: --retry-max-delay", "retry.max_retries: MAX_RETRIES"]
    assert json.loads(result.stdout)["defaults"]["retry"]["max_retries"] == 5
    (tmp_path / ".env").write_text("REDRIVE_STORE=sqlite:a.db\n")
    result = redrive("config", "show", cwd=tmp_path)
    assert result.stderr.splitlines()[1:] == ["store: .env:1: REDRIVE_STORE"]
    assert json.loads(redrive.output("config", "check", "--json", cwd=tmp_path))["store_from"] == ".env:1: REDRIVE_STORE"
    assert "store sqlite:a.db, from .env:1: REDRIVE_STORE" in redrive("config", "check", cwd=tmp_path).stdout


def test_the_store_that_is_none_is_told_with_a_subject(redrive, tmp_path):
    result = redrive("stats", "--store", "jobs.db", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("redrive: --store: the value is not a store\n")
