"""What happens while a search waits for its turn, or is sent back to its beginning: the answer is of one version, and
shows what the token may see in that one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import pytest

import upshot
from tests.service.serving import Running
from tests.service.test_explanations import get
from upshot.database.realize import BOUNDED, OPEN
from upshot.service.access.scopes import Scopes
from upshot.service.service import Service
from upshot.service.writing import searches
from upshot.service.writing.searches import MOST_RESTARTS, Searches, SlicedSearch

PROGRAM = ".decl b(x: number) .decl v(x: number) v(X) :- b(X). .decl secret(x: number)"
HIDDEN_CONSTRAINT = ".deny hidden(X) :- b(X), secret(X)."
HIDDEN_RULE = "v(X) :- secret(X), X > 100."
FORBIDDEN = "the realizations would disclose data that this token may not read"


@pytest.fixture
def database() -> upshot.Database:
    made = upshot.connect()
    made.define(PROGRAM)
    with made.transaction() as tx:
        tx.insert("secret", [(7,)])
    return made


def low(service: Service) -> None:
    scopes = Scopes("low", read=frozenset({"b", "v"}))
    service.authenticator.scopes = lambda request: scopes  # type: ignore[method-assign]


def before_the_turn(monkeypatch: pytest.MonkeyPatch, deed: Callable[[], object]) -> None:
    """Something is done once, when the first search has waited for its turn."""
    turn, left = Searches._turn, [deed]

    @asynccontextmanager
    async def taken(self: Searches) -> AsyncIterator[None]:
        async with turn(self):
            if left:
                left.pop()()
            yield

    monkeypatch.setattr(Searches, "_turn", taken)


@pytest.mark.parametrize("form", ["json", "text", "svg"])
def test_a_constraint_that_comes_meanwhile_shows_no_hidden_rows_in_fixes(
    database: upshot.Database, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    before_the_turn(monkeypatch, lambda: database.define(HIDDEN_CONSTRAINT))
    with Running(database, prepare=low) as running:
        status, _, text = get(running, "v", row="[7]", format=form)
        assert (status, "not searched: they would disclose" in text) == (200, True), text
        assert "secret" not in text
        assert "hidden" not in text


def test_fixes_that_were_asked_for_are_forbidden_if_such_a_constraint_comes_meanwhile(
    database: upshot.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_the_turn(monkeypatch, lambda: database.define(HIDDEN_CONSTRAINT))
    with Running(database, prepare=low) as running:
        status, _, text = get(running, "v", row="[7]", fixes=1)
        assert (status, json.loads(text)["error"]["message"]) == (403, FORBIDDEN)


def test_a_rule_that_comes_meanwhile_is_not_explained_to_whoever_may_not_read_what_it_reads(
    database: upshot.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_the_turn(monkeypatch, lambda: database.define(HIDDEN_RULE))
    with Running(database, prepare=low) as running:
        status, _, text = get(running, "v", row="[7]")
        assert (status, json.loads(text)["error"]["code"], "secret" in text) == (403, "forbidden", False)


def test_realizations_are_forbidden_if_such_a_constraint_comes_meanwhile(
    database: upshot.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_the_turn(monkeypatch, lambda: database.define(HIDDEN_CONSTRAINT))
    with Running(database, prepare=low) as running:
        status, answer, _ = running.request("POST", "/realizations", {"insert": {"v": [[7]]}})
        assert (status, answer["error"]["message"]) == (403, FORBIDDEN)


def busy(deed: Callable[[], object]) -> Any:
    @asynccontextmanager
    async def taken(self: Searches) -> AsyncIterator[None]:
        deed()
        raise searches.too_busy("too many searches are queued")
        yield

    return taken


def test_a_row_that_comes_while_too_many_searches_wait_is_derived(
    database: upshot.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def come() -> None:
        with database.transaction() as tx:
            tx.insert("b", [(1,)])

    monkeypatch.setattr(Searches, "_turn", busy(come))
    with Running(database) as running:
        status, _, text = get(running, "v", row="[1]")
        assert (status, json.loads(text)["derivation"]["statement"]) == (200, "v(1)"), text


def test_a_rule_that_comes_while_too_many_searches_wait_is_not_explained_either(
    database: upshot.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Searches, "_turn", busy(lambda: database.define(HIDDEN_RULE)))
    with Running(database, prepare=low) as running:
        status, _, text = get(running, "v", row="[1]")
        assert (status, json.loads(text)["error"]["code"], "secret" in text) == (403, "forbidden", False)


class Endless:
    """A search that finds nothing and does not end."""

    status, reason, work = OPEN, "", MappingProxyType({"models": 0})
    unbounded: tuple[str, ...] = ()

    def advance(self, seconds: float, models: float) -> None:
        return None


@pytest.mark.parametrize("most", [searches.MOST_COPIED, 0])
def test_a_search_whose_time_is_up_tells_the_version_that_it_began_in(
    database: upshot.Database, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(searches, "MOST_COPIED", most)
    began: list[int] = []

    def begin(held: upshot.Database) -> Any:
        began.append(held.version)
        return Endless()

    hunt = SlicedSearch(database, begin, 60.0, 3, 1_000, lambda way: 0)
    for number in range(MOST_RESTARTS):
        assert not hunt.run_slice(lambda: False)
        with database.transaction() as tx:
            tx.insert("b", [(100 + number,)])
    hunt._ends = 0.0
    assert hunt.run_slice(lambda: False)
    assert (len(began), hunt.version, hunt.status) == (MOST_RESTARTS, began[-1], BOUNDED)
    assert hunt.reason.endswith(f"in which the database changed {MOST_RESTARTS} times")
