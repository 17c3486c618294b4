"""The page, looked at and used in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import upshot
from tests.page.browser import PATIENCE, Browser
from tests.page.conftest import PROGRAM
from tests.service.served_process import free_port
from tests.service.serving import Running
from upshot.service.access.sessions import Authenticator
from upshot.service.access.tokens import Tokens, hash_of
from upshot.service.service import Service
from upshot.service.settings import RequestBounds, Settings

pytestmark = pytest.mark.slow


def at(running: Running, place: str = "") -> str:
    return f"http://127.0.0.1:{running.port}/{place}"


def commit(running: Running, **changes: dict[str, Any]) -> None:
    status, body, _ = running.request("POST", "/transactions", changes)
    assert status == 200, body


def rows(browser: Browser) -> list[str]:
    return browser.texts("#rows tbody tr")


def shown(browser: Browser) -> list[str]:
    """The form of the rows that is marked as the one shown; the others look otherwise."""
    line = {each.text: each.value_of_css_property("border-top-color") for each in browser.all("button[aria-pressed]")}
    pressed = [each.text for each in browser.all('button[aria-pressed="true"]')]
    assert len({line[each] for each in pressed} & {line[each] for each in line if each not in pressed}) == 0
    return pressed


def test_the_network_shows_the_wave_of_each_commit_as_it_happens(browser: Browser, served: Running) -> None:
    browser.go(at(served))
    browser.shows("svg.network", "open_path")
    browser.shows("svg.network", "warned")
    commit(served, insert={"edge": [["net", "sys"]]}, delete={"edge": [["app", "log"]]})
    browser.shows("#wave", "Version 3")
    browser.shows("#wave", "closure +3 −1")
    browser.wait(lambda: len(browser.all("svg .box.touched")) == 4, "boxes on the wave")
    touched = {each.get_attribute("aria-label").split(",")[0] for each in browser.all("svg .box.touched")}
    assert touched == {"edge", "closure", "open_path", "fan"}
    browser.shows("#live", "version 3")
    browser.picture("network")


def test_rows_that_come_and_go_are_marked_as_it_happens(browser: Browser, served: Running) -> None:
    browser.go(at(served, "#/view/closure"))
    browser.shows("#rows", "web")
    assert rows(browser) == ["app log", "app net", "app web", "web net"]
    commit(served, insert={"edge": [["net", "sys"]]}, delete={"edge": [["app", "log"]]})
    browser.wait(lambda: len(browser.all("tr.come")) == 3, "three rows that came")
    assert rows(browser) == ["− app log", "app net", "+ app sys", "app web", "+ net sys", "web net", "+ web sys"]
    browser.shows("#row-count", "6 rows")
    browser.shows("#latest", "just now")
    browser.picture("table")


def test_a_binary_view_is_a_graph_too(browser: Browser, served: Running) -> None:
    browser.go(at(served, "#/view/closure"))
    browser.one("tr.row")
    assert shown(browser) == ["Table"]
    browser.click("Graph")
    browser.wait(lambda: len(browser.all("#graph .edge")) == 4, "four edges")
    assert shown(browser) == ["Graph"]
    assert {each.text for each in browser.all("#graph text")} == {"app", "web", "net", "log"}
    commit(served, insert={"edge": [["log", "sys"]]})
    browser.wait(lambda: len(browser.all("#graph .edge.come")) == 2, "two edges that came")
    browser.picture("graph")


def test_a_click_or_enter_on_a_row_says_why_it_is_there(browser: Browser, served: Running) -> None:
    browser.go(at(served, "#/view/closure"))
    browser.shows("#rows", "net")
    browser.all("tr.row")[1].click()
    browser.shows("#why", 'closure("app", "net")')
    assert "closure(X, Z) :- closure(X, Y), edge(Y, Z)." in browser.text("#why")
    assert 'edge("web", "net")' in browser.text("#why")
    browser.picture("why")
    browser.escape()
    browser.wait(lambda: not browser.all("dialog[open]"), "closed")
    browser.keys("j")
    browser.keys(Keys.ENTER)
    browser.shows("dialog h1", "Why")


def test_all_derivations_of_a_row_and_its_picture_come_on_request(browser: Browser, served: Running) -> None:
    commit(served, insert={"edge": [["app", "net"]]})
    browser.go(at(served, "#/view/closure"))
    browser.shows("#rows", "net")
    browser.all("tr.row")[1].click()
    browser.shows("#why", 'edge("app", "net")')
    picture = browser.one("dialog a").get_attribute("href")
    browser.click("all derivations")
    browser.shows("dialog", "All 2 derivations, the smallest first")
    assert len(browser.all("#why > li")) == 2
    assert "limit=20" in (browser.one("dialog a").get_attribute("href") or "")
    browser.picture("why-all")
    browser.go(picture)
    browser.shows("svg", 'closure("app", "net")')
    browser.picture("why-svg")
    # Of a picture alone the browser asks for an icon.
    assert all("favicon" in each for each in browser.complaints())


def test_a_row_that_has_just_come_or_gone_says_why_down_to_the_base_change(browser: Browser, served: Running) -> None:
    browser.go(at(served, "#/view/open_path"))
    browser.shows("#rows", "web")
    commit(served, insert={"blocked": [["net"]], "edge": [["web", "sys"]]}, meta={"by": "ann"})
    browser.wait(lambda: browser.all("tr.gone") and browser.all("tr.come"), "rows that came and went")
    browser.all("tr.gone")[0].click()
    browser.shows("#change", "Deleted in version 3")
    browser.shows("#change", '{"by":"ann"}')
    browser.shows("#why", '+ blocked("net")\nbase fact, inserted in version 3')
    browser.shows("#why", "still true")
    browser.picture("why-went")
    browser.escape()
    browser.all("tr.come")[0].click()
    browser.shows("#why", 'open_path("app", "sys")')
    browser.click("why was it inserted in version 3?")
    browser.shows("#change", "Inserted in version 3")
    browser.shows("#why", '+ edge("web", "sys")')
    browser.picture("why-came")


def test_a_derivation_thousands_deep_is_opened_part_by_part(browser: Browser) -> None:
    database = upshot.connect()
    database.define(".decl e(x: number, y: number) .decl r(x: number) r(1). r(Y) :- r(X), e(X, Y).")
    with database.transaction() as tx:
        tx.insert("e", [(i, i + 1) for i in range(1, 3000)])
    bounds = RequestBounds(seconds=PATIENCE)
    with Running(database, Settings(bounds=bounds)) as running:
        browser.go(at(running, "#/options"))
        browser.wait(lambda: browser.all("#wish input"), "fields")
        browser.script("document.querySelector('#wish select').value = 'r'")
        browser.script("document.querySelector('#wish select').dispatchEvent(new Event('change'))")
        browser.one("#wish input").send_keys("2999")
        browser.click("why, or why not?")
        browser.shows("#why", "r(2990)")
        shown = len(browser.all("#why li"))
        assert shown < 100
        browser.all("#why details:not([open]) > summary")[0].click()
        browser.wait(lambda: len(browser.all("#why li")) > shown, "more of it")
        browser.go("about:blank")


def test_a_transaction_is_previewed_before_it_is_committed(browser: Browser, served: Running) -> None:
    browser.go(at(served, "#/change"))
    browser.shows("main", "No changes yet")
    for value in ("net", "sys"):
        browser.wait(lambda: browser.all("main form input"), "fields")
        browser.all("main form input")[0 if value == "net" else 1].send_keys(value)
    browser.click("+ insert")
    browser.shows("#draft", "edge(net, sys)")
    browser.click("What if?")
    browser.shows("#outcome", "Effects")
    browser.shows("#outcome", "closure")
    assert served.database.version == 2
    browser.picture("what-if")
    browser.click("Commit")
    browser.shows("#outcome", "Version 3")
    assert ("net", "sys") in set(served.database.rows("edge"))


def test_a_refused_transaction_says_why_and_keeps_the_draft(browser: Browser, served: Running) -> None:
    browser.go(at(served, "#/change"))
    browser.wait(lambda: len(browser.all("main form input")) == 2, "fields")
    browser.all("main form input")[0].send_keys("net")
    browser.all("main form input")[1].send_keys("app")
    browser.click("+ insert")
    browser.click("Commit")
    browser.shows(".problem", "acyclic")
    browser.shows("#draft", "edge(net, app)")
    assert served.database.version == 2
    assert [each for each in browser.complaints() if "409" in each]


def test_constraints_show_witnesses_and_rules_their_firings(browser: Browser, served: Running) -> None:
    commit(served, insert={"edge": [["net", "sys"], ["sys", "lib"]]})
    browser.go(at(served, "#/constraints"))
    browser.shows(".card", "acyclic")
    browser.shows(".card", "1 witness")
    browser.all("tr.row")[0].click()
    browser.shows("#why", 'wide("app")')
    browser.go(at(served, "#/rules"))
    browser.shows("#firings", "warned")
    browser.shows("#firings", "(web)")
    browser.picture("rules")


def test_there_are_words_where_there_is_nothing(browser: Browser) -> None:
    with Running(upshot.connect()) as running:
        browser.go(at(running))
        browser.shows("main", "No transaction since the server started")
        browser.go(at(running, "#/constraints"))
        browser.shows("main", "no constraint")
        browser.go(at(running, "#/rules"))
        browser.shows("main", "no active rule")
        browser.go(at(running, "#/change"))
        browser.shows("main", "no relation that you may change")
        browser.go(at(running, "#/view/nothing"))
        browser.shows("main", "no such relation")
        browser.go("about:blank")


def test_a_large_view_comes_in_pages(browser: Browser) -> None:
    database = upshot.connect()
    database.define(".decl n(x: number)\n.decl even(x: number)\neven(X) :- n(X), X % 2 = 0.")
    with database.transaction() as tx:
        tx.insert("n", [(each,) for each in range(2_000)])
    with Running(database) as running:
        browser.go(at(running, "#/view/even"))
        browser.shows("#row-count", "1,000 rows")
        browser.wait(lambda: len(browser.all("#rows tbody tr")) == 200, "a page")
        browser.click("next →")
        browser.shows("#rows", "400")
        assert rows(browser)[0] == "400"
        commit(running, insert={"n": [[20_000]]}, delete={"n": [[402]]})
        browser.wait(lambda: len(browser.all("tr.gone")) == 1, "the row that went")
        assert not browser.all("tr.come")
        browser.shows("#latest", "+(20000)")
        browser.click("← previous")
        browser.shows("#rows tbody tr:first-child", "0")
        browser.go("about:blank")


def test_a_click_on_a_column_sorts_all_pages_by_it(browser: Browser) -> None:
    database = upshot.connect()
    database.define(".decl edge(x: number, y: number)")
    with database.transaction() as tx:
        tx.insert("edge", [(n, n * 7 % 1_000) for n in range(1_000)])
    with Running(database) as running:
        browser.go(at(running, "#/view/edge"))
        browser.wait(lambda: rows(browser)[:1] == ["0 0"], "the first page")
        browser.all("th .sort")[1].click()
        browser.wait(lambda: rows(browser)[:2] == ["0 0", "143 1"], "sorted by the second column")
        browser.all("th .sort")[1].click()
        browser.wait(lambda: rows(browser)[:2] == ["857 999", "714 998"], "sorted the other way round")
        browser.click("next →")
        browser.wait(lambda: rows(browser)[:1] == ["257 799"], "the second page")
        commit(running, insert={"edge": [[5000, 798]]})
        browser.wait(lambda: "+ 5000 798" in rows(browser)[:4], "a row that came, in its place")
        browser.go("about:blank")


def test_what_a_database_holds_is_text_and_never_markup(browser: Browser, served: Running) -> None:
    trap = "<img src=x onerror=\"document.title='taken'\">"
    commit(served, insert={"edge": [["net", trap]]})
    for place in ("#/view/edge", "#/view/closure/graph", "#/"):
        browser.go(at(served, place))
        browser.wait(lambda: browser.all("#rows, #graph, svg.network"), "the section")
        assert not browser.all("main img")
        assert browser.driver.title != "taken"
    browser.go(at(served, "#/view/edge"))
    browser.shows("#rows", trap)


def test_a_token_opens_what_it_may_read_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(
        f'[token.eve]\nhash = "{hash_of("let-me-in")}"\nread = ["closure"]\nwrite = []\nsubscribe = true\n'
    )
    database = upshot.connect()
    database.define(PROGRAM)
    with database.transaction() as tx:
        tx.insert("edge", [("a", "b")])

    def prepare(service: Service) -> None:
        service.authenticator = Authenticator(service.settings, Tokens(tokens))

    with Running(database, prepare=prepare) as running:
        browser.go(at(running))
        browser.one("#token").send_keys("wrong" + Keys.ENTER)
        browser.wait(lambda: browser.text("form [role=alert]"), "an error")
        browser.one("#token").send_keys("let-me-in" + Keys.ENTER)
        browser.shows("#side", "closure")
        assert "edge" not in browser.driver.find_element(By.TAG_NAME, "body").text
        assert browser.script("return document.cookie") == ""
        assert "let-me-in" not in browser.driver.current_url
        cookie = browser.driver.get_cookies()[0]
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        browser.go(at(running, "#/view/closure"))
        browser.shows("#rows", "b")
        browser.all("tr.row")[0].click()
        browser.shows(".problem", "may not read")
        browser.escape()
        browser.click("sign out")
        browser.shows("main", "Sign in")
        browser.go(at(running))
        browser.shows("main", "Sign in")
    assert all(" 401 " in each or " 403 " in each or "status of 40" in each for each in browser.complaints())


def test_a_token_that_may_not_follow_is_told_so_and_still_reads(browser: Browser, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'[token.eve]\nhash = "{hash_of("let-me-in")}"\nread = ["*"]\nwrite = []\nsubscribe = false\n')
    database = upshot.connect()
    database.define(PROGRAM)
    with database.transaction() as tx:
        tx.insert("edge", [("a", "b")])

    def prepare(service: Service) -> None:
        service.authenticator = Authenticator(service.settings, Tokens(tokens))

    with Running(database, prepare=prepare) as running:
        browser.go(at(running))
        browser.one("#token").send_keys("let-me-in" + Keys.ENTER)
        browser.shows("#live", "may not follow")
        browser.go(at(running, "#/view/closure"))
        browser.shows("#rows", "b")
        assert not [each for each in browser.complaints() if "changes" in each or "stream" in each]
        browser.go("about:blank")


def test_light_or_dark_is_remembered(browser: Browser, served: Running) -> None:
    browser.go(at(served))
    browser.shows("svg.network", "closure")
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = browser.script(ground)
    browser.click("theme")
    after = browser.script(ground)
    assert before != after
    browser.go(at(served))
    browser.shows("svg.network", "closure")
    assert browser.script(ground) == after
    browser.picture("dark")


def test_keys_open_every_section(browser: Browser, served: Running) -> None:
    browser.go(at(served))
    browser.shows("main h1", "Network")
    body = browser.driver.find_element(By.TAG_NAME, "body")
    for key, title in (("2", "Change"), ("3", "Options"), ("4", "Constraints"), ("5", "Rules"), ("1", "Network")):
        body.send_keys(key)
        browser.shows("main h1", title)
    body.send_keys("/")
    browser.keys("clos")
    browser.wait(lambda: len(browser.all("#side li")) == 1, "one relation")
    browser.keys(Keys.ESCAPE)
    body.send_keys("?")
    browser.shows("dialog", "find a relation")


def test_a_page_that_was_left_holds_no_stream_and_follows_again_when_it_is_shown(
    browser: Browser, served: Running
) -> None:
    browser.go(at(served, "#/view/closure"))
    browser.shows("#rows", "web")
    browser.wait(lambda: len(served.service.hub.followers) == 2, "the streams of the page and of the view")
    browser.driver.get("about:blank")
    browser.wait(lambda: not served.service.hub.followers, "no stream")
    commit(served, insert={"edge": [["net", "sys"]]})
    browser.driver.back()
    browser.shows("#live", "version 3")
    browser.shows("#rows", "sys")
    browser.wait(lambda: len(served.service.hub.followers) == 2, "both streams again")


def test_a_server_that_comes_back_is_followed_again(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "store"
    database = upshot.connect(store)
    database.define(PROGRAM)
    first = Running(database, port=free_port())
    browser.go(at(first, "#/view/edge"))
    browser.shows("main", "No rows")
    first.stop()
    browser.shows("#live", "reconnecting")
    database = upshot.connect(store)
    with database.transaction() as tx:
        tx.insert("edge", [("x", "y")])
    with Running(database, port=first.port) as again:
        browser.shows("#live", "version 2")
        browser.shows("#rows", "y")
        commit(again, insert={"edge": [["y", "z"]]})
        browser.shows("#rows", "z")
    browser.complaints()
