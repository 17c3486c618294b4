"""`CREATE TRIGGER`: statement-level triggers with transition tables, as a spelling of active rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import upshot
from upshot.sql.program import Catalog, sql_program
from upshot.syntax import parse, print_program

TABLES = """
CREATE TABLE stock (item TEXT PRIMARY KEY, n BIGINT NOT NULL);
CREATE TABLE log (item TEXT NOT NULL, old BIGINT NOT NULL, new BIGINT NOT NULL);
CREATE TABLE seen (item TEXT NOT NULL, note TEXT);
CREATE TABLE banned (item TEXT NOT NULL);
"""


@pytest.fixture
def db() -> Iterator[Any]:
    with upshot.connect() as found:
        found.define(TABLES)
        with found.transaction() as tx:
            tx.insert("stock", [("nail", 1), ("screw", 2), ("bolt", 3)])
            tx.insert("banned", [("hook",)])
        yield found


def change(db: Any) -> Any:
    """Updates nail, deletes bolt, inserts hook and pin."""
    with db.transaction() as tx:
        tx.upsert("stock", [("nail", 5), ("screw", 2)])
        tx.delete("stock", [("bolt", 3)])
        tx.insert("stock", [("hook", 4), ("pin", 9)])
    return tx


@pytest.mark.parametrize(
    ("trigger", "relation", "rows"),
    [
        (
            "AFTER INSERT ON stock REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT "
            "INSERT INTO seen SELECT item, 'in' FROM fresh WHERE n > 4",
            "seen",
            [("nail", "in"), ("pin", "in")],
        ),
        (
            "AFTER DELETE ON Stock REFERENCING OLD TABLE gone FOR STATEMENT "
            "INSERT INTO seen (item) SELECT item FROM Gone",
            "seen",
            [("bolt", None), ("nail", None)],
        ),
        (
            "AFTER UPDATE ON stock REFERENCING OLD TABLE AS o NEW TABLE AS n FOR EACH STATEMENT "
            "INSERT INTO log SELECT o.item, o.n, n.n FROM o JOIN n ON o.item = n.item",
            "log",
            [("nail", 1, 5)],
        ),
        (
            "AFTER UPDATE ON stock REFERENCING NEW TABLE AS n INSERT INTO seen (note, item) SELECT 'new', item FROM n",
            "seen",
            [("nail", "new")],
        ),
        (
            "AFTER INSERT ON stock REFERENCING NEW TABLE AS f DELETE FROM banned USING f WHERE banned.item = f.item",
            "banned",
            [],
        ),
        ("AFTER INSERT ON stock DELETE FROM stock WHERE n < 4", "stock", [("hook", 4), ("nail", 5), ("pin", 9)]),
        (
            "AFTER INSERT ON stock REFERENCING NEW TABLE AS f INSERT INTO seen (item) SELECT item FROM f "
            "WHERE NOT EXISTS (SELECT 1 FROM banned b WHERE b.item = f.item)",
            "seen",
            [("nail", None), ("pin", None)],
        ),
        (
            "AFTER INSERT ON stock REFERENCING NEW TABLE AS f "
            "INSERT INTO log SELECT item, CASE WHEN n > 4 THEN n ELSE 0 END, n + 1 FROM f",
            "log",
            [("hook", 0, 5), ("nail", 5, 6), ("pin", 9, 10)],
        ),
        (
            "AFTER DELETE ON stock REFERENCING OLD TABLE AS o "
            "BEGIN ATOMIC INSERT INTO seen SELECT item, item FROM o; END",
            "seen",
            [("bolt", "bolt"), ("nail", "nail")],
        ),
    ],
)
def test_a_trigger_changes_tables_in_the_transaction(db: Any, trigger: str, relation: str, rows: list[Any]) -> None:
    db.define(f"CREATE TRIGGER t {trigger};")
    tx = change(db)
    assert db.rows(relation).sorted() == rows
    assert [firing.rule for firing in tx.firings] == ["t"]
    db.verify()


@pytest.mark.parametrize(
    ("event", "rows"),
    [
        ("INSERT", [("hook", 4), ("nail", 5), ("pin", 9)]),
        ("DELETE", [("bolt", 3), ("nail", 1)]),
        ("UPDATE", [("nail", 1, "nail", 5)]),
    ],
)
def test_a_function_gets_the_columns_of_each_row_after_the_commit(db: Any, event: str, rows: list[Any]) -> None:
    heard: list[Any] = []
    db.action("tell", heard.extend)
    db.define(f"CREATE OR REPLACE TRIGGER t AFTER {event} ON stock EXECUTE FUNCTION tell()")
    change(db)
    assert heard == rows


def test_a_trigger_is_the_rule_that_datalog_spells() -> None:
    trigger = """CREATE TRIGGER t AFTER UPDATE ON stock REFERENCING OLD TABLE AS o NEW TABLE AS n
        INSERT INTO log SELECT o.item, o.n, n.n FROM o, n WHERE o.item = n.item"""
    program = sql_program(TABLES + trigger, catalog=Catalog())
    written = " ".join(print_program(replace(program, items=program.items[-1:])).split())
    assert written == (
        ".rule t on update stock(item, n, _, _) when updated stock(_, _, item, n_1) do insert log(item, n, n_1)."
    )
    assert parse(written).items[0] == program.items[-1]


def test_a_trigger_has_the_name_and_the_options_of_a_rule(db: Any) -> None:
    """It can be deactivated, watched, explained and dropped, with the views that were made for it."""
    db.define(
        "CREATE TRIGGER t AFTER INSERT ON stock REFERENCING NEW TABLE AS f INSERT INTO seen (item) SELECT item FROM f "
        "WHERE item NOT IN (SELECT item FROM banned)"
    )
    assert "triggered by rows inserted into stock" in str(db.explain("t"))
    db.deactivate("t")
    assert change(db).firings == ()
    db.drop("t")
    assert ".rule t" not in print_program(db.program)
    assert "t__" not in print_program(db.program)


def test_a_trigger_survives_reopening(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db") as first:
        first.define(TABLES)
        first.define(
            "CREATE TRIGGER t AFTER INSERT ON stock REFERENCING NEW TABLE AS f INSERT INTO banned SELECT item FROM f"
        )
    with upshot.connect(tmp_path / "db") as again:
        with again.transaction() as tx:
            tx.insert("stock", [("nail", 1)])
        assert again.rows("banned").sorted() == [("nail",)]


INSERTING = "INSERT INTO banned SELECT item FROM f"


@pytest.mark.parametrize(
    ("trigger", "code", "marked", "cure"),
    [
        ("AFTER INSERT ON stock FOR EACH ROW EXECUTE FUNCTION f()", "sql-unsupported", "ROW", "FOR EACH STATEMENT"),
        (f"AFTER INSERT ON stock REFERENCING NEW AS f {INSERTING}", "sql-unsupported", "AS", "NEW TABLE AS"),
        (f"BEFORE INSERT ON stock {INSERTING}", "sql-unsupported", "BEFORE", "AFTER"),
        (f"INSTEAD OF INSERT ON stock {INSERTING}", "sql-unsupported", "INSTEAD", "AFTER"),
        (f"AFTER INSERT OR DELETE ON stock {INSERTING}", "sql-unsupported", "OR", "one trigger for each"),
        (f"AFTER UPDATE OF n ON stock {INSERTING}", "sql-unsupported", "OF", "OLD TABLE and NEW TABLE"),
        (f"AFTER TRUNCATE ON stock {INSERTING}", "sql-unsupported", "TRUNCATE", "AFTER DELETE"),
        (f"AFTER INSERT ON stock WHEN (TRUE) {INSERTING}", "sql-unsupported", "WHEN", "WHERE"),
        (f"AFTER INSERT ON stock REFERENCING OLD TABLE AS f {INSERTING}", "sql-syntax", "TABLE", "AFTER UPDATE"),
        ("AFTER INSERT ON stock", "sql-syntax", "stock", "CREATE TRIGGER name AFTER INSERT"),
        ("AFTER INSERT ON stock UPDATE banned SET item = 'a'", "sql-syntax", "UPDATE", "CREATE TRIGGER name"),
        ("AFTER INSERT ON stock EXECUTE FUNCTION f(1)", "sql-unsupported", "1", "the columns of each row"),
        ("AFTER INSERT ON nope EXECUTE FUNCTION f()", "unknown-relation", "nope", "create it first"),
        ("AFTER UPDATE ON banned EXECUTE FUNCTION f()", "no-key", "banned", "on change"),
        (
            "AFTER INSERT ON stock REFERENCING NEW TABLE AS f INSERT INTO banned SELECT item, n FROM f",
            "wrong-arity", "banned", "one value for each column",
        ),
        (
            "AFTER INSERT ON stock REFERENCING NEW TABLE AS f INSERT INTO seen (note) SELECT item FROM f",
            "wrong-arity", "seen (note)", "list the column",
        ),
        (
            "AFTER INSERT ON stock REFERENCING NEW TABLE AS f INSERT INTO seen (nope) SELECT item FROM f",
            "unknown-column", "seen (nope)", "its columns are item, note",
        ),
        (
            "AFTER INSERT ON stock REFERENCING NEW TABLE AS f INSERT INTO banned SELECT n FROM f",
            "type-mismatch", "n", "to_string",
        ),
        (
            "AFTER DELETE ON stock REFERENCING OLD TABLE AS o BEGIN ATOMIC DELETE FROM seen; DELETE FROM log; END",
            "sql-unsupported", ";", "one trigger for each",
        ),
        (
            "AFTER INSERT ON stock REFERENCING NEW TABLE AS f DELETE FROM banned RETURNING item",
            "sql-unsupported", "banned RETURNING item", "without it",
        ),
    ],
)  # fmt: skip
def test_what_a_trigger_cannot_be_is_refused_with_place_and_cure(
    db: Any, trigger: str, code: str, marked: str, cure: str
) -> None:
    with pytest.raises(upshot.ProgramError) as caught:
        db.define(f"CREATE TRIGGER t {trigger}")
    error = caught.value
    assert error.code == code
    assert error.span is not None
    assert error.span.source.text[error.span.start : error.span.end] == marked
    assert cure in error.help


def test_a_view_cannot_read_a_transition_table(db: Any) -> None:
    with pytest.raises(upshot.ProgramError, match="`f` in a subquery, a group") as caught:
        db.define(
            "CREATE TRIGGER t AFTER INSERT ON stock REFERENCING NEW TABLE AS f "
            "INSERT INTO log SELECT item, count(*), 0 FROM f GROUP BY item"
        )
    assert caught.value.code == "sql-unsupported"
