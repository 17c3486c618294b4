"""Active rules on Spark: the same firings, orders and calls as on the local engine, and across a move between them.

Every firing that changes something is another propagation, which takes a second whatever its size; so random cases are
packed into one database, and those that fire much are left to the local engine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import upshot
from tests.active.random_rules import RuleCase, random_case
from tests.active.rule_interpreter import Interpreter, Outcome, Runaway
from tests.active.test_inventory import inventory, stock
from tests.active.test_random_rules import MOST, action_after, shown
from tests.properties.settings import case_count, seed_of
from upshot.database.placement import PlacedEngine

TRANSACTIONS = 2
FIRINGS = range(1, 4)
"""How often a case may fire that takes part."""


def fired(tx: Any) -> list[tuple[str, list[Any]]]:
    return [(firing.rule, firing.rows.sorted()) for firing in tx.firings]


def test_the_inventory_orders_once_on_spark(spark: Any) -> None:
    calls: list[Any] = []
    with inventory(spark=spark, engine="spark") as db:
        db.action("remind", calls.extend)
        db.define(".rule remind(I, Q) semantics=nervous when low(I), quantity(I, Q) do call remind(I, Q).")
        tx = stock(db, "item1", 139)
        assert fired(tx) == [("reorder", [("item1", 4861)]), ("remind", [("item1", 139)])]
        assert tx.changes["order"].inserted == [("item1", 4861)]
        assert fired(stock(db, "item1", 138)) == [("remind", [("item1", 138)])]
        assert fired(stock(db, "item2", 10, 7500)) == []
        assert calls == [("item1", 139), ("item1", 138)]
        assert db.rows("order") == [("item1", 4861)]


def test_a_transaction_whose_rules_fire_may_move_to_spark(spark: Any) -> None:
    """The immediate rule fires here, then the transaction outgrows the budget; the deferred one fires there."""
    with inventory(spark=spark, memory="1MiB") as db:
        db.define("""
            .decl seen(item: symbol)
            .rule see(I) coupling=immediate on insert low(I) do insert seen(I).
        """)
        engine = db._state.engine
        assert isinstance(engine, PlacedEngine)
        assert fired(stock(db, "item2", 289)) == [("see", [("item2",)]), ("reorder", [("item2", 7211)])]
        assert engine.is_local
        with db.transaction() as tx:
            tx.upsert("quantity", [("item1", 139)])
            tx.insert("supplies", [(f"s{number}", "nothing") for number in range(50_000)])
        assert not engine.is_local
        assert fired(tx) == [("see", [("item1",)]), ("reorder", [("item1", 4861)])]
        assert tx.changes["order"].inserted == [("item1", 4861)]
        assert fired(stock(db, "item1", 138)) == []
        assert set(db.rows("order")) == {("item1", 4861), ("item2", 7211)}
        assert set(db.rows("seen")) == {("item1",), ("item2",)}


# ---- random rules, packed --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Member:
    """A case in the pack, its relations and rules under a prefix, and what the interpreter says of it."""

    prefix: str
    case: RuleCase
    outcomes: tuple[Outcome, ...]

    @property
    def text(self) -> str:
        return re.sub(r"\b(a|b|c|path|lonely|degree|r\d+)\b", rf"{self.prefix}\1", self.case.text)

    def firings(self, tx: Any) -> list[tuple[str, frozenset[Any]]]:
        found = [firing for firing in tx.firings if firing.rule.startswith(self.prefix)]
        return [(firing.rule.removeprefix(self.prefix), frozenset(firing.rows)) for firing in found]

    def wanted(self, step: int) -> list[tuple[str, frozenset[Any]]]:
        return [(rule, shown(self.case.text, rule, rows)) for rule, rows in self.outcomes[step].firings]


def member(prefix: str, case: RuleCase) -> Member | None:
    """The case, if it comes to rest, fires a few times, and leaves no change for after its commits. One immediate rule
    would have every statement of the pack propagated by itself."""
    if "coupling=immediate" in case.text:
        return None
    case = replace(case, transactions=case.transactions[:TRANSACTIONS])
    reference, base, outcomes = Interpreter(case.text, MOST), dict(case.base), []
    for transaction in case.transactions:
        try:
            outcomes.append(reference.transaction(base, transaction))
        except Runaway:
            return None
        base = outcomes[-1].base
    rules = [rule for outcome in outcomes for rule, _ in outcome.firings]
    fits = len(rules) in FIRINGS and not any(action_after(case.text, rule) for rule in rules)
    return Member(prefix, case, tuple(outcomes)) if fits else None


def members(count: int) -> list[Member]:
    found: list[Member] = []
    number = 0
    while len(found) < count:
        fitting = member(f"p{len(found)}_", random_case(seed_of("rules on spark", number)))
        found += [] if fitting is None else [fitting]
        number += 1
    return found


def test_random_rules_do_on_spark_what_their_definition_says(spark: Any) -> None:
    pack = members(case_count(600, least=2))
    lines = "\n".join(each.text for each in pack).splitlines()
    with upshot.connect(spark=spark, engine="spark") as db:
        db.action("tell", lambda rows: None)
        db.define("\n".join(line for line in lines if not line.startswith(".rule")))
        with db.transaction() as tx:
            for each in pack:
                for name, rows in each.case.base.items():
                    tx.insert(each.prefix + name, sorted(rows))
        db.define("\n".join(line for line in lines if line.startswith(".rule")))
        for step in range(TRANSACTIONS):
            with db.transaction() as tx:
                for each in pack:
                    for kind, relation, row in each.case.transactions[step]:
                        getattr(tx, kind)(each.prefix + relation, [row])
            for each in pack:
                assert each.firings(tx) == each.wanted(step), f"{each.case.text}\n{each.case.transactions[: step + 1]}"
        for each in pack:
            for name, rows in each.outcomes[-1].base.items():
                assert frozenset(db.rows(each.prefix + name)) == rows, f"{name}\n{each.case.text}"
