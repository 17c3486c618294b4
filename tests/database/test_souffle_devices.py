"""`IO=json` and `IO=sqlite`: what is written is read back, and what does not fit is refused."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

import upshot
from tests.database.souffle_directives import load_inputs, write_outputs
from upshot.core.errors import DataError, ProgramError

COLUMNS = "(n: number, u: unsigned, f: float, s: symbol?, b: boolean, d: date, t: timestamp, x: decimal(8,2), p: P)"
TYPES = ".type P = [x: number, y: symbol]\n"
FACT = (
    'r(-1, 18446744073709551615, 0.5, null, true, date("2026-01-31"), timestamp("2026-01-31T10:00:00Z"), '
    'decimal("1.50"), [1, "a, b"]).\n'
)


@pytest.mark.parametrize(
    "options", ["IO=json", "IO=jsonfile", 'IO=json, format="object"', "IO=sqlite", 'IO=sqlite, dbname="all.db"']
)
def test_what_is_written_is_read_back(options: str, tmp_path: Path) -> None:
    with upshot.connect() as db:
        db.define(f"{TYPES}.decl r{COLUMNS}\n.output r({options})\n{FACT}")
        write_outputs(db, tmp_path, open("/dev/null", "w"))  # noqa: SIM115
        rows = list(db.rows("r"))
    with upshot.connect() as db:
        db.define(f"{TYPES}.decl r{COLUMNS}\n.input r({options})")
        load_inputs(db, tmp_path)
        assert db.rows("r") == rows


def test_records_are_read_from_arrays_and_null_is_nil(tmp_path: Path) -> None:
    rows = '[[1, [1, "x"], {"Node": [{"Leaf": [1]}, {"E": []}]}], [2, null, {"E": []}]]'
    (tmp_path / "r.json").write_text(rows)
    with upshot.connect() as db:
        types = ".type P = [a: number, b: symbol]  .type T = Leaf { v: number } | Node { l: T, r: T } | E {}"
        db.define(f"{types}  .decl r(id: number, p: P, t: T)  .input r(IO=jsonfile)")
        load_inputs(db, tmp_path)
        assert set(db.rows("r")) == {(1, '[1, "x"]', "$Node($Leaf(1), $E)"), (2, "nil", "$E")}
        (tmp_path / "r.json").write_text("[[3, null, null]]")
        with pytest.raises(DataError) as caught:
            load_inputs(db, tmp_path)
        assert caught.value.code == "wrong-type"


def test_a_sqlite_table_is_replaced(tmp_path: Path) -> None:
    for value in (1, 2):
        with upshot.connect() as db:
            db.define(f'.decl r(x: number)\n.decl e()\n.output r, e(IO=sqlite, filename="a.db")\nr({value}).\ne().')
            write_outputs(db, tmp_path, open("/dev/null", "w"))  # noqa: SIM115
    with sqlite3.connect(tmp_path / "a.db") as connection:
        assert connection.execute("SELECT x FROM r").fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("text", "code"),
    [("{", "unreadable-file"), ("{}", "unreadable-file"), ('[["a"]]', "wrong-type"), ("[[1, 2]]", "wrong-arity"),
     ('[{"y": 1}]', "unknown-column"), ("[[1e999]]", "wrong-type")],
)  # fmt: skip
def test_json_that_does_not_fit_is_refused(text: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(text)
    with upshot.connect() as db:
        db.define(".decl r(x: number)\n.input r(IO=json)")
        with pytest.raises(DataError) as caught:
            load_inputs(db, tmp_path)
        assert caught.value.code == code
        assert not db.rows("r")


def test_a_missing_table_and_a_missing_database_are_named(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "b.db").close()
    for file, code in (("a.db", "missing-facts"), ("b.db", "unreadable-file")):
        with upshot.connect() as db:
            db.define(f'.decl r(x: number)\n.input r(IO=sqlite, filename="{file}")')
            (tmp_path / "b.db").touch()
            with pytest.raises(DataError) as caught:
                load_inputs(db, tmp_path)
            assert caught.value.code == code


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with upshot.connect() as db:
        db.define('.decl r(x: number)\n.input r(IO=json, format="rows")')
        with pytest.raises(ProgramError) as caught:
            load_inputs(db, tmp_path)
        assert "use `list` or `object`" in str(caught.value)


def test_json_has_the_rows_in_order(tmp_path: Path) -> None:
    with upshot.connect() as db:
        db.define('.decl r(x: number, y: symbol)\n.output r(IO=json)\nr(2, "b"). r(1, "a").')
        write_outputs(db, tmp_path, open("/dev/null", "w"))  # noqa: SIM115
    assert json.loads((tmp_path / "r.json").read_text()) == [[1, "a"], [2, "b"]]
