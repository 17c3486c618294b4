"""`GET /views/{name}/changes`: from a snapshot or a cursor on, every exact change, in order, once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import upshot
from tests.service.served_process import PATIENCE
from tests.service.serving import CLOSURE, Copy, EventReader, Running, changes_path
from upshot.service.feed.streams import RingBounds
from upshot.service.settings import Settings


@pytest.fixture(params=["memory", "durable"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    database = upshot.connect() if request.param == "memory" else upshot.connect(tmp_path / "store")
    database.define(CLOSURE)
    with Running(database) as running:
        yield running


def insert(server: Running, *edges: tuple[str, str]) -> int:
    with server.database.transaction() as tx:
        tx.insert("edge", list(edges))
    return tx.version


def delete(server: Running, *edges: tuple[str, str]) -> int:
    with server.database.transaction() as tx:
        tx.delete("edge", list(edges))
    return tx.version


def test_a_snapshot_comes_first_and_then_each_change_with_its_version_as_id(server: Running) -> None:
    first = insert(server, ("a", "b"))
    with EventReader(server.port, changes_path("closure")) as reader:
        assert reader.headers["content-type"] == "text/event-stream; charset=utf-8"
        snapshot = reader.expect("snapshot")
        assert (snapshot["version"], snapshot["rows"]) == (first, [["a", "b"]])
        assert snapshot["columns"] == [{"name": "x", "type": "symbol"}, {"name": "y", "type": "symbol"}]
        version = insert(server, ("b", "c"))
        name, id, data = reader.next() or ("", "", {})
        assert (name, id, data["version"]) == ("change", str(version), version)
        assert sorted(data["insert"]) == [["a", "c"], ["b", "c"]]
        assert data["delete"] == []
        delete(server, ("a", "b"))
        assert sorted(reader.expect("change")["delete"]) == [["a", "b"], ["a", "c"]]


def test_commits_that_do_not_concern_the_view_are_told_as_progress(server: Running) -> None:
    server.database.define(".decl other(x: symbol)")
    with EventReader(server.port, changes_path("closure")) as reader:
        reader.expect("snapshot")
        with server.database.transaction() as tx:
            tx.insert("other", [("x",)])
        until = time.monotonic() + PATIENCE
        while reader.expect("progress", progress=True)["version"] < tx.version:
            assert time.monotonic() < until, "the version comes with a heartbeat"


@pytest.mark.parametrize("by", ["since", "last-event-id"])
def test_a_cursor_goes_on_without_a_snapshot(server: Running, by: str) -> None:
    with EventReader(server.port, changes_path("closure")) as first:
        cursor = first.expect("snapshot")["version"]
        second = insert(server, ("a", "b"))
        first.expect("change")
    third = insert(server, ("b", "c"))
    path = changes_path("closure", since=cursor) if by == "since" else changes_path("closure", since=0)
    headers = {} if by == "since" else {"last-event-id": str(cursor)}
    with EventReader(server.port, path, headers) as reader:
        assert reader.expect("change")["version"] == second
        assert reader.expect("change")["version"] == third
        fourth = insert(server, ("c", "d"))
        assert reader.expect("change")["version"] == fourth


def test_a_cursor_that_is_ahead_of_all_versions_gets_a_snapshot_and_is_told_so(server: Running) -> None:
    with EventReader(server.port, changes_path("closure", since=10_000)) as reader:
        assert reader.expect("snapshot")["reason"] == "history-not-kept"


def test_a_cursor_of_another_database_gets_a_snapshot_and_is_told_so(server: Running) -> None:
    version = insert(server, ("a", "b"))
    with EventReader(server.port, changes_path("closure", since=version, epoch="other")) as reader:
        snapshot = reader.expect("snapshot")
        assert snapshot["reason"] == "history-not-kept"
        assert snapshot["epoch"] == server.database.identity == reader.headers["upshot-epoch"]
    with EventReader(server.port, changes_path("closure", since=version, epoch=server.database.identity)) as reader:
        insert(server, ("b", "c"))
        reader.expect("change")


def test_a_cursor_older_than_memory_reaches_gets_a_snapshot_and_is_told_so() -> None:
    database = upshot.connect()
    database.define(CLOSURE)
    with Running(database) as server:
        insert(server, ("a", "b"))
        with EventReader(server.port, changes_path("closure", since=0)) as reader:
            snapshot = reader.expect("snapshot")
            assert (snapshot["reason"], snapshot["rows"]) == ("history-not-kept", [["a", "b"]])


def test_a_durable_service_that_starts_again_goes_on_from_the_cursor(tmp_path: Path) -> None:
    database = upshot.connect(tmp_path / "store")
    database.define(CLOSURE)
    copy = Copy()
    with Running(database) as server, EventReader(server.port, changes_path("closure")) as reader:
        copy.take("snapshot", reader.expect("snapshot"))
        insert(server, ("a", "b"))
        copy.take("change", reader.expect("change"))
        server.stop()
        end = reader.expect("end")
        assert end == {"reason": "shutting-down", "cursor": copy.cursor}
        assert reader.next() is None
    with upshot.connect(tmp_path / "store") as between, between.transaction() as tx:
        tx.insert("edge", [("b", "c")])
    again = upshot.connect(tmp_path / "store")
    with Running(again) as server, EventReader(server.port, changes_path("closure", since=copy.cursor)) as reader:
        copy.take("change", reader.expect("change"))
        insert(server, ("c", "d"))
        copy.take("change", reader.expect("change"))
        assert copy.rows == set(again.rows("closure"))
        assert copy.snapshots == 1


def test_other_columns_come_as_a_snapshot_that_says_so(server: Running) -> None:
    with EventReader(server.port, changes_path("closure")) as reader:
        reader.expect("snapshot")
        insert(server, ("a", "b"))
        reader.expect("change")
        server.database.define(".decl closure(x: symbol, y: symbol, n: number) closure(X, Y, 1) :- edge(X, Y).")
        snapshot = reader.expect("snapshot")
        assert snapshot["reason"] == "view-changed"
        assert snapshot["rows"] == [["a", "b", 1]]
        assert [column["name"] for column in snapshot["columns"]] == ["x", "y", "n"]
        insert(server, ("b", "c"))
        assert reader.expect("change")["insert"] == [["b", "c", 1]]


def test_other_rules_come_as_a_change(server: Running) -> None:
    insert(server, ("a", "b"), ("b", "c"))
    with EventReader(server.port, changes_path("closure")) as reader:
        reader.expect("snapshot")
        server.database.remove_rule("closure(X, Z) :- closure(X, Y), edge(Y, Z).")
        assert reader.expect("change")["delete"] == [["a", "c"]]


def test_a_view_that_is_dropped_ends_the_stream(server: Running) -> None:
    with EventReader(server.port, changes_path("closure")) as reader, EventReader(
        server.port, changes_path("closure", every=0.1)
    ) as slower:  # fmt: skip
        reader.expect("snapshot")
        slower.expect("snapshot")
        server.database.drop("closure")
        assert reader.expect("end")["reason"] == "view-dropped"
        assert slower.expect("end")["reason"] == "view-dropped"
        assert reader.next() is None


def test_a_selection_that_does_not_fit_other_columns_ends_the_stream(server: Running) -> None:
    with EventReader(server.port, changes_path("closure", where='closure("a",Y)')) as reader:
        reader.expect("snapshot")
        server.database.define(".decl closure(x: symbol) closure(X) :- edge(X, _).")
        assert reader.expect("end")["reason"] == "wrong-arity"
        assert reader.next() is None


def test_changes_of_an_interval_come_as_one(server: Running) -> None:
    with EventReader(server.port, changes_path("closure", every=0.5)) as reader:
        copy = Copy()
        copy.take("snapshot", reader.expect("snapshot"))
        began = time.monotonic()
        for _ in range(10):
            insert(server, ("a", "b"))
            delete(server, ("a", "b"))
        last = insert(server, ("a", "b"), ("b", "c"))
        passed, told = int((time.monotonic() - began) / 0.5), 0
        while copy.cursor is not None and copy.cursor < last:
            copy.take("change", reader.expect("change"))
            told += 1
        assert copy.cursor == last
        assert copy.rows == set(server.database.rows("closure")) == {("a", "b"), ("a", "c"), ("b", "c")}
        assert told <= passed + 3, "one for each interval that has passed, those under way at both ends, and a late one"


def test_on_demand_one_net_change_is_the_answer(server: Running) -> None:
    start = server.net("closure")
    assert (start["rows"], start["version"]) == ([], server.database.version)
    since = server.net("closure", start["version"])["version"]
    insert(server, ("a", "b"))
    delete(server, ("a", "b"))
    version = insert(server, ("c", "d"))
    answer = server.net("closure", since)
    assert answer == {
        "version": version, "since": since, "epoch": server.database.identity, "insert": [["c", "d"]], "delete": [],
    }  # fmt: skip
    assert server.net("closure", version)["insert"] == []
    assert server.net("closure", 99_999)["reason"] == "history-not-kept"


def test_a_slow_client_is_told_where_to_go_on_and_commits_do_not_wait(tmp_path: Path) -> None:
    database = upshot.connect(tmp_path / "store")
    database.define(".decl item(n: number, text: symbol)")
    with Running(database, ring=RingBounds(events=8)) as server:
        with EventReader(server.port, changes_path("item"), buffer=4096) as reader:
            copy = Copy()
            copy.take("snapshot", reader.expect("snapshot"))
            for n in range(200):
                with database.transaction() as tx:
                    tx.insert("item", [(n, "x" * 50_000)])
            server.do(server.service.hub.reached(tx.version))
            # All are committed and prepared before it takes the first one.
            events = list(reader)
        assert events[-1][0] == "end"
        assert events[-1][2]["reason"] == "too-slow"
        for name, _, data in events:
            copy.take(name, data)
        assert events[-1][2]["cursor"] == copy.cursor
        with EventReader(server.port, changes_path("item", since=copy.cursor)) as reader:
            while copy.cursor < tx.version:
                name, _, data = reader.next(progress=True) or ("", "", {})
                copy.take(name, data)
        assert copy.snapshots == 1
        assert copy.rows == set(database.rows("item"))


def test_a_client_that_takes_nothing_at_all_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upshot.service.feed.sse.PATIENCE", 0.5)
    database = upshot.connect()
    database.define(".decl item(n: number, text: symbol)")
    with (
        Running(database, ring=RingBounds(events=8)) as server,
        EventReader(server.port, changes_path("item"), buffer=4096) as reader,
    ):
        reader.expect("snapshot")
        for n in range(200):
            with database.transaction() as tx:
                tx.insert("item", [(n, "x" * 50_000)])
        until = time.monotonic() + PATIENCE
        while server.service.hub.followers:
            assert time.monotonic() < until, "it is gone"
            time.sleep(0.05)


def test_streams_that_commits_overrun_go_on_from_the_log(tmp_path: Path) -> None:
    database = upshot.connect(tmp_path / "store")
    database.define(".decl item(n: number)")
    with (
        Running(database, ring=RingBounds(waiting_commits=3)) as server,
        EventReader(server.port, changes_path("item")) as reader,
    ):
        copy = Copy()
        copy.take("snapshot", reader.expect("snapshot"))
        for n in range(300):
            with database.transaction() as tx:
                tx.insert("item", [(n,)])
        while copy.cursor < tx.version:
            name, _, data = reader.next(progress=True) or ("", "", {})
            copy.take(name, data)
        assert copy.snapshots == 1
        assert len(copy.rows or ()) == 300


def test_what_cannot_be_followed_is_an_error_in_the_one_shape(server: Running) -> None:
    for path, status, code in (
        ("/views/nothing/changes", 404, "not-found"),
        (changes_path("closure", where="edge(X,Y)"), 400, "bad-selection"),
        (changes_path("closure", where="closure(X)"), 400, "wrong-arity"),
        (changes_path("closure", where="closure(X,"), 400, "unexpected-end"),
        (changes_path("closure", where="closure(1,Y)"), 400, "type-mismatch"),
    ):
        found, body, _ = server.request("GET", path)
        assert (found, body["error"]["code"]) == (status, code), body
    found, body, _ = server.request("GET", "/views/closure/changes", headers={"last-event-id": "x"})
    assert (found, body["error"]["code"]) == (400, "bad-cursor")


def test_a_token_whose_scope_was_withdrawn_does_not_go_on(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    with EventReader(server.port, changes_path("closure")) as reader:
        reader.expect("snapshot")
        narrow = upshot.service.access.scopes.Scopes("local", frozenset({"edge"}), subscribe=True)
        monkeypatch.setattr(server.service, "scopes", lambda request: narrow)
        assert reader.expect("end")["reason"] == "forbidden"
        status, body, _ = server.request("GET", "/views/closure/changes")
        assert (status, body["error"]["code"]) == (404, "not-found")


def test_there_are_at_most_so_many_subscribers() -> None:
    database = upshot.connect()
    database.define(CLOSURE)
    settings = Settings(heartbeat=0.2)
    object.__setattr__(settings.bounds, "subscribers", 1)
    with Running(database, settings) as server, EventReader(server.port, changes_path("closure")) as reader:
        reader.expect("snapshot")
        status, body, _ = server.request("GET", "/views/closure/changes")
        assert (status, body["error"]["code"]) == (503, "too-busy")


def test_a_commit_that_cannot_be_told_is_read_from_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = upshot.connect(tmp_path / "store")
    database.define(".decl item(n: number)")
    with Running(database) as server, EventReader(server.port, changes_path("item")) as reader:
        copy = Copy()
        copy.take("snapshot", reader.expect("snapshot"))
        real = upshot.service.feed.hub._decoded
        failing = iter([True])

        def decoded(change: object) -> object:
            if next(failing, False):
                raise MemoryError
            return real(change)

        monkeypatch.setattr("upshot.service.feed.hub._decoded", decoded)
        for n in range(3):
            with database.transaction() as tx:
                tx.insert("item", [(n,)])
        while copy.cursor < tx.version:
            name, _, data = reader.next(progress=True) or ("", "", {})
            copy.take(name, data)
        assert (copy.rows, copy.snapshots) == ({(0,), (1,), (2,)}, 1)
