"""What follows from a new value, over HTTP and through the client: as a formula, or for the value that was tried."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import upshot
from tests.revise.test_stated_values import LOOKED_AT
from tests.service.serving import Running
from upshot.client import Client


@pytest.fixture
def running() -> Iterator[Running]:
    database = upshot.connect()
    database.define(LOOKED_AT)
    with Running(database) as found:
        yield found


def test_a_service_says_how_rows_follow_from_a_new_value(running: Running) -> None:
    status, answer, _ = running.request("POST", "/realizations", {"insert": {"has": [[]]}})
    assert status == 200
    (way,) = answer["realizations"]
    assert way["conditions"] == ["?1 > 3"]
    assert way["changes"]["up"]["insert"] == [[{"formula": "?1 + 1"}]]
    assert way["changes"]["square"]["insert"] == [[16]]
    assert way["by_trial"] == {"relations": ["big", "square"], "values": {"?1": 4}}


def test_the_json_of_the_library_is_that_of_a_service(running: Running) -> None:
    _, answer, _ = running.request("POST", "/realizations", {"insert": {"has": [[]]}})
    assert answer["realizations"] == [json.loads(each.json()) for each in running.database.realize({"has": [()]})]


def test_a_placeholder_is_not_the_text_that_names_it_in_json() -> None:
    database = upshot.connect()
    database.define(".decl said(x: symbol, y: symbol)\n.decl says(y: symbol)\nsays(Y) :- said(_, Y).")
    (way,) = database.realize({"says": [("?1",)]})
    told = json.loads(way.json())
    assert told["insert"] == {"said": [[{"placeholder": "?1"}, "?1"]]}
    assert told["changes"]["said"]["insert"] == told["insert"]["said"]


def test_a_client_shows_what_the_library_shows(running: Running) -> None:
    with Client(f"http://127.0.0.1:{running.port}", retry_for=30.0) as client:
        (way,) = client.realize({"has": [()]})
        ((row,),) = way.changes["up"].inserted
        assert (repr(row), way.by_trial, way.tried) == ("?1 + 1", {"big", "square"}, {"?1": 4})
        assert str(way) == str(next(running.database.realize({"has": [()]})))


def test_what_was_asked_for_is_told_as_it_was_asked_for() -> None:
    database = upshot.connect()
    database.define("""
        .decl edge(x: number, y: number)  .decl long(n: number)
        long(Y - X) :- edge(X, Y), Y * Y != 49.
    """)
    with Running(database) as running, Client(f"http://127.0.0.1:{running.port}", retry_for=30.0) as client:
        _, answer, _ = running.request("POST", "/realizations", {"insert": {"long": [[5]]}})
        assert {json.dumps(each["changes"]["long"]["insert"]) for each in answer["realizations"]} == {"[[5]]"}
        here = [str(way) for way in database.realize({"long": [(5,)]})]
        assert [str(way) for way in client.realize({"long": [(5,)]})] == here
        assert all("// goal: +long(5)" in way.splitlines() for way in here)
