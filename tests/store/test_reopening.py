"""A database that is opened again is the one that was closed."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import upshot
from tests.database.test_random_definitions import BASE, DECLARED, random_text, random_transaction
from tests.properties.settings import case_count, seed_of
from tests.store.stores import PATHS, contents, printed, small_is_large, state
from upshot.database.durable.opening import open_durable
from upshot.engine.local import LocalEngine

TYPES = """
.type City <: symbol
.decl v(id: number, n: number, u: unsigned, f: float, s: symbol, b: boolean, d: date, t: timestamp, m: decimal(18,4),
        c: City)
.decl w(id: number, n: number?, u: unsigned?, f: float?, s: symbol?, b: boolean?, d: date?, t: timestamp?,
        m: decimal(5,0)?)
.decl same(id: number, f: float)
same(I, F) :- v(I, _, _, F, _, _, _, _, _, _).
.decl flag()
"""

UTC = dt.UTC
EXTREMES = [
    (1, -(2**63), 0, math.nan, "", False, dt.date.min, dt.datetime.min.replace(tzinfo=UTC), Decimal("-0.0001"), "x"),
    (2, 2**63 - 1, 2**64 - 1, -0.0, "astral 😀 \U0001d518 \u0000 \u2028 \t\r\n \"'\\", True, dt.date.max,
     dt.datetime.max.replace(tzinfo=UTC), Decimal("99999999999999.9999"), "Zürich"),
    (3, 0, 2**63, math.inf, "é", True, dt.date(1969, 12, 31), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
     Decimal(0), "\ufffd"),
    (4, -1, 1, -math.inf, "e\u0301", False, dt.date(2024, 2, 29), dt.datetime(2300, 1, 1, 0, 0, 0, 1, UTC),
     Decimal("1.5000"), "NULL"),
    (5, 7, 7, 5e-324, "NaN", False, dt.date(1, 2, 3), dt.datetime(1, 2, 3, tzinfo=UTC), Decimal(-1), "Infinity"),
    (6, 2**53 + 1, 2**53 + 1, 1.7976931348623157e308, "[1]", True, dt.date(9999, 1, 1),
     dt.datetime(2026, 1, 31, tzinfo=UTC), Decimal("123.4560"), "-"),
]  # fmt: skip
NULLABLE = [
    (1, None, None, None, None, None, None, None, None),
    (2, 2**63 - 1, 2**64 - 2, math.nan, "", False, dt.date.max, dt.datetime(1970, 1, 1, tzinfo=UTC), Decimal(99999)),
    (3, None, 0, -0.0, None, True, None, None, Decimal(-99999)),
]


@pytest.mark.parametrize("form", ["in the log", "in folders", "in a snapshot"])
def test_values_of_every_type_come_back_as_they_were(form: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_is_large(monkeypatch, 1 if form == "in folders" else 4096), upshot.connect(root) as db:
        db.define(TYPES)
        with db.transaction() as tx:
            tx.insert("v", EXTREMES)
            tx.insert("w", NULLABLE)
            tx.insert("flag", [()])
        if form == "in a snapshot":
            db.snapshot()
        before = state(db)
        logged = {name: printed(change.inserted) for name, change in tx.changes.items()}
    assert (root / "deltas").exists() == (form == "in folders")
    with upshot.connect(root) as db:
        assert state(db) == before
        (commit,) = db.history(since=1)
        assert {name: printed(change.inserted) for name, change in commit.changes.items()} == logged
        assert math.copysign(1, next(iter(db.query("v(2, _, _, F, _, _, _, _, _, _)")))[0]) == 1
        db.verify()
        with db.transaction() as tx:
            tx.delete("v", EXTREMES)
            tx.delete("w", NULLABLE)
            tx.delete("flag", [()])
        assert len(tx.changes["v"].deleted) == len(EXTREMES)
    with upshot.connect(root) as db:
        assert not any(contents(db).values())


def test_the_form_of_arrow_is_that_of_the_rows(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = []
    for rows in (4096, 1):
        with small_is_large(monkeypatch, rows), upshot.connect(root / str(rows)) as db:
            db.define(TYPES)
            with db.transaction() as tx:
                tx.insert("w", NULLABLE)
            (commit,) = db.history(since=1)
            tables.append(commit.changes["w"].inserted.to_arrow().sort_by("id"))
            live = tx.changes["w"].inserted.to_arrow().sort_by("id")
            assert tables[-1].schema == live.schema
            assert tables[-1].to_pylist()[0] == live.to_pylist()[0]
    assert tables[0].column("u").equals(tables[1].column("u"))


@pytest.mark.parametrize("rows", [1, 5_000])
def test_text_that_is_no_text_is_refused_and_nothing_is_committed(rows: int, root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(".decl r(x: number, s: symbol)")
        with pytest.raises(upshot.DataError) as caught, db.transaction() as tx:
            tx.insert("r", [(i, "half \ud83d") for i in range(rows)])
        assert caught.value.code == "wrong-type"
        assert (db.version, len(db.rows("r"))) == (1, 0)
    with upshot.connect(root) as db:
        assert db.version == 1


class Keeping(LocalEngine):
    """An engine that wants the rows of hidden relations from the store."""

    @property
    def keeps(self) -> set[str]:
        assert self._now.plan is not None
        return set(self._now.plan.normal.schemas)


def test_hidden_relations_are_stored_for_an_engine_that_keeps_them_whoever_opens_in_between(root: Path) -> None:
    text = ".decl n(x: number, c: number)\nn(X, C) :- e(X, _), C = count : { e(X, Y), f(Y, _) }.\n"
    db = open_durable(root, Keeping)
    db.define(BASE + DECLARED + random_text(random.Random(1), whole=True) + text)
    dice = random.Random(2)
    for step in range(8):
        for _ in range(3):
            random_transaction(dice, db)
        if step % 5 == 4:
            db.define(random_text(dice, whole=False))
        if step % 4 == 3:
            db.snapshot()
        hidden = {name for name in db._state.compiled.plan.normal.schemas if name not in db.schemas}
        assert hidden
        before, kept = state(db), db._state.journal.relations.keys() & hidden
        assert kept == hidden or step > 0
        db.close()
        db = open_durable(root, dice.choice((Keeping, LocalEngine)))
        assert db._state.journal.store.recovered.saved.keys() >= kept
        assert state(db) == before
        db.verify()
    db.close()


def test_versions_go_on_and_views_follow(root: Path) -> None:
    for number in range(1, 5):
        with upshot.connect(root) as db:
            db.define(PATHS)
            with db.transaction() as tx:
                tx.insert("edge", [(number, number + 1)])
            assert tx.version == db.version == number + 1
            assert len(tx.changes["path"].inserted) == number
            db.verify()
    with upshot.connect(root) as db:
        assert db.rows("any") == {()}
        with pytest.raises(upshot.ConstraintError), db.transaction() as tx:
            tx.insert("edge", [(3, 1)])
        assert db.version == 5


def test_a_database_is_where_it_was_opened_even_if_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with small_is_large(monkeypatch), upshot.connect("store/") as db:
        db.define(PATHS)
        monkeypatch.chdir("/")
        with db.transaction() as tx:
            tx.insert("edge", [(i, i + 1) for i in range(5)])
        db.snapshot()
        assert len(next(db.history(since=1)).changes["path"].inserted) == 15
    assert (tmp_path / "store" / "snapshots").exists()
    with pytest.raises(upshot.UsageError, match="a path, not int"):
        upshot.connect(7)


def test_an_empty_store_and_one_with_nothing_but_a_program_open_again(root: Path) -> None:
    with upshot.connect(root) as db:
        assert db.version == 0
        db.snapshot()
    with upshot.connect(root) as db:
        assert (db.version, dict(db.schemas)) == (0, {})
        db.define(".decl r(x: number)")
    with upshot.connect(root) as db:
        assert (db.version, list(db.schemas)) == (1, ["r"])


@pytest.mark.parametrize("part", range(5))
def test_reopening_at_any_moment_changes_nothing(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions, transactions and snapshots in any order, on a database that is opened again and again and on one in
    memory: the same changes, the same rows."""
    for case in range(case_count(500, least=2)):
        dice = random.Random(seed_of("reopening", part * 1_000 + case))
        root = tmp_path / str(case)
        db, other = upshot.connect(root), upshot.connect()
        with small_is_large(monkeypatch, dice.choice((1, 2, 4096))):
            first = BASE + DECLARED + random_text(dice, whole=True)
            db.define(first)
            other.define(first)
            for _ in range(12):
                luck = dice.random()
                if luck < 0.35:
                    db.close()
                    db = upshot.connect(root)
                elif luck < 0.45:
                    db.snapshot()
                elif luck < 0.65:
                    text = random_text(dice, whole=False)
                    same(db.define(text).changes, other.define(text).changes)
                else:
                    again = random.Random(dice.random())
                    rolled = again.getstate()
                    made = random_transaction(again, db).changes
                    again.setstate(rolled)
                    same(made, random_transaction(again, other).changes)
                assert state(db) == state(other)
            db.verify()
            assert rebuilt(db) == contents(db)
        db.close()


def same(one: upshot.ChangeSet, other: upshot.ChangeSet) -> None:
    assert list(one) == list(other)
    for name, change in one.items():
        assert (change.inserted, change.deleted) == (other[name].inserted, other[name].deleted)


def rebuilt(db: upshot.Database) -> dict[str, list[tuple[str, ...]]]:
    """What every relation comes to if one listens to its past from the beginning."""
    found = {}
    for name in db.schemas:
        rows: set[tuple[str, ...]] = set()
        events: list[upshot.Event] = []
        db.watch(name, events.append, since=0).close()
        for event in events:
            came, went = set(printed(event.inserted)), set(printed(event.deleted))
            if event.snapshot:
                rows = set()
            assert went <= rows
            assert not came & rows
            rows = rows - went | came
        found[name] = rows
    there = contents(db)
    assert {name: set(rows) for name, rows in there.items()} == found
    return there


def test_a_view_that_becomes_a_relation_and_back_keeps_its_rows_right(root: Path) -> None:
    texts = [
        ".decl r(x: number)\n.decl s(x: number)\ns(X) :- r(X), X > 1.",
        ".decl s(x: number)\ns(2).\ns(9).",
        ".decl s(x: number)\n.input s\ns(X) :- r(X).",
        ".decl s(x: number)",
        ".decl s(x: number, y: number)\ns(X, X) :- r(X).",
        ".decl s(x: number)\ns(X) :- r(X).",
    ]
    memory = upshot.connect()
    for number, text in enumerate(texts):
        with upshot.connect(root) as db:
            same(db.define(text).changes, memory.define(text).changes)
            for each in (db, memory):
                with each.transaction() as tx:
                    if number == 3:
                        tx.replace("s", [])
                    elif number < 3:
                        tx.insert("r", [(number,), (number + 2,)])
            assert state(db) == state(memory)
        with upshot.connect(root) as db:
            assert state(db) == state(memory)
            db.verify()


def test_a_row_given_for_a_view_that_has_it_by_its_rules_is_not_forgotten(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(".decl r(x: number)\n.decl s(x: number)\n.input s\ns(X) :- r(X).")
        with db.transaction() as tx:
            tx.insert("r", [(1,)])
        with db.transaction() as tx:
            tx.insert("s", [(1,)])
        assert not tx.changes
        assert tx.version == 3
    with upshot.connect(root) as db:
        with db.transaction() as tx:
            tx.delete("r", [(1,)])
        assert db.rows("s") == {(1,)}


def test_columns_of_a_view_may_get_other_names(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_is_large(monkeypatch):
        with upshot.connect(root) as db:
            db.define(PATHS)
            for rows in ([(1, 2)], [(2, 3), (3, 4)], [(4, 5)]):
                with db.transaction() as tx:
                    tx.insert("edge", rows)
                if rows == [(1, 2)]:
                    db.snapshot()
            renamed = PATHS.replace("path(x: number, y: number)", "path(start: number, goal: number)")
            assert list(db.define(renamed).changes) == []
            before = state(db)
        with upshot.connect(root) as db:
            assert db.rows("path").columns == ("start", "goal")
            assert state(db) == before
            assert next(db.history(since=2)).changes["path"].inserted.columns == ("x", "y")
            assert rebuilt(db) == contents(db)
            db.verify()
            db.snapshot()
        with upshot.connect(root) as db:
            assert state(db) == before


def test_a_relation_that_takes_the_name_of_a_hidden_one_is_stored_whole(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(".decl r(x: number, y: number)\n.decl n(c: number)\nn(C) :- r(X, _), C = count : { r(X, _), X > 0 }.")
        with db.transaction() as tx:
            tx.insert("r", [(1, 1), (1, 2), (2, 3)])
        normal = db._state.compiled.plan.normal.schemas
        hidden = [schema for name, schema in normal.items() if name not in db.schemas]
        assert hidden
        for schema in hidden:
            columns = ", ".join(f"{c.name}: {c.type}" for c in schema.columns)
            arguments = ", ".join("X" if place == 0 else "1" for place in range(schema.arity))
            db.define(f".decl {schema.name}({columns})\n{schema.name}({arguments}) :- r(X, _).")
        before = state(db)
        db.verify()
    with upshot.connect(root) as db:
        assert state(db) == before
        assert rebuilt(db) == contents(db)


def test_tables_are_registered_replaced_and_dropped_durably(root: Path) -> None:
    table = pa.table({"x": list(range(10_000)), "y": [f"n{i % 7}" for i in range(10_000)]})
    with upshot.connect(root) as db:
        db.register("r", table)
        db.define(".decl s(y: symbol)\ns(Y) :- r(_, Y).")
        db.register("r", table.slice(9_000))
        before = state(db)
    with upshot.connect(root) as db:
        assert state(db) == before
        assert [len(c.changes["r"].deleted) for c in db.history()] == [0, 0, 9_000]
        db.register("r", table.slice(0, 0))
        db.drop("s")
        db.drop("r")
    with upshot.connect(root) as db:
        assert list(db.schemas) == []
        db.define(".decl s(x: number)\n.decl r(y: symbol)")
    with upshot.connect(root) as db:
        assert contents(db) == {"s": [], "r": []}


PLACED = """.decl edge(x: symbol, y: symbol)
.decl closure(x: symbol, y: symbol)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).

.deny acyclic(X) :- closure(X, X).
"""


def test_after_reopening_places_name_the_file_of_the_program(tmp_path: Path) -> None:
    file = tmp_path / "routes.dl"
    file.write_text(PLACED)

    def refused(db: upshot.Database) -> str:
        with pytest.raises(upshot.ConstraintError) as caught, db.transaction() as tx:
            tx.insert("edge", [("a", "a")])
        return str(caught.value)

    with upshot.connect(tmp_path / "store") as db:
        db.define(file)
        first = refused(db)
        assert f"--> {file}:6:7" in first
    # The file may have changed, or be gone.
    file.unlink()
    with upshot.connect(tmp_path / "store") as db:
        assert refused(db) == first
        db.define(".decl other(x: number)")
    with upshot.connect(tmp_path / "store") as db:
        assert refused(db) == first
        assert all("// files" not in (each.program or "") for each in db.history())


def test_what_a_program_has_from_no_file_has_its_place_in_the_stored_program(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "store") as db:
        db.define(PLACED)
    with upshot.connect(tmp_path / "store") as db:
        with pytest.raises(upshot.ConstraintError) as caught, db.transaction() as tx:
            tx.insert("edge", [("a", "a")])
        assert "--> <stored program>:" in str(caught.value)
