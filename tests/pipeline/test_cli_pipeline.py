"""`upshot pipeline run` from the outside: what it prints where, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import environment_with
from tests.pipeline.lake import CLOSURE, Lake
from tests.properties.settings import is_soak
from upshot.cli import main

Run = Callable[..., tuple[int, str, str]]

CONSOLE = Lake.pipeline.partition("[sink.path]")[0] + '[sink.path]\nformat = "console"\n'


@pytest.fixture
def upshot(spark: Any, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process, beside the session of the tests."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(["pipeline", "run", *map(str, arguments)])
        return code, *capfd.readouterr()

    return run


def test_stdout_carries_data_and_stderr_a_line_a_batch(upshot: Run, tmp_path: Path) -> None:
    lake = Lake(tmp_path, pipeline=CONSOLE)
    lake.change(insert=[(1, 2), (2, 3)])
    code, out, err = upshot(lake.file, "--once")
    assert (code, out) == (0, "+path(1, 2)\n+path(1, 3)\n+path(2, 3)\n"), err
    assert err.startswith("batch 0, version 2: 2 rows in; away +2 -0, path +3 -0; ")
    lake.change(delete=[(1, 2)])
    code, out, err = upshot(lake.file, "--once", "--format", "json")
    changes, metrics = map(json.loads, out.splitlines())
    assert (code, err) == (0, "")
    assert changes == {"version": 3, "changes": {"path": {"insert": [], "delete": [[1, 2], [1, 3]]}}}
    assert metrics["views"]["path"] == {"inserted": 0, "deleted": 2}
    code, out, err = upshot(lake.file, "--once")
    assert (code, out, err) == (0, "", "no new data; version 3\n")


def test_a_dry_run_prints_the_plan(upshot: Run, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    code, out, err = upshot(lake.file, "--dry-run", "--engine", "spark")
    assert (code, err) == (0, "")
    assert "engine spark\n" in out
    assert "view path: recursive, strategy maintenance\n" in out
    assert "  on Spark decomposed: `path` on column x\n" in out
    code, out, _ = upshot(lake.file, "--dry-run", "--format", "json")
    assert json.loads(out)["views"][0]["name"] == "path"
    assert not lake.state.exists()


def test_a_violated_constraint_ends_with_one_and_its_witnesses(upshot: Run, tmp_path: Path) -> None:
    lake = Lake(tmp_path, program=CLOSURE + ".deny acyclic(X) :- path(X, X).\n")
    lake.change(insert=[(7, 7)])
    code, out, err = upshot(lake.file, "--once")
    assert (code, out) == (1, "")
    assert "error[constraint-violated]" in err
    assert "acyclic" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("change", "code", "slug"),
    [
        (("engine = ", "engin = "), 1, "unknown-key"),
        (("[source.edge]", "[source.egde]"), 2, "unknown-relation"),
        (("[source.edge]", "[source.path]"), 2, "not-a-base-relation"),
        (("[sink.away]", '[sink.edge]\nformat = "delta"\npath = "out/path"\n[sink.away]'), 2, "sink-path"),
        (('path = "edges"', 'path = "nowhere"'), 1, "source-missing"),
        (("closure.dl", "nowhere.dl"), 2, "no-such-file"),
    ],
)
def test_what_is_wrong_with_a_pipeline_is_said_in_a_sentence(
    upshot: Run, tmp_path: Path, change: tuple[str, str], code: int, slug: str
) -> None:
    lake = Lake(tmp_path, pipeline=Lake.pipeline.replace(*change))
    found, out, err = upshot(lake.file, "--once")
    assert (found, out) == (code, ""), err
    assert f"error[{slug}]" in err


def test_a_file_that_is_not_there_is_wrong_usage(upshot: Run, tmp_path: Path) -> None:
    code, _, err = upshot(tmp_path / "nowhere.toml")
    assert code == 2
    assert "error[no-such-file]" in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM][: 1 + is_soak()])
def test_a_signal_lets_the_batch_finish_and_ends_with_zero(tmp_path: Path, number: signal.Signals) -> None:
    lake = Lake(tmp_path)
    lake.change(insert=[(1, 2)])
    running = subprocess.Popen(
        [sys.executable, "-m", "upshot", "pipeline", "run", str(lake.file), "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment_with(),
        process_group=0,
    )
    assert running.stdout is not None
    metrics = json.loads(running.stdout.readline())
    # As a terminal does it: the signal reaches every process of the group.
    os.killpg(running.pid, number) if number is signal.SIGINT else running.send_signal(number)
    out, err = running.communicate(timeout=120)
    assert (running.returncode, out, err) == (0, b"", b"")
    assert metrics["sources"] == {"edge": {"rows": 1, "bad": 0}}
    assert (lake.state / "stream" / "checkpoint" / "commits" / "0").exists()
    assert lake.view() == [(1, 2)]
