"""Views on Spark of more rows than fit into an answer: read from their files in pieces and pages, at one version."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow
import pytest

from tests.properties.engines import Make
from tests.service.serving import Running
from tests.service.test_large_views import ARROW, NDJSON, fetched, lines
from upshot.service.settings import RequestBounds, Settings

PROGRAM = """
.decl n(x: number, t: symbol, u: unsigned, f: float, d: decimal(6,2))
.decl v(x: number, t: symbol, u: unsigned, f: float, d: decimal(6,2))
v(X, T, U, F, D) :- n(X, T, U, F, D).
.decl named(t: symbol, x: number)
named(T, X) :- n(X, T, _, _, _).
named(T, X) :- n(_, T, _, _, _), n(X, T, _, _, _).
"""
ROWS = 600


def row(i: int) -> tuple[Any, ...]:
    return (i, f"text {i % 4}", 2**63 + i, i / 4, Decimal(f"{i % 1000}.25"))


@pytest.fixture
def large(on_files: Make, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """Answers have at most 100 rows, what is sorted at most 200, and pieces 130."""
    monkeypatch.setattr("upshot.service.routes.views.PIECE", 130)
    database = on_files()
    database.define(PROGRAM)
    with database.transaction() as tx:
        tx.insert("n", [row(i) for i in range(ROWS)])
    with Running(database, Settings(bounds=RequestBounds(rows=100, snapshot=200, readers=2))) as service:
        yield service
    database.close()


def as_sets(service: Running, view: str, where: str = "") -> tuple[str, set[tuple[Any, ...]]]:
    """All rows as lines of JSON and as Arrow, which must be the same, each once; and their version."""
    status, head, body = fetched(service, f"/views/{view}{where}", NDJSON)
    assert (status, head["transfer-encoding"]) == (200, "chunked"), body[:500]
    found = lines(body)
    assert len(set(found)) == len(found)
    status, again, body = fetched(service, f"/views/{view}{where}", ARROW)
    table = pyarrow.ipc.open_stream(io.BytesIO(body)).read_all()
    assert (status, table.num_rows, again["upshot-version"]) == (200, len(found), head["upshot-version"])
    assert table.schema.names == [column.name for column in service.database.schemas[view].columns]
    first = {each[0] for each in found}
    assert set(table.column(0).to_pylist()) == first
    return head["upshot-version"], set(found)


def as_json(rows: Any) -> set[tuple[Any, ...]]:
    """Rows as the lines of JSON have them: decimals as text."""
    return {(x, t, u, f, str(d)) for x, t, u, f, d in rows}


def test_all_rows_of_a_large_view_on_spark_come_as_lines_of_json_and_as_arrow(large: Running) -> None:
    for view in ("n", "v"):
        version, found = as_sets(large, view)
        assert (version, len(found)) == ("2", ROWS)
        assert found == as_json(large.database.rows(view))
    assert len(as_sets(large, "named")[1]) == ROWS
    assert len(as_sets(large, "named", '?where=named("text%203",X)')[1]) == len(range(3, ROWS, 4))


def test_a_large_view_on_spark_is_read_after_rows_were_deleted_from_its_files(large: Running) -> None:
    with large.database.transaction() as tx:
        tx.delete("n", [row(i) for i in range(0, ROWS, 3)])
        tx.insert("n", [row(i) for i in range(ROWS, ROWS + 5)])
    for view in ("n", "v"):
        version, found = as_sets(large, view)
        assert (version, len(found)) == ("3", ROWS * 2 // 3 + 5)
        assert found == as_json(large.database.rows(view))
    with large.database.transaction() as tx:
        tx.delete("n", [row(1)])
    assert len(as_sets(large, "v")[1]) == ROWS * 2 // 3 + 4


def test_pages_of_a_large_view_on_spark_are_all_of_it_while_commits_go_on(large: Running) -> None:
    expected = as_json(large.database.rows("v"))
    status, page, _ = large.request("GET", "/views/v?limit=90")
    found = [tuple(each) for each in page["rows"]]
    assert (status, len(found), "next" in page) == (200, 90, True)
    number = 0
    while "next" in page:
        if number % 4 == 0:
            with large.database.transaction() as tx:
                tx.delete("n", [row(number)])
        number += 1
        _, page, _ = large.request("GET", f"/views/v?limit=190&after={page['next']}")
        assert page["version"] == 2
        found += [tuple(each) for each in page["rows"]]
    assert (len(found), set(found)) == (ROWS, expected)


def test_copies_that_were_made_for_readers_are_removed_when_they_have_read(large: Running) -> None:
    with large.database.transaction() as tx:
        tx.delete("n", [row(i) for i in range(ROWS // 2)])
    workspace = large.database._state.engine._workspace
    for _ in range(4):
        as_sets(large, "v")
    assert len(workspace._apart) <= 2
    with large.database.transaction() as tx:
        tx.insert("n", [row(-1)])
    assert len(workspace._apart) <= 1
    assert json.loads(fetched(large, "/views/v?limit=3", "application/json")[2])["version"] == 4


def test_pages_in_the_order_of_a_column_are_selected_by_spark(large: Running) -> None:
    rows = large.database.rows("v")
    everything = sorted(row(i) for i in range(ROWS))
    orders: dict[str, Any] = {"-u": lambda each: -each[2], "t,-x": lambda each: (each[1], -each[0])}
    for order, key in orders.items():
        found: list[tuple[Any, ...]] = []
        while part := rows.page(250, order, found[-1] if found else None):
            found += part
        assert found == sorted(everything, key=key)
    status, page, _ = large.request("GET", "/views/v?limit=2&order=-d,f")
    assert (status, [each[0] for each in page["rows"]], "next" in page) == (200, [599, 598], True)
