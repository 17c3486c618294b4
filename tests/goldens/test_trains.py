"""Stations and trains [Ceri & Widom 1994]: routes, stations that reach California, pairs without a route."""

from __future__ import annotations

import random

import pytest

from tests.goldens.follower import NOTHING, Base, Follower, Row

TRAINS = """
.decl train(x: symbol, y: symbol)
.decl station(x: symbol, state: symbol)
.decl route(x: symbol, y: symbol)
.decl reach_cal(x: symbol)
.decl unconnected(x: symbol, y: symbol)
route(X, Y) :- train(X, Y).
route(X, Y) :- route(X, Z), route(Z, Y).
reach_cal(X) :- station(X, "California").
reach_cal(X) :- route(X, Y), reach_cal(Y).
unconnected(X, Y) :- station(X, _), station(Y, _), !route(X, Y).
"""
CALIFORNIA = [("sf", "California"), ("la", "California")]
ELSEWHERE = [("reno", "Nevada"), ("slc", "Utah"), ("denver", "Colorado")]
START: Base = {
    "station": CALIFORNIA + ELSEWHERE,
    "train": [("denver", "slc"), ("slc", "reno"), ("reno", "sf"), ("sf", "la"), ("la", "sf")],
}

strategies = pytest.mark.parametrize("strategy", ["maintenance", "recompute", "counting", "production"])


@strategies
def test_every_station_reaches_california_at_first(strategy: str) -> None:
    it = Follower(TRAINS, strategy, START)
    assert {row[0] for row in it.rows("reach_cal")} == {"sf", "la", "reno", "slc", "denver"}
    assert ("sf", "denver") in it.rows("unconnected")
    assert ("sf", "sf") not in it.rows("unconnected")


@strategies
def test_a_line_is_closed_and_another_one_opens(strategy: str) -> None:
    it = Follower(TRAINS, strategy, START)
    closed = it.change(delete={"train": [("slc", "reno")]})
    assert closed["route"] == (set(), {(x, y) for x in ("slc", "denver") for y in ("reno", "sf", "la")})
    assert closed["reach_cal"] == (set(), {("slc",), ("denver",)})
    assert closed["unconnected"] == (closed["route"][1], set())
    opened = it.change(insert={"train": [("slc", "la")]})
    assert opened["reach_cal"] == ({("slc",), ("denver",)}, set())
    assert opened["route"][0] == {(x, y) for x in ("slc", "denver") for y in ("sf", "la")}
    assert opened["unconnected"] == (set(), opened["route"][0])


@strategies
def test_a_line_replaced_by_another_with_the_same_routes_changes_little(strategy: str) -> None:
    it = Follower(TRAINS, strategy, START)
    changes = it.change(delete={"train": [("reno", "sf")]}, insert={"train": [("reno", "la")]})
    assert changes == {"route": NOTHING, "reach_cal": NOTHING, "unconnected": NOTHING}


@strategies
def test_stations_come_and_go_under_the_negation(strategy: str) -> None:
    it = Follower(TRAINS, strategy, START)
    gone = it.change(delete={"station": [("la", "California")]})
    assert gone["reach_cal"] == NOTHING
    assert all("la" in row for row in gone["unconnected"][1])
    come = it.change(insert={"station": [("nyc", "New York")], "train": [("nyc", "denver")]})
    assert come["reach_cal"] == ({("nyc",)}, set())
    assert ("nyc", "nyc") in come["unconnected"][0]
    moved = it.change(delete={"station": [("sf", "California")]}, insert={"station": [("sf", "Nevada")]})
    assert moved["unconnected"] == NOTHING
    assert len(moved["reach_cal"][1]) == 6


@strategies
def test_a_station_without_trains_reaches_california_by_itself(strategy: str) -> None:
    it = Follower(TRAINS, strategy)
    assert it.change(insert={"station": [("fresno", "California")]}) == {
        "route": NOTHING,
        "reach_cal": ({("fresno",)}, set()),
        "unconnected": ({("fresno", "fresno")}, set()),
    }


@strategies
def test_random_timetables_follow_the_oracle(strategy: str) -> None:
    rng = random.Random(6)
    names = [f"s{i}" for i in range(7)]
    states = ["California", "Nevada"]
    it = Follower(TRAINS, strategy)

    def some(relation: str, count: int) -> list[Row]:
        if relation == "train":
            return [(rng.choice(names), rng.choice(names)) for _ in range(count)]
        return [(rng.choice(names), rng.choice(states)) for _ in range(count)]

    for _ in range(25):
        it.change(
            delete={"train": some("train", rng.randint(0, 4)), "station": some("station", rng.randint(0, 2))},
            insert={"train": some("train", rng.randint(0, 3)), "station": some("station", rng.randint(0, 2))},
        )
    it.db.verify()
