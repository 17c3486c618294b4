"""The registry of strategies, and that the rules which `upshot rewrite` prints are those that engines run."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from typer.testing import CliRunner

import upshot
from upshot.check.options import STRATEGIES
from upshot.check.printing import print_clause
from upshot.cli.app import app
from upshot.engine.local.engine import LocalEngine
from upshot.strategies.names import NAMES, WITH_RULES
from upshot.strategies.strategy import Procedure, Stores, ViewShape, on_demand, ranked, strategies, strategy_named

PROGRAM = """
.decl edge(x: number, y: number)
.decl step(x: number, y: number)
.decl closure(x: number, y: number)
.decl near(x: number)
.decl far(x: number)
step(X, Y) :- edge(X, Y), X != Y.
closure(X, Y) :- step(X, Y).
closure(X, Z) :- closure(X, Y), closure(Y, Z).
near(X) :- closure(1, X).
far(X) :- near(X), !edge(1, X).
"""


def asking(strategy: str) -> str:
    """The program with views that nobody reads but through others."""
    lines = [f".view {view} strategy={strategy}" for view in ("closure", "far")]
    lines += [f".view {view} strategy={strategy} events=none" for view in ("step", "near")]
    return "\n".join([PROGRAM, *lines])


def printed(path: Path, text: str, strategy: str) -> set[str]:
    file = path / "program.dl"
    file.write_text(text)
    ended = CliRunner().invoke(app, ["rewrite", str(file), "-s", strategy, "--format", "json"])
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)["rules"]
    return {f"{each['head']} :- {', '.join(each['body'])}." if each["body"] else f"{each['head']}." for each in found}


def test_every_name_is_a_module_with_the_record_of_that_name() -> None:
    assert [strategy_named(name).name for name in NAMES] == list(NAMES)
    assert ("auto", *NAMES) == STRATEGIES
    shown = [each.name for each in strategies() if each.listing is not None or each.demand is not None]
    assert tuple(shown) == WITH_RULES


def test_the_record_says_what_a_strategy_stores_and_how_it_runs() -> None:
    for each in strategies():
        assert (each.demand is not None) == (each.procedure is Procedure.DEMAND) == (each.stores is Stores.NOTHING)
        assert (each.stores is Stores.COUNTS) == (each.procedure is Procedure.COUNTS), each
        assert each.adds is None or each.adds in each.stages, each
        assert each.follows_as is None or each.follows_as.follows_rules, each
    ranks = [each.rank for each in strategies() if each.demand is None]
    assert len(set(ranks)) == len(ranks)


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("folds", [False, True])
@pytest.mark.parametrize("multiplies", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_one_strategy_is_best_for_every_shape(recursive: bool, folds: bool, multiplies: bool, stored: bool) -> None:
    (best, verdict), *others = ranked(ViewShape(recursive, folds, multiplies, stored=stored))
    assert best.obstacle(ViewShape(recursive)) is None
    assert all(verdict.preference > other.preference for _, other in others)


def test_a_strategy_that_travels_to_another_process_stays_the_same_object() -> None:
    for each in strategies():
        assert pickle.loads(pickle.dumps(each)) is each


@pytest.mark.parametrize("strategy", on_demand())
def test_the_rules_of_views_on_demand_are_printed_as_they_run(tmp_path: Path, strategy: str) -> None:
    """Closures made linear, views unfolded, constants pushed down, one operator a rule."""
    with upshot.connect() as db:
        db.define(asking(strategy))
        with db.transaction() as tx:
            tx.insert("edge", [(n, n + 1) for n in range(9)])
        with db.transaction() as tx:
            tx.insert("edge", [(3, 9)])
            tx.delete("edge", [(1, 2)])
        engine = db._state.engine
        assert isinstance(engine, LocalEngine)
        views = engine._now.on_demand
        assert views is not None
        both = (("edge", frozenset({"ins", "del"})),)
        (run,) = [run for key, run in views._runs.items() if both in key]
    rules = printed(tmp_path, asking(strategy), strategy)
    assert {print_clause(rule.clause) for rule in run.program.rules} <= rules
    sections = {"propagation": 2}
    if strategy not in sections:
        assert len(rules) == len({print_clause(rule.clause) for rule in run.program.rules})


def test_the_closure_that_rod_prints_is_the_linear_one_that_runs(tmp_path: Path) -> None:
    rules = printed(tmp_path, asking("rod"), "rod")
    assert "closure_del(X, Z) :- closure_del(X, Y), step(Y, Z)." in rules
    assert not [
        rule for rule in rules if rule.startswith("closure_del(") and "closure(" in rule and "_del(X" not in rule
    ]


def test_differencing_prints_no_node_that_the_engine_unfolds(tmp_path: Path) -> None:
    rules = printed(tmp_path, asking("differencing"), "differencing")
    assert not [rule for rule in rules if "near" in rule]
    assert any("edge_ins(" in rule for rule in rules)


@pytest.mark.parametrize("strategy", ["maintenance", "bf", "counting", "production"])
def test_the_rules_of_stored_views_are_printed_as_they_run(tmp_path: Path, strategy: str) -> None:
    text = PROGRAM if strategy != "counting" else PROGRAM.replace("closure(Y, Z)", "step(Y, Z)").replace(
        "closure(X, Y), step", "step(X, Y), step"
    )  # fmt: skip
    views = [f".view {view} strategy={strategy}" for view in ("step", "closure", "near", "far")]
    with upshot.connect() as db:
        db.define("\n".join([text, *views]))
        components = db._state.compiled.plan.components
    rules = printed(tmp_path, text, strategy)
    for component in components:
        if strategy == "production":
            assert len(component.production) == len(
                [r for r in rules if r.split(" ")[1].startswith(component.views[0])]
            )
            continue
        run = {print_clause(rule.clause) for rule in component.rules if rule.driver is not None}
        assert run <= rules, component.views
