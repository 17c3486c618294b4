"""The page on SQL, run from its first block to its last on one database."""

from __future__ import annotations

import json

import pytest

import upshot
from tests.docs.markdown import ROOT, blocks
from tests.scripts.script_file import show_row

PAGE = ROOT / "docs" / "reference" / "sql.md"


def test_the_page_gives_what_it_says() -> None:
    found = blocks(PAGE)
    with upshot.connect() as db:
        for place, block in enumerate(found):
            if block.language in ("sql", "datalog"):
                _run(db, block.text, found[place + 1].language, found[place + 1].text)
        db.verify()


def _run(db: upshot.Database, text: str, kind: str, expected: str) -> None:
    match kind:
        case "json":
            db.define(text)
            with db.transaction() as tx:
                for relation, rows in json.loads(expected)["insert"].items():
                    tx.insert(relation, [tuple(row) for row in rows])
        case "rows":
            db.define(text)
            wanted = expected.splitlines()
            names = dict.fromkeys(line.partition(":")[0].partition("(")[0] for line in wanted)
            lines = []
            for name in names:
                rows = db.rows(name).sorted()
                lines += [f"{name}{show_row(row)}" for row in rows] or [f"{name}: none"]
            assert lines == wanted
        case "answer":
            assert [str(row) for row in db.sql(text)] == expected.splitlines()
        case "error":
            with pytest.raises(upshot.Error) as error:
                db.define(text.rstrip("\n"))
            assert str(error.value).rstrip() == expected.rstrip()
        case _:
            raise AssertionError(f"a block of {kind} under SQL")
