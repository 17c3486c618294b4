"""Active rules in a pipeline: they run with each batch, their functions after it, whatever ends a run in between."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.pipeline.lake import CLOSURE, PIPELINE, Lake, Make, refused
from tests.pipeline.test_exactly_once import start
from upshot.pipeline import run
from upshot.pipeline.metrics import BatchMetrics, RuleMetrics

PROGRAM = (
    CLOSURE
    + """
.decl seen(x: number)
.rule notice(X) on insert edge(X, _) when !seen(X) do insert seen(X).
.rule told(X) on insert seen(X) do call tell(X).
.rule judged(X) coupling=deferred on insert path(X, X) do call judge(X).
"""
)
ACTIONS = """
import os, signal
from pathlib import Path
import upshot

HERE = Path(__file__).parent

def tell(rows, firing):
    with open(HERE / "calls.txt", "a") as calls:
        calls.write(f"{firing.key} {[x for x, in rows]}\\n")
    if (HERE / "fail").exists():
        raise ConnectionError("nobody there")
    if (HERE / "die").exists():
        (HERE / "die").unlink()
        os.kill(os.getpid(), signal.SIGKILL)

def judge(rows):
    raise upshot.Veto(f"a circle through {rows[0][0]}")
"""
FILE = PIPELINE.replace('state = "state"\n', 'state = "state"\nactions = "actions.py"\n')


def with_rules(lake: Lake) -> Lake:
    (lake.root / "actions.py").write_text(ACTIONS)
    return lake


@pytest.fixture
def lake(make: Make) -> Lake:
    return with_rules(make(program=PROGRAM, pipeline=FILE))


def calls(lake: Lake) -> list[tuple[str, str]]:
    """The key and the rows of every call."""
    return [
        (key, rows)
        for line in (lake.root / "calls.txt").read_text().splitlines()
        for key, _, rows in [line.partition(" ")]
    ]


def test_rules_fire_with_each_batch_and_are_counted(lake: Lake) -> None:
    told: list[BatchMetrics] = []
    lake.change(insert=[(1, 2), (2, 3)])
    lake.run(batch=told.append)
    lake.change(insert=[(1, 4), (5, 6)])
    lake.run(batch=told.append)
    assert [rows for _, rows in calls(lake)] == ["[1, 2]", "[5]"]
    assert told[0].rules == {"notice": RuleMetrics(1, 2), "told": RuleMetrics(1, 2)}
    assert lake.metrics()[1]["rules"] == {"notice": {"firings": 1, "rows": 1}, "told": {"firings": 1, "rows": 1}}
    assert lake.metrics()[1]["pending"] == 0
    assert lake.store()[1]["seen"] == [(1,), (2,), (5,)]


def test_a_rule_that_refuses_applies_nothing_and_the_batch_can_be_put_right(lake: Lake) -> None:
    lake.change(insert=[(1, 2)])
    lake.run()
    lake.change(insert=[(2, 1), (3, 4)])
    before = lake.everything()
    error = refused(lake)
    assert (type(error), error.code) == (upshot.RuleError, "vetoed")
    assert "a circle through 1" in error.message
    assert lake.everything() == before
    lake.change(delete=[(2, 1)])
    lake.run()
    assert lake.view() == [(1, 2), (3, 4)]
    assert [rows for _, rows in calls(lake)] == ["[1]", "[3]"]


def test_a_call_that_fails_is_made_again_with_the_same_key(lake: Lake) -> None:
    notes: list[str] = []
    told: list[BatchMetrics] = []
    (lake.root / "fail").touch()
    lake.change(insert=[(1, 2)])
    lake.run(batch=told.append, note=notes.append)
    assert told[0].pending == 1
    assert "`tell`, called by rule `told`, failed: ConnectionError: nobody there" in notes[-1]
    assert "retried with the next batch" in notes[-1]
    lake.run()
    assert len(calls(lake)) == 2, "when the next run starts"
    (lake.root / "fail").unlink()
    lake.change(insert=[(3, 4)])
    lake.run(batch=told.append)
    assert told[1].pending == 0
    (first, _), (second, _), (third, rows), (other, _) = calls(lake)
    assert first == second == third != other
    assert rows == "[1]"


def test_a_call_that_fails_is_made_again_with_the_next_batch_of_the_same_run(lake: Lake) -> None:
    (lake.root / "fail").touch()
    lake.change(insert=[(1, 2)])

    def more(metrics: BatchMetrics) -> None:
        if metrics.batch == 0:
            (lake.root / "fail").unlink()
            lake.change(insert=[(3, 4)])

    lake.run(batch=more)
    assert [rows for _, rows in calls(lake)] == ["[1]", "[1]", "[3]"]
    assert [metrics["pending"] for metrics in lake.metrics()] == [1, 0]


@pytest.mark.slow
def test_a_driver_killed_between_commit_and_call_calls_again_with_the_same_key(spark: Any, tmp_path: Path) -> None:
    lake = with_rules(Lake(tmp_path, PROGRAM, FILE))
    (lake.root / "die").touch()
    lake.change(insert=[(1, 2)])
    assert start(lake) == -9
    lake.spark = spark
    lake.run()
    (first, rows), (second, again) = calls(lake)
    assert first == second
    assert rows == again == "[1]"
    assert lake.view() == [(1, 2)]


def test_what_rules_change_after_the_commit_is_published_with_the_batch(make: Make) -> None:
    program = CLOSURE + ".rule back(X, Y) coupling=after on insert edge(X, Y) when X < Y do insert edge(Y, X)."
    lake = make(program=program)
    lake.change(insert=[(1, 2)])
    lake.run()
    assert lake.view() == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_rules_without_end_after_the_commit_stop_the_run_and_the_next_one_goes_on(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "connect", functools.partial(upshot.connect, max_firings=5))
    lake = make(
        program=CLOSURE + ".rule on(X, Y) coupling=after on insert edge(X, Y) when Y < 9 do insert edge(Y, Y + 1)."
    )
    lake.change(insert=[(1, 2)])
    assert refused(lake).code == "runaway-rules"
    lake.change(insert=[(20, 21)])
    lake.run()
    edges = lake.store()[1]["edge"]
    assert (1, 2) in edges
    assert (20, 21) in edges
    assert [metrics["replayed"] for metrics in lake.metrics()] == [True, False]


def test_a_function_that_is_not_there_is_missed_before_anything_starts(make: Make) -> None:
    lake = make(program=PROGRAM)
    error = refused(lake)
    assert error.code == "unknown-action"
    assert "`actions` in a pipeline file" in error.help
    assert not (lake.state / "store").exists()
    lake = make(program=PROGRAM, pipeline=FILE)
    assert refused(lake).code == "no-such-file"
    (lake.root / "actions.py").write_text("import no_such_module")
    assert refused(lake).code == "broken-actions"


def test_a_rule_that_is_gone_from_the_program_does_not_fire(lake: Lake) -> None:
    lake.change(insert=[(1, 2)])
    lake.run()
    lake.program = CLOSURE + ".decl seen(x: number)\n"
    lake.write()
    lake.change(insert=[(3, 4)])
    lake.run()
    assert lake.store()[1]["seen"] == [(1,)]
    assert len(calls(lake)) == 1
