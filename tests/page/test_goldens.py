"""The worked examples of view updating, asked for on the page as a person would."""

from __future__ import annotations

import pytest

from tests.page.browser import Browser
from tests.page.test_options import options, serving, wish
from tests.page.test_page import at
from tests.revise.goldens import GOLDENS, Golden, name

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("golden", GOLDENS, ids=name)
def test_the_worked_examples_have_exactly_their_options(browser: Browser, golden: Golden) -> None:
    with serving(golden.text) as running:
        browser.go(at(running, "#/options"))
        browser.shows("main", "No goals yet")
        for sign, words in (("+", "should be true"), ("-", "should be false")):
            for relation, rows in golden.asked(sign).items():
                for row in rows:
                    wish(browser, relation, list(map(str, row)), words)
        browser.one("#preferences summary").click()
        for relation in golden.frozen:
            browser.one(f"#frozen-{relation}").click()
        field = browser.one("#new-values")
        field.clear()
        field.send_keys(str(golden.new_values))
        browser.click("Find options")
        browser.shows("#status", f"{golden.reason[0].upper()}{golden.reason[1:]}.")
        assert golden.agrees([change.replace("−", "-") for change in way] for way in options(browser))
        browser.shows("#options h2", "option" if golden.ways else "No option")
        browser.picture(f"golden-{golden.number}")
        browser.go("about:blank")
