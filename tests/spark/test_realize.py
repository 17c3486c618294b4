"""View updating on the Spark engine: the same realizations as in process, few jobs each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

import upshot
from tests.properties.engines import Make
from tests.properties.settings import case_count
from tests.revise.goldens import CLOSURE, COMPENSATED, CONSISTENT, ENDLESS
from tests.revise.random_requests import random_case
from upshot import Bounds

Rows = Mapping[str, list[tuple[Any, ...]]]

TWO_WAYS = ".decl a() .decl b() .decl c() .decl p() p() :- a(), !b(), !c(). p() :- a(), b(), c()."
KEPT = ".decl some()  some() :- p(X, Y). .deny ic1() :- !some(), e(_, _). .deny ic2(X) :- p(X, X)."
LONGER = ".decl g(x: number)  .decl z(x: number)  g(X) :- h(X).  g(X) :- z(X)."


@dataclass(frozen=True, slots=True)
class Request:
    """A program with its facts, a request to it, and the most jobs that it may take on Spark."""

    text: str
    facts: Rows
    insert: Rows
    delete: Rows
    jobs: int
    new_constants: int = 1


GOLDENS = [
    Request(CONSISTENT, {"r2": [(2,)], "s": [(2,)]}, {"p": [(2,)]}, {}, 14),
    Request(COMPENSATED, {"p": [(1,)]}, {"h": [(1,)]}, {}, 10),
    Request(ENDLESS, {}, {"h": [()]}, {}, 2, new_constants=0),
    Request(COMPENSATED + LONGER, {"p": [(1,)]}, {"g": [(1,)]}, {}, 12),
    Request(CLOSURE + KEPT, {"e": [(1, 2), (1, 4), (2, 3)]}, {}, {"h": [(1, 3)]}, 12),
    Request(CLOSURE, {}, {"p": [(1, 2)]}, {}, 12),
    Request(TWO_WAYS, {"b": [()], "c": [()]}, {"p": [()]}, {}, 3),
]


def random_requests(count: int, *, most: int) -> Iterator[Request]:
    """Random programs and requests to them that take at most so many propagations."""
    seed = 0
    while count:
        seed += 1
        case = random_case(seed)
        facts, insert, delete = (_by_relation(each) for each in (case.facts, case.insert, case.delete))
        request = Request(case.text, facts, insert, delete, 0, new_constants=0)
        with upshot.connect() as db, suppress(upshot.ConstraintError):
            filled(db, [request])
            found = _realized(db, 0, request)
            list(found)
            if 0 < found.work["propagations"] <= most and found.status == "all":
                count -= 1
                yield request


def _by_relation(keys: Any) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, row in sorted(keys):
        found.setdefault(name, []).append(row)
    return found


def filled(db: upshot.Database, requests: list[Request]) -> None:
    """All programs side by side in one database, each under names of its own: a definition takes Spark seconds."""
    db.define("\n".join(re.sub(r"\b([a-z]\w*)\(", rf"v{n}_\1(", each.text) for n, each in enumerate(requests)))
    with db.transaction() as tx:
        for number, each in enumerate(requests):
            for name, rows in each.facts.items():
                tx.insert(f"v{number}_{name}", rows)


def _realized(db: upshot.Database, number: int, request: Request) -> upshot.Realizations:
    insert, delete = (
        {f"v{number}_{name}": rows for name, rows in each.items()} for each in (request.insert, request.delete)
    )
    return db.realize(insert, delete, bounds=Bounds(seconds=300, new_constants=request.new_constants))


def answers(db: upshot.Database, requests: list[Request]) -> list[tuple[set[str], str]]:
    """What each request came to: its realizations with all that they would do, and how the search ended."""
    given = []
    for number, request in enumerate(requests):
        found = _realized(db, number, request)
        given.append(({"\n".join(sorted(each.text().splitlines())) for each in found}, found.status))
    return given


def _jobs(db: upshot.Database) -> int:
    engine: Any = db._state.engine
    jobs: int = getattr(engine, "_engine", engine)._jobs.jobs
    return jobs


@pytest.mark.slow
def test_the_worked_examples_come_to_the_same_on_spark_in_few_jobs(on_spark: Make) -> None:
    with upshot.connect() as local:
        filled(local, GOLDENS)
        expected = answers(local, GOLDENS)
    with on_spark() as db:
        filled(db, GOLDENS)
        for number, request in enumerate(GOLDENS):
            before, found = _jobs(db), _realized(db, number, request)
            assert ({"\n".join(sorted(each.text().splitlines())) for each in found}, found.status) == expected[number]
            assert _jobs(db) - before <= request.jobs, number


@pytest.mark.slow
def test_random_requests_come_to_the_same_on_spark(on_spark: Make) -> None:
    requests = list(random_requests(case_count(20, least=6), most=2))
    with upshot.connect() as local:
        filled(local, requests)
        expected = answers(local, requests)
    with on_spark() as db:
        filled(db, requests)
        assert answers(db, requests) == expected


@pytest.mark.slow
def test_relations_in_files_are_asked_and_not_collected(on_files: Make) -> None:
    """Of a relation that is in files only the rows asked about come to the driver."""
    rows = [(x, x + 1) for x in range(40)]
    with on_files() as db:
        db.define(CLOSURE)
        with db.transaction() as tx:
            tx.insert("e", rows)
        before = _jobs(db)
        found = db.realize(delete={"p": [(3, 5)]}, bounds=Bounds(seconds=300))
        assert sorted(way.lines() for way in found) == [["-e(3, 4)"], ["-e(4, 5)"]]
        assert _jobs(db) - before <= 34
        db.apply(next(db.realize(delete={"h": [(7, 9)]}, frozen=["-e"], bounds=Bounds(seconds=300))))
        assert (7, 9) in set(db.rows("e"))
        answer = db.why_not("p", (5, 4))
        assert answer.failing == 1


@pytest.mark.slow
def test_repairs_and_what_would_bring_a_row_about_on_spark(on_spark: Make) -> None:
    with on_spark() as db:
        db.define("""
        .decl member(p: symbol, t: symbol)  .decl team(t: symbol)
        .decl access(p: symbol) access(P) :- member(P, T), team(T).
        .deny unknown(T) :- member(_, T), !team(T).
        """)
        with db.transaction() as tx:
            tx.insert("team", [("ops",)])
            tx.insert("member", [("ann", "ops")])
        answer = db.what_if(insert={"member": [("bob", "web")]})
        assert answer.violations == {"unknown": [("web",)]}
        found = db.repairs(insert={"member": [("bob", "web")]}, bounds=Bounds(seconds=300))
        assert [way.lines() for way in found] == [['+member("bob", "web")', '+team("web")']]
        text = db.why_not("access", ("bob",)).text(fixes=1, seconds=300)
        assert '+member("bob", "ops")' in text
