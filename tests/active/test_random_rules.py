"""Random rules on random transactions do what the definition of their semantics says, on every strategy and engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import upshot
from tests.active.random_rules import VIEWS, RuleCase, random_case
from tests.active.rule_interpreter import Interpreter, Runaway
from tests.properties.settings import case_count, seed_of

MOST = 25
SHARES = {"auto": 20, "differencing": 60, "epf": 60, "production": 20}
"""Of how many cases each strategy takes one: those that ask again what they do not store take four times as long."""


def check_case(case: RuleCase, connect: Callable[..., Any] = upshot.connect, strategy: str = "auto") -> int:
    """How many firings were compared."""
    text = case.text + "\n".join(f".view {view} strategy={strategy}" for view in VIEWS) * (strategy != "auto")
    reference = Interpreter(case.text, MOST)
    compared = 0
    with connect(max_firings=MOST) as db:
        db.action("tell", lambda rows: None)
        plain = "\n".join(line for line in text.splitlines() if not line.startswith(".rule"))
        db.define(plain)
        with db.transaction() as tx:
            for name, rows in case.base.items():
                tx.insert(name, sorted(rows))
        db.define("\n".join(line for line in text.splitlines() if line.startswith(".rule")))
        base = dict(case.base)
        for transaction in case.transactions:
            try:
                wanted = reference.transaction(base, transaction)
            except Runaway:
                with pytest.raises(upshot.RuleError) as caught:
                    run(db, transaction)
                assert caught.value.code == "runaway-rules"
                check_rows(db, base)
                continue
            if any(action_after(case.text, rule) for rule, _ in wanted.firings):
                # What they do is another transaction, which has its own firings; one of them at a time is enough here.
                return compared
            tx = run(db, transaction)
            found = [(firing.rule, frozenset(firing.rows)) for firing in tx.firings]
            assert found == [(rule, shown(case.text, rule, rows)) for rule, rows in wanted.firings]
            base = wanted.base
            check_rows(db, base)
            compared += len(found)
        db.verify()
    return compared


def action_after(text: str, rule: str) -> bool:
    """Whether the rule changes something after the commit."""
    line = next(line for line in text.splitlines() if line.startswith((f".rule {rule} ", f".rule {rule}(")))
    return "coupling=after" in line and ("insert" in line.split(" do ")[1] or "delete" in line.split(" do ")[1])


def shown(text: str, rule: str, rows: frozenset[Any]) -> frozenset[Any]:
    """The values of the parameters, if the rule has any."""
    head = next(line for line in text.splitlines() if line.startswith(f".rule {rule}")).removeprefix(f".rule {rule}")
    count = head.partition(")")[0].count(",") + 1 if head.startswith("(") else None
    return frozenset(row[:count] for row in rows)


def run(db: Any, transaction: Any) -> Any:
    with db.transaction() as tx:
        for kind, relation, row in transaction:
            getattr(tx, kind)(relation, [row])
    return tx


def check_rows(db: Any, base: Any) -> None:
    for name, rows in base.items():
        assert frozenset(db.rows(name)) == rows, name


@pytest.mark.parametrize(
    "strategy",
    [each if each == "auto" else pytest.param(each, marks=pytest.mark.slow) for each in SHARES],
)
def test_random_rules_do_what_their_definition_says(strategy: str) -> None:
    compared, count = 0, case_count(SHARES[strategy], least=30)
    for number in range(count):
        case = random_case(seed_of(f"rules/{strategy}", number))
        try:
            compared += check_case(case, strategy=strategy)
        except Exception as error:
            raise AssertionError(f"{error}\n{case.text}\n{case.base}\n{case.transactions}") from error
    assert compared > min(10, count // 3)
