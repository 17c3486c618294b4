"""Every call of the client, answered by a real service; errors are those that the database raises in process."""

from __future__ import annotations

import datetime as dt
import importlib.util
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

if importlib.util.find_spec("uvicorn") is None:
    pytest.skip("needs the service: pip install '.[service]'", allow_module_level=True)

import upshot
from tests.service.serving import Running
from upshot.client import Client
from upshot.service.settings import Settings

PROGRAM = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
.deny acyclic(X) :- closure(X, X).
.decl stock(item: symbol, n: number) key(item)
.decl value(i: number?, u: unsigned, f: float, s: symbol?, b: boolean, d: date, t: timestamp, m: decimal(10, 2))
.decl copied(i: number?, u: unsigned, f: float, s: symbol?, b: boolean, d: date, t: timestamp, m: decimal(10, 2))
copied(I, U, F, S, B, D, T, M) :- value(I, U, F, S, B, D, T, M).
"""
WAIT = 120.0
MOMENT = dt.datetime(2026, 1, 31, 9, 0, 0, 250_000, tzinfo=dt.UTC)
VALUES = [
    (1, 2**64 - 1, math.nan, "é\n\"'\\", True, dt.date(2026, 1, 31), MOMENT, Decimal("1.50")),
    (None, 0, math.inf, None, False, dt.date(1, 1, 1), MOMENT.replace(microsecond=1), Decimal("-12345678.90")),
    (-(2**63) + 1, 1, -0.0, "", True, dt.date(9999, 12, 31), MOMENT.replace(year=1), Decimal("0.00")),
    (2**63 - 1, 2**63, 5e-324, "\U0001f686", True, dt.date(2000, 2, 29), MOMENT, Decimal("0.10")),
    (0, 7, 1.7976931348623157e308, "\0", False, dt.date(2000, 2, 29), MOMENT, Decimal("0.10")),
]


@pytest.fixture
def server() -> Iterator[Running]:
    database = upshot.connect()
    database.define(PROGRAM)
    with Running(database) as running:
        yield running


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    with Client(f"http://127.0.0.1:{server.port}", retry_for=30.0) as found:
        yield found


def test_a_transaction_answers_with_the_exact_changes(server: Running, client: Client) -> None:
    done = client.transaction(insert={"edge": [(1, 2), {"x": 2, "y": 3}]})
    assert done.version == server.database.version
    assert done.changes["closure"].inserted == {(1, 2), (2, 3), (1, 3)}
    assert done.changes["stock"].inserted == []
    again = client.transaction(delete={"edge": [(2, 3)]}, upsert={"stock": [("a", 1)]}, meta={"who": "me"})
    assert again.changes["closure"].deleted == {(2, 3), (1, 3)}
    assert client.transaction(replace={"edge": []}, upsert={"stock": [("a", 2)]}).changes["stock"].deleted == {("a", 1)}


def test_the_same_key_is_the_same_transaction(server: Running, client: Client) -> None:
    first = client.transaction(insert={"edge": [(1, 2)]}, key="once")
    version = server.database.version
    assert client.transaction(insert={"edge": [(1, 2)]}, key="once").version == first.version
    assert server.database.version == version


def test_values_of_every_type_come_back_as_they_were(client: Client) -> None:
    client.transaction(insert={"value": VALUES})
    assert client.rows("copied") == VALUES
    with client.follow("copied") as copy:
        assert client.rows("value") == copy.rows
        done = client.transaction(delete={"value": VALUES})
        assert done.changes["copied"].deleted == VALUES
        assert copy.wait(done.version, WAIT)
        assert copy.rows == set()


def test_rows_queries_and_what_ifs(client: Client) -> None:
    version = client.transaction(insert={"edge": [(1, 2), (2, 3)]}).version
    assert client.rows("closure", where="closure(1, Y)") == {(1, 2), (1, 3)}
    answer = client.query("closure($x, Y), !edge($x, Y)", x=1)
    assert (answer, answer.version) == ([(3,)], version)
    found = client.what_if(insert={"edge": [(3, 1)]})
    assert (1, 1) in found.changes["closure"].inserted
    assert found.violations["acyclic"]
    assert client.rows("edge").version == version


def test_program_explanations_and_commits(client: Client) -> None:
    version = client.transaction(insert={"edge": [(1, 2), (2, 3)]}).version
    program = client.program()
    assert program.relations["edge"].arity == 2
    assert str(program.relations["value"].columns[7].type) == "decimal(10,2)"
    assert "closure(X, Y) :- edge(X, Y)." in program.text
    assert client.explain("closure")
    assert client.explain("closure", (1, 3))["derivation"]
    assert client.explain("closure", (1, 3), format="text").startswith("closure(1, 3)")
    assert client.explain("closure", (1, 3), changed_in=version, format="svg").startswith("<svg")
    absent = client.explain("closure", (3, 1), fixes=1, seconds=20)["why_not"]["parts"]
    assert (absent[-1]["kind"], absent[-1]["parts"][0]["insert"]) == ("fixes", {"edge": [[3, 1]]})
    assert client.explain("closure", (3, 1), fixes=0)["why_not"]["parts"] == absent[:-1]
    assert "becomes true with" in client.explain("closure", (3, 1), format="text")
    assert [each["version"] for each in client.commits(limit=1)] == [version]
    assert client.changes("closure", since=version)[0] == version


def test_a_selection_is_followed(client: Client) -> None:
    with client.follow("closure", where="closure(1, Y)") as copy:
        assert copy.rows == set()
        done = client.transaction(insert={"edge": [(1, 2), (2, 3)]})
        assert copy.wait(done.version, WAIT)
        assert copy.rows == {(1, 2), (1, 3)}
        assert copy.columns == ("x", "y")


def test_a_copy_begins_in_the_past(client: Client) -> None:
    past = client.transaction(insert={"edge": [(1, 2)]}).version
    with client.follow("closure"):  # somebody follows: the service keeps what happens in memory
        client.transaction(insert={"edge": [(2, 3)]})
        last = client.transaction(delete={"edge": [(1, 2)]}).version
        told: list[Any] = []
        with client.follow("closure", since=past, on_change=told.append) as copy:
            assert copy.wait(last, WAIT)
            assert copy.rows == {(2, 3)}
        assert [change.version for change in told] == [past + 1, last]


ERRORS: list[tuple[Callable[[Any], object], str]] = [
    (lambda db: db.transaction(insert={"edge": [(1, 1)]}), "constraint-violated"),
    (lambda db: db.transaction(insert={"stock": [("a", 1), ("a", 2)]}), "key-violation"),
    (lambda db: db.transaction(insert={"edge": [(1,)]}), "wrong-arity"),
    (lambda db: db.transaction(insert={"edge": [("a", 1)]}), "wrong-type"),
    (lambda db: db.transaction(insert={"edge": [(None, 1)]}), "null-in-required-column"),
    (lambda db: db.transaction(insert={"closure": [(1, 2)]}), "not-a-base-relation"),
    (lambda db: db.transaction(upsert={"edge": [(1, 2)]}), "no-key"),
    (lambda db: db.query("closure(X"), "unexpected-end"),
    (lambda db: db.query("closure(X, Y, Z)"), "wrong-arity"),
]


class InProcess:
    """A database with the client's calls."""

    def __init__(self) -> None:
        self._database = upshot.connect()
        self._database.define(PROGRAM)

    def transaction(self, **parts: dict[str, list[Any]]) -> None:
        with self._database.transaction() as tx:
            for part, facts in parts.items():
                for name, rows in facts.items():
                    getattr(tx, part)(name, rows)

    def query(self, text: str) -> object:
        return self._database.query(text)


@pytest.mark.parametrize(("call", "code"), ERRORS, ids=[code + str(n) for n, (_, code) in enumerate(ERRORS)])
def test_errors_are_those_of_a_database_in_process(client: Client, call: Callable[[Any], object], code: str) -> None:
    with pytest.raises(upshot.Error) as remote:
        call(client)
    with pytest.raises(upshot.Error) as local:
        call(InProcess())
    assert remote.value.code == local.value.code == code
    assert type(remote.value) is type(local.value)
    if isinstance(local.value, upshot.ConstraintError):
        assert isinstance(remote.value, upshot.ConstraintError)
        assert {n: set(rows) for n, rows in remote.value.violations.items()} == {
            n: set(rows) for n, rows in local.value.violations.items()
        }


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.rows("missing"),
        lambda client: client.follow("missing"),
        lambda client: client.query("missing(X)"),
        lambda client: client.explain("missing"),
    ],
)
def test_what_is_not_there_is_not_found(client: Client, call: Callable[[Client], object]) -> None:
    with pytest.raises(upshot.UsageError) as error:
        call(client)
    assert error.value.code == "not-found"


def test_a_copy_that_begins_in_the_past_of_a_quiet_view_does_not_wait_for_a_heartbeat() -> None:
    database = upshot.connect()
    database.define(PROGRAM)
    settings = Settings(heartbeat=10 * WAIT)
    with Running(database, settings) as running, Client(f"http://127.0.0.1:{running.port}") as client:
        version = client.transaction(insert={"edge": [(1, 2)]}).version
        with client.follow("closure"):
            last = client.transaction(insert={"stock": [("a", 1)]}).version
            with client.follow("closure", since=version) as copy:
                assert copy.wait(last, WAIT)
                assert copy.rows == {(1, 2)}


def test_pages_of_a_view_and_of_a_query_come_in_any_order(client: Client) -> None:
    client.transaction(insert={"edge": [(1, 2), (2, 3), (3, 4)]})
    page = client.page("closure", limit=4, order="-y")
    assert list(page) == [(1, 4), (2, 4), (3, 4), (1, 3)]
    assert page.next is not None
    client.transaction(insert={"edge": [(4, 5)]})
    rest = client.page("closure", limit=4, after=page.next)
    assert (list(rest), rest.next, rest.version) == ([(2, 3), (1, 2)], None, page.version)
    part = client.page("closure($x, Y)", limit=1, order="-Y", x=1)
    assert list(part) == [(5,)]
    assert list(client.page("closure($x, Y)", limit=3, after=part.next, x=1)) == [(4,), (3,), (2,)]
    assert list(client.page("closure", "closure(X, 5)", limit=2)) == [(1, 5), (2, 5)]
    with pytest.raises(upshot.UsageError, match="unknown column"):
        client.page("closure", order="z")
