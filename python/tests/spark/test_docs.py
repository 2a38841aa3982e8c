"""Every Python and SQL block of docs/spark.md is run, in the order of the page."""

import json
import pathlib
import re
import subprocess
import sys
import types

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "spark.md"
BLOCK = re.compile(r"^```(python|sql|yaml) ?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


MADE = []


class Recorder:
    """Stands for a class of Airflow: keeps its arguments, and can be entered."""

    def __init__(self, *words, **options):
        MADE.append((words, options))

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        return None


def stand_in_for_airflow(monkeypatch):
    path = "airflow.providers.apache.spark.operators.spark_submit"
    for name in ["airflow", *(path[: match.start()] for match in re.finditer(r"\.", path)), path]:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["airflow"].DAG = Recorder
    sys.modules[path].SparkSubmitOperator = Recorder


@pytest.mark.long
def test_blocks(spark, tmp_path, monkeypatch, capsys, server):
    stand_in_for_airflow(monkeypatch)
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "a.json").write_text(json.dumps({"sample_id": "S-6", "payload": "z"}))
    samples = spark.createDataFrame([("S-7", "p", 1), ("S-1", "q", 2)], "sample_id string, payload string, extra int")
    samples.write.format("delta").save(f"{tmp_path}/samples")
    widgets = types.SimpleNamespace(get=lambda name: {"folder": str(tmp_path)}[name])
    names = {"__name__": "page", "spark": spark, "dbutils": types.SimpleNamespace(widgets=widgets)}
    text = PAGE.read_text("utf-8")
    seen = []
    for match in BLOCK.finditer(text):
        kind, mark, code = match.groups()
        code = code.replace("/mnt/delta", str(tmp_path)).replace("http://127.0.0.1:7070", server.url)
        seen.append((kind, mark))
        if mark.startswith("file="):
            (tmp_path / mark[5:]).write_text(code)
        elif kind == "sql":
            spark.sql(code).collect()
        else:
            exec(compile("\n" * text[: match.start(3)].count("\n") + code, str(PAGE), "exec"), names)
    assert len(seen) == 17
    assert names["result"].new_records == 1  # S-1 is known
    assert MADE[0][1]["max_active_runs"] == 1

    exec(compile((tmp_path / "job.py").read_text(), "job.py", "exec"), job := {"__name__": "job"})
    job["main"](str(tmp_path / "queue.yaml"), str(tmp_path / "incoming"))
    assert "new_records=0" in capsys.readouterr().out  # the stream has processed it


def test_the_reference_is_that_of_the_docstrings():
    command = [sys.executable, str(PAGE.parents[1] / "tools" / "python-reference"), "spark"]
    made = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout
    if PAGE.with_name("spark-api.md").read_text("utf-8") != made:
        raise AssertionError("out of date: tools/python-reference spark > docs/spark-api.md")
