"""Which texts are SQL."""

from __future__ import annotations

import pytest

from upshot.sql.either import is_sql


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a BIGINT)",
        "create\nview v as select 1",
        "-- a comment\n  /* and another */ CREATE VIEW v AS SELECT 1",
        ".input t\n.output v\nCREATE TABLE t (a BIGINT);",
        ";; SELECT 1",
        "with x as (select 1) select * from x",
        'CREATE VIEW "V" AS SELECT 1',
    ],
)
def test_statements_of_sql_are_sql(text: str) -> None:
    assert is_sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "// create view\n.decl r(x: number)",
        ".decl create(x: number)\ncreate(1).",
        "create(X) :- table(X).",
        "select(X), view(X) :- r(X).",
        "with() :- set().",
        "create :- table.",
        ".decl select(x: number) select(1).",
        "/* CREATE VIEW v */ r(1).",
    ],
)
def test_datalog_is_not(text: str) -> None:
    assert not is_sql(text)


def test_the_name_of_a_file_decides() -> None:
    assert is_sql(".input r", "views.sql")
    assert not is_sql("CREATE TABLE t (a BIGINT)", "views.dl")
