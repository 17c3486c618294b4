"""Why a row is there: what the answer says, what it costs, and what is refused."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import upshot

CLOSURE = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
"""


def database(text: str = CLOSURE, /, **rows: list[tuple[Any, ...]]) -> upshot.Database:
    made = upshot.connect()
    made.define(text, name="routes.dl")
    with made.transaction() as tx:
        for name, each in rows.items():
            tx.insert(name, each)
    return made


def ring(size: int) -> list[tuple[int, int]]:
    return [(i, (i + 1) % size) for i in range(size)]


def test_the_tree_is_printed_with_rules_and_their_places() -> None:
    with database(edge=[(1, 2), (2, 3), (3, 1)]) as db:
        assert db.why("closure", (1, 3)).text().splitlines() == [
            "closure(1, 3)     closure(X, Z) :- closure(X, Y), edge(Y, Z).  routes.dl:5",
            "├─ closure(1, 2)  closure(X, Y) :- edge(X, Y).  routes.dl:4",
            "│  └─ edge(1, 2)  base fact",
            "└─ edge(2, 3)     base fact",
        ]


def test_on_a_circle_a_row_never_rests_on_itself_and_all_derivations_end() -> None:
    with database(edge=ring(4)) as db:
        trees = list(db.why("closure", (0, 0), limit=None))
        assert [tree.height for tree in trees] == [4]
        assert len(list(db.why("closure", (0, 2), limit=5))) == 1


def test_a_division_is_computed_only_where_its_guard_holds() -> None:
    text = ".decl a(x: number, y: number)  .decl t(z: number, x: number)\n"
    rule = "t(Z, X) :- a(X, Y), Z = 10 / (X - 1), U = Y * X, U != 1."
    with database(text + rule, a=[(1, 1), (2, 1), (6, 2)]) as db:
        assert [line.strip("├└─ ") for line in db.why("t", (10, 2)).text().splitlines()[1:]] == [
            "a(2, 1)            base fact", "10 = 10 / (2 - 1)", "2 = 1 * 2", "2 != 1",
        ]  # fmt: skip


def test_a_limit_may_be_beyond_all_that_can_be_counted() -> None:
    with database(edge=ring(4)) as db:
        assert len(list(db.why("closure", (0, 2), limit=10**20))) == 1


def test_the_cost_follows_the_derivation_and_not_the_view() -> None:
    with database(edge=ring(320)) as db:
        assert len(db.rows("closure")) == 102_400
        engine = db._state.engine
        probed = []
        answer = engine.query

        def counted(*args: Any) -> Any:
            rows = answer(*args)
            probed.append(engine.query_work.probed)
            return rows

        engine.query = counted  # type: ignore[method-assign]
        tree = db.why("closure", (10, 20))
        assert (tree.height, tree.size) == (10, 20)
        assert sum(probed) < 200, "ten steps, each of them a handful of probes"


def test_a_long_derivation_is_told_in_every_form() -> None:
    with database(edge=[(i, i + 1) for i in range(1200)]) as db:
        tree = db.why("closure", (0, 1200))
        assert tree.height == 1200
        assert len(tree.text().splitlines()) == tree.size == 2400
        assert tree.json().count('"kind": "base"') == 1200
        assert tree.svg().count("<g>") == 2400


def test_a_search_beyond_its_bounds_says_so() -> None:
    with database(edge=ring(50)) as db, pytest.raises(upshot.LimitError) as caught:
        db.why("closure", (0, 40), bounds=10)
    assert caught.value.code == "explanation-bounds"


def test_json_holds_the_rows_the_rules_and_their_places() -> None:
    with database(edge=[(1, 2)]) as db:
        assert json.loads(db.why("closure", (1, 2)).json()) == {
            "kind": "rule",
            "statement": "closure(1, 2)",
            "relation": "closure",
            "row": [1, 2],
            "rule": "closure(X, Y) :- edge(X, Y).",
            "place": "routes.dl:4",
            "premises": [{"kind": "base", "statement": "edge(1, 2)", "relation": "edge", "row": [1, 2]}],
        }


def test_the_picture_is_xml_with_a_box_for_every_node() -> None:
    with database(edge=[(1, 2), (2, 3)]) as db:
        root = ElementTree.fromstring(db.why("closure", (1, 3)).svg())
        assert len(root.findall("{http://www.w3.org/2000/svg}g")) == 4


def test_a_part_that_is_used_twice_is_shown_once() -> None:
    text = """
    .decl b(x: number)
    .decl p(x: number)
    .decl q(x: number)
    p(X) :- b(X).
    q(X) :- p(X), p(Y), X = Y.
    """
    with database(text, b=[(1,)]) as db:
        tree = db.why("q", (1,))
        assert tree.size == 6
        assert "as above" in tree.text()
        assert tree.as_dict()["premises"][1]["repeated"] is True


def test_negation_aggregates_and_conditions_are_leaves() -> None:
    text = """
    .decl item(name: symbol, price: number)
    .decl sold(name: symbol)
    .decl dear(name: symbol, total: number)
    dear(N, T) :- item(N, P), !sold(N), T = sum Q : { item(_, Q) }, P * 2 > T.
    """
    with database(text, item=[("a", 7), ("b", 2), ("c", 1)]) as db:
        kinds = [(part.kind, part.statement) for part in db.why("dear", ("a", 10)).premises]
        assert kinds == [
            ("base", 'item("a", 7)'),
            ("absent", 'no row matches sold("a")'),
            ("aggregate", "10 = sum Q : { item(_, Q) }"),
            ("condition", "7 * 2 > 10"),
        ]
        folded = db.why("dear", ("a", 10)).premises[2]
        assert folded.count == 3
        assert folded.group == ('item("a", 7)', 'item("b", 2)', 'item("c", 1)')


def test_a_large_group_is_shown_in_part_with_its_size() -> None:
    text = ".decl r(x: number)\n.decl n(c: number)\nn(C) :- C = count : { r(_) }.\n"
    with database(text, r=[(i,) for i in range(500)]) as db:
        folded = db.why("n", (500,)).premises[0]
        assert (folded.count, len(folded.group)) == (500, 100)
        assert folded.note == "over 500: r(0); r(1); r(2); r(3); r(4); … 495 more"


def test_null_is_a_value_like_any_other_in_the_row() -> None:
    text = """
    .decl b(x: number?, y: symbol?)
    .decl p(x: number?, y: symbol?)
    p(X, Y) :- b(X, Y).
    p(null, Y) :- b(_, Y).
    """
    with database(text, b=[(None, "a"), (1, None)]) as db:
        assert len(list(db.why("p", (None, "a"), limit=None))) == 2
        assert db.why("p", (1, None)).premises[0].statement == "b(1, null)"
        assert db.why("p", (None, None)).premises[0].row == (1, None)


def test_facts_given_to_a_view_are_told_as_given() -> None:
    text = """
    .decl edge(x: number, y: number)
    .decl path(x: number, y: number)
    .input path
    path(X, Y) :- edge(X, Y).
    """
    with database(text, edge=[(1, 2)], path=[(3, 4)]) as db:
        tree = db.why("path", (3, 4))
        assert tree.rule is not None
        assert tree.rule.text == "given as a fact"
        assert [part.statement for part in tree.premises] == ["path(3, 4)"]


def test_a_violation_of_a_constraint_is_derived_like_any_row() -> None:
    text = CLOSURE + ".deny acyclic(X) :- closure(X, X).\n.deny acyclic on_violation=warn\n"
    with database(text, edge=ring(3)) as db:
        tree = db.why("acyclic", (1,))
        assert tree.premises[0].statement == "closure(1, 1)"
        assert tree.rule is not None
        assert tree.rule.text.startswith(".deny acyclic(X)") or tree.rule.text.startswith("acyclic(X)")


def test_the_condition_of_a_rule_is_derived_under_its_name() -> None:
    text = """
    .decl stock(i: symbol, n: number)
    .decl least(i: symbol, n: number)
    .decl orders(i: symbol)
    .rule reorder(I) when stock(I, N), least(I, M), N < M do insert orders(I).
    """
    with database(text, stock=[("a", 1)], least=[("a", 5)]) as db:
        tree = db.why("reorder", ("a",))
        assert (tree.statement, tree.relation) == ('reorder("a")', "reorder")
        assert [part.statement for part in tree.premises] == ['stock("a", 1)', 'least("a", 5)', "1 < 5"]


def test_a_rule_that_reads_events_has_no_condition_to_derive() -> None:
    text = CLOSURE + ".decl seen(x: number)\n.rule r(X) on insert edge(X, Y) do insert seen(X).\n"
    with database(text, edge=[(1, 2)]) as db, pytest.raises(upshot.UsageError) as caught:
        db.why("r", (1,))
    assert caught.value.code == "no-condition"


@pytest.mark.parametrize(
    ("view", "row", "code"),
    [
        ("closur", (1, 2), "unknown-relation"),
        ("closure", (1,), "wrong-arity"),
        ("closure", ("a", 2), "wrong-type"),
        ("closure", (2, 1), "row-not-there"),
        ("edge", (2, 1), "row-not-there"),
        ("closure", 7, "not-rows"),
    ],
)
def test_what_cannot_be_explained_is_refused_with_a_reason(view: str, row: Any, code: str) -> None:
    with database(edge=[(1, 2)]) as db, pytest.raises(upshot.Error) as caught:
        db.why(view, row)
    assert caught.value.code == code


def test_rows_are_taken_as_dicts_too() -> None:
    with database(edge=[(1, 2)]) as db:
        assert db.why("closure", {"x": 1, "y": 2}).row == (1, 2)


def test_inside_a_transaction_the_answer_is_about_the_state_before_it() -> None:
    with database(edge=[(1, 2)]) as db, db.transaction() as tx:
        tx.insert("edge", [(2, 3)])
        assert db.why("closure", (1, 2)).height == 1
        with pytest.raises(upshot.DataError):
            db.why("closure", (1, 3))


def test_derivations_taken_one_by_one_end_when_the_database_changes() -> None:
    with database(edge=[(1, 2), (2, 3), (1, 3)]) as db:
        trees = db.why("closure", (1, 3), limit=None)
        assert next(trees).height == 1
        with db.transaction() as tx:
            tx.insert("edge", [(7, 8)])
        with pytest.raises(upshot.UsageError) as caught:
            next(trees)
    assert caught.value.code == "state-changed"


def test_a_durable_database_tells_when_base_facts_came(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "store") as db:
        db.define(CLOSURE)
        for pair in [(1, 2), (2, 3)]:
            with db.transaction(meta={"who": "ann"}) as tx:
                tx.insert("edge", [pair])
        with db.transaction() as tx:
            tx.delete("edge", [(1, 2)])
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2)])
        moments = {node.row: node.inserted for node in db.why("closure", (1, 3)).nodes if node.kind == "base"}
        assert {row: moment and moment.version for row, moment in moments.items()} == {(1, 2): 5, (2, 3): 3}
        assert moments[2, 3].meta == {"who": "ann"}  # type: ignore[union-attr]
        assert "inserted in version 3" in db.why("closure", (1, 3)).text()


def test_recursion_that_uses_its_view_twice_costs_what_lies_near_the_row() -> None:
    text = CLOSURE.replace("closure(X, Y), edge(Y, Z)", "closure(X, Y), closure(Y, Z)")
    with database(text, edge=ring(320)) as db:
        assert len(db.rows("closure")) == 102_400
        engine = db._state.engine
        work = []
        answer = engine.query

        def counted(*args: Any) -> Any:
            rows = answer(*args)
            work.append(engine.query_work.probed)
            return rows

        engine.query = counted  # type: ignore[method-assign]
        tree = db.why("closure", (10, 17))
        assert (tree.height, tree.size) == (4, 20)
        assert sum(work) < 10_000, "the view has ten times as many rows, and each of them 320 last steps"


def test_a_search_that_cannot_end_well_ends_soon() -> None:
    text = CLOSURE.replace("closure(X, Y), edge(Y, Z)", "closure(X, Y), closure(Y, Z)")
    with database(text, edge=ring(320)) as db, pytest.raises(upshot.LimitError) as caught:
        db.why("closure", (0, 200), bounds=20_000)
    assert caught.value.code == "explanation-bounds"


def test_the_transaction_of_a_row_is_found_among_many_commits_and_in_a_large_one(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "store") as db:
        db.define(".decl r(x: number, t: symbol?)\n.decl v(x: number)\nv(X) :- r(X, _).\n")
        with db.transaction() as large:
            large.insert("r", [(i, None if i % 2 else "a") for i in range(20_000)])
        for i in range(100):
            with db.transaction() as tx:
                tx.insert("r", [(-i, "b")])
        for row, version in [((777,), large.version), ((888,), large.version), ((-40,), tx.version - 59)]:
            (fact,) = db.why("v", row).premises
            assert fact.inserted is not None
            assert fact.inserted.version == version


def test_a_row_is_told_as_its_columns_hold_it() -> None:
    text = ".decl b(x: float, d: decimal(8,2))\n.decl v(x: float, d: decimal(8,2))\nv(X, D) :- b(X, D).\n"
    with database(text, b=[(1.0, Decimal("2.5")), (float("nan"), Decimal("1"))]) as db:
        assert db.why("v", (1, Decimal("2.5"))).statement == 'v(1.0, decimal("2.50"))'
        assert db.why("v", (float("nan"), 1)).height == 1
