"""No copy follows a nervous view: the changes it tells are more than its net ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.service.serving import Copy, EventReader, Running, changes_path
from upshot.client import Client
from upshot.core.errors import UsageError
from upshot.database.database import Database
from upshot.service.settings import Settings

PROGRAM = ".decl q(x: number, y: number) .decl p(x: number)\np(X) :- q(X, _).\n"
STRICT = ".view p strategy=differencing"
NERVOUS = f"{STRICT} semantics=nervous"


def insert(database: Database, *rows: tuple[int, int]) -> Any:
    with database.transaction() as tx:
        tx.insert("q", rows)
    return tx.changes["p"].inserted.sorted()


def nervous() -> Database:
    database = upshot.connect()
    database.define(PROGRAM + NERVOUS)
    assert insert(database, (1, 1)) == insert(database, (1, 2)) == [(1,)], "told again, though it was there"
    return database


@pytest.mark.parametrize("where", [None, "p(1)"])
def test_a_service_lets_nobody_follow_a_nervous_view(where: str | None) -> None:
    with Running(nervous()) as server:
        for accepted in ("text/event-stream", "application/json"):
            for since in (None, 1):
                path = changes_path("p", where=where, since=since)
                status, body, _ = server.request("GET", path, headers={"accept": accepted})
                assert (status, body["error"]["code"]) == (409, "nervous-view"), (accepted, since)
        assert "`p` is nervous" in body["error"]["message"]
        assert server.request("GET", "/views/p")[1]["rows"] == [[1]], "its rows can be read"


def test_a_webhook_of_a_nervous_view_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSHOT_WEBHOOK_SECRET_HOOKS", "correct horse")
    settings = Settings(webhook_hosts=("127.0.0.1",), webhook_insecure=True)
    with Running(nervous(), settings) as server:
        body = {"view": "p", "url": "http://127.0.0.1:9/hook", "secret": "HOOKS"}
        status, answer, _ = server.request("POST", "/subscriptions", body)
        assert (status, answer["error"]["code"]) == (409, "nervous-view")
        assert server.request("GET", "/subscriptions")[1] == {"subscriptions": []}


def test_a_client_says_why_it_cannot_follow() -> None:
    with Running(nervous()) as server, Client(f"http://127.0.0.1:{server.port}") as client:
        for ask in (lambda: client.follow("p"), lambda: client.changes("p", 1)):
            with pytest.raises(UsageError) as caught:
                ask()
            assert caught.value.code == "nervous-view"


def test_a_stream_ends_when_its_view_becomes_nervous() -> None:
    database = upshot.connect()
    database.define(PROGRAM + STRICT)
    with Running(database) as server, EventReader(server.port, changes_path("p")) as reader:
        copy = Copy()
        copy.take("snapshot", reader.expect("snapshot"))
        insert(database, (1, 1))
        copy.take("change", reader.expect("change"))
        database.define(NERVOUS)
        insert(database, (1, 2))
        assert reader.expect("end")["reason"] == "nervous-view"
        assert reader.next() is None
        assert copy.rows == {(1,)}


@pytest.mark.parametrize("durable", [True, False])
def test_a_cursor_from_before_a_nervous_time_gets_a_snapshot(tmp_path: Path, durable: bool) -> None:
    database = upshot.connect(tmp_path / "store") if durable else upshot.connect()
    database.define(PROGRAM + STRICT)
    insert(database, (1, 1))
    before = database.version
    database.define(NERVOUS)
    insert(database, (1, 2), (2, 1))
    during = database.version
    with database.transaction() as tx:
        tx.delete("q", [(1, 1)])
    assert tx.changes["p"].deleted.sorted() == [(1,)], "told, though it is still there"
    database.define(STRICT)
    insert(database, (3, 1))
    with Running(database) as server:
        for since in (before, during):
            answer = server.net("p", since)
            assert sorted(answer["rows"]) == [[1], [2], [3]], "no net change leads there"
            with EventReader(server.port, changes_path("p", since=since)) as reader:
                assert sorted(reader.expect("snapshot")["rows"]) == [[1], [2], [3]]
        with EventReader(server.port, changes_path("p", since=database.version)) as reader:
            insert(database, (3, 2), (4, 1))
            assert reader.expect("change")["insert"] == [[4]]


def test_watchers_are_shown_all_rows_when_a_view_becomes_nervous_or_strict(tmp_path: Path) -> None:
    database = upshot.connect(tmp_path / "store")
    told: list[tuple[bool, list[Any], list[Any]]] = []

    def tell(event: Any) -> None:
        told.append((event.snapshot, event.inserted.sorted(), event.deleted.sorted()))

    database.define(PROGRAM + STRICT)
    database.watch("p", tell)
    insert(database, (1, 1), (2, 1))
    # Facts of the text go and come with the same definition: what is shown is right all the same.
    database.define(".decl q(x: number, y: number)\nq(1, 1). q(2, 2).\n" + NERVOUS)
    insert(database, (2, 3))
    database.define(".decl q(x: number, y: number)\nq(5, 5).\n" + STRICT)
    insert(database, (5, 6))
    database.define(".decl q(x: number, y: number)\n" + NERVOUS)  # a fact goes, what it derived is derived otherwise
    rows = database.rows("p").sorted()
    assert told[-1] == (True, rows, [])
    assert told == [
        (True, [], []),
        (False, [(1,), (2,)], []),
        (True, [(1,), (2,)], []),
        (False, [(2,)], []),
        (True, [(2,), (5,)], []),
        (True, [(2,), (5,)], []),
    ]
    heard, told = told, []
    first = next(number for number, each in enumerate(heard) if each[1])
    database.watch("p", tell, since=1)
    assert told == heard[first:]
    database.close()
    with upshot.connect(tmp_path / "store") as again:
        assert again.rows("p").sorted() == rows
        again.verify()
