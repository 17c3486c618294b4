"""What follows from a new value, on the page: as a formula, or for the value that was tried."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.page.browser import Browser
from tests.page.test_options import at, serving, wish
from tests.revise.test_stated_values import LOOKED_AT

pytestmark = pytest.mark.slow


def test_an_option_says_how_rows_follow_from_a_new_value(browser: Browser) -> None:
    with serving(LOOKED_AT + "n(1).") as running:
        browser.go(at(running, "#/options"))
        wish(browser, "has", [], "should be true")
        browser.click("Find options")
        browser.shows("article.way", "up(?1 + 1)")
        shown = browser.all("article.way")[0].text
        assert [line for line in shown.splitlines() if "square" in line][-1] == "+ square(16) also for ?1 = 4"
        assert "Other values may also change rows of big." in shown
        browser.go("about:blank")


def test_values_are_spelled_on_the_page_as_in_conditions(browser: Browser) -> None:
    program = """
    .decl sale(price: decimal(8, 2), day: date, factor: float, at: timestamp)
    .decl open(price: decimal(8, 2), factor: float, at: timestamp)
    open(P, F, T) :- sale(P, D, F, T), D >= date("2026-03-01").
    """
    with serving(program) as running:
        browser.go(at(running, "#/options"))
        wish(browser, "open", ["5.00", "2", "2026-03-01T10:00:00Z"], "should be true")
        row = 'decimal("5.00"), {}2.0, timestamp("2026-03-01T10:00:00Z")'
        browser.shows("#wishes", f"open({row.format('')})")
        browser.click("Find options")
        browser.shows("article.way", f"sale({row.format('?1, ')})")
        browser.shows("article.way", 'where ?1 >= date("2026-03-01")')
        asked = {"open": [(Decimal(5), 2.0, datetime(2026, 3, 1, 10, tzinfo=UTC))]}
        assert next(running.database.realize(asked)).lines() == [f"+sale({row.format('?1, ')})"]
        browser.go("about:blank")
