"""What a transaction would do, asked in process, over HTTP and by a client: deltas, violations, firings; no trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import upshot
from tests.service.serving import Running
from upshot.client import Client

PROGRAM = """
.decl stock(item: symbol, n: number?) key(item)
.decl low(item: symbol)
low(I) :- stock(I, N), N < 5.
.decl seen(item: symbol)
.decl orders(item: symbol)
.decl reported(item: symbol)
.deny negative(I) :- stock(I, N), N < 0.
.deny large(I) :- stock(I, N), N > 100.
.deny large on_violation=warn
.rule see(I) coupling=immediate on insert stock(I, _) do insert seen(I).
.rule reorder(I) coupling=deferred on insert low(I) do insert orders(I).
.rule report(I) coupling=after on insert low(I) do insert reported(I).
.rule tell(I) coupling=after on insert low(I) do call tell(I).
"""
CALLED: list[Any] = []


@pytest.fixture
def running() -> Iterator[Running]:
    CALLED.clear()
    database = upshot.connect()
    database.define(PROGRAM)
    database.action("tell", CALLED.append)
    with database.transaction() as tx:
        tx.insert("stock", [("bolt", 50)])
    with Running(database) as found:
        yield found
    assert CALLED == []


MIXED = {"stock": [("nail", 3), ("pin", None), ("nut", -1), ("nut", 7), ("rod", 200)]}


def test_deltas_violations_and_firings_are_the_same_in_process_and_over_http(running: Running) -> None:
    own = running.database.what_if(insert=MIXED)
    status, found, _ = running.request("POST", "/what-if", {"insert": MIXED})
    assert status == 200
    assert found["violations"] == {
        "stock": [["nut", -1], ["nut", 7]], "negative": [["nut"]], "large": [["rod"]],
    }  # fmt: skip
    assert {name: list(map(list, rows)) for name, rows in own.violations.items()} == found["violations"]
    assert found["firings"] == [
        {"rule": "see", "rows": [["nail"], ["nut"], ["pin"], ["rod"]]},
        {"rule": "reorder", "rows": [["nail"], ["nut"]]},
        {"rule": "report", "rows": [["nail"], ["nut"]]},
        {"rule": "tell", "rows": [["nail"], ["nut"]]},
    ]
    assert [(each.rule, list(map(list, each.rows.sorted()))) for each in own.firings] == [
        (each["rule"], each["rows"]) for each in found["firings"]
    ]
    assert found["changes"].keys() == {"stock", "low", "seen", "orders", "negative", "large"}
    assert found["changes"]["low"] == {"insert": [["nail"], ["nut"]], "delete": []}
    assert {*own} == found["changes"].keys()
    with Client(f"http://127.0.0.1:{running.port}") as client:
        outcome = client.what_if(insert=MIXED)
        assert outcome.changes["low"].inserted.sorted() == [("nail",), ("nut",)]
        assert outcome.violations["large"] == (("rod",),)
        assert [each["rule"] for each in outcome.firings] == ["see", "reorder", "report", "tell"]
    assert running.database.version == 2
    assert (len(running.database.rows("orders")), len(running.database.rows("reported"))) == (0, 0)


def test_replacing_and_upserting_are_asked_about_too(running: Running) -> None:
    _, found, _ = running.request("POST", "/what-if", {"upsert": {"stock": [["bolt", 1]]}})
    assert found["changes"]["stock"] == {"insert": [["bolt", 1]], "delete": [["bolt", 50]]}
    assert "stock" not in found["violations"]
    _, found, _ = running.request("POST", "/what-if", {"replace": {"stock": []}})
    assert found["changes"] == {"stock": {"insert": [], "delete": [["bolt", 50]]}}


@pytest.mark.parametrize(
    "body", [{}, {"insert": {}}, {"insert": {"stock": []}}, {"delete": {"stock": [["none", 1]]}},
             {"insert": {"stock": [["nail", 3]]}, "delete": {"stock": [["nail", 3]]}}],
)  # fmt: skip
def test_what_does_nothing_comes_to_nothing(running: Running, body: dict[str, Any]) -> None:
    status, found, _ = running.request("POST", "/what-if", body)
    assert (status, found) == (200, {"version": 2, "changes": {}, "violations": {}, "firings": []})
    own = running.database.what_if(**body)
    assert ({*own}, own.violations, own.firings) == (set(), {}, ())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"insert": {"low": [["nail"]]}}, "not-a-base-relation"),
        ({"insert": {"negative": [["nail"]]}}, "not-a-base-relation"),
        ({"insert": {"stok": [["nail", 1]]}}, "unknown-relation"),
        ({"insert": {"stock": [["nail"]]}}, "wrong-arity"),
        ({"insert": {"stock": [[1, 2]]}}, "wrong-type"),
        ({"insert": {"stock": [[None, 2]]}}, "null-in-required-column"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place_and_a_cure(
    running: Running, body: dict[str, Any], code: str
) -> None:
    status, found, _ = running.request("POST", "/what-if", body)
    (name,) = body["insert"]
    assert (status, found["error"]["code"], f"`{name}`" in found["error"]["message"]) == (400, code, True), found
    assert found["error"]["help"]
    with pytest.raises(upshot.Error) as caught:
        running.database.what_if(**body)
    assert (caught.value.code, f"`{name}`" in caught.value.message, bool(caught.value.help)) == (code, True, True)


@pytest.mark.parametrize("coupling", ["immediate", "deferred"])
def test_a_veto_is_told_as_the_transaction_would_raise_it(coupling: str) -> None:
    database = upshot.connect()
    database.define(f".decl a(x: number) .rule guard(X) coupling={coupling} on insert a(X) do call guard(X).")

    def guard(rows: list[tuple[int]]) -> None:
        if (13,) in rows:
            raise upshot.Veto("not that one")

    database.action("guard", guard)
    with Running(database) as running:
        status, found, _ = running.request("POST", "/what-if", {"insert": {"a": [[13]]}})
        assert (status, found["error"]["code"]) == (409, "vetoed")
        assert "rule `guard` rejected the transaction: not that one" in found["error"]["message"]
        with pytest.raises(upshot.RuleError, match="not that one"):
            database.what_if(insert={"a": [(13,)]})
        assert running.request("POST", "/what-if", {"insert": {"a": [[12]]}})[0] == 200
        assert database.version == 1
