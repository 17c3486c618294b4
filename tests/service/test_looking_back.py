"""Earlier versions over HTTP: rows, answers, net changes, and the history of one row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.service.serving import Running
from upshot.client import Client
from upshot.service.settings import RequestBounds, Settings

PROGRAM = """
.decl edge(x: number, y: number)
.decl reach(x: number, y: number)
reach(X, Y) :- edge(X, Y).
reach(X, Z) :- reach(X, Y), edge(Y, Z).
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Running]:
    database = upshot.connect(tmp_path / "db")
    database.define(PROGRAM)
    for insert, delete in (([(1, 2), (2, 3)], []), ([(3, 4)], []), ([(2, 4)], [(2, 3)]), ([(2, 3)], [])):
        with database.transaction() as tx:
            tx.insert("edge", insert)
            tx.delete("edge", delete)
    with Running(database, Settings(bounds=RequestBounds(rows=100))) as running:
        yield running
    database.close()


def get(served: Running, path: str) -> Any:
    status, body, _ = served.request("GET", path)
    assert status == 200, body
    return body


def test_rows_and_selections_are_those_of_an_earlier_version(served: Running) -> None:
    for version in range(1, served.database.version + 1):
        expected = [list(row) for row in served.database.at(version).rows("reach").sorted()]
        found = get(served, f"/views/reach?at={version}")
        assert (found["version"], found["rows"]) == (version, expected)
        part = get(served, f"/views/reach?at={version}&where=reach(1,Y)")
        assert part["rows"] == [row for row in expected if row[0] == 1]
    page = get(served, "/views/reach?at=3&limit=2&order=-y")
    assert page["rows"] == [[1, 4], [2, 4]]
    assert get(served, f"/views/reach?at=3&limit=2&after={page['next']}")["rows"] == [[3, 4], [1, 3]]
    status, body, _ = served.request("GET", f"/views/reach?limit=2&after={page['next']}")
    assert (status, body["error"]["code"]) == (410, "page-expired")
    status, body, _ = served.request("GET", "/views/reach?at=99")
    assert (status, body["error"]["code"]) == (410, "history-not-kept")


def test_a_query_is_answered_from_an_earlier_version(served: Running) -> None:
    for query in ("reach($x, Y)", "SELECT y FROM reach WHERE x = :x ORDER BY y"):
        status, body, _ = served.request("POST", "/query", {"query": query, "parameters": {"x": 1}, "at": 2})
        assert (status, body["version"], body["rows"]) == (200, 2, [[2], [3]])
    status, body, _ = served.request("POST", "/query", {"query": "reach(1, Y)", "at": "2"})
    assert (status, body["error"]["code"]) == (400, "bad-request")


def test_sql_names_the_version_itself(served: Running) -> None:
    database = served.database
    text = "SELECT y FROM reach VERSION AS OF 2 WHERE x = :x ORDER BY y"
    assert list(database.sql(text, x=1)) == [(2,), (3,)]
    assert list(database.sql("SELECT y FROM reach FOR VERSION AS OF :v AS r WHERE r.x = 1 ORDER BY y DESC", v=3)) == [
        (4,),
        (3,),
        (2,),
    ]
    joined = "WITH r AS (SELECT x FROM edge VERSION AS OF 4) SELECT x FROM r WHERE x > 1 ORDER BY x"
    assert list(database.sql(joined)) == [(2,), (3,)]
    status, body, _ = served.request("POST", "/query", {"query": text, "parameters": {"x": 1}})
    assert (status, body["version"], body["rows"]) == (200, 2, [[2], [3]])
    mixed = "SELECT a.x FROM reach VERSION AS OF 2 AS a JOIN edge AS b ON a.x = b.x"
    with pytest.raises(upshot.ProgramError) as caught:
        database.sql(mixed)
    assert caught.value.code == "sql-versions"
    for call in (lambda: database.at(3).sql(text, x=1), lambda: database.watch(text, print, x=1)):
        with pytest.raises(upshot.UsageError) as refused:
            call()
        assert refused.value.code == "sql-versions"
    with database.transaction() as tx, pytest.raises(upshot.UsageError):
        tx.query(text, x=1)
    with pytest.raises(upshot.ProgramError) as caught:
        database.define("CREATE VIEW v AS SELECT x FROM reach VERSION AS OF 2")
    assert caught.value.code == "sql-unsupported"
    assert list(database.sql(text, x=1)) == [(2,), (3,)]


def test_as_of_is_short_for_version_as_of_and_parameters_may_have_a_dollar(served: Running) -> None:
    database = served.database
    expected = list(database.sql("SELECT y FROM reach VERSION AS OF 2 WHERE x = :x ORDER BY y", x=1))
    for text, values in (
        ("SELECT y FROM reach AS OF 2 WHERE x = $x ORDER BY y", {"x": 1}),
        ("SELECT r.y FROM reach AS OF $v AS r WHERE r.x = $x ORDER BY r.y", {"x": 1, "v": 2}),
        ("SELECT y FROM reach as of :v WHERE x = 1 ORDER BY y", {"v": 2}),
    ):
        assert list(database.sql(text, **values)) == expected
        status, body, _ = served.request("POST", "/query", {"query": text, "parameters": values})
        assert (status, body["version"], body["rows"]) == (200, 2, [list(row) for row in expected])
    assert len(database.sql("SELECT y FROM reach AS of")) == len(database.sql("SELECT y FROM reach"))
    with pytest.raises(upshot.ProgramError) as caught:
        database.sql("SELECT y FROM reach WHERE x = $x")
    assert caught.value.code == "missing-parameter"


def test_a_row_is_explained_and_realized_in_an_earlier_version(served: Running) -> None:
    then = get(served, "/explanations/reach?row=[1,3]&at=2")
    assert then["version"] == 2
    assert then["derivation"]["statement"] == "reach(1, 3)"
    assert "why_not" in get(served, "/explanations/reach?row=[1,3]&at=4")
    assert "derivation" in get(served, "/explanations/reach?row=[1,3]")
    body = {"delete": {"reach": [[1, 3]]}, "at": 2}
    status, found, _ = served.request("POST", "/realizations", body)
    assert (status, found["version"], found["status"]) == (200, 2, "all")
    assert sorted(each["delete"]["edge"] for each in found["realizations"]) == [[[1, 2]], [[2, 3]]]
    for path in ("/explanations/reach?row=[1,3]&at=99", "/explanations/reach?row=[1,3]&at=2&changed_in=2"):
        status, body, _ = served.request("GET", path)
        assert (status, body["error"]["code"]) in ((410, "history-not-kept"), (400, "bad-request"))


def test_the_net_change_between_two_versions(served: Running) -> None:
    found = get(served, "/views/reach/changes?since=2&until=4")
    assert (found["since"], found["version"]) == (2, 4)
    assert (found["insert"], found["delete"]) == ([[1, 4], [2, 4], [3, 4]], [[1, 3], [2, 3]])
    part = get(served, "/views/reach/changes?since=2&until=4&where=reach(1,Y)")
    assert (part["insert"], part["delete"]) == ([[1, 4]], [[1, 3]])
    status, body, _ = served.request("GET", "/views/reach/changes?until=4")
    assert (status, body["error"]["code"]) == (400, "bad-request")


def test_the_history_of_a_row_and_the_client(served: Running) -> None:
    found = get(served, "/views/reach/history?row=[1,3]")
    assert [(each["version"], each["change"]) for each in found["changes"]] == [
        (2, "inserted"),
        (4, "deleted"),
        (5, "inserted"),
    ]
    in_process = served.database.row_history("reach", (1, 3))
    assert [(each.version, each.change) for each in in_process] == [(2, "inserted"), (4, "deleted"), (5, "inserted")]
    with Client(f"http://127.0.0.1:{served.port}") as client:
        assert [(each.version, each.change) for each in client.row_history("reach", (1, 3))] == [
            (each.version, each.change) for each in in_process
        ]
        version, inserted, deleted = client.changes("reach", since=4, until=5)
        assert (version, inserted, len(deleted)) == (5, {(1, 3), (2, 3)}, 0)
        assert list(client.page("reach", at=2)) == [(1, 2), (1, 3), (2, 3)]
        assert list(client.page("reach(1, Y)", at=2, order="-Y")) == [(3,), (2,)]
    status, body, _ = served.request("GET", "/views/reach/history?row=[1]")
    assert (status, body["error"]["code"]) == (400, "wrong-arity")
    memory = upshot.connect()
    memory.define(PROGRAM)
    with pytest.raises(upshot.UsageError) as caught:
        memory.row_history("edge", (1, 2))
    assert caught.value.code == "not-durable"
