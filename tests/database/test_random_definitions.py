"""Random definitions and transactions in any order: the changes are the difference, and what is held is the truth.

UPSHOT_CASES sets how many sequences run, UPSHOT_SEED which ones.
"""

from __future__ import annotations

import random

import pytest

import upshot
from tests.properties.settings import base_seed, case_count

BASE = ".decl e(x: number, y: number)\n.decl f(x: number, y: number)\n"
DECLARED = "".join(f".decl {view}(x: number, y: number)\n" for view in "abcd")

# Alternatives for each view; a view uses only those before it, itself, or (c and d) each other, never under negation.
RULES = {
    "a": [
        "a(X, Y) :- e(X, Y).",
        "a(X, Y) :- e(X, Y).  a(X, Z) :- a(X, Y), e(Y, Z).",
        "a(X, Y) :- e(X, Y), !f(X, Y).",
        "a(X, Y) :- e(X, Y).  a(X, Y) :- f(Y, X).",
        "a(1, 2).  a(X, Y) :- f(X, Y), X < Y.",
    ],
    "b": [
        "b(X, N) :- a(X, _), N = count : { a(X, _) }.",
        "b(X, N) :- e(X, _), N = sum Y : { a(X, Y) }.",
        "b(X, Y) :- a(X, Z), a(Z, Y).",
        "b(X, Y) :- f(X, Y), !a(X, _).",
        "b(X, Y) :- a(X, Y), f(Y, _).",
    ],
    "c": [
        "c(X, Y) :- a(X, Y), !b(X, Y).",
        "c(X, Y) :- b(X, Y).  c(X, Z) :- d(X, Y), e(Y, Z).",
        "c(X, Y) :- f(X, Y).",
    ],
    "d": [
        "d(X, Y) :- a(X, Y).",
        "d(X, Y) :- c(X, Y).  d(X, Y) :- e(X, Y), f(X, _).",
        "d(X, M) :- f(X, _), M = max Y : { b(_, Y) }.",
    ],
}
VIEWS = tuple(RULES)
SEED = base_seed()


def contents(db: upshot.Database) -> dict[str, set[tuple[object, ...]]]:
    return {name: set(db.rows(name)) for name in db.schemas}


def expect_exact(before: dict[str, set[tuple[object, ...]]], db: upshot.Database, changes: upshot.ChangeSet) -> None:
    after = contents(db)
    for name, rows in after.items():
        change = changes[name]
        assert change.inserted == rows - before.get(name, set()), name
        assert change.deleted == before.get(name, set()) - rows, name


def random_text(dice: random.Random, *, whole: bool) -> str:
    chosen = VIEWS if whole else dice.sample(VIEWS, dice.randint(1, 2))
    facts = "".join(f"e({dice.randint(1, 5)}, {dice.randint(1, 5)}).\n" for _ in range(dice.choice((0, 0, 2))))
    return facts + "\n".join(random_rules(dice, view) for view in chosen)


def random_rules(dice: random.Random, view: str) -> str:
    """Rules of a view: those of one alternative; or with some of them twice, or beside a rule that derives the same."""
    text = dice.choice(RULES[view])
    rules = [f"{rule}." for rule in text.removesuffix(".").split(".  ")]
    if dice.random() < 0.3:
        rules += dice.choices(rules, k=dice.randint(1, 2))
    if dice.random() < 0.3:
        head, found, body = dice.choice(rules).removesuffix(".").partition(" :- ")
        if found:
            rules.append(f"{head} :- ({body}; f(1, 1), {body}).")
    dice.shuffle(rules)
    return "  ".join(rules)


def random_transaction(dice: random.Random, db: upshot.Database) -> upshot.Transaction:
    with db.transaction() as tx:
        for _ in range(dice.randint(1, 4)):
            rows = [(dice.randint(1, 5), dice.randint(1, 5)) for _ in range(dice.randint(1, 3))]
            statement = dice.choice((tx.insert, tx.insert, tx.delete, tx.delete, tx.replace))
            statement(dice.choice("ef"), rows)
    return tx


@pytest.mark.parametrize("part", range(10))
def test_definitions_and_transactions_in_any_order_are_exact(part: int) -> None:
    for case in range(case_count(60, least=4)):
        dice = random.Random(f"{SEED}/{part}/{case}")
        print(f"seed {SEED}, part {part}, case {case}")  # noqa: T201 - shown when the test fails
        with upshot.connect() as db:
            db.define(BASE + DECLARED + random_text(dice, whole=True))
            for _ in range(8):
                before = contents(db)
                if dice.random() < 0.4:
                    made = db.define(random_text(dice, whole=False))
                    assert set(made.kept).isdisjoint(made.changes) or made.changes["e"]
                    expect_exact(before, db, made.changes)
                else:
                    expect_exact(before, db, random_transaction(dice, db).changes)
                db.verify()
