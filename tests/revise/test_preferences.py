"""With keys, mutual recursion, frozen relations and costs, the realizations are the minimal ones of brute force that
respect what is frozen, the cheapest first.

UPSHOT_CASES sets how many cases run, UPSHOT_SEED which ones.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

import upshot
from tests.properties.settings import case_count, seed_of
from tests.revise.brute_force import Update, checked
from tests.revise.random_preferences import Preferred, price, random_preferred, with_key
from tests.revise.random_requests import Case, Fact, random_case
from tests.revise.test_brute_force import facts_of, opened, rows_of
from upshot import Bounds, ProgramError
from upshot.check import check
from upshot.core.schema import Role
from upshot.engine.naive import evaluate
from upshot.revise.request import Request
from upshot.revise.side_effects import adding_up
from upshot.syntax import parse


def expected(given: Preferred) -> set[Update]:
    """The minimal changes among all that are not frozen and leave no two rows with one key."""
    case, program = given.case, checked(given.case.text)
    free = [fact for fact in case.atoms if not _is_frozen(given, fact)]
    before, found = _violations(case, case.facts), list[frozenset[Fact]]()
    for size in range(len(free) + 1):
        for changed in map(frozenset, combinations(free, size)):
            after = case.facts ^ changed
            if any(smaller <= changed for smaller in found) or (given.has_key and with_key(after) != after):
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


def side_effects(given: Preferred, update: Update) -> int:
    """The rows of views that a change inserts or deletes, but for those that are requested."""
    case = given.case
    views = {name for name, schema in checked(case.text).schemas.items() if schema.role is not Role.BASE}
    before, after = _model(case, case.facts), _model(case, case.facts - update[1] | update[0])
    asked = {*((fact, "+") for fact in case.insert), *((fact, "-") for fact in case.delete)}
    changed = {*((fact, "+") for fact in after - before), *((fact, "-") for fact in before - after)}
    return sum(1 for fact, _ in changed - asked if fact[0] in views)


def compare(given: Preferred, prefer: str | None = None) -> int:
    """How many realizations there are; fails if they are not those of brute force, or not in order: of cost, or of side
    effects first."""
    try:
        db = opened(given.case)
    except ProgramError:
        return -1
    if {*given.case.insert} & {*given.case.delete}:
        return -1
    bounds = Bounds(new_constants=0, constants=given.case.domain, rounds=1000, seconds=300)
    with db:
        answer = db.realize(
            rows_of(given.case.insert), rows_of(given.case.delete), bounds=bounds, frozen=given.frozen, cost=given.cost,
            prefer=prefer,
        )  # fmt: skip
        listed = [(facts_of(each.insert), facts_of(each.delete)) for each in answer]
    wanted = expected(given)
    assert len(listed) == len(set(listed)), "each once"
    assert set(listed) == wanted, (given, set(listed) ^ wanted)
    prices = [(side_effects(given, each) if prefer else 0, price(given, each)) for each in listed]
    assert prices == sorted(prices), (given, "the cheapest first", prices)
    if not wanted:
        unfrozen = bool(given.frozen and expected(replace(given, frozen=())))
        assert answer.status in ("bounds reached", "only through frozen" if unfrozen else "none exists"), given
    return len(listed)


TOGETHER = """
.decl a(x: number) .decl b(x: number) .decl c(x: number) .decl v(x: number)
.decl w(x: number) .decl z(x: number, y: number) .decl n(x: number)
v(X) :- a(X), b(X).  v(X) :- c(X).  w(X) :- c(X).  z(X, Y) :- a(X), b(X), n(Y).
"""


@pytest.mark.parametrize("more", ["", ".decl u(x: number)  u(X) :- n(X), !a(X)."])
def test_effects_that_need_two_changes_together_count(more: str) -> None:
    with upshot.connect() as db:
        db.define(TOGETHER + more)
        with db.transaction() as tx:
            tx.insert("n", [(number,) for number in range(9)])
        for option in ({"prefer": "least_side_effects"}, {"side_effect_free_first": True}):
            found = db.realize({"v": [(1,)]}, **option)  # type: ignore[arg-type]
            assert [(sorted(each.insert), each.side_effects) for each in found] == [
                (["c"], 1),
                (["a", "b"], 9 + bool(more)),
            ]


def test_the_first_is_given_before_all_are_found_where_effects_add_up() -> None:
    with upshot.connect() as db:
        db.define(
            ".decl e(x: number, y: number)  .decl p(x: number)  p(X) :- e(X, _).  .decl q(y: number)  q(Y) :- e(_, Y)."
        )
        with db.transaction() as tx:
            tx.insert("e", [(1, 1), (1, 2), (2, 2)])
        found = db.realize({"p": [(number,) for number in range(10, 16)]}, prefer="least_side_effects")
        assert next(found).side_effects <= 1
        assert found.status == "more"


ACCESS = """
.decl member(p: number, t: number) .decl granted(t: number, r: number) .decl suspended(p: number, r: number)
.decl access(p: number, r: number)  access(P, R) :- member(P, T), granted(T, R), !suspended(P, R).
"""


def access() -> upshot.Database:
    db = upshot.connect()
    db.define(ACCESS)
    with db.transaction() as tx:
        tx.insert("member", [(person, team) for person in range(4) for team in range(10)])
        tx.insert("granted", [(team, right) for team in range(10) for right in range(4)])
    return db


def test_a_row_that_the_key_of_a_view_displaces_can_lessen_side_effects() -> None:
    with upshot.connect() as db:
        db.define(
            ".decl a(x: number, y: number) .decl b(x: number, y: number) .decl c(x: number) "
            ".decl v(x: number, y: number) key(x)  v(X, Y) :- a(X, Y).  v(X, Y) :- b(X, Y). "
            ".decl w(x: number, y: number)  w(X, Y) :- a(X, Y), b(X, _). "
            ".decl p(x: number)  p(X) :- a(X, 2).  p(X) :- c(X). "
            + " ".join(f".decl {name}(x: number)  {name}(X) :- c(X)." for name in "qrs")
        )
        with db.transaction() as tx:
            tx.insert("b", [(1, 1)])
        found = db.realize({"p": [(1,)]}, prefer="least_side_effects")
        assert [(sorted(each.insert), each.side_effects) for each in found] == [(["a"], 2), (["c"], 3)]


def test_with_negation_the_first_is_given_before_all_are_found() -> None:
    with access() as db:
        found = db.realize(delete={"access": [(0, 0)]}, prefer="least_side_effects")
        first = next(found)
        assert (first.lines(), first.side_effects, found.status) == (["+suspended(0, 0)"], 0, "more")
        assert found.work["candidates"] < 3


def test_half_of_the_time_is_spent_on_the_order_before_the_first_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second view that changes may move either way: nothing is known of the side effects of others."""
    monkeypatch.setattr("upshot.database.realize.ORDERING", 0.0)
    with upshot.connect() as db:
        db.define(
            ".decl a(x: number) .decl b(x: number) .decl p(x: number) .decl q(x: number) "
            "p(X) :- a(X), !b(X). p(X) :- b(X), !a(X). q(X) :- a(X), !b(X). q(X) :- b(X)."
        )
        found = db.realize({"p": [(1,)]}, prefer="least_side_effects")
        assert next(found).side_effects == 1
        assert (len(list(found)), found.status) == (1, "all")
        assert found.reason == "these are all 2, those first that were found in time for the order"


def test_views_add_up_that_all_helpful_changes_move_one_way() -> None:
    declared = ".decl a(x: number) .decl b(x: number) .decl c(x: number) "
    views = {
        "v": "v(X) :- a(X), !b(X).",
        "same": "same(X) :- v(X), !b(X).",
        "turned": "turned(X) :- c(X), !v(X).",
        "mixed": "mixed(X) :- a(X), b(X).",
        "counted": "counted(X) :- X = count : { v(_) }.",
        "apart": "apart(X) :- c(X).",
    }
    program = check(parse(declared + " ".join(f".decl {name}(x: number) {rule}" for name, rule in views.items())))
    deletes = Request(frozenset(), frozenset({("v", (1,))}))
    assert adding_up(program, deletes, ()) & views.keys() == {"v", "same", "turned"}
    assert adding_up(program, deletes, ("apart",)) & views.keys() == {"v", "same", "apart"}
    assert not adding_up(program, Request(frozenset({("v", (2,))}), deletes.delete), ()) & views.keys()


SEEDS = (88027, 88087, 88117, 88165, 88168, 88263, 88320, 88349, 88365)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_fewest_side_effects_come_first_in_cases_that_were_wrong(seed: int) -> None:
    compare(Preferred(random_case(seed), has_key=False, frozen=(), cost={}), "least_side_effects")


@pytest.mark.slow
def test_with_keys_frozen_relations_and_costs_the_fewest_side_effects_come_first() -> None:
    for number in range(case_count(8, least=20)):
        compare(random_preferred(seed_of("side effects", number)), "least_side_effects")


@pytest.mark.slow
def test_realizations_with_keys_frozen_relations_and_costs_are_the_minimal_ones() -> None:
    counts = [compare(random_preferred(seed_of("preferences", number))) for number in range(case_count(8, least=20))]
    assert sum(count > 0 for count in counts) > len(counts) // 4, "most cases say something"
