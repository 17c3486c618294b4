"""What would make a row come or go, asked on the page and committed there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

import upshot
from tests.page.browser import Browser
from tests.page.test_page import at, commit
from tests.revise.goldens import CONSISTENT, CONSTRAINED, EITHER
from tests.service.serving import Running
from upshot.service.access.sessions import Authenticator
from upshot.service.access.tokens import Tokens, hash_of
from upshot.service.service import Service

pytestmark = pytest.mark.slow

ACCESS = """
.decl member(person: symbol, team: symbol)
.decl granted(team: symbol, right: symbol)
.decl suspended(person: symbol, right: symbol)
.decl access(person: symbol, right: symbol)
access(P, R) :- member(P, T), granted(T, R), !suspended(P, R).
.decl team(name: symbol)
.deny unknown(T) :- member(_, T), !team(T).
"""


@contextmanager
def serving(program: str, more: str = "", **facts: list[tuple[Any, ...]]) -> Iterator[Running]:
    database = upshot.connect()
    database.define(program)
    with database.transaction() as tx:
        for name, rows in facts.items():
            tx.insert(name, rows)
    if more:
        database.define(more)
    with Running(database) as running:
        yield running


@pytest.fixture
def access(browser: Browser) -> Iterator[Running]:
    with serving(
        ACCESS,
        team=[("ops",), ("web",)],
        member=[("ann", "ops"), ("bob", "ops"), ("ann", "web")],
        granted=[("ops", "deploy"), ("web", "publish")],
    ) as running:
        yield running
        browser.go("about:blank")


def wish(browser: Browser, relation: str, values: list[str], words: str) -> None:
    browser.wait(lambda: browser.all("#wish select"), "the form")
    browser.script(f"document.querySelector('#wish select').value = '{relation}'")
    browser.script("document.querySelector('#wish select').dispatchEvent(new Event('change'))")
    browser.wait(lambda: len(browser.all("#wish input")) == len(values), "a field for each column")
    for field, value in zip(browser.all("#wish input"), values, strict=True):
        field.send_keys(value)
    browser.click(words)


def options(browser: Browser) -> list[list[str]]:
    """The base changes of each card."""
    browser.one("#status")
    return [
        [line.text.replace(" ", "", 1) for line in card.find_elements("css selector", "table.changes tr")]
        for card in browser.all("article.way")
    ]


# ---- the worked examples, from the row to the commit ----------------------------------------------


def test_golden_1_is_committed_on_the_page(browser: Browser) -> None:
    with serving(CONSISTENT, r2=[(2,)], s=[(2,)]) as running:
        browser.go(at(running, "#/options"))
        wish(browser, "p", ["2"], "should be true")
        browser.click("Find options")
        browser.shows("#status", "This is the only one")
        browser.click("Commit")
        browser.shows("#options", "Version 3")
        assert set(running.database.rows("p")) == {(2,)}
        browser.go("about:blank")


def test_golden_5_on_the_page_with_a_value_that_is_filled_in(browser: Browser) -> None:
    with serving(EITHER, p=[(1,)]) as running:
        browser.go(at(running, "#/options"))
        wish(browser, "g", ["1"], "should be true")
        browser.click("Find options")
        browser.shows("#status", "These are all 2")
        assert options(browser) == [["+z(1)"], ["+p(?1)", "+q(1)"]]
        second = browser.all("article.way")[1]
        assert not second.find_element("css selector", "button.main").is_enabled()
        field = second.find_element("css selector", ".open-values input")
        assert field.get_attribute("placeholder") == "a fresh number"
        field.send_keys("9007199254740993")
        browser.picture("options-golden-5")
        second.find_elements("css selector", "button")[0].click()
        browser.shows("article.way", "Effects")
        second.find_element("css selector", "button.main").click()
        browser.shows("#options", "Version 3")
        assert set(running.database.rows("p")) == {(1,), (9007199254740993,)}, "to the last digit"
        browser.go("about:blank")


def test_golden_6_on_the_page_from_the_row_itself(browser: Browser) -> None:
    with serving(CONSTRAINED + "e(1, 2). e(1, 4). e(2, 3).") as running:
        browser.go(at(running, "#/view/h"))
        browser.shows("#rows", "3")
        browser.all("tr.row")[0].click()
        browser.shows("#why", "h(1, 3)")
        browser.click("How to delete it?")
        browser.shows("#status", "These are all 3")
        assert sorted(options(browser)) == [["+e(1, 3)"], ["−e(1, 2)"], ["−e(2, 3)"]]
        browser.picture("options-golden-6")
        browser.go("about:blank")


# ---- how it is used -------------------------------------------------------------------------------


def test_a_late_answer_does_not_take_the_place_of_a_newer_one(browser: Browser) -> None:
    with serving(CONSISTENT, r2=[(2,), (5,)], s=[(2,)]) as running:
        browser.go(at(running, "#/options"))
        wish(browser, "p", ["2"], "should be true")
        browser.script("""
            const plain = window.fetch;
            let held = false;
            window.fetch = async (...args) => {
              const answer = await plain(...args);
              if (!held && String(args[0].url ?? args[0]).includes("realizations")) {
                held = true;
                await new Promise((resolve) => { window.release = resolve; });
                window.released = true;
              }
              return answer;
            };
        """)
        browser.click("Find options")
        browser.wait(lambda: browser.script("return Boolean(window.release)"), "the first answer is on its way")
        browser.click("✕")
        wish(browser, "r1", ["7"], "should be true")
        browser.click("Find options")
        browser.shows("#status", "This is the only one")
        assert options(browser) == [["+r1(7)"]]
        browser.script("window.release()")
        browser.wait(lambda: browser.script("return Boolean(window.released)"), "the first answer is there")
        assert running.request("POST", "/transactions", {"insert": {"r2": [[8]]}})[0] == 200
        browser.shows("#options", "The database is at version")
        assert options(browser) == [["+r1(7)"]]
        browser.go("about:blank")


def test_a_row_is_removed_by_the_keyboard_alone(browser: Browser, access: Running) -> None:
    browser.go(at(access, "#/view/access"))
    browser.shows("#rows", "deploy")
    browser.keys("j")
    browser.keys("x")
    browser.shows("#wishes", 'access("ann", "deploy")')
    browser.shows("#status", "These are all 3")
    assert options(browser) == [
        ['−member("ann", "ops")'],
        ['−granted("ops", "deploy")'],
        ['+suspended("ann", "deploy")'],
    ]
    browser.shows("article.way", "no side effect")
    browser.shows("article.way", "1 side effect")
    also = [" ".join(each.text.split()) for each in browser.all("article.way:nth-of-type(2) .effects tr")]
    assert also == ['− access("ann", "deploy") goal', '− access("bob", "deploy") also']
    browser.picture("options")
    browser.click("theme")
    browser.picture("options-dark")
    browser.click("theme")
    browser.one("article.way:nth-of-type(3) button.main").send_keys(Keys.ENTER)
    browser.shows("#options", "Version 3")
    browser.shows("#told", "committed as version 3")
    assert set(access.database.rows("suspended")) == {("ann", "deploy")}


def test_preferences_are_kept_and_what_is_only_through_frozen_is_said(browser: Browser, access: Running) -> None:
    browser.go(at(access, "#/options/delete/access/" + "%5B%22ann%22%2C%22deploy%22%5D"))
    browser.shows("#status", "These are all 3")
    browser.one("#preferences summary").click()
    for name in ("granted", "member"):
        browser.one(f"#frozen-{name}").click()
    browser.click("Find options")
    browser.shows("#status", "This is the only one")
    browser.one("#frozen-suspended").click()
    browser.click("Find options")
    browser.shows("#status", "only through frozen")
    browser.shows("#options h2", "No option")
    browser.picture("options-frozen")


def test_an_option_that_would_no_longer_do_is_refused_and_says_so(browser: Browser, access: Running) -> None:
    browser.go(at(access, "#/options/delete/access/" + "%5B%22ann%22%2C%22deploy%22%5D"))
    browser.shows("#status", "These are all 3")
    commit(access, insert={"granted": [["web", "deploy"]]})
    browser.shows("#options", "The database is at version 3 by now")
    browser.all("article.way")[0].find_element("css selector", "button.main").click()
    browser.shows("article.way .problem", 'row `access("ann", "deploy")` would still exist')
    browser.picture("options-refused")
    browser.click("search again")
    browser.shows("#status", "At version 3")
    assert access.database.version == 3
    assert [each for each in browser.complaints() if "409" in each]


def test_a_value_that_breaks_a_condition_is_refused_with_the_condition(browser: Browser) -> None:
    with serving(".decl n(x: number)  .decl has(k: number)  has(1) :- n(X), X > 3.") as running:
        browser.go(at(running, "#/options/insert/has/%5B1%5D"))
        browser.shows("#status", "This is the only one")
        way = browser.all("article.way")[0]
        way.find_element("css selector", ".open-values input").send_keys("3")
        way.find_element("css selector", "button.main").click()
        browser.shows("article.way .problem", "Valid values satisfy ?1 > 3.")
        browser.go("about:blank")
        assert [each for each in browser.complaints() if "409" in each]


def test_an_absent_row_says_why_it_is_not_there_and_how_it_could_be(browser: Browser, access: Running) -> None:
    browser.go(at(access, "#/view/access"))
    browser.click("make a row true or false…")
    wish(browser, "access", ["eve", "deploy"], "why, or why not?")
    browser.shows("dialog", "nearest attempts of each rule")
    browser.shows("#why-not", '✗ member("eve", "ops")')
    browser.shows("#fixes", "Becomes true with (")
    browser.shows("#fixes", '+member("eve", "ops")')
    browser.picture("why-not")
    browser.click("How to make it true?")
    browser.shows("#wishes", 'access("eve", "deploy")')
    browser.shows("#options", '+ member("eve", "ops")')
    browser.go(at(access, "#/options"))
    wish(browser, "team", ["nowhere"], "why, or why not?")
    browser.shows("dialog", "base fact that was not inserted")
    browser.shows("#fixes", "Becomes true with (the only realization)")
    browser.shows("#fixes", '+team("nowhere")')


def test_a_violated_constraint_is_repaired_from_its_card(browser: Browser) -> None:
    with serving(
        ACCESS, ".deny idle(T) :- team(T), !member(_, T). .deny idle existing=keep", team=[("ops",)]
    ) as running:
        browser.go(at(running, "#/constraints"))
        browser.click("how to repair?")
        browser.shows("#wishes", "every witness of idle")
        browser.shows("#status", "At version")
        assert ['−team("ops")'] in options(browser)
        browser.go("about:blank")


def test_a_token_that_may_not_write_sees_options_and_cannot_commit_them(browser: Browser, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(
        f'[token.eve]\nhash = "{hash_of("let-me-in")}"\n'
        f'read = ["access", "member", "granted", "suspended", "team", "unknown"]\n'
        f'write = ["suspended"]\nsubscribe = true\n'
        f'[token.low]\nhash = "{hash_of("low")}"\nread = ["access"]\nwrite = []\nsubscribe = true\n'
    )
    database = upshot.connect()
    database.define(ACCESS)
    with database.transaction() as tx:
        tx.insert("team", [("ops",)])
        tx.insert("member", [("ann", "ops")])
        tx.insert("granted", [("ops", "deploy")])

    def prepare(service: Service) -> None:
        service.authenticator = Authenticator(service.settings, Tokens(tokens))

    place = "#/options/delete/access/%5B%22ann%22%2C%22deploy%22%5D"
    with Running(database, prepare=prepare) as running:
        browser.go(at(running, place))
        browser.one("#token").send_keys("let-me-in" + Keys.ENTER)
        browser.shows("#status", "These are all 3")
        browser.shows("article.way", "You may not change member.")
        able = [card.find_element("css selector", "button.main").is_enabled() for card in browser.all("article.way")]
        assert able == [False, False, True]
        browser.click("sign out")
        browser.one("#token").send_keys("low" + Keys.ENTER)
        browser.shows("#options .problem", "would disclose data that this token may not read")
        browser.go("about:blank")
    assert all("status of 40" in each for each in browser.complaints())


def test_a_nervous_view_says_that_it_cannot_be_followed_and_is_read_again(browser: Browser) -> None:
    program = (
        ".decl q(x: number, y: number) .decl p(x: number)\np(X) :- q(X, _).\n"
        ".view p strategy=differencing semantics=nervous"
    )
    with serving(program, q=[(1, 1)]) as running:
        browser.go(at(running, "#/view/p"))
        browser.shows("#unfollowed", "`p` is nervous")
        browser.shows("#rows", "1")
        commit(running, insert={"q": [[1, 2], [7, 1]]})
        browser.shows("#rows", "7")
        browser.picture("nervous")
        browser.go("about:blank")


def test_options_say_so_where_there_is_nothing_to_ask_for(browser: Browser) -> None:
    with Running(upshot.connect()) as running:
        browser.go(at(running, "#/options"))
        browser.shows("main", "no relation that you may read")
        browser.go("about:blank")


def test_a_field_that_holds_no_value_of_its_column_is_told_at_once(browser: Browser) -> None:
    with serving(".decl seat(row: number, name: symbol)\n.decl taken(row: number)\ntaken(R) :- seat(R, _).") as running:
        browser.go(at(running, "#/options"))
        for text, said in (
            ("", "row is blank, but must be a number"),
            ("ten", "row must be a number, not “ten”"),
        ):
            wish(browser, "taken", [text], "should be true")
            assert said in browser.one("[role=alert]").text
            assert not browser.all("#wishes")
            browser.script("document.querySelectorAll('#wish input').forEach((each) => { each.value = ''; })")
        wish(browser, "taken", ["10"], "should be true")
        browser.one("#wishes")
        browser.go("about:blank")


def test_what_rules_would_add_is_shown_with_an_option(browser: Browser) -> None:
    program = ACCESS + ".decl gone(person: symbol)\n.rule note(P) on delete access(P, _) do insert gone(P).\n"
    facts = {"team": [("ops",)], "member": [("ann", "ops")], "granted": [("ops", "deploy")]}
    with serving(program, **facts) as running:
        browser.go(at(running, "#/options/delete/access/" + "%5B%22ann%22%2C%22deploy%22%5D"))
        browser.shows("#status", "These are all 3")
        shown = [" ".join(each.text.split()) for each in browser.all("article.way:nth-of-type(1) .effects tr")]
        assert shown == ['− access("ann", "deploy") goal', '+ gone("ann") by rules']
        browser.shows("article.way", "Rules that fire: note (1 instance)")
        browser.go("about:blank")
