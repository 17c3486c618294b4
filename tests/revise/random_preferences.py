"""Random requests with keys, mutual recursion, frozen relations and costs."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import groupby

from tests.revise.brute_force import Update
from tests.revise.random_requests import Case, Fact, random_case

MUTUAL = """
.decl m(c0: number) .decl o(c0: number)
m(X) :- o(Y), e(Y, X), !b(X).
o(X) :- a(X).
o(X) :- m(Y), e(Y, X).
"""


@dataclass(frozen=True, slots=True)
class Preferred:
    """A case, whether the first column of `e` is its key, the relations that do not change, and costs."""

    case: Case
    has_key: bool
    frozen: tuple[str, ...]
    cost: dict[str, float]


def random_preferred(seed: int, case: Case | None = None) -> Preferred:
    """A case, by default a random one without aggregates, with mutual recursion and preferences."""
    random_ = random.Random(seed)
    case = case or random_case(seed)
    has_key = random_.random() < 0.6
    text = case.text.replace(".decl e(c0: number, c1: number)", ".decl e(c0: number, c1: number) key(c0)", has_key)
    rules, deny, constraint = text.partition(".deny")
    insert, delete = case.insert, case.delete
    if random_.random() < 0.5:
        wanted = random_.choice("mo"), (random_.choice(case.domain),)
        insert, delete = (((*insert, wanted)), delete) if random_.random() < 0.6 else (insert, (*delete, wanted))
    facts = with_key(case.facts) if has_key else case.facts
    signs = [f"{sign}{name}" for name in "abe" for sign in "+-"]
    frozen = tuple(random_.sample([*signs, "a", "b", "e"], random_.choice([0, 1, 1, 2])))
    cost = {name: random_.choice([1, 2, 3, 0.5]) for name in random_.sample([*signs, "a", "b", "e"], 2)}
    made = replace(case, text=f"{rules}{MUTUAL}{deny}{constraint}", facts=facts, insert=insert, delete=delete)
    return Preferred(made, has_key, frozen, cost)


def with_key(facts: frozenset[Fact]) -> frozenset[Fact]:
    """The facts with one row of `e` for each key."""
    rows = groupby(sorted(fact for fact in facts if fact[0] == "e"), key=lambda fact: fact[1][0])
    return frozenset(fact for fact in facts if fact[0] != "e") | {next(same) for _, same in rows}


def price(given: Preferred, update: Update) -> float:
    signed = ((name, sign) for facts, sign in zip(update, "+-", strict=True) for name, _ in facts)
    return sum(given.cost.get(f"{sign}{name}", given.cost.get(name, 1)) for name, sign in signed)
