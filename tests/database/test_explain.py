from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest

import upshot

PROGRAM = """
.decl edge(x: number, y: number)
.decl node(x: number)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
.decl even(x: number, y: number)
.decl odd(x: number, y: number)
odd(X, Y) :- edge(X, Y).
odd(X, Z) :- even(X, Y), edge(Y, Z).
even(X, Z) :- odd(X, Y), edge(Y, Z).
.decl apart(x: number, y: number)
apart(X, Y) :- node(X), node(Y), !path(X, Y).
.decl reach(x: number, n: number)
reach(X, N) :- node(X), N = count : { path(X, _) }.
.deny loops(X) :- path(X, X).
"""


@pytest.fixture
def loaded(db: upshot.Database) -> upshot.Database:
    db.define(PROGRAM)
    with db.transaction() as tx:
        tx.insert("edge", [(1, 2), (2, 3)])
        tx.insert("node", [(1,), (2,), (3,)])
    return db


def test_the_text_tells_strategy_reasons_rules_plan_and_size(loaded: upshot.Database) -> None:
    text = str(loaded.explain("path"))
    assert "path(x: number, y: number): recursive view, 3 rows" in text
    assert "strategy maintenance" in text
    assert "because" in text
    assert "path(X, Z) :- path(X, Y), edge(Y, Z)." in text
    assert "plan" in text
    assert "edge(x: number, y: number): base relation, 2 rows" in text
    assert "apart" not in text
    assert "last change" in text


def test_without_a_view_everything_is_explained(loaded: upshot.Database) -> None:
    text = str(loaded.explain())
    assert all(name in text for name in loaded.schemas)


@pytest.mark.parametrize("heard", ["", ".view far events=all", ".rule r(X) when tc(X, X) do insert seen(X)."])
def test_a_view_that_nobody_hears_says_so_in_place_of_a_plan(db: upshot.Database, heard: str) -> None:
    db.define(
        ".decl edge(x: number, y: number)\n.decl seen(x: number)\n.decl tc(x: number, y: number)\n"
        "tc(X, Y) :- edge(X, Y).\ntc(X, Z) :- tc(X, Y), edge(Y, Z).\n.view tc materialized=false events=none\n"
        ".decl far(x: number)\nfar(X) :- tc(X, 9).\n.view far materialized=false\n"
        + (heard if "far" in heard else f".view far events=none\n{heard}")
    )
    with db.transaction() as tx:
        tx.insert("edge", [(1, 2), (2, 9)])
    plan = db.explain("tc").as_dict()["relations"]["tc"]["plan"]
    assert ("no subscribers" in plan) == (not heard)
    assert ("tc_plus" in plan) == bool(heard)


def test_the_explanation_is_data_too(loaded: upshot.Database) -> None:
    data = loaded.explain().as_dict()
    json.dumps(data)
    assert data["relations"]["path"]["recursive"]
    assert data["relations"]["apart"]["uses"] == ["node", "path"]
    assert data["relations"]["edge"]["strategy"] is None
    assert data["work"]["derived"] > 0


def test_a_base_relation_has_nothing_to_explain(loaded: upshot.Database) -> None:
    with pytest.raises(upshot.UsageError) as error:
        loaded.explain("edge")
    assert error.value.code == "not-a-view"
    with pytest.raises(upshot.UsageError) as error:
        loaded.explain("pth")
    assert error.value.help == "did you mean `path`?"


def test_the_picture_is_well_formed_and_shows_every_relation_and_edge(loaded: upshot.Database) -> None:
    picture = loaded.explain().svg()
    root = ET.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    names = [text.text for text in root.iter(f"{space}text") if text.get("class") == "name"]
    assert sorted(n for n in names if n) == sorted(loaded.schemas)
    titles = {title.text for title in root.iter(f"{space}title")}
    assert "path → apart, negated" in titles
    assert "path → reach, aggregated" in titles
    assert "edge → path" in titles
    assert "3 rows · maintenance" in picture
    assert "prefers-color-scheme: dark" in picture
    assert "var(" not in picture
    assert "--" not in picture
    recursive = [rect for rect in root.iter(f"{space}rect") if rect.get("class") == "recursive"]
    assert len(recursive) == 2 + 1  # two components and the legend


def test_boxes_never_overlap(loaded: upshot.Database) -> None:
    root = ET.fromstring(loaded.explain().svg())
    boxes = []
    for rect in root.iter("{http://www.w3.org/2000/svg}rect"):
        if (rect.get("class") or "").startswith("box"):
            x, y, w, h = (float(rect.get(key) or 0) for key in ("x", "y", "width", "height"))
            boxes.append((x, y, x + w, y + h))
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_every_class_of_the_picture_has_a_color_without_the_dark_scheme(loaded: upshot.Database) -> None:
    picture = loaded.explain().svg()
    light = picture[picture.index("<style>") : picture.index("@media")]
    colors = set(re.findall(r"\.(\w+) \{[^}]*#[0-9a-f]{6}", light))
    assert colors == {
        *("paper", "name", "note", "base", "view", "constraint", "recursive"),
        *("edge", "negated", "aggregated", "tip", "sum", "rule", "fires", "looping", "cause"),
    }


def test_boxes_have_room_for_names_in_wide_letters(db: upshot.Database) -> None:
    db.define(".decl wwwwmmmmwwwwmmmmwwww(x: number)  .decl RELATION_IN_CAPITALS(x: number)")
    root = ET.fromstring(db.explain().svg())
    boxes = [r for r in root.iter("{http://www.w3.org/2000/svg}rect") if (r.get("class") or "").startswith("box")]
    # In bold DejaVu Sans of 14 pixels, `w` is 12.9 wide and `m` 14.6; the name starts 14 from the left edge.
    assert all(float(box.get("width") or 0) > 14 + 12 * 12.9 + 8 * 14.6 + 10 for box in boxes)


def test_the_picture_of_one_view_leaves_out_what_it_does_not_use(loaded: upshot.Database) -> None:
    picture = loaded.explain("path").svg()
    assert "apart" not in picture


def test_an_empty_database_can_be_explained(db: upshot.Database) -> None:
    assert str(db.explain()).strip() == "engine local"
    ET.fromstring(db.explain().svg())


def test_names_are_escaped_in_the_picture(db: upshot.Database) -> None:
    db.define('.decl a(x: decimal(4,2)?)  .decl b(x: decimal(4,2))  b(X) :- a(X), X > decimal("1.0").')
    texts = "".join(ET.fromstring(db.explain()._repr_svg_()).itertext())
    assert "a(x: decimal(4,2)?)" in texts


def test_a_large_program_is_drawn_quickly(db: upshot.Database) -> None:
    lines = [".decl v0(x: number)"]
    for n in range(1, 200):
        lines.append(f".decl v{n}(x: number)  v{n}(X) :- v{n - 1}(X), v{n // 2}(X).")
    db.define("\n".join(lines))
    picture = ET.fromstring(db.explain().svg())
    texts = [(each.text or "").strip() for each in picture.iter() if each.tag.endswith("text")]
    assert {f"v{n}" for n in range(200)} <= set(texts)


def test_a_plan_is_shown_with_what_each_step_is_expected_to_match(db: upshot.Database) -> None:
    db.define(".decl a(x: number, y: number) .decl b(y: number, z: number) .decl p(x: number, z: number)")
    db.define("p(X, Z) :- a(X, Y), b(Y, Z).")
    with db.transaction() as tx:
        tx.insert("a", [(x, x) for x in range(100)])
        tx.insert("b", [(y, y) for y in range(200)] + [(7, -z) for z in range(1, 201)])
    text = str(db.explain("p"))
    assert "probe b(Y, Z) on column 0, expected ~2\n" in text
    assert "probe a(X, Y) before on column 1, expected ~1\n" in text
    assert "matches of the last change" not in text
    with db.transaction() as tx:
        tx.insert("a", [(1000, 8)])
    assert "matches of the last change: expected ~2, found 1\n" in str(db.explain("p"))


def test_a_plan_that_matched_ten_times_the_rows_expected_is_flagged(db: upshot.Database) -> None:
    db.define(".decl a(x: number, y: number) .decl b(y: number, z: number) .decl p(x: number, z: number)")
    db.define("p(X, Z) :- a(X, Y), b(Y, Z).")
    with db.transaction() as tx:
        tx.insert("a", [(x, x) for x in range(100)])
        tx.insert("b", [(y, y) for y in range(200)] + [(7, -z) for z in range(1, 201)])
    with db.transaction() as tx:
        tx.insert("a", [(1000, 7)])
    assert "matches of the last change: expected ~2, found 201 (off by 100×" in str(db.explain("p"))
