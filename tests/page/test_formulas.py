"""What follows from a new value, on the page: as a formula, or for the value that was tried."""

from __future__ import annotations

import pytest

from tests.page.browser import Browser
from tests.page.test_options import at, serving, wish
from tests.service.test_formulas import PROGRAM

pytestmark = pytest.mark.slow


def test_an_option_says_how_rows_follow_from_a_new_value(browser: Browser) -> None:
    with serving(PROGRAM + "n(1).") as running:
        browser.go(at(running, "#/options"))
        wish(browser, "has", [], "should be true")
        browser.click("Find options")
        browser.shows("article.way", "up(?1 + 1)")
        shown = browser.all("article.way")[0].text
        assert [line for line in shown.splitlines() if "square" in line][-1] == "+ square(16) also for ?1 = 4"
        assert "With other values perhaps also rows of big." in shown
        browser.go("about:blank")
