"""The command line on Spark: the same output as on the local engine, and nothing of what Spark says."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CLOSURE, ROOT, command, environment_with
from tests.missing import missing_for_spark
from upshot.cli import main
from upshot.cli.demo.inventory import inventory
from upshot.cli.demo.run import run_demo
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import EngineName


@pytest.fixture
def closure(tmp_path: Path) -> Path:
    """A program with three edges beside it, and two transactions."""
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.facts").write_text("1\t2\n2\t3\n3\t4\n")
    (tmp_path / "changes.ndjson").write_text('{"delete": {"edge": [[2, 3]]}}\n{"insert": {"edge": [[4, 1]]}}\n')
    file = tmp_path / "closure.dl"
    file.write_text(CLOSURE)
    return file


def both(capfd: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    """What a command prints on the local engine and on Spark; on neither does it complain."""
    printed = []
    for engine in ("local", "spark"):
        capfd.readouterr()
        code = main([*map(str, arguments), "--engine", engine])
        out, err = capfd.readouterr()
        assert (code, err) == (0, ""), err
        printed.append(out)
    return printed


def test_commands_print_the_same_on_both_engines(
    spark: Any, closure: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    facts, changes = closure.parent / "facts", closure.parent / "changes.ndjson"
    for arguments in (
        ("watch", closure, "-F", facts, "-c", changes),
        ("what-if", closure, "-F", facts, "-c", changes, "--format", "json"),
        ("verify", closure, "-F", facts, "-c", changes),
    ):
        local, on_spark = both(capfd, *arguments)
        assert on_spark == local != ""
    monkeypatch.setattr(sys, "stdin", io.StringIO(f":load {closure}\n+edge(7, 8).\n? closure(7, X)\n"))
    assert main(["repl", "-F", str(facts), "--engine", "spark", "--format", "json"]) == 0
    answers = capfd.readouterr().out.splitlines()
    assert json.loads(answers[-1])["rows"] == [[8]]


def test_explain_says_where_and_how(spark: Any, closure: Path, capfd: pytest.CaptureFixture[str]) -> None:
    local, on_spark = both(capfd, "explain", closure, "--full", "-F", closure.parent / "facts")
    assert local.splitlines()[-1] == "engine local"
    assert on_spark.splitlines()[-1].startswith("engine spark: ")
    assert "decomposed: `closure` on column" in on_spark
    assert "decomposed" not in local


def test_a_story_told_on_spark_ends_with_both_engines_agreeing(
    spark: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = run_demo(Terminal(), inventory(), EngineName.SPARK)
    out, err = capsys.readouterr()
    assert err == ""
    assert "Running on Spark 4." in out
    assert out.count("the same changes") == len(told) == len(inventory().steps)
    assert "Both engines agree, row by row" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.slow
def test_a_session_is_started_and_ended_without_a_word(closure: Path) -> None:
    if missing := missing_for_spark():
        pytest.skip(missing)
    ended = subprocess.run(
        command("run", closure, "-F", closure.parent / "facts", "-D", "-", "--engine", "spark"),
        capture_output=True,
        cwd=ROOT,
        env=environment_with(SPARK_LOCAL_IP="127.0.0.1"),
        timeout=300,
    )
    assert ended.stderr.decode() == ""
    assert ended.returncode == 0
    assert ended.stdout.decode().splitlines()[-1] == "closure\t6"


def test_a_session_that_cannot_start_is_told_with_sparks_last_words(closure: Path, tmp_path: Path) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho no such machine >&2\nexit 1\n")
    java.chmod(0o755)
    pytest.importorskip("pyspark")
    ended = subprocess.run(
        command("run", closure, "-F", closure.parent / "facts", "-D", "-", "--engine", "spark"),
        capture_output=True,
        cwd=ROOT,
        env=environment_with(JAVA_HOME=str(tmp_path / "java"), PATH=os.environ["PATH"]),
        timeout=120,
    )
    assert ended.returncode == 3
    assert "error[spark-not-started]: Spark did not start" in ended.stderr.decode()
    assert "no such machine" in ended.stderr.decode()
