"""One browser for the suite, a service of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import upshot
from tests.missing import missing_for_browser
from tests.page.browser import Browser
from tests.service.serving import Running

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl blocked(x: symbol)
.decl closure(x: symbol, y: symbol)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
.decl open_path(x: symbol, y: symbol)
open_path(X, Y) :- closure(X, Y), !blocked(X), !blocked(Y).
.decl fan(x: symbol, n: number)
fan(X, N) :- edge(X, _), N = count : { closure(X, _) }.
.deny acyclic(X) :- closure(X, X).
.deny wide(X) :- fan(X, N), N > 3.
.deny wide on_violation=warn
.decl alert(x: symbol)
.rule warned(X) when fan(X, N), N > 2 do insert alert(X).
"""


@pytest.fixture(scope="session")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if reason := missing_for_browser():
        pytest.skip(reason)
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def browser(tab: Browser) -> Iterator[Browser]:
    """Clean, and without a complaint at the end that the test has not taken note of."""
    tab.complaints()
    yield tab
    found = tab.complaints()
    tab.go("about:blank")
    tab.driver.delete_all_cookies()
    assert not found


@pytest.fixture
def served(tmp_path: Path, tab: Browser) -> Iterator[Running]:
    database = upshot.connect(tmp_path / "store")
    database.define(PROGRAM)
    with database.transaction() as tx:
        tx.insert("edge", [("app", "web"), ("web", "net"), ("app", "log")])
    with Running(database) as running:
        yield running
        tab.go("about:blank")
