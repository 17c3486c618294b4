"""Why a row came or went: the derivation gained or lost, down to the base change and its transaction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import upshot
from tests.properties.cases import Base, after
from tests.properties.exactness import checked
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.properties.strategies import view_options
from tests.reasons.proof_checker import all_steps, is_step, smallest, state_of
from tests.reasons.test_random_derivations import SPARE
from tests.reasons.test_why import CLOSURE, database
from upshot.core.errors import DataError, ProgramError
from upshot.engine.naive_values import canonical

NEGATION = """
.decl b(x: number)
.decl c(x: number, y: number)
.decl d(x: number)
.decl p(x: number)
d(X) :- c(X, _).
p(X) :- b(X), !d(X).
"""


def test_a_row_that_came_leads_to_the_base_row_that_was_inserted() -> None:
    with database(edge=[(1, 2), (3, 4)]) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(2, 3)])
        found = db.why_changed("closure", (1, 4))
        assert (found.change, found.moment.version) == ("came", tx.version)
        assert found.text().splitlines() == [
            "closure(1, 4) inserted in version 3",
            "+ closure(1, 4)      closure(X, Z) :- closure(X, Y), edge(Y, Z).  routes.dl:5",
            "├─ + closure(1, 3)   closure(X, Z) :- closure(X, Y), edge(Y, Z).  routes.dl:5",
            "│  ├─ closure(1, 2)  already true",
            "│  └─ + edge(2, 3)   base fact, inserted in version 3",
            "└─ edge(3, 4)        already true",
        ]


def test_a_row_that_went_is_derived_in_the_state_before() -> None:
    with database(edge=[(1, 2), (2, 3), (3, 4)]) as db:
        with db.transaction() as tx:
            tx.delete("edge", [(2, 3)])
        found = db.why_changed("closure", (1, 4))
        assert found.change == "went"
        gone = [node.statement for node in found.derivation.nodes if node.change == "went"]
        assert gone == ["closure(1, 4)", "closure(1, 3)", "edge(2, 3)"]
        assert "still true" in found.text()
        assert db.rows("edge") == {(1, 2), (3, 4)}
        assert db.verify().rows == 2


def test_a_row_that_came_because_another_went_tells_of_that_one() -> None:
    with database(NEGATION, b=[(1,)], c=[(1, 5)]) as db:
        with db.transaction() as tx:
            tx.delete("c", [(1, 5)])
        nodes = [(node.change, node.statement) for node in db.why_changed("p", (1,)).derivation.nodes]
        assert nodes == [
            ("came", "p(1)"),
            ("", "b(1)"),
            ("came", "no row matches d(1)"),
            ("went", "d(1)"),
            ("went", "c(1, 5)"),
        ]
        with db.transaction() as tx:
            tx.insert("c", [(1, 6)])
        nodes = [(node.change, node.statement) for node in db.why_changed("p", (1,)).derivation.nodes]
        assert nodes[-2:] == [("came", "d(1)"), ("came", "c(1, 6)")]


def test_an_aggregate_tells_of_the_solutions_that_came_and_went() -> None:
    text = ".decl r(x: number)\n.decl n(c: number)\nn(C) :- C = sum X : { r(X) }.\n"
    with database(text, r=[(1,), (2,)]) as db:
        with db.transaction() as tx:
            tx.insert("r", [(10,)])
            tx.delete("r", [(2,)])
        (folded,) = db.why_changed("n", (11,)).derivation.premises
        assert folded.note.endswith("1 inserted, 1 deleted")
        assert {(part.change, part.statement) for part in folded.premises} == {("came", "r(10)"), ("went", "r(2)")}
        (folded,) = db.why_changed("n", (3,)).derivation.premises
        assert {(part.change, part.statement) for part in folded.premises} == {("came", "r(10)"), ("went", "r(2)")}


def test_a_solution_that_came_with_a_negated_literal_or_another_group_leads_to_the_base_change() -> None:
    text = """
    .decl a(x: number)
    .decl b(x: number, y: number)
    .decl c(x: number)
    .decl left(n: number)
    left(N) :- N = count : { a(X), !c(X) }.
    .decl total(n: number)
    total(N) :- N = sum M : { a(X), M = count : { b(X, _), !c(X) } }.
    """
    with database(text, a=[(1,), (2,)], b=[(1, 1), (2, 2), (2, 3)]) as db:
        with db.transaction() as tx:
            tx.insert("c", [(2,)])
        (folded,) = db.why_changed("left", (1,)).derivation.premises
        (absent,) = folded.premises
        assert (absent.statement, absent.change, absent.premises[0].statement) == (
            "no row matches c(2)",
            "went",
            "c(2)",
        )
        (folded,) = db.why_changed("total", (3,)).derivation.premises
        assert [(part.change, part.statement) for part in folded.premises] == [
            ("went", "2 = count : { b(2, _), !c(2) }"), ("came", "0 = count : { b(2, _), !c(2) }"),
        ]  # fmt: skip
        for part in folded.premises:
            assert [(each.statement, each.premises[0].statement) for each in part.premises] == [
                ("no row matches c(2)", "c(2)")
            ]


def test_the_transaction_is_named_in_every_form(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "store") as db:
        db.define(NEGATION)
        with db.transaction() as tx:
            tx.insert("b", [(1,)])
            tx.insert("c", [(1, 1)])
        with db.transaction(meta={"by": "ann & co"}) as tx:
            tx.delete("c", [(1, 1)])
        found = db.why_changed("p", (1,))
        data = json.loads(found.json())
        assert (data["version"], data["meta"], data["time"] is not None) == (tx.version, {"by": "ann & co"}, True)
        words = f"p(1) inserted in version {tx.version}, "
        assert found.text().startswith(words)
        picture = ElementTree.fromstring(found.svg())
        texts = [each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert texts[0].startswith(words)
        assert '"by": "ann & co"' in texts[0]
        assert any("deleted in version" in each for each in texts)
        assert "ann" not in found.without_meta().svg() + found.without_meta().text() + found.without_meta().json()


def test_any_version_of_the_log_can_be_asked_about(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "store") as db:
        db.define(CLOSURE)
        with db.transaction(meta={"who": "ann"}) as first:
            first.insert("edge", [(1, 2), (2, 3)])
        with db.transaction() as second:
            second.delete("edge", [(1, 2)])
            second.insert("edge", [(4, 5)])
        with db.transaction() as third:
            third.insert("edge", [(1, 2)])
        came = db.why_changed("closure", (1, 3), version=first.version)
        assert (came.change, came.moment.meta) == ("came", {"who": "ann"})
        assert came.moment.time is not None
        assert {node.change for node in came.derivation.nodes} == {"came"}
        went = db.why_changed("closure", (1, 3), version=second.version)
        assert went.change == "went"
        assert [node.statement for node in went.derivation.nodes if node.change] == [
            "closure(1, 3)", "closure(1, 2)", "edge(1, 2)",
        ]  # fmt: skip
        assert went.derivation.premises[1].note == "still true"
        assert db.why_changed("closure", (1, 3)).change == "came"
        with pytest.raises(upshot.DataError) as caught:
            db.why_changed("closure", (4, 5), version=third.version)
        assert (caught.value.code, caught.value.help) == (
            "row-not-changed", f"it was inserted last in version {second.version}",
        )  # fmt: skip
        db.verify()


def test_versions_that_cannot_be_made_again_are_refused(tmp_path: Path) -> None:
    with database(edge=[(1, 2)]) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(2, 3)])
        for version, code in [(tx.version - 1, "history-not-kept"), (99, "history-not-kept"), ("x", "wrong-argument")]:
            with pytest.raises(upshot.UsageError) as caught:
                db.why_changed("closure", (1, 2), version=version)  # type: ignore[arg-type]
            assert caught.value.code == code
        db.add_rule("closure(X, X) :- edge(X, _).")
        with pytest.raises(upshot.UsageError) as caught:
            db.why_changed("closure", (1, 1))
        assert caught.value.code == "program-changed"
        assert caught.value.help.endswith("; there is no later commit")
    with upshot.connect(tmp_path / "store") as db:
        db.define(CLOSURE)
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2)])
        db.define(".decl other(x: number)")
        for version, code in [(tx.version, "program-changed"), (99, "history-not-kept")]:
            with pytest.raises(upshot.UsageError) as caught:
                db.why_changed("closure", (1, 2), version=version)
            assert caught.value.code == code
        with db.transaction() as tx:
            tx.insert("edge", [(2, 3)])
        for version in (tx.version - 2, 99):
            with pytest.raises(upshot.UsageError) as caught:
                db.why_changed("closure", (1, 2), version=version)
            assert caught.value.help.endswith(f"give {tx.version}")


def test_no_rule_fires_while_the_past_is_looked_at() -> None:
    text = CLOSURE + ".decl log(x: number)\n.rule r(X) on delete edge(X, Y) do insert log(X).\n"
    with database(text, edge=[(1, 2)]) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(2, 3)])
        assert db.why_changed("closure", (1, 3)).change == "came"
        assert (db.version, len(db.rows("log"))) == (tx.version, 0)


@pytest.mark.parametrize("strategy", ["auto", "auto materialized=false", "rod"])
@pytest.mark.parametrize("focus", [Features(), Features(negation=0.9, views=5), Features(aggregates=0.7)])
def test_random_changes_lead_to_the_base_change(focus: Features, strategy: str) -> None:
    seen = 0
    for number in range(case_count(300, least=2) + SPARE):
        if seen and number >= case_count(300, least=2):
            break
        case = random_case(seed_of(f"changed-{strategy}-{focus.negation}-{focus.aggregates}", number), focus)
        try:
            program = checked(case.text())
            state = state_of(program, case.base)
        except (ProgramError, DataError):
            continue
        with upshot.connect() as db:
            db.define(case.text(view_options(program, strategy)))
            with db.transaction() as tx:
                for name, rows in case.base.items():
                    tx.insert(name, list(rows))
            base: Base = case.base
            for transaction in case.transactions:
                base = after(base, transaction)
                try:
                    new = state_of(program, base)
                except DataError:
                    break
                with db.transaction() as tx:
                    for change in transaction:
                        (tx.insert if change.sign == "+" else tx.delete)(change.relation, [change.row])
                for view in (view for component in program.strata for view in component):
                    for row in sorted(state[view] ^ new[view], key=repr)[:5]:
                        found = db.why_changed(view, row)
                        assert found.change == ("came" if row in new[view] else "went")
                        check_change(found.derivation, program, state, new, case.seed)
                        check_moments(found, tx.version, base_rows(transaction))
                        check_smallest(found.derivation, program, {"went": state, "came": new})
                        seen += 1
                state = new
            db.verify()
    assert seen


def check_change(tree: upshot.Derivation, program: Any, old: Any, new: Any, seed: int) -> None:
    """What is said to have come is in the new state only, what went in the old one, and every change rests on one."""
    for node in tree.nodes:
        if node.row is not None:
            row = tuple(map(canonical, node.row))
            home = node.relation
            if node.kind == "base":
                home = program.input_part.get(home, home)
            where = (row in old[home], row in new[home])
            wanted = {"came": (False, True), "went": (True, False), "": (True, True)}[node.change]
            assert where == wanted, f"seed {seed}: {node.statement} {node.change}\n{tree}"
        if node.kind == "rule" and node.change:
            assert any(part.change for part in node.premises), f"seed {seed}: {node.statement}\n{tree}"


def base_rows(transaction: Any) -> set[tuple[str, str, tuple[Any, ...]]]:
    """What the transaction names, by what may become of it."""
    words = {"+": "came", "-": "went"}
    return {(words[each.sign], each.relation, tuple(map(canonical, each.row))) for each in transaction}


def check_moments(found: upshot.RowChange, version: int, named: set[tuple[str, str, tuple[Any, ...]]]) -> None:
    """Base rows that changed are those of the transaction, and it is named with them in every form."""
    assert found.moment.version == version
    changed = [node for node in found.derivation.nodes if node.kind == "base" and node.change]
    assert changed
    for node in changed:
        assert (node.change, node.relation, tuple(map(canonical, node.row))) in named, node.statement
        moment = node.inserted if node.change == "came" else node.deleted
        assert moment is not None
        assert moment.version == version
    words = f"{'inserted' if found.change == 'came' else 'deleted'} in version {version}"
    assert found.text().startswith(f"{found.derivation.statement} {words}\n")
    assert json.loads(found.json())["version"] == version
    assert words in found.svg()


def check_smallest(tree: upshot.Derivation, program: Any, states: dict[str, Any]) -> None:
    """Every row that changed is derived by an instance of a rule, of its state, that is the last step of a smallest
    derivation there."""
    best = {change: smallest(all_steps(program, state)) for change, state in states.items()}
    for node in tree.nodes:
        if node.kind != "rule" or not node.change:
            continue
        state, known = states[node.change], best[node.change]
        assert any(is_step(node, clause, program, state) for clause in program.clauses), node.text(depth=1)
        below = [known[key_of(part)] if part.kind == "rule" else (0, 1) for part in node.premises]
        height, size = 1 + max((each[0] for each in below), default=0), 1 + sum(each[1] for each in below)
        assert (height, size) == known[key_of(node)], str(tree)


def key_of(node: upshot.Derivation) -> tuple[str, tuple[Any, ...]]:
    assert node.relation is not None
    assert node.row is not None
    return node.relation, tuple(map(canonical, node.row))
