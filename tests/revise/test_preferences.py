"""With keys, mutual recursion, frozen relations and costs, the realizations are the minimal ones of brute force that
respect what is frozen, the cheapest first.

UPSHOT_CASES sets how many cases run, UPSHOT_SEED which ones.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import combinations, groupby

import pytest

from tests.properties.settings import case_count, seed_of
from tests.revise.brute_force import Update, checked
from tests.revise.random_requests import Case, Fact, random_case
from tests.revise.test_brute_force import facts_of, opened
from upshot import Bounds, ProgramError
from upshot.engine.naive import evaluate

MUTUAL = """
.decl m(c0: number) .decl o(c0: number)
m(X) :- o(Y), e(Y, X), !b(X).
o(X) :- a(X).
o(X) :- m(Y), e(Y, X).
"""


@dataclass(frozen=True, slots=True)
class Preferred:
    case: Case
    has_key: bool
    frozen: tuple[str, ...]
    cost: dict[str, float]


def random_preferred(seed: int) -> Preferred:
    random_ = random.Random(seed)
    case = random_case(seed)
    has_key = random_.random() < 0.6
    text = case.text.replace(".decl e(c0: number, c1: number)", ".decl e(c0: number, c1: number) key(c0)", has_key)
    rules, deny, constraint = text.partition(".deny")
    insert, delete = case.insert, case.delete
    if random_.random() < 0.5:
        wanted = random_.choice("mo"), (random_.choice(case.domain),)
        insert, delete = (((*insert, wanted)), delete) if random_.random() < 0.6 else (insert, (*delete, wanted))
    facts = _with_key(case.facts) if has_key else case.facts
    signs = [f"{sign}{name}" for name in "abe" for sign in "+-"]
    frozen = tuple(random_.sample([*signs, "a", "b", "e"], random_.choice([0, 1, 1, 2])))
    cost = {name: random_.choice([1, 2, 3, 0.5]) for name in random_.sample([*signs, "a", "b", "e"], 2)}
    made = replace(case, text=f"{rules}{MUTUAL}{deny}{constraint}", facts=facts, insert=insert, delete=delete)
    return Preferred(made, has_key, frozen, cost)


def _with_key(facts: frozenset[Fact]) -> frozenset[Fact]:
    rows = groupby(sorted(fact for fact in facts if fact[0] == "e"), key=lambda fact: fact[1][0])
    return frozenset(fact for fact in facts if fact[0] != "e") | {next(same) for _, same in rows}


def expected(given: Preferred) -> set[Update]:
    """The minimal changes among all that are not frozen and leave no two rows with one key."""
    case, program = given.case, checked(given.case.text)
    free = [fact for fact in case.atoms if not _is_frozen(given, fact)]
    before, found = _violations(case, case.facts), list[frozenset[Fact]]()
    for size in range(len(free) + 1):
        for changed in map(frozenset, combinations(free, size)):
            after = case.facts ^ changed
            if any(smaller <= changed for smaller in found) or (given.has_key and _with_key(after) != after):
                continue
            model = _model(case, after)
            wanted = all(fact in model for fact in case.insert) and not any(fact in model for fact in case.delete)
            if wanted and {fact for fact in model if fact[0] in program.constraints} <= before:
                found.append(changed)
    return {(changed - case.facts, changed & case.facts) for changed in found}


def _is_frozen(given: Preferred, fact: Fact) -> bool:
    sign = "-" if fact in given.case.facts else "+"
    return fact[0] in given.frozen or f"{sign}{fact[0]}" in given.frozen


def _violations(case: Case, facts: frozenset[Fact]) -> set[Fact]:
    return {fact for fact in _model(case, facts) if fact[0] in checked(case.text).constraints}


def _model(case: Case, facts: frozenset[Fact]) -> set[Fact]:
    base: dict[str, set[tuple[int, ...]]] = {}
    for name, row in facts:
        base.setdefault(name, set()).add(row)
    return {(view, row) for view, rows in evaluate(checked(case.text), base).items() for row in rows} | set(facts)


def price(given: Preferred, update: Update) -> float:
    signed = ((name, sign) for facts, sign in zip(update, "+-", strict=True) for name, _ in facts)
    return sum(given.cost.get(f"{sign}{name}", given.cost.get(name, 1)) for name, sign in signed)


def compare(given: Preferred) -> int:
    """How many realizations there are; fails if they are not those of brute force, or not in order of cost."""
    try:
        db = opened(given.case)
    except ProgramError:
        return -1
    if {*given.case.insert} & {*given.case.delete}:
        return -1
    bounds = Bounds(new_constants=0, constants=given.case.domain, rounds=1000, seconds=300)
    with db:
        answer = db.realize(
            _rows(given.case.insert), _rows(given.case.delete), bounds=bounds, frozen=given.frozen, cost=given.cost
        )
        listed = [(facts_of(each.insert), facts_of(each.delete)) for each in answer]
    wanted = expected(given)
    assert len(listed) == len(set(listed)), "each once"
    assert set(listed) == wanted, (given, set(listed) ^ wanted)
    prices = [price(given, each) for each in listed]
    assert prices == sorted(prices), (given, "the cheapest first", prices)
    if not wanted:
        unfrozen = bool(given.frozen and expected(replace(given, frozen=())))
        assert answer.status in ("bounds reached", "only through frozen" if unfrozen else "none exists"), given
    return len(listed)


def _rows(facts: tuple[Fact, ...]) -> dict[str, list[tuple[int, ...]]]:
    return {name: [row for other, row in facts if other == name] for name, _ in facts}


@pytest.mark.slow
def test_realizations_with_keys_frozen_relations_and_costs_are_the_minimal_ones() -> None:
    counts = [compare(random_preferred(seed_of("preferences", number))) for number in range(case_count(8, least=20))]
    assert sum(count > 0 for count in counts) > len(counts) // 4, "most cases say something"
