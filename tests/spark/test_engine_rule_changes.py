"""Rules are added and removed on Spark: rows follow as they do on the local engine, and no view is computed anew."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import upshot
from tests.database.test_rule_changes import BLOCKS, LINKS, REWRITINGS, follow_rewriting
from tests.engine.driver import plain, plan_of
from tests.properties.engines import Make, connect
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.spark.engine_driver import SparkDriver
from tests.spark.packing import failures, prefixed
from upshot.check import check
from upshot.core.errors import ProgramError
from upshot.database.program.compile import Compiled, compile_text, difference, empty_program
from upshot.engine.local import LocalEngine
from upshot.engine.naive import evaluate
from upshot.engine.spark.engine import SparkEngine
from upshot.syntax import parse, print_item, print_program
from upshot.syntax.ast import Program, Rule

pytestmark = pytest.mark.slow
"""Every round of a change is a Spark job."""

BESIDE = """
.decl near(x: number, y: number)
.decl reach(x: number, y: number)
.decl busy(x: number, n: number)
.view path policy=strict
.view near strategy=counting
.view reach strategy=epf
.view busy materialized=false
near(X, Y) :- edge(X, Y).
near(X, Y) :- edge(Y, X).
reach(X, Y) :- edge(X, Y).
reach(X, Z) :- reach(X, Y), edge(Y, Z).
busy(X, N) :- reach(X, _), N = count : { reach(X, _) }.
"""
"""Views of every kind beside a recursive one that falls into parts: counted, not stored, an aggregate of the latter."""
MORE = LINKS + " near(X, Y) :- link(X, Y). reach(X, Y) :- link(X, Y)."
VIEWS = ("path", "far", "near", "reach", "busy")


def filled(db: Any, text: str, blocks: int) -> Any:
    db.define(text)
    with db.transaction() as tx:
        tx.insert("edge", [(100 * block + n, 100 * block + n + 1) for block in range(blocks) for n in range(5)])
        tx.insert("link", [(5, 100), (3, 5)])
    return db


@pytest.mark.parametrize("way", ["on_spark", pytest.param("on_files", marks=pytest.mark.deep)])
def test_rules_come_and_go_and_views_of_every_kind_follow(way: str, request: pytest.FixtureRequest) -> None:
    make: Make = request.getfixturevalue(way)
    with filled(make(), BLOCKS + BESIDE, 8) as db, filled(upshot.connect(), BLOCKS + BESIDE, 8) as local:
        before = {view: plain(db.rows(view)) for view in VIEWS}
        whole = sum(map(len, before.values()))
        for change in ("add_rule", "remove_rule"):
            made, wanted = getattr(db, change)(MORE), getattr(local, change)(MORE)
            assert (made.recomputed, set(made.followed)) == ((), set(VIEWS))
            assert (made.kept, made.followed) == (wanted.kept, wanted.followed)
            for view in VIEWS:
                now = plain(local.rows(view))
                assert plain(db.rows(view)) == now
                assert plain(made.changes[view].inserted) == now - before[view], view
                assert plain(made.changes[view].deleted) == before[view] - now, view
                before[view] = now
            assert made.stats.derived < whole
            assert made.stats.views["path"].derived < len(before["path"]) / 3
            local.verify()
        # The state it leaves is one to go on from.
        with db.transaction() as tx:
            tx.delete("edge", [(1, 2)])
        assert plain(tx.changes["near"].deleted) == {(1, 2), (2, 1)}
        assert len(tx.changes["path"].deleted) == len(tx.changes["reach"].deleted) == 8


def test_the_last_base_rule_takes_every_row_along_and_a_strict_view_is_not_computed_anew(on_spark: Make) -> None:
    with filled(on_spark(), BLOCKS + ".view path policy=strict", 4) as db:
        made = db.remove_rule("path(X, Y) :- edge(X, Y).")
        assert (set(made.followed), len(db.rows("path")), len(made.changes["path"].deleted)) == (
            {"path", "far"},
            0,
            4 * 15,
        )
        db.verify()
        with pytest.raises(upshot.Error) as caught:
            db.define("path(X, Y) :- link(Y, X).")
        assert caught.value.code == "would-recompute"
        assert db.add_rule("path(X, Y) :- edge(X, Y), X > 100.").followed
        db.verify()


def test_a_view_of_production_rules_follows_too(on_spark: Make) -> None:
    with filled(on_spark(), BLOCKS + ".view path strategy=production policy=strict", 3) as db:
        before = plain(db.rows("path"))
        made = db.add_rule(LINKS)
        assert (made.recomputed, set(made.followed)) == ((), {"path", "far"})
        assert plain(made.changes["path"].inserted) == plain(db.rows("path")) - before
        db.verify()
        with db.transaction() as tx:
            tx.delete("edge", [(1, 2)])
        assert len(tx.changes["path"].deleted) > 0
        db.verify()


@pytest.mark.deep
def test_a_view_that_is_not_stored_follows_by_rounds_too(by_rounds: Make) -> None:
    text = BLOCKS + ".view path strategy=epf\n.view far materialized=false events=insert"
    with filled(by_rounds(), text, 3) as db:
        whole = plain(db.rows("path"))
        made = db.add_rule(LINKS)
        assert (made.recomputed, set(made.followed)) == ((), {"path", "far"})
        assert plain(made.changes["path"].inserted) == plain(db.rows("path")) - whole
        assert made.stats.stored == 0
        db.verify()


def test_a_change_of_rules_that_is_undone_leaves_everything_as_it_was(spark: Any) -> None:
    with SparkDriver(spark, BLOCKS + BESIDE) as it:
        it.insert("edge", *[(n, n + 1) for n in range(6)])
        it.insert("link", (6, 0), (2, 4))
        before = it.state()
        assert it.engine.install(plan_of(BLOCKS + BESIDE + MORE), frozenset(VIEWS)) == frozenset()
        it.engine.insert("edge", [(6, 7)])
        deltas = it.engine.propagate()
        assert (6, 6) in set(deltas["path"][0])
        assert it.state() == before
        it.engine.rollback()
        assert it.state() == before
        it.delete("edge", (3, 4))
        it.assert_exact()


def test_a_clause_derives_a_row_once_however_often_it_is_written(on_spark: Make) -> None:
    def follow(name: str) -> None:
        with connect() as db, upshot.connect() as local:
            assert follow_rewriting(db, REWRITINGS[name]) == follow_rewriting(local, REWRITINGS[name])

    found = failures(on_spark, {name: partial(follow, name) for name in REWRITINGS})
    assert not found, "\n\n".join(f"{name}\n{words}" for name, words in found.items())


# ---- random programs --------------------------------------------------------------------------------------------


def subsets(number: int, rng: random.Random, strategy: str, most: int = 4) -> Iterator[str]:
    """Texts of one random program with some of its rules left out, each a program by itself."""
    case = random_case(seed_of(f"spark rules {strategy}", number), Features(recursion=0.7))
    items = parse(case.text()).items
    rules = [item for item in items if isinstance(item, Rule) and _is_rule(item)]
    views = sorted({head.relation for rule in rules for head in rule.heads})
    for _ in range(most):
        gone = rng.sample(rules, min(len(rules) - 1, rng.randint(0, 2)))
        left = Program(tuple(item for item in items if item not in gone))
        yield print_program(left) + "".join(f".view {view} strategy={strategy}\n" for view in views)


STRATEGIES = ("auto", "maintenance", "bf", "production", "rod", "epf", "epf materialized=true")


def test_what_is_computed_anew_is_so_on_both_engines(spark: Any) -> None:
    """No row is needed for that: definitions are installed, compared and undone."""
    compared = followed = 0
    for number in range(case_count(50, least=14)):
        strategy, rng = STRATEGIES[number % len(STRATEGIES)], random.Random(number)
        programs = [each for text in subsets(number, rng, strategy) if (each := compiled(text)) is not None]
        if len(programs) < 2:
            continue
        engines = (LocalEngine(), SparkEngine(spark))
        for engine in engines:
            engine.install(programs[0].plan)
            if isinstance(engine, LocalEngine):
                engine.propagate()
            engine.accept()
        for other in programs[1:]:
            changed = difference(programs[0], other).changed
            anew, on_spark = (engine.install(other.plan, changed) for engine in engines)
            assert anew == on_spark, (print_program(programs[0].program), print_program(other.program))
            compared, followed = compared + 1, followed + bool(changed - anew)
            for engine in engines:
                engine.rollback()
        for engine in engines:
            engine.close()
    assert 0 < followed < compared


def compiled(text: str) -> Compiled | None:
    try:
        return compile_text(text, empty_program())
    except ProgramError:
        return None


def _is_rule(item: Any) -> bool:
    return isinstance(item, Rule) and item.body is not None


class Part:
    """One random program of several in a database; a rule of it comes or goes at a time."""

    def __init__(self, number: int, strategy: str) -> None:
        case = random_case(seed_of(f"spark follows {strategy}", number), Features(recursion=0.7))
        prefix = f"p{number}_"
        self.base = {prefix + name: set(rows) for name, rows in case.base.items()}
        program = prefixed(parse(case.text()), prefix)
        self.views = sorted({head.relation for item in program.items if _is_rule(item) for head in item.heads})
        options = "".join(f".view {view} strategy={strategy}\n" for view in self.views)
        self.text = print_program(program) + (options if strategy != "auto" else "")
        self.items = parse(self.text).items
        self.rules = [item for item in self.items if isinstance(item, Rule) and _is_rule(item)]
        self.left = set(range(len(self.rules)))

    def wanted(self, left: set[int]) -> dict[str, set[Any]]:
        """What the views hold with these rules, by the oracle."""
        rules = [self.rules[number] for number in left]
        program = check(Program(tuple(item for item in self.items if item not in self.rules or item in rules)))
        return {view: set(program.facts.get(view, ())) for view in self.views} | evaluate(program, self.base)

    def chosen(self, rng: random.Random, *, adds: bool) -> str:
        """A rule that can come, or go, as text; nothing if there is none."""
        numbers = [n for n in range(len(self.rules)) if (n in self.left) != adds]
        rng.shuffle(numbers)
        for number in numbers:
            try:
                self.wanted(self.left ^ {number})
            except ProgramError:
                continue
            self.left ^= {number}
            return print_item(self.rules[number])
        return ""


@pytest.mark.parametrize("strategies", [("auto", "maintenance", "bf"), ("epf", "rod", "epf materialized=true")])
def test_random_programs_follow_their_rules_exactly(strategies: tuple[str, ...], on_spark: Make) -> None:
    """Several programs in one database, whose rules come and go in the same definitions."""
    rng = random.Random(seed_of("spark follows", len(strategies)))
    parts = [Part(number, strategies[number % len(strategies)]) for number in range(case_count(300, least=6))]
    with on_spark() as db:
        db.define("\n".join(part.text for part in parts))
        with db.transaction() as tx:
            for part in parts:
                for name, given in part.base.items():
                    tx.insert(name, list(given))
        before = {view: rows for part in parts for view, rows in part.wanted(part.left).items()}
        for adds in (False, False, True):
            text = " ".join(part.chosen(rng, adds=adds) for part in parts)
            change: Callable[[str], Any] = db.add_rule if adds else db.remove_rule
            made = change(text)
            now = {view: rows for part in parts for view, rows in part.wanted(part.left).items()}
            for view, rows in now.items():
                assert plain(made.changes[view].inserted) == rows - before[view], (view, text)
                assert plain(made.changes[view].deleted) == before[view] - rows, (view, text)
            before = now
        for view, rows in before.items():
            assert plain(db.rows(view)) == rows, view
