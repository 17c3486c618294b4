"""What `explain` says of active rules, and how it draws them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import pytest

import upshot

PROGRAM = """
.decl quantity(item: symbol, n: number) key(item)
.decl min_stock(item: symbol, n: number)
.decl max_stock(item: symbol, n: number)
.decl order(item: symbol, n: number)
.decl log(item: symbol)
.decl low(item: symbol)
low(I) :- quantity(I, Q), min_stock(I, M), Q < M.
.rule gone(I) on delete order(I, _) do call tell(I).
.rule placed(I) on insert order(I, _) when old quantity(I, _), !log(I) do insert log(I), delete max_stock(I, 0).
.rule reorder(I, N) priority=10 when low(I), max_stock(I, M), quantity(I, Q), N = M - Q do insert order(I, N).
.rule noted(I) follows=placed on insert log(I) do delete log(I).
.rule again(I) on delete log(I) do insert log(I).
.rule late(I) active=false when low(I) do insert log(I).
.activate gone(I = "item1")
"""
SPACE = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def db() -> Iterator[upshot.Database]:
    with upshot.connect() as db:
        db.define(PROGRAM)
        yield db


def of_rule(text: str, rule: str) -> str:
    return next(block for block in text.split("\n\n") if block.startswith(f"{rule}("))


def test_a_condition_is_shown_with_its_strategy_as_part_of_its_rule(db: upshot.Database) -> None:
    told = str(db.explain())
    block = of_rule(told, "reorder")
    assert block.startswith(
        "reorder(I: symbol, N: number): active rule, turn 1 of 5, deferred, strict, per set, priority 10\n"
        "  triggered when its condition becomes true for another I\n"
        "  condition, kept for it alone: 0 rows\n"
        "    strategy counting\n"
        "      because "
    )
    assert block.endswith(
        "  at its turn it evaluates\n"
        "    reorder(I, N) :- reorder_becomes_inserted(I), low(I), max_stock(I, M), quantity(I, Q), N = M - Q.\n"
        "    where reorder_becomes_inserted are the rows inserted into its condition since its last turn\n"
        "  actions\n"
        "    insert order(I, N)"
    )
    assert "reorder_becomes(item" not in told
    assert "reorder_becomes" not in db.explain().as_dict()["relations"]


def test_events_windows_actions_and_activations_are_told(db: upshot.Database) -> None:
    told = str(db.explain())
    block = of_rule(told, "placed")
    assert "  triggered by rows inserted into order\n" in block
    assert "    where quantity_deleted are the rows deleted from quantity since its last turn\n" in block
    assert block.endswith("  actions\n    insert log(I)\n    delete max_stock(I, 0)")
    assert of_rule(told, "gone").endswith('  active for I = "item1"')
    assert "late(I: symbol): active rule, inactive, deferred, strict" in told
    assert of_rule(told, "late").endswith("  active for nothing")


def test_rules_come_in_the_order_of_their_turns(db: upshot.Database) -> None:
    explained = db.explain()
    assert [part.name for part in explained.rules] == ["reorder", "placed", "noted", "again", "gone", "late"]
    assert [part.turn for part in explained.rules] == [1, 2, 3, 4, 5, 0]


def test_the_triggering_graph_marks_cycles(db: upshot.Database) -> None:
    told = str(db.explain())
    graph = next(block for block in told.split("\n\n") if block.startswith("triggering\n")).splitlines()[1:]
    assert "  reorder → placed by inserting into order" in graph
    assert "  placed → noted by inserting into log" in graph
    assert "  noted → again by deleting from log, on a cycle" in graph
    assert "  again → noted by inserting into log, on a cycle" in graph
    assert graph[-1] == "  cycle noted → again → noted: it is not known to terminate"


def test_an_edge_names_the_view_it_goes_through(db: upshot.Database) -> None:
    db.define(
        ".rule less(I) on delete log(I) do delete max_stock(I, 1). .rule heard(I) on delete low(I) do insert log(I)."
    )
    db.define(".rule drain(I) on insert log(I) do delete quantity(I, 0).")
    told = str(db.explain("drain"))
    assert "  drain → heard by deleting from quantity, through low" in told


def test_one_rule_is_explained_with_what_it_rests_on(db: upshot.Database) -> None:
    explained = db.explain("reorder")
    assert [part.name for part in explained.rules] == ["reorder"]
    assert {part.name for part in explained.parts} == {"quantity", "min_stock", "max_stock", "low", "order"}
    told = str(explained)
    assert "turn 1 of 5" in told
    assert "reorder → placed" in told
    assert "noted" not in told
    assert "on a cycle" in str(db.explain("noted"))
    assert "log" not in explained.svg()


def test_one_view_is_explained_without_rules(db: upshot.Database) -> None:
    explained = db.explain("low")
    assert explained.rules == ()
    assert "active rule" not in str(explained)
    assert "triggering" not in str(explained)


def test_rules_are_data_too(db: upshot.Database) -> None:
    data = json.loads(json.dumps(db.explain().as_dict()))
    rule = data["rules"]["reorder"]
    assert (rule["turn"], rule["coupling"], rule["semantics"], rule["priority"]) == (1, "deferred", "strict", 10)
    assert rule["triggers"] == [{"relation": None, "operation": "inserted"}]
    assert rule["condition"]["strategy"] == "counting"
    assert rule["windows"] == {"reorder_becomes_inserted": {"relation": None, "operation": "inserted"}}
    assert rule["actions"] == ["insert order(I, N)"]
    assert data["rules"]["gone"]["activations"] == [{"I": "item1"}]
    assert data["rules"]["placed"]["condition"] is None
    assert data["triggering"]["cycles"] == [["noted", "again"]]
    edge = next(edge for edge in data["triggering"]["edges"] if edge["source"] == "noted")
    assert edge == {
        "source": "noted",
        "target": "again",
        "relation": "log",
        "operation": "deleted",
        "through": None,
        "cycle": True,
    }


def test_rules_are_drawn_after_what_they_read_and_joined_by_what_sets_them_off(db: upshot.Database) -> None:
    root = ET.fromstring(db.explain().svg())
    assert sum((each.get("class") or "") == "box rule" for each in root.iter(f"{SPACE}path")) == 6
    titles = {title.text for title in root.iter(f"{SPACE}title")}
    assert {"low → reorder", "quantity → placed", "log → placed, negated", "order → gone"} <= titles
    assert "noted triggers again by deleting from log" in titles
    labels = [text.text or "" for text in root.iter(f"{SPACE}text") if text.get("class") == "cause"]
    assert set(labels) == {"+log", "-log", "+order"}
    fires = [path.get("class") for path in root.iter(f"{SPACE}path") if (path.get("class") or "").startswith("fires")]
    assert len(fires) == len(labels) + 2, "and the legend"
    looping = sum(edge["cycle"] for edge in db.explain().as_dict()["triggering"]["edges"])
    assert fires.count("fires looping") == looping + 1, "cycles are marked"
    assert "reorder_becomes" not in db.explain().svg()


def test_a_rule_that_sets_itself_off_has_a_bow_of_its_own(db: upshot.Database) -> None:
    db.define(".decl n(x: number) .rule up(X) on insert n(X) do insert n(X + 1).")
    titles = {title.text for title in ET.fromstring(db.explain("up").svg()).iter(f"{SPACE}title")}
    assert "up triggers up by inserting into n" in titles
