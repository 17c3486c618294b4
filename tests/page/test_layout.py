"""What the page shows fits and can be read: graphs, the network, narrow screens, the past."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.page.browser import Browser
from tests.page.test_page import at, commit, rows
from tests.service.serving import Running

pytestmark = pytest.mark.slow

LONG = "a_rather_long_relation_name_for_the_network"
PROGRAM = f"""
.decl depends(x: symbol, y: symbol)
.decl depends_on(x: symbol, y: symbol)
.decl {LONG}(x: symbol, y: symbol)
depends_on(X, Y) :- depends(X, Y).
depends_on(X, Z) :- depends_on(X, Y), depends(Y, Z).
{LONG}(X, Y) :- depends_on(X, Y), !depends(X, Y).
.decl layer2(x: symbol)
layer2(X) :- {LONG}(X, _).
.decl layer3(x: symbol)
layer3(X) :- layer2(X), depends(X, _).
.decl layer4(x: symbol)
layer4(X) :- layer3(X), depends(X, _).
"""
LABEL = "delta_with_a_very_long_label_indeed"
DEPENDS = [
    ("alpha", "beta"),
    ("beta", "gamma"),
    ("gamma", LABEL),
    ("one", "two"),
    ("two", "three"),
    ("three", "one"),
]
SIZES = ((1280, 900), (800, 800), (400, 800))


@pytest.fixture
def layered(tmp_path: Path, tab: Browser) -> Iterator[Running]:
    """A program of five layers, and two components."""
    database = upshot.connect(tmp_path / "store")
    database.define(PROGRAM)
    with database.transaction() as tx:
        tx.insert("depends", DEPENDS)
    with Running(database) as running:
        yield running
        tab.go("about:blank")
        tab.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def resize(browser: Browser, width: int, height: int) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def box(browser: Browser, css: str) -> dict[str, Any]:
    browser.one(css)
    return browser.script(f"return document.querySelector({css!r}).getBoundingClientRect().toJSON()")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_every_section_fits_the_screen(browser: Browser, layered: Running, width: int, height: int, dark: bool) -> None:
    resize(browser, width, height)
    browser.go(at(layered))
    browser.script(f"localStorage.setItem('theme', {'dark' if dark else 'light'!r})")
    tone = "dark" if dark else "light"
    places = {"network": "#/", "table": "#/view/depends_on", "graph": "#/view/depends/graph", "change": "#/change"}
    try:
        for name, place in places.items():
            browser.go(at(layered, place))
            browser.wait(lambda: browser.all("svg.network, tr.row, svg.graph, #draft, main form"), name)
            assert browser.script("return document.documentElement.scrollWidth") <= width
            assert box(browser, "#main")["height"] > 0.75 * height
            assert browser.script("return document.documentElement.dataset.theme") == tone
            browser.picture(f"{name}-{width}-{tone}")
    finally:
        browser.script("localStorage.removeItem('theme')")


def test_the_components_of_a_graph_stand_side_by_side_and_are_readable(browser: Browser, layered: Running) -> None:
    resize(browser, 1280, 900)
    browser.go(at(layered, "#/view/depends/graph"))
    browser.wait(lambda: len(browser.all("#graph .edge")) == 6, "six edges")
    labels = {each.text: each.rect for each in browser.all("#graph text")}
    assert set(labels) == {name for edge in DEPENDS for name in edge}
    drawn = box(browser, "#graph")
    for text, place in labels.items():
        assert place["height"] > 9, text
        assert drawn["left"] <= place["x"], text
        assert place["x"] + place["width"] <= drawn["right"], text
    assert max(labels[name]["x"] for name in ("alpha", "beta", "gamma")) < min(
        labels[name]["x"] for name in ("one", "two", "three")
    ) or max(labels[name]["y"] for name in ("alpha", "beta", "gamma", LABEL)) < min(
        labels[name]["y"] for name in ("one", "two", "three")
    )


def test_a_label_too_long_for_the_graph_is_whole_in_its_title(browser: Browser, layered: Running) -> None:
    long = "x" * 90
    commit(layered, insert={"depends": [["alpha", long]]})
    browser.go(at(layered, "#/view/depends/graph"))
    browser.shows("#graph", "x…")
    assert long in browser.script("return [...document.querySelectorAll('#graph g > title')].map(e => e.textContent)")


def test_the_network_shows_whole_names_and_no_edge_runs_through_a_box(browser: Browser, layered: Running) -> None:
    resize(browser, 1280, 900)
    browser.go(at(layered))
    browser.shows("svg.network", LONG)
    crossed = browser.script("""
        const boxes = [...document.querySelectorAll("svg.network .box")].map((g) => {
          const [, x, y] = g.getAttribute("transform").match(/translate\\(([\\d.]+) ([\\d.]+)\\)/).map(Number);
          const rect = g.querySelector("rect");
          return { x, y, w: rect.width.baseVal.value, h: rect.height.baseVal.value };
        });
        const found = [];
        for (const path of document.querySelectorAll("svg.network .edge")) {
          const length = path.getTotalLength();
          for (let i = 0; i <= length; i += 2) {
            const p = path.getPointAtLength(i);
            const inside = (b) => p.x > b.x + 2 && p.x < b.x + b.w - 2 && p.y > b.y + 2 && p.y < b.y + b.h - 2;
            if (boxes.some(inside)) found.push([p.x, p.y]);
          }
        }
        return found;""")
    assert crossed == []
    outside = browser.script("""
        return [...document.querySelectorAll("svg.network .box")].filter((g) => {
          const { right } = g.querySelector("rect").getBoundingClientRect();
          const texts = [...g.querySelectorAll("text")].filter((text) => text.textContent);
          return texts.some((text) => text.getBoundingClientRect().right > right);
        }).length;""")
    assert outside == 0


def test_only_the_open_relation_is_marked_in_the_list(browser: Browser, layered: Running) -> None:
    browser.go(at(layered, "#/view/depends_on"))
    browser.one("tr.row")
    assert [each.text.split()[0] for each in browser.all("#side a[aria-current=page]")] == ["depends_on"]


def test_back_closes_an_open_dialog(browser: Browser, layered: Running) -> None:
    browser.go(at(layered, "#/view/depends"))
    browser.shows("main h1", "depends")
    browser.script("location.hash = '#/view/depends_on'")
    browser.shows("main h1", "depends_on")
    browser.one("tr.row").click()
    browser.one("dialog[open]")
    browser.driver.back()
    browser.wait(lambda: browser.script("return location.hash") == "#/view/depends", "the place before")
    browser.wait(lambda: not browser.all("dialog[open]"), "no dialog")


def test_the_count_is_that_of_the_selection_and_follows_it(browser: Browser, layered: Running) -> None:
    browser.go(at(layered, "#/view/depends_on"))
    browser.shows("#row-count", "15 rows")
    browser.one("#selection").send_keys('depends_on("one", _)\n')
    browser.shows("#row-count", "3 rows selected")
    assert len(rows(browser)) == 3
    commit(layered, insert={"depends": [["three", "four"]]})
    browser.shows("#row-count", "4 rows selected")


def test_a_selection_that_is_wrong_is_marked_where_it_stands(browser: Browser, layered: Running) -> None:
    browser.go(at(layered, "#/view/depends_on"))
    browser.one("tr.row")
    browser.one("#selection").send_keys('depends_on("one"\n')
    browser.one("#selection[aria-invalid=true]")
    field = browser.one("#selection")
    message = browser.one(f"#{field.get_attribute('aria-describedby')}")
    assert "expected" in message.text
    assert browser.script("return document.activeElement.id") == "selection"
    browser.picture("wrong-selection")
    field.clear()
    field.send_keys('depends_on("one", _)\n')
    browser.shows("#row-count", "3 rows selected")
    assert not browser.all("#selection[aria-invalid=true]")
    assert all("status of 4" in each for each in browser.complaints())


def test_a_value_that_does_not_fit_its_column_is_marked(browser: Browser) -> None:
    database = upshot.connect()
    database.define(".decl age(who: symbol, years: number)")
    with Running(database) as running:
        browser.go(at(running, "#/change"))
        browser.wait(lambda: len(browser.all("main form input")) == 2, "fields")
        who, years = browser.all("main form input")
        who.send_keys("ann")
        years.send_keys("many")
        browser.click("+ insert")
        browser.shows("#outcome", "years must be a number, not “many”")
        assert [each.get_attribute("aria-label") for each in browser.all("input[aria-invalid=true]")] == ["years"]
        years.clear()
        years.send_keys("41")
        browser.click("+ insert")
        browser.shows("#draft", "age(ann, 41)")
        assert not browser.all("input[aria-invalid=true]")
        browser.go("about:blank")


def test_on_a_narrow_screen_the_list_is_folded_until_asked_for(browser: Browser, layered: Running) -> None:
    resize(browser, 400, 800)
    browser.go(at(layered, "#/view/depends_on"))
    browser.one("tr.row")
    assert box(browser, "#side")["height"] == 0
    browser.click("relations")
    browser.wait(lambda: box(browser, "#side")["height"] > 100, "the list")
    browser.picture("list-400")
    browser.all("#side li a")[0].click()
    browser.wait(lambda: box(browser, "#side")["height"] == 0, "the list folded again")
    browser.shows("main h1", "depends")


def test_a_slider_goes_through_the_versions_of_a_view(browser: Browser, layered: Running) -> None:
    commit(layered, insert={"depends": [["three", "four"]]})
    browser.go(at(layered, "#/view/layer2"))
    browser.shows("#at", "now")
    assert len(rows(browser)) == 5
    slider = browser.one("#version")
    assert (slider.get_attribute("min"), slider.get_attribute("max")) == ("1", "3")
    browser.script("document.getElementById('version').value = 1")
    browser.script("document.getElementById('version').dispatchEvent(new Event('input'))")
    browser.shows("main", "No rows at this version")
    browser.shows("#at", "version 1, ")
    browser.shows("#row-count", "0 rows")
    commit(layered, insert={"depends": [["four", "five"]]})
    browser.shows("#live", "version 4")
    browser.shows("main", "No rows at this version")
    browser.picture("past")
    browser.click("now")
    browser.wait(lambda: len(rows(browser)) == 5, "the rows of now")
    browser.shows("#at", "now")


def test_there_is_no_slider_where_the_past_is_not_kept(browser: Browser) -> None:
    database = upshot.connect()
    database.define(".decl n(x: number)")
    with database.transaction() as tx:
        tx.insert("n", [(1,)])
    with Running(database) as running:
        browser.go(at(running, "#/view/n"))
        browser.one("tr.row")
        assert not browser.all("#version")
        browser.go("about:blank")
