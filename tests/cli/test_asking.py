"""What a newcomer types at update, repairs and the why commands, and gets told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import upshot as library
from tests.cli.conftest import Ended
from upshot.cli.commands.rewrite import AVAILABLE

Run = Callable[..., Ended]

PROGRAM = """
.decl lead(person: symbol, team: symbol)
.decl granted(team: symbol, right: symbol)
.decl leads(person: symbol)
leads(P) :- lead(P, T), granted(T, "lead").
.decl seat(team: symbol, number: number) key(team)
.decl seated(team: symbol, number: number)
seated(T, N) :- seat(T, N).
.decl day(day: date)
.decl open(day: date)
open(D) :- day(D).
.deny unseated(T) :- lead(_, T), !seat(T, _).
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "teams.dl"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with library.connect(path) as db:
        db.define(PROGRAM)
    return path


@pytest.mark.parametrize(
    "question",
    [("update", "+open(1)"), ("repairs",), ("why", "leads(1)"), ("why-not", "leads(1)"), ("why-changed", "leads(1)"),
     ("verify",)],
)  # fmt: skip
def test_a_question_makes_no_database_in_an_empty_folder(upshot: Run, tmp_path: Path, question: list[str]) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    ended = upshot(question[0], folder, *question[1:])
    assert (ended.code, "is empty and holds no database" in ended.err) == (2, True)
    assert list(folder.iterdir()) == []


def test_new_values_are_given_where_one_is_applied(upshot: Run, store: Path) -> None:
    frozen = ["--frozen", "-lead"]
    ended = upshot("update", store, '+leads("eve")', *frozen, "--apply")
    assert (ended.code, "= help: give the value: `--value '?1=…'`" in ended.err) == (2, True)
    ended = upshot("update", store, '+leads("eve")', *frozen, "--apply", "--value", "?3=x")
    assert (ended.code, "has no placeholder `?3`" in ended.err, "it has `?1`" in ended.err) == (2, True, True)
    ended = upshot("update", store, '+leads("eve")', *frozen, "--apply", "--value", "?1")
    assert (ended.code, "as in `--value '?1=board'`" in ended.err) == (2, True)
    ended = upshot("update", store, '+leads("eve")', *frozen, "--apply", "--value", "?1=the board", "--value", "2=7")
    assert (ended.code, "applied as version" in ended.err) == (0, True), ended.err
    with library.connect(store) as db:
        assert db.rows("lead") == [("eve", "the board")]
        assert db.rows("seat") == [("the board", 7)]


def test_a_value_that_breaks_a_condition_is_refused_by_name_of_the_condition(upshot: Run, tmp_path: Path) -> None:
    store = tmp_path / "days"
    with library.connect(store) as db:
        db.define('.decl day(d: date)  .decl late()  late() :- day(D), D >= date("2026-03-01").')
    ended = upshot("update", store, "+late()", "--apply", "--value", "?1=2026-02-20")
    assert (ended.code, "condition-not-met" in ended.err) == (1, True), ended.err
    assert '`?1 = date("2026-02-20")` does not meet the condition `?1 >= date("2026-03-01")`' in ended.err
    assert "help: give a value that meets it, or repeat `upshot update` with this one in `--constant`" in ended.err
    ended = upshot("update", store, "+late()", "--apply", "--value", "?1=2026-03-01")
    assert ended.code == 0, ended.err


def test_new_values_have_the_type_of_their_placeholder_and_a_use(upshot: Run, store: Path) -> None:
    arguments = ["update", store, '+leads("eve")', "--apply", "--value", "?1=ops"]
    ended = upshot(*arguments, "--value", "?2=many")
    assert (ended.code, "`many` is not a value for `?2`" in ended.err) == (2, True)
    ended = upshot("update", store, '+leads("eve")', "--value", "?1=ops")
    assert (ended.code, "add `--apply`" in ended.err) == (2, True)
    ended = upshot("repairs", store, "--changes", store, "--apply", "--value", "?1=ops")
    assert (ended.code, "options-conflict" in ended.err) == (2, True)


def test_the_bounds_of_a_search_are_options_and_the_help_names_the_one_that_was_reached(
    upshot: Run, file: Path
) -> None:
    for options, cure in (
        (["--size", "1"], "--size"),
        (["--rounds", "0"], "--rounds"),
        (["--seconds", "0"], "--seconds"),
        (["--new-values", "0"], "--new-values"),
    ):
        ended = upshot("update", file, '+leads("eve")', *options)
        assert (ended.code, f"= help: allow more with `{cure}`, or request less" in ended.err) == (1, True), ended.err
    ended = upshot("update", file, '+leads("eve")', "--new-values", "0", "--constant", "ops", "--constant", "7")
    assert ended.out.splitlines()[1:4] == ['+granted("ops", "lead")', '+lead("eve", "ops")', '+seat("ops", 7)']


def test_nothing_is_applied_where_nothing_is_to_do(upshot: Run, store: Path) -> None:
    with library.connect(store) as db:
        db.apply(next(db.realize({"seat": [("ops", 1)]})))
    for command in ("update", "repairs"):
        ended = upshot(command, store, '+seat("ops", 1)', "--apply")
        assert (ended.code, "nothing to apply: the request is already satisfied" in ended.err) == (0, True)
        assert "applied as version" not in ended.err


def test_when_a_later_transaction_fails_it_is_said_what_stays_committed(upshot: Run, store: Path) -> None:
    changes = store.parent / "changes.ndjson"
    changes.write_text('{"insert": {"seat": [["ops", 1]]}}\n{"insert": {"seat": [["ops"]]}}\n')
    ended = upshot("repairs", store, "--changes", changes, "--apply")
    assert (ended.code, "earlier transactions stay committed: version 2" in ended.err) == (1, True), ended.err
    changes.write_text('{"insert": {"seat": [["ops"]]}}\n')
    ended = upshot("repairs", store, "--changes", changes, "--apply")
    assert (ended.code, "nothing was committed" in ended.err) == (1, True)


def test_a_version_that_is_not_there_is_named_with_those_that_are(upshot: Run, store: Path) -> None:
    with library.connect(store) as db:
        for number in range(3):
            with db.transaction() as tx:
                tx.insert("seat", [(f"t{number}", number)])
    ended = upshot("why-changed", store, 'seated("t1", 1)', "--version", "77")
    assert ended.code == 2
    assert "there is no version 77 yet; the last one is 4" in ended.err
    assert "= help: give a version from 2 to 4\n" in ended.err
    ended = upshot("why-changed", store, 'seated("t1", 1)', "--version", "1")
    assert (ended.code, "program-changed" in ended.err, "give a version from 2 to 4\n" in ended.err) == (2, True, True)


def test_rows_that_cannot_both_be_there_are_told_by_their_key(upshot: Run, file: Path) -> None:
    ended = upshot("update", file, '+seated("ops", 2)', '+seated("ops", 3)')
    assert (ended.code, "share its key (team)" in ended.err) == (1, True), ended.err
    ended = upshot("update", file, '+seat("ops", 2)', '+seat("ops", 3)')
    assert (ended.code, "they share the key (team) of `seat`" in ended.err) == (2, True)


def test_the_row_of_a_constraint_that_is_not_there_would_be_rejected(upshot: Run, file: Path) -> None:
    ended = upshot("why-not", file, 'unseated("ops")')
    assert ended.code == 0
    assert "would be rejected" in ended.out
    assert "`unseated` is a constraint: a transaction that makes this row true is rejected" in ended.out


def test_the_heading_counts_what_fails_apart_from_what_is_not_looked_at(upshot: Run, tmp_path: Path) -> None:
    path = tmp_path / "apart.dl"
    path.write_text(
        ".decl a(x: number) .decl b(x: number, y: number) .decl v(x: number)\nv(X) :- a(X), b(X, Y), Y > 3.\n"
    )
    ended = upshot("why-not", path, "v(1)", "--fixes", "0")
    assert "2 of 3 fail, 1 not evaluated" in ended.out


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("+", "`+` is not a row"),
        ("", "the row is empty"),
        ("+open(\"2026-01-31\")", 'help: write date("2026-01-31")'),
        ("+leads(eve)", 'help: write text in quotes: "eve"'),
        ('+leads("eve", 1)', "has 1 column, this fact has 2"),
    ],
)  # fmt: skip
def test_a_row_that_is_none_is_told_how_to_be_one(upshot: Run, file: Path, row: str, said: str) -> None:
    ended = upshot("update", file, row)
    assert (ended.code in (1, 2), said in ended.err) == (True, True), ended.err


def test_an_empty_text_is_no_row_to_ask_about(upshot: Run, file: Path) -> None:
    ended = upshot("why-not", file, "")
    assert (ended.code, "the row is empty" in ended.err) == (2, True)


def test_facts_that_violate_a_constraint_point_to_repairs(upshot: Run, file: Path) -> None:
    file.write_text(PROGRAM + 'lead("eve", "ops").')
    ended = upshot("update", file, '+open(date("2026-01-31"))')
    assert (ended.code, "`upshot repairs`" in ended.err) == (1, True)


def test_repairs_of_rows_of_views_point_to_update(upshot: Run, file: Path) -> None:
    ended = upshot("repairs", file, '+leads("eve")')
    assert (ended.code, "not-a-base-relation" in ended.err, "`upshot update`" in ended.err) == (2, True, True)


def test_the_help_of_rewrite_lists_every_strategy(upshot: Run) -> None:
    printed = "".join(upshot("rewrite", "--help").out.split())
    assert [name for name in AVAILABLE if name not in printed] == []


def test_advice_is_about_commands_and_options_and_not_about_python(upshot: Run, store: Path, tmp_path: Path) -> None:
    with library.connect(store) as db, db.transaction() as tx:
        tx.insert("seat", [("ops", 1)])
    sql = tmp_path / "ordered.sql"
    said = {
        ("why", store, 'seated("ops", 2)'): "`upshot why-not` shows what is missing",
        ("why-not", store, 'seated("ops", 1)'): "`upshot why` shows how it is derived",
        ("why-changed", store, 'leads("eve")'): "`upshot why` and `upshot why-not` explain its current state",
        ("update", store, '+leads("eve")', "--cost", "lead=-1"): "as in `--cost -granted=5`",
        ("repairs", store, '+leads("eve")'): "`upshot update` finds the base changes for rows of views",
        (
            "check",
            sql,
            "CREATE TABLE t (a INT); CREATE VIEW v AS SELECT CURRENT_DATE AS d FROM t;",
        ): "keep the date in a table",
        ("check", sql, "CREATE TABLE t (a INT); SELECT a FROM t;"): "write CREATE VIEW name AS …",
        (
            "check",
            sql,
            "CREATE TABLE t (a INT); INSERT INTO t VALUES (1);",
        ): "insert rows in a transaction: a change file, with `--changes`",
    }
    for (command, file, row, *options), cure in said.items():
        if command == "check":
            file.write_text(row)
        ended = upshot(command, file, *([] if command == "check" else [row]), *options)
        assert (ended.code in (1, 2), cure in ended.err) == (True, True), ended.err
        assert not [word for word in ("db.", "why_not", "upshot.Bounds", "cost={") if word in ended.err], ended.err


def test_an_explanation_beyond_its_bounds_names_the_option_that_raises_them(upshot: Run, tmp_path: Path) -> None:
    path = tmp_path / "far.dl"
    facts = " ".join(f"e({number}, {number + 1})." for number in range(30))
    path.write_text(
        f".decl e(x: number, y: number) .decl r(x: number)\n{facts} r(0).\nr(Y) :- r(X), e(X, Y), X >= 0.\n"
    )
    ended = upshot("why", path, "r(30)", "--bounds", "5")
    assert (ended.code, "raise `--bounds`, or explain a row" in ended.err) == (3, True), ended.err
    assert upshot("why", path, "r(30)", "--bounds", "5000").code == 0
    assert upshot("why-not", path, "r(31)", "--bounds", "5000").code == 0
