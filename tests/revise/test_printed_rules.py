"""The rules that `upshot rewrite --strategy view-update` prints, carried out literally, have the realizations that are
found.

UPSHOT_CASES sets how many cases run, UPSHOT_SEED which ones.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.properties.settings import case_count, seed_of
from tests.revise.brute_force import Update, checked
from tests.revise.printed_rules import PrintedRules, TooMany
from tests.revise.random_requests import Case, random_case
from tests.revise.test_brute_force import found, opened
from upshot import Bounds, ProgramError
from upshot.core.schema import Role
from upshot.revise.rules import RuleParts, arguments, rule_parts
from upshot.rewrite import normal_form
from upshot.rewrite.demand.request_rules import DELETE, INSERT, Signed, request
from upshot.rewrite.normalize.operators import operators
from upshot.rewrite.view_updates import view_updates
from upshot.syntax.ast import Atom, Constant, Variable
from upshot.syntax.printing import print_atom, print_formula

DECLARED = ".decl a(x: number) .decl b(x: number) .decl e(x: number, y: number)"


def compare(case: Case, most: int) -> bool:
    """Whether the rules came to an end; fails if they have other realizations than the search."""
    with opened(case) as db:
        listed = found(db, case, Bounds(new_constants=0, constants=case.domain, rounds=1000, seconds=300))
    try:
        by_rules: set[Update] = PrintedRules(case).realizations(most)
    except TooMany:
        return False
    assert set(listed) == by_rules, (case, set(listed) ^ by_rules)
    return True


@pytest.mark.parametrize(
    ("rules", "facts", "insert", "delete"),
    [
        pytest.param("p(X) :- a(X), b(X).", "a1", "p1", "", id="a join"),
        pytest.param("p(X) :- a(X), !b(X).", "b1", "p1", "", id="a difference"),
        pytest.param("p(X) :- a(X), !b(X).", "a1", "", "p1", id="a difference that is to be empty"),
        pytest.param("p(X) :- a(X). p(X) :- b(X).", "a1 b1", "", "p1", id="a union"),
        pytest.param("p(X) :- e(X, Y).", "", "p1", "", id="a projection"),
        pytest.param("p(X) :- e(X, Y), Y != 1.", "e11 e12", "", "p1", id="a selection"),
        pytest.param("q(X, Y) :- e(X, Y). q(X, Y) :- e(X, Z), q(Z, Y).", "e12", "q11", "", id="a recursion"),
        pytest.param("q(X, Y) :- e(X, Y). q(X, Y) :- q(X, Z), q(Z, Y).", "e12 e21", "", "q11", id="a closure"),
        pytest.param("s() :- a(X), !b(X). p(X) :- b(X), s().", "a1", "p1", "", id="a side effect in the way"),
        pytest.param("p(X) :- a(X). .deny d(X) :- p(X), !b(X).", "b2", "p1 p2", "", id="a constraint"),
    ],
)
def test_each_operator_is_asked_through_as_printed(rules: str, facts: str, insert: str, delete: str) -> None:
    declared = f"{DECLARED} .decl p(x: number) .decl q(x: number, y: number) .decl s()\n"
    listed = [tuple((each[0], tuple(map(int, each[1:]))) for each in text.split()) for text in (facts, insert, delete)]
    assert compare(Case(declared + rules, (1, 2), frozenset(listed[0]), listed[1], listed[2]), most=100_000)


def one_operator_a_rule(text: str) -> str:
    """The program as `rewrite` reads it before it prints: auxiliary views are views like others."""
    normal = normal_form(checked(text))
    single = operators(normal, [view for layer in normal.strata for view in layer])
    lines = []
    for name, schema in single.schemas.items():
        if schema.role is not Role.CONSTRAINT:
            columns = ", ".join(f"{column.name}: {column.type}" for column in schema.columns)
            lines.append(f".decl {name}({columns})")
    for clause in single.clauses:
        body = ", ".join(map(print_formula, clause.body))
        deny = ".deny " * (single.schemas[clause.head.relation].role is Role.CONSTRAINT)
        lines.append(f"{deny}{print_atom(clause.head)}{' :- ' * bool(body)}{body}.")
    return "\n".join(lines)


def same_rules(text: str) -> None:
    """Of a program with one operator a rule, what the search asks is, rule by rule, what is printed."""
    program = normal_form(checked(text))
    rules: dict[str, list[RuleParts]] = {}
    for number, clause in enumerate(program.clauses):
        rules.setdefault(clause.head.relation, []).append(rule_parts(number, clause, program))
    for printed in view_updates(program).requests:
        (given,) = printed.conditions
        own = [rule for rule in rules[given.atom.relation] if rule.clause == printed.source]
        if len(printed.heads) > 1 and given.sign == INSERT:
            wanted = [each.atom.relation for rule in rules[given.atom.relation] for each in requests(rule, INSERT)]
            assert [head.atom.relation for head in printed.heads] == wanted
        elif printed.heads:
            (rule,) = own
            assert set(printed.heads) <= set(requests(rule, given.sign))
            assert given.sign == INSERT or len(requests(rule, DELETE)) == len(printed.heads)


def requests(rule: RuleParts, sign: str) -> list[Signed]:
    """The requests for the body's literals, of which all insert a row of the head, and one deletes it; with the
    constants that the rule has in its text."""
    constants = {name: Constant(value, rule.types[name]) for name, value in rule.constants.items()}

    def as_written(atom: Atom) -> Atom:
        return replace(atom, args=tuple(constants.get(name, Variable(name)) for name in arguments(atom)))

    other = DELETE if sign == INSERT else INSERT
    signed = [*((sign, atom) for atom in rule.positive), *((other, atom) for atom in rule.negative)]
    return [request(each, as_written(atom)) for each, atom in signed]


@pytest.mark.slow
def test_the_search_takes_its_alternatives_from_the_rules_that_are_printed() -> None:
    """A program is brought to one operator a rule; the search then asks what is printed for it, and finds the same."""
    seen = 0
    for number in range(case_count(20, least=20)):
        case = random_case(seed_of("printed operators", number))
        try:
            single = replace(case, text=one_operator_a_rule(case.text))
            same_rules(single.text)
        except ProgramError:
            continue
        bounds = Bounds(new_constants=0, constants=case.domain, rounds=1000, seconds=300)
        with opened(case) as db, opened(single) as other:
            assert set(found(db, case, bounds)) == set(found(other, single, bounds)), case
            seen += 1
    assert seen > 10


@pytest.mark.slow
def test_random_programs_are_asked_through_as_printed() -> None:
    ended = 0
    for number in range(case_count(20, least=20)):
        case = random_case(seed_of("printed rules", number))
        try:
            ended += compare(case, most=2000)
        except ProgramError:
            continue
    assert ended > 10
