"""The modules workload is what it says, and its views and constraints come out right by every strategy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import upshot
from bench import draw
from bench.contenders.on_demand import run
from bench.integrity import constraints, program
from bench.modules import MODULES, PROCEDURES, VIEWS, Modules
from bench.process import Runner
from bench.tasks import Graph, Task
from upshot.strategies.strategy import on_demand


def test_a_system_has_the_size_of_the_paper_and_larger_ones_hold_the_same_first_copy() -> None:
    small, large = Modules(1), Modules(3)
    tables, tripled = small.tables(), large.tables()
    assert (len(tables["module"]), len(tables["defined_in"])) == (MODULES, PROCEDURES)
    assert all(len(tripled[name]) > 2 * len(rows) for name, rows in tables.items() if len(rows) > 100)
    assert all(set(rows) <= set(tripled[name]) for name, rows in tables.items())
    assert small.links(10) == large.links(10)
    assert not set(small.links(10)) & set(tables["import"])


def test_no_import_leaves_its_copy() -> None:
    assert all(module.split("_")[0] == procedure.split("_")[0] for module, procedure in Modules(2).tables()["import"])


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_by_hand_is_the_view_by_its_rules(view: str) -> None:
    modules = Modules()
    with upshot.connect() as db:
        db.define(modules.program(view, "recompute"))
        with db.transaction() as tx:
            for name, table in modules.arrow()[0].items():
                tx.insert(name, table)
        assert set(db.rows(view)) == modules.expected(view)


def test_there_are_eighty_constraints_and_they_make_one_program() -> None:
    names = list(constraints())
    assert len(names) == 80
    with upshot.connect() as db:
        db.define(program(names, "epf"))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", on_demand())
def test_one_row_changes_are_checked_and_nothing_is_stored(strategy: str) -> None:
    edges = run(Task("edges", Graph("blocks", (400, 900)), {"strategy": strategy, "edges": 3}))
    assert {kind: len(times) for kind, times in edges.times.items()} == {"delete": 3, "insert": 3}
    options = {"strategy": strategy, "view": "short_ones", "copies": 1, "links": 2}
    assert len(run(Task("modules", options=options)).times["insert"]) == 2


@pytest.mark.slow
def test_constraints_say_the_same_stored_or_not(tmp_path: Path) -> None:
    runner = Runner(tmp_path / "results.jsonl", lambda words: None)
    digests = set()
    for strategy in ("auto", "epf"):
        options = {"strategy": strategy, "copies": 1, "links": 2, "dearest": ["undefined"]}
        answer = runner.ask("on_demand", Task("integrity", options=options))
        assert answer.error == ""
        digests.add(answer.notes["digest"])
    assert len(digests) == 1


def test_the_picture_is_drawn_from_the_figures_beside_it() -> None:
    figures = json.loads((draw.PAGE / "strategies.json").read_text())
    assert (draw.PAGE / "strategies.svg").read_text() == draw.picture(figures)
