"""Realizations through the client: what a database in process gives, over HTTP."""

from __future__ import annotations

import datetime as dt
import importlib.util
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

if importlib.util.find_spec("uvicorn") is None:
    pytest.skip("needs the service: pip install '.[service]'", allow_module_level=True)

import upshot
from tests.service.serving import Running
from upshot.client import Client, Placeholder

PROGRAM = """
.decl shift(person: symbol, day: date)
.decl skilled(person: symbol, skill: symbol)
.decl staffed(day: date, skill: symbol)
staffed(D, S) :- shift(P, D), skilled(P, S).
.decl team(person: symbol)
.deny stranger(P) :- shift(P, _), !team(P).
"""
DAY = dt.date(2026, 1, 31)
NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


@pytest.fixture
def server() -> Iterator[Running]:
    database = upshot.connect()
    database.define(PROGRAM)
    with database.transaction() as tx:
        tx.insert("team", [("ann",), ("bob",)])
        tx.insert("skilled", [("ann", "fire"), ("bob", "first aid")])
        tx.insert("shift", [("bob", DAY)])
    with Running(database) as running:
        yield running


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    with Client(f"http://127.0.0.1:{server.port}", retry_for=30.0) as found:
        yield found


def same(ways: Any) -> list[tuple[Any, ...]]:
    return [
        (
            {name: tuple(map(named, rows)) for name, rows in way.insert.items()},
            {name: tuple(map(named, rows)) for name, rows in way.delete.items()},
            way.cost,
            way.side_effects,
            [each.name for each in way.placeholders],
            way.conditions,
        )
        for way in ways
    ]


def named(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(str(value) if hasattr(value, "name") else value for value in row)


def test_a_service_gives_the_realizations_that_a_database_gives(server: Running, client: Client) -> None:
    wishes: list[dict[str, Any]] = [
        {"insert": {"staffed": [(DAY, "fire")]}},
        {"delete": {"staffed": [(DAY, "first aid")]}},
        {"insert": {"staffed": [(DAY, "fire")]}, "frozen": ["+skilled"], "cost": {"shift": 3}},
        {"insert": {"staffed": [(DAY, "fire")]}, "side_effect_free_first": True},
        {"insert": {"shift": [("eve", DAY)]}},
        {"insert": {"staffed": [(DAY, "fire")]}, "frozen": ["skilled", "shift"]},
        {"delete": {"staffed": "staffed(_, _)"}, "prefer": "least_side_effects"},
        {"delete": {"skilled": ['skilled("ann", _)', ("bob", "first aid")]}},
        {"delete": {"team": 'team("zoe")'}},
    ]
    for wish in wishes:
        found = client.realize(**wish, limit=100)
        own = server.database.realize(**wish)
        ways = list(own)
        assert same(found) == same(ways), wish
        assert [(str(way), way.size) for way in found] == [(str(way), way.size) for way in ways], wish
        assert (found.status, found.reason, found.version) == (own.status, own.reason, 2)


def test_a_realization_is_printed_as_in_process_with_types_rules_and_what_was_tried(
    server: Running, client: Client
) -> None:
    server.database.define("""
    .decl price(item: symbol, from: timestamp, amount: decimal(6,2)?)
    .decl stock(item: symbol, n: unsigned)
    .decl dear(item: symbol, twice: unsigned)
    dear(I, N * 2u) :- stock(I, N).
    .decl longest(n: number)
    longest(N) :- N = max L : { stock(I, _), L = strlen(I) }.
    .decl priced(item: symbol, amount: decimal(6,2)?)
    priced(I, A) :- price(I, _, A).
    .decl noted(item: symbol)
    .rule note(I) on insert dear(I, _) do insert noted(I).
    .deny many(N) :- longest(N), N > 3.
    .deny many on_violation=warn
    """)
    for wish in (
        {"insert": {"dear": [("nail", 8)]}},
        {"insert": {"price": [('a "b"', NOON, None), ("b", NOON, Decimal("1.50"))]}},
        {"insert": {"priced": [("b", Decimal("2.50"))]}},
        {"delete": {"staffed": [(DAY, "first aid")]}, "insert": {"dear": [("x\ty", 2)]}},
    ):
        own = list(server.database.realize(**wish, limit=5))
        assert own, wish
        found = client.realize(**wish, limit=5)
        assert [str(way) for way in found] == [str(way) for way in own], wish
        assert "Realization(" in repr(found[0])
    way = str(client.realize({"dear": [("nail", 8)]})[0])
    assert '// rules: +noted("nail")\n' in way
    assert "// firing: note" in way


def test_one_is_applied_with_values_for_its_placeholders(server: Running, client: Client) -> None:
    ways = client.realize({"staffed": [(DAY, "law")]}, frozen=["+shift"], limit=20)
    assert all(not way.placeholders for way in ways)
    ways = client.realize({"staffed": [(DAY, "law")]}, frozen=["-team"], limit=100)
    way = next(each for each in ways if each.placeholders)
    (new,) = way.placeholders
    assert new == Placeholder("?1", "symbol")
    assert way.changes["staffed"].inserted == ((DAY, "law"),)
    assert any(new in row for rows in way.insert.values() for row in rows)
    with pytest.raises(upshot.UsageError, match="placeholder-open"):
        client.apply(way)
    with pytest.raises(upshot.UsageError) as caught:
        client.apply(way, {"?1": "x", "?2": "y"})
    assert (caught.value.code, caught.value.help) == ("wrong-argument", "it has `?1`")
    done = client.apply(way, {"1": "cid"}, key="once")
    assert done.changes["staffed"].inserted.sorted() == [(DAY, "law")]
    assert client.apply(way, {"?1": "cid"}, key="once").repeated
    assert server.database.version == 3


def test_what_would_no_longer_do_is_refused_as_in_process(server: Running, client: Client) -> None:
    way = client.realize(delete={"staffed": [(DAY, "first aid")]}, frozen=["skilled"])[0]
    client.transaction(insert={"team": [("eve",)], "shift": [("eve", DAY)], "skilled": [("eve", "first aid")]})
    with pytest.raises(upshot.DataError) as raised:
        client.apply(way)
    assert raised.value.code == "not-a-realization"
    assert server.database.version == 3


def test_a_refusal_of_new_values_says_what_is_asked_of_them(server: Running, client: Client) -> None:
    server.database.define(".decl n(x: number)  .decl has()  has() :- n(X), X > 3.")
    (way,) = client.realize({"has": [()]})
    with pytest.raises(upshot.DataError) as raised:
        client.apply(way, {"?1": 3})
    assert raised.value.code == "not-a-realization"
    assert raised.value.help == "give values that meet `?1 > 3`, or repeat `client.realize`"


def test_violations_are_repaired(server: Running, client: Client) -> None:
    server.database.define(".deny idle(P) :- team(P), !shift(P, _). .deny idle existing=keep")
    found = client.realize(repair="idle", bounds={"new_constants": 0, "seconds": 5})
    assert found[0].expect == {"delete": {"idle": (("ann",),)}, "insert": {}}
    assert client.apply(found[0]).repaired == {"idle": (("ann",),)}


def test_a_transaction_expects(server: Running, client: Client) -> None:
    with pytest.raises(upshot.DataError, match="not-as-expected"):
        client.transaction(insert={"team": [("eve",)]}, expect={"insert": {"staffed": [(DAY, "fire")]}})
    assert server.database.version == 2
    client.transaction(insert={"shift": [("ann", DAY)]}, expect={"insert": {"staffed": [(DAY, "fire")]}})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"insert": [1]}, "`insert` must be a dict of rows by relation"),
        ({"delete": "staffed(1)"}, "`delete` must be a dict of rows by relation"),
        ({"insert": {"team": [("cid",)]}, "frozen": 3}, "`frozen` is a list of base relations"),
        ({"insert": {"team": [("cid",)]}, "cost": [1]}, "`cost` is a dict of prices"),
        ({"insert": {"team": [("cid",)]}, "bounds": 3}, "`bounds` are given as `upshot.Bounds`"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_sent(client: Client, wrong: Any, said: str) -> None:
    with pytest.raises(upshot.UsageError, match=said) as refused:
        client.realize(**wrong)
    assert (refused.value.code, bool(refused.value.help)) == ("wrong-argument", True)


def test_the_client_takes_the_bounds_that_a_database_takes(client: Client) -> None:
    bounds = upshot.Bounds(size=2, new_constants=0, constants=("cid", "zoe"))
    found = client.realize({"staffed": [(DAY, "fire")]}, frozen=["skilled"], bounds=bounds)
    assert [dict(way.insert) for way in found] == [{"shift": (("ann", DAY),)}]
    named = client.realize({"staffed": [(DAY, "singing")]}, frozen=["-shift"], bounds=bounds)
    assert {"skilled": (("bob", "singing"),)} in [dict(way.insert) for way in named]
    with pytest.raises(upshot.UsageError, match="`values` is a dict"):
        client.apply(found[0], 3)  # type: ignore[arg-type]
    with pytest.raises(upshot.UsageError, match="this is not a realization"):
        client.apply(3)  # type: ignore[arg-type]


def test_asking_for_nothing_is_refused_and_repairing_nothing_is_not(client: Client) -> None:
    with pytest.raises(upshot.Error, match="the request is empty") as refused:
        client.realize({})
    assert refused.value.code == "empty-request"
    assert [dict(way.insert) for way in client.realize(repair="*")] == [{}]
    assert [dict(way.insert) for way in client.realize(repair="stranger")] == [{}]
