"""Looking back: answers, explanations and view updates of a version that is kept."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import upshot
from tests.properties.settings import base_seed, case_count

GRAPH = """
    .decl edge(x: number, y: number)
    .decl reach(x: number, y: number)
    reach(X, Y) :- edge(X, Y).
    reach(X, Z) :- reach(X, Y), edge(Y, Z).
    .decl far(x: number, y: number)
    far(X, Y) :- reach(X, Y), !edge(X, Y).
    .view far materialized=false events=none
"""


def test_every_version_answers_as_it_did_when_it_was_the_last(tmp_path: Path) -> None:
    for case in range(case_count(100, least=2)):
        chance = random.Random(f"{base_seed()}-past-{case}")
        known: dict[int, dict[str, set[tuple[int, ...]]]] = {}
        with upshot.connect(tmp_path / str(case)) as db:
            db.define(GRAPH)
            for _ in range(8):
                known[db.version] = {view: set(db.rows(view)) for view in ("edge", "reach", "far")}
                with db.transaction() as tx:
                    for _ in range(chance.randint(1, 3)):
                        row = [(chance.randint(1, 4), chance.randint(1, 4))]
                        tx.delete("edge", row) if chance.random() < 0.4 else tx.insert("edge", row)
            known[db.version] = {view: set(db.rows(view)) for view in ("edge", "reach", "far")}
            for version, views in known.items():
                past = db.at(version)
                for view, rows in views.items():
                    assert set(past.rows(view)) == rows
                    assert set(past.query(f"{view}(X, Y)")) == rows
                assert set(past.sql("select x, y from reach where x = :x", x=1)) == {
                    r for r in views["reach"] if r[0] == 1
                }
                later = chance.choice([each for each in known if each >= version])
                for view in views:
                    changed = db.changes(view, since=version, until=later)
                    assert set(changed.inserted) == known[later][view] - views[view]
                    assert set(changed.deleted) == views[view] - known[later][view]
            db.verify()


def test_a_past_version_explains_and_realizes(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db") as db:
        db.define(GRAPH)
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2), (2, 3)])
        version = db.version
        with db.transaction() as tx:
            tx.delete("edge", [(1, 2), (2, 3)])
        past = db.at(version)
        assert past.why("reach", (1, 3)).row == (1, 3)
        found = {tuple(map(tuple, each.delete["edge"])) for each in past.realize(delete={"reach": [(1, 3)]})}
        assert found == {((1, 2),), ((2, 3),)}
        assert len(past.what_if(delete={"edge": [(2, 3)]})["reach"].deleted) == 2
        assert not db.rows("edge"), "nothing was changed"
        changed = db.changes("reach($x, Y)", since=version, x=1)
        assert (set(changed.inserted), set(changed.deleted)) == (set(), {(2,), (3,)})


def test_versions_that_cannot_be_made_again_are_refused(tmp_path: Path) -> None:
    db = upshot.connect()
    db.define(GRAPH)
    for number in range(3):
        with db.transaction() as tx:
            tx.insert("edge", [(number, number)])
    assert set(db.at(db.version - 1).rows("edge")) == {(0, 0), (1, 1)}
    for version, code in (
        (0, "history-not-kept"),
        (99, "history-not-kept"),
        (-1, "wrong-argument"),
        ("x", "wrong-argument"),
    ):
        with pytest.raises(upshot.Error) as caught:
            db.at(version)  # type: ignore[arg-type]
        assert caught.value.code == code
    with pytest.raises(upshot.Error) as caught:
        db.changes("edge", since=db.version, until=db.version - 1)
    assert caught.value.code == "wrong-argument"
    with upshot.connect(tmp_path / "db") as kept:
        kept.define(GRAPH)
        kept.add_rule("reach(X, X) :- edge(X, _).")
        uses: list[Callable[[], object]] = [
            lambda: kept.at(1).rows("reach"),
            lambda: kept.at(1).query("reach(X, 1)"),
            lambda: kept.at(1).sql("SELECT * FROM reach"),
            lambda: kept.changes("reach", since=1),
            lambda: kept.at(1).database,
        ]
        for use in uses:
            with pytest.raises(upshot.Error) as caught:
                use()
            assert caught.value.code == "program-changed"
        assert kept.first_version("reach") == 2
        assert len(kept.at(1).rows("edge")) == 0


def test_a_definition_elsewhere_leaves_the_past_of_a_view_readable(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db") as db:
        db.define(GRAPH)
        states = {}
        for number in range(4):
            with db.transaction() as tx:
                tx.insert("edge", [(number, number + 1)])
            states[db.version] = set(db.rows("reach"))
        db.define(".decl zz(x: number) .decl zs(x: number) zs(X) :- zz(X), edge(X, _).")
        with db.transaction() as tx:
            tx.insert("zz", [(1,)])
            tx.delete("edge", [(0, 1)])
        states[db.version] = set(db.rows("reach"))
        db.define(".decl yy(x: symbol)")
    with upshot.connect(tmp_path / "db") as db:
        assert db.first_version("reach") <= 1
        for version, rows in states.items():
            assert set(db.at(version).rows("reach")) == rows
            assert set(db.at(version).query("reach(X, Y)")) == rows
            assert set(db.at(version).sql("SELECT * FROM reach")) == rows
            for later, after in states.items():
                if later >= version:
                    net = db.changes("reach", since=version, until=later)
                    assert (set(net.inserted), set(net.deleted)) == (after - rows, rows - after)
        assert db.first_version("zs") == 6
        with pytest.raises(upshot.UsageError) as caught:
            db.at(3).rows("zs")
        assert caught.value.code == "program-changed"
        assert "`zs`, or what it depends on, was changed since version 3" in caught.value.message
        assert caught.value.help == "give a version from 6 to 8"
        db.verify()


def test_a_relation_dropped_and_declared_again_has_no_past_before(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db") as db:
        db.define(GRAPH + " .decl extra(x: number) .decl seen(x: number) seen(X) :- extra(X).")
        with db.transaction() as tx:
            tx.insert("extra", [(1,)])
            tx.insert("edge", [(1, 2)])
        first = db.version
        with db.transaction() as tx:
            tx.delete("extra", [(1,)])
        db.drop("seen")
        db.drop("extra")
        db.define(".decl extra(x: symbol) .decl seen(x: symbol) seen(X) :- extra(X).")
        with db.transaction() as tx:
            tx.insert("extra", [("a",)])
        assert set(db.at(first).rows("reach")) == {(1, 2)}
        for name in ("extra", "seen"):
            with pytest.raises(upshot.UsageError) as caught:
                db.at(first).rows(name)
            assert caught.value.code == "program-changed"
        db.verify()


def test_arguments_of_wrong_types_are_refused() -> None:
    db = upshot.connect()
    db.define(GRAPH)
    with db.transaction() as tx:
        tx.insert("edge", [(1, 2)])
    now, wrong = db.at(db.version), (None, "a", True, 1.5, -1)
    uses: list[Callable[[], object]] = [lambda: now.query(3), lambda: now.sql(3), lambda: db.changes(3, since=1)]  # type: ignore[arg-type]
    uses += [lambda since=each: db.changes("reach", since=since) for each in wrong]
    uses += [lambda until=each: db.changes("reach", since=1, until=until) for each in wrong[1:]]
    uses += [lambda: db.changes("reach($since, Y)", since=1)]
    for use in uses:
        with pytest.raises(upshot.UsageError) as caught:
            use()
        assert caught.value.code == "wrong-argument"
        assert caught.value.help
