"""Functions of users in rules, conditions, constraints and queries: called, kept, refreshed, and how they fail."""

from __future__ import annotations

import datetime as dt
import enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import upshot

TEXT = """
.functor double(x: number): number pure
.functor tag(x: number, y: symbol): symbol pure
.decl n(x: number)
.decl d(x: number, y: number)
.decl t(x: number, y: symbol)
d(X, @double(X)) :- n(X), @double(X) < 100.
t(X, @tag(X, "a")) :- d(X, _).
.deny large(X) :- n(X), @double(X) > 1000.
"""


class Answer(enum.IntEnum):
    YES = 42
    TOO_LARGE = 2**70


def _database(text: str = TEXT, **functions: Any) -> upshot.Database:
    db = upshot.connect()
    known = {"double": lambda x: 2 * x, "tag": lambda x, y: f"{y}{x}", **functions}
    for name, code in known.items():
        db.function(name, code)
    db.define(text)
    return db


def test_rules_conditions_constraints_and_queries_call_functions() -> None:
    db = _database()
    with db.transaction() as tx:
        tx.insert("n", [(1,), (60,)])
    assert set(tx.changes["d"].inserted) == {(1, 2)}
    assert set(db.rows("t")) == {(1, "a1")}
    assert set(db.query("n(X), Y = @double(X)")) == {(1, 2), (60, 120)}
    with pytest.raises(upshot.ConstraintError), db.transaction() as tx:
        tx.insert("n", [(501,)])
    with db.transaction() as tx:
        tx.delete("n", [(1,)])
    assert set(tx.changes["t"].deleted) == {(1, "a1")}
    db.verify()


def test_a_function_is_called_once_for_the_same_arguments_of_a_transaction() -> None:
    calls: list[int] = []

    def double(x: int) -> int:
        calls.append(x)
        return 2 * x

    db = _database(double=double)
    with db.transaction() as tx:
        tx.insert("n", [(1,), (2,)])
    assert sorted(calls) == [1, 2]


def test_a_function_may_take_whole_columns() -> None:
    db = _database()
    db.function("double", lambda column: pc.multiply(column, 2), arrow=True)
    with db.transaction() as tx:
        tx.insert("n", [(1,), (2,), (3,)])
    assert set(db.rows("d")) == {(1, 2), (2, 4), (3, 6)}
    with pytest.raises(upshot.Error) as caught:
        db.function("double", lambda column: pa.array([1]), arrow=True)
    assert caught.value.code == "function-result"
    with db.transaction() as tx:
        tx.insert("n", [(4,), (5,)])
    assert (5, 10) in set(db.rows("d"))


@pytest.mark.parametrize(
    ("code", "slug", "words"),
    [
        (lambda x: 1 // (x - 7), "function-failed", "`@double(7)` raised ZeroDivisionError"),
        (lambda x: "text", "function-result", "is not a `number`"),
        (lambda x: None, "function-result", "is not a `number`"),
        (lambda x: 2**63, "function-result", "is not a `number`"),
        (lambda x: Answer.TOO_LARGE, "function-result", "is not a `number`"),
    ],
)
def test_a_function_that_fails_ends_the_transaction_at_its_place(code: Any, slug: str, words: str) -> None:
    db = _database(double=code)
    with pytest.raises(upshot.Error) as caught, db.transaction() as tx:
        tx.insert("n", [(7,)])
    assert caught.value.code == slug
    assert words in caught.value.message
    assert caught.value.span is not None
    assert not list(db.rows("n"))


def test_a_missing_function_is_named() -> None:
    db = upshot.connect()
    db.define(TEXT)
    with pytest.raises(upshot.Error) as caught, db.transaction() as tx:
        tx.insert("n", [(7,)])
    assert caught.value.code == "function-missing"
    assert "`double`" in caught.value.message


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        (".decl r(x: number)  .decl s(x: number)  s(@f(X)) :- r(X).", "unknown-functor"),
        (".functor f(): number pure", "functor-type"),
        (".functor f(x: number?): number", "functor-type"),
        (".functor f(x: decimal(4,2)): number", "functor-type"),
        (".type P = [a: number]  .functor f(x: P): number", "functor-type"),
        (".type P = [a: number]  .functor f(x: number): P", "functor-type"),
        (".functor f(x: number): number  .functor f(x: number): number", "duplicate-declaration"),
        (".functor f(x: number): number  .decl r, s(x: number)  s(X) :- r(X), @f(X, 1) = 2.", "wrong-arity"),
        (".functor f(x: symbol): number  .decl r, s(x: number)  s(X) :- r(X), @f(X) = 2.", "type-mismatch"),
    ],
)
def test_a_wrong_declaration_or_call_is_refused(text: str, slug: str) -> None:
    with pytest.raises(upshot.ProgramError) as caught:
        upshot.connect().define(text)
    assert [each.slug for each in caught.value.diagnostics] == [slug]


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        (".functor f(x: decimal(8,2)): decimal(8,2)  .decl r, s(x: decimal(8,2))  s(@f(X)) :- r(X).", "functor-type"),
        (".functor f(x: decimal(8,2)): number fold  .decl r(x: decimal(8,2))  .decl s(x: number)  "
         "s(Y) :- Y = @f X : { r(X) }.", "functor-type"),
        (".decl r, s(x: decimal(8,2))  s(@f(X)) :- r(X).", "unknown-functor"),
        (".decl s(x: decimal(8,2))  s(@f(1)).", "unknown-functor"),
    ],
)  # fmt: skip
def test_a_call_of_a_function_without_a_valid_declaration_is_one_mistake_also_among_decimals(
    text: str, slug: str
) -> None:
    with pytest.raises(upshot.ProgramError) as caught:
        upshot.connect().define(text)
    assert [each.slug for each in caught.value.diagnostics] == [slug]


STATEFUL = """
.functor rate(x: symbol): number stateful
.decl item(x: symbol)
.decl price(x: symbol, p: number)
price(X, @rate(X)) :- item(X).
.decl dear(x: symbol)
dear(X) :- price(X, P), P > 10.
"""


def test_a_stateful_function_keeps_its_values_until_it_is_refreshed() -> None:
    rates = {"a": 5, "b": 20}
    db = upshot.connect()
    db.function("rate", lambda x: rates[x])
    db.define(STATEFUL)
    with db.transaction() as tx:
        tx.insert("item", [("a",), ("b",)])
    rates.update(a=50, b=1)
    with db.transaction() as tx:
        tx.delete("item", [("b",)])
    assert set(tx.changes["price"].deleted) == {("b", 20)}
    done = db.refresh("rate")
    assert set(done.changes["price"].inserted) == {("a", 50)}
    assert set(done.changes["price"].deleted) == {("a", 5)}
    assert set(done.changes["dear"].inserted) == {("a",)}
    db.verify()


def test_only_a_stateful_function_is_refreshed() -> None:
    db = _database()
    for name, slug in (("double", "pure-function"), ("nothing", "unknown-functor")):
        with pytest.raises(upshot.UsageError) as caught:
            db.refresh(name)
        assert caught.value.code == slug


def test_a_reopened_database_needs_its_functions_and_follows_new_values(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db") as db:
        db.function("rate", lambda x: 5)
        db.define(STATEFUL)
        with db.transaction() as tx:
            tx.insert("item", [("a",)])
    with pytest.raises(upshot.Error) as caught:
        upshot.connect(tmp_path / "db")
    assert caught.value.code == "function-missing"
    assert "`rate`" in caught.value.message
    with upshot.connect(tmp_path / "db", functions={"rate": lambda x: 7}) as db:
        assert set(db.rows("price")) == {("a", 7)}
        with db.transaction() as tx:
            tx.insert("item", [("b",)])
        assert set(db.rows("price")) == {("a", 7), ("b", 7)}
        db.verify()


def test_verify_finds_a_function_that_is_not_pure() -> None:
    count = iter(range(100))
    db = _database(double=lambda x: next(count))
    with db.transaction() as tx:
        tx.insert("n", [(1,)])
    with pytest.raises(upshot.VerifyError) as caught:
        db.verify()
    assert caught.value.help is not None
    assert "`@double`" in caught.value.help
    assert "bug in Upshot" not in caught.value.help


def test_functions_print_as_they_read() -> None:
    from upshot.syntax import parse, print_program  # noqa: PLC0415

    program = parse(TEXT.replace("pure", "pure(2)") + STATEFUL.replace("stateful", "stateful(3)"))
    assert parse(print_program(program)) == program


def test_a_request_that_reaches_a_function_is_refused_by_name() -> None:
    with pytest.raises(upshot.UsageError) as caught:
        _database().realize(insert={"d": [(3, 6)]})
    assert caught.value.code == "functions-in-request"


def test_another_view_of_the_same_table_is_realized_beside_a_function() -> None:
    db = _database()
    db.define(".decl large(x: number)  large(X) :- n(X), X > 5.")
    (way,) = db.realize(insert={"large": [(7,)]})
    assert way.lines() == ["+n(7)"]
    assert (7, 14) in way.effects["d"].inserted


def test_members_of_enumerations_count_as_their_values() -> None:
    db = _database(double=lambda x: Answer.YES)
    with db.transaction() as tx:
        tx.insert("n", [(1,)])
    assert [type(value) for row in db.rows("d") for value in row] == [int, int]
    assert set(db.rows("d")) == {(1, 42)}


@pytest.mark.parametrize(
    ("type", "value", "words"),
    [
        ("timestamp", dt.datetime(2024, 1, 2), "has no time zone"),
        ("timestamp", dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=5))), "out of the range"),
        ("symbol", "\ud800", "is not valid Unicode"),
        ("float", 10**400, "out of the range"),
    ],
)
def test_a_value_that_no_column_can_hold_is_the_fault_of_its_function(type: str, value: Any, words: str) -> None:
    db = upshot.connect()
    db.function("f", lambda x: value)
    db.define(f".functor f(x: number): {type} pure  .decl n(x: number)  .decl v(x: {type})  v(@f(X)) :- n(X).")
    with pytest.raises(upshot.Error) as caught, db.transaction() as tx:
        tx.insert("n", [(1,)])
    assert caught.value.code == "function-result"
    assert words in caught.value.message
    assert not list(db.rows("n"))


@pytest.mark.parametrize(
    "use",
    [
        lambda db: db.query("n(X)"),
        lambda db: db.rows("n"),
        lambda db: db.define(".decl z(x: number)"),
        lambda db: db.transaction().__enter__(),
        lambda db: db.reading(),
        lambda db: db.version,
    ],
)
def test_a_function_cannot_use_the_database_that_calls_it(use: Any) -> None:
    db = _database(double=lambda x: 2 * x if x == 1 or not in_use else (use(db), x)[1])
    in_use: list[bool] = []
    with db.transaction() as tx:
        tx.insert("n", [(1,)])
    in_use.append(True)
    with pytest.raises(upshot.Error) as caught, db.transaction() as tx:
        tx.insert("n", [(2,), (3,)])
    assert caught.value.code == "function-failed"
    assert "`@double` uses the database whose rule calls it" in caught.value.message
    assert set(db.rows("n")) == {(1,)}
    db.function("double", lambda x: 2 * x)
    with db.transaction() as tx:
        tx.insert("n", [(2,), (3,)])
    db.verify()


def test_a_function_may_use_another_database() -> None:
    other = upshot.connect()
    other.define(".decl rate(x: number)  rate(3).")
    db = _database(double=lambda x: x * next(iter(other.rows("rate")))[0])
    with db.transaction() as tx:
        tx.insert("n", [(2,)])
    assert set(db.rows("d")) == {(2, 6)}


@pytest.mark.parametrize("more", ["", ".view d strategy=recompute", ".view t materialized=false events=none"])
def test_other_code_of_a_pure_function_changes_what_was_computed_with_it(more: str) -> None:
    db = _database(TEXT + "e(X) :- n(X), X > 1.  e(Y) :- d(_, Y), Y > 5.  .decl e(x: number)\n" + more)
    with db.transaction() as tx:
        tx.insert("n", [(1,), (2,), (3,), (60,)])
    assert set(db.rows("e")) == {(2,), (3,), (60,), (6,)}
    done = db.function("double", lambda x: x + 1)
    assert done is not None
    assert set(done.changes["d"].inserted) == {(2, 3), (3, 4), (60, 61)}
    assert set(done.changes["d"].deleted) == {(2, 4), (3, 6)}
    assert set(db.rows("e")) == {(2,), (3,), (60,), (61,)}
    db.verify()
    with db.transaction() as tx:
        tx.delete("n", [(2,)])
    assert set(tx.changes["d"].deleted) == {(2, 3)}
    db.verify()
    again = db.function("double", lambda x: x + 2)
    assert again is not None
    assert set(db.rows("d")) == {(1, 3), (3, 5), (60, 62)}
    db.verify()


def test_the_same_code_and_a_function_that_no_rule_calls_change_nothing() -> None:
    def double(x: int) -> int:
        return 2 * x

    db = _database(TEXT + ".functor idle(x: number): number pure", double=double, idle=double)
    version = db.version
    assert db.function("double", double) is None
    assert db.function("idle", lambda x: x) is None
    assert db.version == version


@pytest.mark.parametrize("kind", ["pure", "stateful"])
def test_code_that_fails_does_not_replace_code_that_works(kind: str) -> None:
    db = _database(TEXT.replace("double(x: number): number pure", f"double(x: number): number {kind}"))
    with db.transaction() as tx:
        tx.insert("n", [(1,), (2,)])
    version = db.version
    with pytest.raises(upshot.Error) as caught:
        db.function("double", lambda x: 5 // (x - 2))
    assert caught.value.code == "function-failed"
    assert db.version == version
    assert set(db.rows("d")) == {(1, 2), (2, 4)}
    with db.transaction() as tx:
        tx.insert("n", [(3,)])
    assert set(db.rows("d")) == {(1, 2), (2, 4), (3, 6)}
    db.function("double", lambda x: 3 * x)
    assert set(db.rows("d")) == {(1, 3), (2, 6), (3, 9)}
    db.verify()


def test_other_code_outlives_the_process_by_its_revision(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db", functions={"double": lambda x: 2 * x, "tag": lambda x, y: y}) as db:
        db.define(TEXT)
        with db.transaction() as tx:
            tx.insert("n", [(1,)])
        db.function("double", lambda x: 3 * x)
    with upshot.connect(tmp_path / "db", functions={"double": lambda x: 3 * x, "tag": lambda x, y: y}) as db:
        assert set(db.rows("d")) == {(1, 3)}
        with db.transaction() as tx:
            tx.delete("n", [(1,)])
        assert set(tx.changes["d"].deleted) == {(1, 3)}
        db.verify()
