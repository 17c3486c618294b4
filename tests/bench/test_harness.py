from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.process import ROOT, Runner
from bench.report import Report, percentile95
from bench.tasks import Graph, Task

pytestmark = pytest.mark.slow
"""Every answer comes from a fresh process, which loads its engine first."""

SMALL = Task("closure", Graph("grid", (5,)))


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path / "results.jsonl", lambda words: None, times=1)


@pytest.mark.parametrize("contender", ["duckdb", "clingo", "upshot"])
def test_a_contender_answers_from_its_own_process_with_the_exact_size(runner: Runner, contender: str) -> None:
    report = Report("", ())
    assert SMALL.graph is not None
    answer = report.ask(runner, contender, SMALL, SMALL.graph.closure_size())
    assert report.wrong == []
    assert answer is not None
    assert answer.seconds > 0


@pytest.mark.parametrize("form", ["large", "text", "ternary"])
@pytest.mark.parametrize("contender", ["duckdb", "upshot"])
def test_the_other_forms_have_exact_sizes_too(runner: Runner, contender: str, form: str) -> None:
    graph, report = Graph("blocks", (400, 900), form), Report("", ())
    report.ask(runner, contender, Task("closure", graph), graph.closure_size())
    assert report.wrong == []


def test_upshot_follows_edges_and_quantities_exactly(runner: Runner) -> None:
    edges = runner.ask("upshot", Task("changes", Graph("blocks", (400, 900)), {"edges": 5}))
    assert (edges.error, len(edges.times["delete"]), len(edges.times["insert"])) == ("", 5, 5)
    for rule in ("", "insert", "call"):
        options = {"items": 1000, "batches": [[1, 3], [10, 2]], "rule": rule}
        items = runner.ask("upshot", Task("inventory", options=options))
        assert (items.error, {k: len(v) for k, v in items.times.items()}) == ("", {"1": 3, "10": 2})


def test_a_wrong_size_fails_the_report(runner: Runner) -> None:
    report = Report("", ())
    assert report.ask(runner, "duckdb", SMALL, 1) is None
    assert report.wrong == ["duckdb, closure grid5: 405 tuples, exactly 1 expected"]


def test_a_failing_contender_fails_the_report(runner: Runner) -> None:
    report = Report("", ())
    assert report.ask(runner, "duckdb", Task("closure", Graph("grid", (5,), "ternary")), None) is None
    assert "a grid has no labeled form" in report.wrong[0]


def test_a_peer_that_is_not_installed_is_left_out_and_named(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    report = Report("", ())
    assert report.ask(runner, "souffle", SMALL, None) is None
    assert report.wrong == []
    assert runner.ask("souffle", SMALL).missing == "souffle is not installed"


def test_quick_work_is_done_three_times_and_every_answer_is_written_down(tmp_path: Path) -> None:
    Runner(tmp_path / "results.jsonl", lambda words: None).ask("duckdb", SMALL)
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [line["contender"] for line in lines] == ["duckdb"] * 3
    assert {line["answer"]["size"] for line in lines} == {405}


def test_a_target_is_met_missed_or_open() -> None:
    report = Report("", ())
    report.at_most("a", 0.4, 0.5)
    report.at_most("b", 0.6, 0.5)
    report.at_least("c", 30.0, 20)
    report.at_most("d", None, 0.5)
    assert [v.met for v in report.verdicts] == [True, False, True, None]


def test_the_95th_percentile_leaves_out_one_in_twenty() -> None:
    assert percentile95([float(n) for n in range(1, 101)]) == 95
    assert percentile95([3.0]) == 3


def test_an_unknown_name_is_wrong_usage() -> None:
    done = subprocess.run([sys.executable, "-m", "bench", "b99"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "b1, b2, b3" in done.stderr
