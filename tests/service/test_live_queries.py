"""Queries with parameters over HTTP: streams, webhooks and copies of clients."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import upshot
from tests.service.served_process import PATIENCE
from tests.service.serving import CLOSURE, EventReader, Running
from tests.service.test_webhooks import SETTINGS, Receiver, receiver, serve, state_of, subscribe
from upshot.client import Client

__all__ = ["receiver"]

UNSTORED = CLOSURE + ".view closure materialized=false events=none\n"


def path(query: str, values: dict[str, Any] | None = None, **more: Any) -> str:
    return "/changes?" + urlencode({"query": query, "parameters": json.dumps(values or {}), **more})


def database_at(folder: Path | None = None) -> upshot.Database:
    database = upshot.connect(folder)
    database.define(UNSTORED)
    with database.transaction() as tx:
        tx.insert("edge", [("a", "b"), ("b", "c"), ("z", "y")])
    return database


def change(database: upshot.Database, insert: Any = (), delete: Any = ()) -> None:
    with database.transaction() as tx:
        tx.insert("edge", list(insert))
        tx.delete("edge", list(delete))


def test_a_query_is_followed_for_many_values_with_one_plan() -> None:
    database = database_at()
    with Running(database) as server:
        readers = {x: EventReader(server.port, path("closure($x, Y)", {"x": x})) for x in "abz"}
        first = {x: sorted(reader.expect("snapshot")["rows"]) for x, reader in readers.items()}
        assert first == {"a": [["b"], ["c"]], "b": [["c"]], "z": [["y"]]}
        change(database, [("c", "d")])
        assert [readers[x].expect("change")["insert"] for x in "ab"] == [[["d"]], [["d"]]]
        change(database, delete=[("z", "y")])
        assert readers["z"].expect("change")["delete"] == [["y"]]
        assert len(database._state.live.by_answer) == 1
        for reader in readers.values():
            reader.close()


def test_a_query_asked_again_is_kept_current_and_counted() -> None:
    database = database_at()
    with Running(database) as server:
        body = {"query": "closure($x, Y)", "parameters": {"x": "a"}}
        for _ in range(3):
            assert sorted(server.request("POST", "/query", body)[1]["rows"]) == [["b"], ["c"]]
        change(database, [("c", "d")])
        assert sorted(server.request("POST", "/query", body)[1]["rows"]) == [["b"], ["c"], ["d"]]
        assert (database.kept_answers.on_demand, database.kept_answers.hits) == (1, 3)
        found = server.request("GET", "/explanations/closure")[1]["relations"]["closure"]["kept"]
        assert [(each["query"], each["parameters"]) for each in found] == [("closure($x, Y)", 1)]
        metrics = server.service.metrics.text().decode()
        assert "upshot_kept_parameters 1.0" in metrics
        assert "upshot_kept_hits 3.0" in metrics


def test_a_query_that_fails_ends_its_streams_with_the_error_and_others_go_on() -> None:
    database = upshot.connect()
    database.define(".decl a(x: number)")
    divided = "a(X), Y = 10 / (X - $d)"
    with Running(database) as server:
        readers = {d: EventReader(server.port, path(divided, {"d": d})) for d in (5, 6)}
        other = EventReader(server.port, path("a(X)"))
        for reader in (*readers.values(), other):
            reader.expect("snapshot")
        status, body, _ = server.request("POST", "/transactions", {"insert": {"a": [[5]]}})
        assert (status, body["changes"]["a"]["insert"]) == (200, [[5]]), body
        ended = readers[5].expect("end")
        assert (ended["reason"], ended["cursor"]) == ("division-by-zero", 1)
        assert ended["message"] == f"division by zero in the followed query `{divided}`"
        assert readers[6].expect("change")["insert"] == [[5, -10]]
        assert other.expect("change")["insert"] == [[5]]
        for reader in (*readers.values(), other):
            reader.close()


def test_a_client_that_has_left_leaves_no_query_behind() -> None:
    database = upshot.connect()
    database.define(".decl a(x: number)")
    with Running(database) as server:
        with EventReader(server.port, path("a(X), Y = 10 / (X - 5)")) as reader:
            reader.expect("snapshot")
        status, body, _ = server.request("POST", "/transactions", {"insert": {"a": [[5]]}})
        assert status == 200, body
        with EventReader(server.port, path("a(X), X > 1")) as reader:
            reader.expect("snapshot")
        until = time.monotonic() + PATIENCE
        while database._state.live.by_answer:
            assert time.monotonic() < until, "it is dropped"
            time.sleep(0.05)


def test_a_webhook_of_a_query_that_fails_is_suspended_with_the_reason(receiver: Receiver) -> None:
    server = serve()
    try:
        server.database.define(".decl a(x: number)")
        made = subscribe(server, receiver, query="a(X), Y = 10 / (X - 5)", parameters={}, view=None)
        assert receiver.wait(1)[0]["snapshot"]
        assert server.request("POST", "/transactions", {"insert": {"a": [[5]]}})[0] == 200
        assert state_of(server, made["id"], "suspended")["reason"] == "division-by-zero"
    finally:
        server.stop()


def test_more_selections_of_an_unstored_view_are_followed_than_there_were_copies() -> None:
    database = database_at()
    with Running(database) as server:
        for number in range(80):
            where = f'closure("n{number}",Y)'
            status, body, _ = server.request(
                "GET", "/views/closure/changes?" + urlencode({"where": where}), headers={"accept": "application/json"}
            )
            assert (status, body["rows"]) == (200, [])
        assert len(database._state.live.by_answer) == 1


def test_a_query_goes_on_from_its_cursor_after_a_restart(tmp_path: Path) -> None:
    database = database_at(tmp_path / "store")
    asked = path("closure($x, Y)", {"x": "a"})
    with Running(database) as server, EventReader(server.port, asked) as reader:
        cursor = reader.expect("snapshot")["version"]
    database.close()
    database = upshot.connect(tmp_path / "store")
    change(database, [("c", "d")])
    change(database, [("d", "e")], [("a", "b")])
    with Running(database) as server, EventReader(server.port, f"{asked}&since={cursor}") as reader:
        missed = reader.expect("change")
        assert (missed["insert"], sorted(missed["delete"])) == ([], [["b"], ["c"]])
        change(database, [("a", "b")])
        assert sorted(reader.expect("change")["insert"]) == [["b"], ["c"], ["d"], ["e"]]
    database.close()


def test_one_sign_and_a_sample() -> None:
    database = database_at()
    with Running(database) as server:
        gone = EventReader(server.port, path("closure($x, Y)", {"x": "a"}, events="delete"))
        few = EventReader(server.port, path("closure($x, Y)", {"x": "a"}, limit=1))
        gone.expect("snapshot"), few.expect("snapshot")
        change(database, [("c", "d"), ("c", "e")])
        told = few.expect("change")
        assert (len(told["insert"]), told["omitted"]) == (1, 1)
        change(database, delete=[("b", "c")])
        assert sorted(gone.expect("change")["delete"]) == [["c"], ["d"], ["e"]]
        gone.close(), few.close()


@pytest.mark.parametrize(
    ("query", "values", "code"),
    [
        ("nothing($x)", {"x": 1}, "unknown-relation"),
        ("closure($x, Y)", {}, "missing-parameter"),
        ("closure($x, Y)", {"x": [1]}, "bad-request"),
        ("closure(", {}, "syntax-error"),
        ("select y from closure limit 1", {}, "live-query-limit"),
    ],
)
def test_what_cannot_be_followed_is_refused(query: str, values: dict[str, Any], code: str) -> None:
    with Running(database_at()) as server:
        status, body, _ = server.request("GET", path(query, values))
        assert status == 400
        assert body["error"]["code"] == code or code == "syntax-error"


def test_a_client_keeps_a_copy_of_a_query() -> None:
    database = database_at()
    with (
        Running(database) as server,
        Client(f"http://127.0.0.1:{server.port}") as client,
        client.follow("closure($x, Y)", x="a") as copy,
        client.follow("select count(*) as n from closure where x = :x", x="a") as counted,
    ):
        assert copy.rows == {("b",), ("c",)}
        assert copy.columns == ("Y",)
        change(database, [("c", "d")], [("z", "y")])
        assert copy.wait(database.version, 20)
        assert copy.rows == {("b",), ("c",), ("d",)}
        assert counted.wait(database.version, 20)
        assert counted.rows == {(3,)}


def test_a_webhook_is_told_of_a_query(receiver: Receiver) -> None:
    server = serve()
    try:
        query = {"query": "closure($x, Y)", "parameters": {"x": "a"}, "view": None}
        made = subscribe(server, receiver, **query)
        assert (made["query"], made["parameters"]) == ("closure($x, Y)", {"x": "a"})
        assert receiver.wait(1)[0]["snapshot"]
        with server.database.transaction() as tx:
            tx.insert("edge", [("a", "b"), ("q", "r")])
        told = receiver.wait(2)[-1]
        assert (told["query"], told["insert"]) == ("closure($x, Y)", [["b"]])
    finally:
        server.stop()


@pytest.mark.parametrize("every", [{}, {"every": 0.1}])
def test_a_webhook_of_one_sign_is_sent_nothing_for_the_other(receiver: Receiver, every: dict[str, float]) -> None:
    server = serve()
    try:
        query = {"query": "closure($x, Y)", "parameters": {"x": "a"}, "view": None}
        subscribe(server, receiver, **query, **every, events="delete")
        assert receiver.wait(1)[0]["snapshot"]
        for insert in (True, False):
            with server.database.transaction() as tx:
                (tx.insert if insert else tx.delete)("edge", [("a", "one"), ("a", "two")])
            time.sleep(0.5 if insert else 0)
        told = receiver.wait(2)
        assert [(each["insert"], sorted(each["delete"])) for each in told[1:]] == [([], [["one"], ["two"]])]
    finally:
        server.stop()


def test_a_query_may_be_sql() -> None:
    with Running(database_at()) as server:
        text = "select y from closure where x = :x order by y desc limit 1"
        status, body, _ = server.request("POST", "/query", {"query": text, "parameters": {"x": "a"}})
        assert (status, body["rows"]) == (200, [["c"]])
        status, body, _ = server.request("POST", "/query", {"query": "select y from nothing"})
        assert status == 400


@pytest.mark.parametrize("query", ["n(K, X), K = $k, Y = @double(X)", "select x, double(x) from n where k = :k"])
def test_a_followed_query_calls_functions(query: str, receiver: Receiver) -> None:
    database = upshot.connect(functions={"double": lambda x: 2 * x})
    database.define(".functor double(x: number): number pure\n.decl n(k: symbol, x: number)")
    with Running(database, SETTINGS) as server:
        subscribe(server, receiver, view=None, query=query, parameters={"k": "a"})
        reader = EventReader(server.port, path(query, {"k": "a"}))
        reader.expect("snapshot")
        with database.transaction() as tx:
            tx.insert("n", [("a", 4), ("b", 5)])
        assert [row[-2:] for row in reader.expect("change")["insert"]] == [[4, 8]]
        assert [row[-2:] for row in receiver.wait(2)[-1]["insert"]] == [[4, 8]]
        status, body, _ = server.request("POST", "/query", {"query": query, "parameters": {"k": "a"}})
        assert (status, [row[-2:] for row in body["rows"]]) == (200, [[4, 8]])
        reader.close()


def test_a_followed_select_with_the_time_is_refused_by_name() -> None:
    with Running(database_at()) as server:
        status, body, _ = server.request(
            "GET", path("select x from edge where now() > timestamp '2026-01-01 00:00:00'")
        )
        assert (status, "`now()` in a live query" in body["error"]["message"]) == (400, True), body
