"""Conditions on fresh values: the comparisons and tests of rule instances.

A linear comparison is a border, which is a linear expression, and the permitted signs of the expression: `?1 > 100` is
the border `?1 - 100` with the sign +1. Any other test of fresh values is kept as written.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from upshot.check.clause.clause_form import with_terms
from upshot.check.names.variables import fold, terms_of, variables
from upshot.check.program import Literal
from upshot.core.types import Type
from upshot.revise.built_ins import holds
from upshot.revise.ordered_values import Linear, as_term, in_words, linear_of, number, number_of, unit, value_at
from upshot.revise.placeholders import Symbol
from upshot.syntax.ast import Call, Comparison, Constant, Not, Term, Test, Variable
from upshot.syntax.printing import print_formula, print_term
from upshot.values.conditions import TURNED

Signs = frozenset[int]
"""The signs of a border: below it (-1), on it (0), above it (1)."""
ANY: Signs = frozenset((-1, 0, 1))
OPS: Mapping[str, Signs] = {
    "<": Signs((-1,)), "<=": Signs((-1, 0)), "=": Signs((0,)), ">=": Signs((0, 1)), ">": Signs((1,)),
    "!=": Signs((-1, 1)),
}  # fmt: skip
_WORDS = {signs: op for op, signs in OPS.items()}

Subject = Linear | Literal
"""A border, or a test that is true (+1) or not (-1)."""
Conditions = Mapping[Subject, Signs]


@dataclass(frozen=True, slots=True)
class Condition:
    """A subject and its permitted signs."""

    subject: Subject
    signs: Signs


def condition_of(literal: Literal, types: Mapping[str, Type]) -> Condition | bool:
    """The condition of a built-in over symbols; True if it holds for all values, False if for none."""
    match literal:
        case Comparison(op, left, right):
            if any(isinstance(each, Constant) and each.value is None for each in (left, right)):
                return False
            if left == right:
                return 0 in OPS[op]
            one, other = linear_of(left, types), linear_of(right, types)
            if one is not None and other is not None:
                return signed(one.minus(other), OPS[op])
            return _opaque(Comparison(TURNED[op], right, left) if isinstance(left, Constant) else literal)
        case Not(Test() as test):
            return Condition(test, Signs((-1,)))
        case _:
            return Condition(literal, Signs((1,)))


def _opaque(literal: Comparison) -> Condition:
    """The condition of a comparison that is not linear, by `=`, `<` or `>`."""
    match literal.op:
        case "!=":
            return Condition(Comparison("=", literal.left, literal.right), Signs((-1,)))
        case ">=" | "<=":
            turned = "<" if literal.op == ">=" else ">"
            return Condition(Comparison(turned, literal.left, literal.right), Signs((-1,)))
        case _:
            return Condition(literal, Signs((1,)))


def signed(border: Linear, signs: Signs) -> Condition | bool:
    """A condition on a border, scaled to a canonical form."""
    if not border.parts:
        return ((border.more > 0) - (border.more < 0)) in signs
    first = border.parts[0][1]
    return Condition(border.times(1 / first), Signs(-each for each in signs) if first < 0 else signs)


def equal(one: Term, other: Term, types: Mapping[str, Type]) -> Condition | bool:
    """The condition that two terms are equal."""
    return condition_of(Comparison("=", one, other), types)


def names_of(subject: Subject) -> tuple[str, ...]:
    """The symbols in a subject."""
    return tuple(name for name, _ in subject.parts) if isinstance(subject, Linear) else tuple(variables(subject))


def sign_of(subject: Subject, values: Mapping[str, Any], types: Mapping[str, Type]) -> int:
    """The sign of a subject for values of its symbols; 2 if it has none."""
    if isinstance(subject, Linear):
        numbers = {name: number_of(values[name]) for name, _ in subject.parts}
        if None in numbers.values():
            return 2
        found = subject.at(numbers)  # type: ignore[arg-type]
        return (found > 0) - (found < 0)
    return 1 if holds(subject, values, types) else -1


def linear_value(
    value: Any, types: Mapping[str, Type], totals: Mapping[str, Linear | None] | None = None
) -> Linear | None:
    """A value of a row as a linear expression of fresh values, given `totals` of groups; None if it is not linear."""
    if isinstance(value, Symbol):
        is_total = value.group is not None
        return (totals or {}).get(value.name) if is_total else linear_of(value.written, types, totals)
    found = number_of(value)
    return None if found is None else number(found)


# ---- substitution ----------------------------------------------------------------------------------------------------


def as_written(value: Any, type: Type) -> Term:
    """A value as a term of conditions."""
    return value.written if isinstance(value, Symbol) else Constant(value, type.required())


def substituted(term: Term, given: Mapping[str, Term]) -> Term:
    """Substitute terms for variables in a term."""

    def visit(node: Term, parts: tuple[Term, ...]) -> Term:
        match node:
            case Variable(name):
                return given.get(name, node)
            case Call(function, _):
                return Call(function, parts)
            case _:
                return node

    return fold(term, visit)


def substituted_literal(literal: Literal, given: Mapping[str, Term]) -> Literal:
    """Substitute terms for variables in a built-in."""
    inner = literal.body if isinstance(literal, Not) else literal
    assert isinstance(inner, Comparison | Test), f"{literal} is no built-in"
    made = with_terms(inner, [substituted(each, given) for each in terms_of(inner)])
    assert isinstance(made, Comparison | Test), "it stays one"
    return Not(made) if isinstance(literal, Not) else made


def replaced(
    subject: Subject, signs: Signs, given: Mapping[str, Linear | Term], types: Mapping[str, Type]
) -> Condition | bool:
    """Substitute linear expressions or terms for symbols in a condition; True or False if that decides it."""
    own = {name: given[name] for name in names_of(subject) if name in given}
    if not own:
        return Condition(subject, signs)
    if isinstance(subject, Linear):
        linear = {name: v if isinstance(v, Linear) else linear_of(v, types) for name, v in own.items()}
        known = {name: value for name, value in linear.items() if value is not None}
        if known.keys() == own.keys():
            return signed(subject.replaced(known), signs)
        name = next(each for each in own if each not in known)
        turned = signs if dict(subject.parts)[name] > 0 else Signs(-each for each in signs)
        border = Comparison(_WORDS[turned], Variable(name), as_term(subject.solved(name), types[name]))
        return replaced(border, Signs((1,)), given, types)
    terms = {name: as_term(v, types[name]) if isinstance(v, Linear) else v for name, v in own.items()}
    literal = substituted_literal(subject, terms)
    if not variables(literal):
        return (1 if holds(literal, {}, {}) else -1) in signs
    made = condition_of(literal, types)
    if 1 in signs:
        return made
    return not made if isinstance(made, bool) else Condition(made.subject, ANY - made.signs)


def conjoined(made: Iterable[Condition | bool]) -> dict[Subject, Signs] | None:
    """The conjunction of conditions; None if it contradicts itself."""
    found: dict[Subject, Signs] = {}
    for each in made:
        if isinstance(each, Condition):
            found[each.subject] = found.get(each.subject, ANY) & each.signs
        elif not each:
            return None
    return found if all(found.values()) else None


def all_replaced(
    stated: Conditions, given: Mapping[str, Linear | Term], types: Mapping[str, Type]
) -> dict[Subject, Signs] | None:
    """Substitute linear expressions or terms for symbols in conditions; None if these violate a condition."""
    return conjoined(replaced(subject, signs, given, types) for subject, signs in stated.items())


def without_symbols(stated: Conditions, names: Collection[str], types: Mapping[str, Type]) -> dict[Subject, Signs]:
    """Eliminate symbols that equations determine."""
    left = dict(stated)
    while True:
        solved = (
            (subject, name, value)
            for subject, signs in left.items()
            for name in names_of(subject)
            if name in names and (value := _solved(subject, signs, name)) is not None
        )
        equation, name, value = next(solved, (None, "", None))
        if equation is None or value is None:
            return {subject: signs for subject, signs in left.items() if not {*names_of(subject)} & {*names}}
        del left[equation]
        rest = all_replaced(left, {name: value}, types)
        assert rest is not None, "conditions that have a witness contradict each other"
        left = rest


def _solved(subject: Subject, signs: Signs, name: str) -> Term | Linear | None:
    """The value that a condition equates with a symbol, if any."""
    match subject:
        case Linear() if signs == {0}:
            return subject.solved(name)
        case Comparison("=", Variable(one), term) | Comparison("=", term, Variable(one)) if (
            one == name and signs == {1} and name not in variables(term)
        ):
            return term
        case _:
            return None


# ---- text ------------------------------------------------------------------------------------------------------------


def words(stated: Conditions, types: Mapping[str, Type]) -> tuple[str, ...]:
    """The text of conditions in the syntax of programs, one symbol after the other."""
    linear = [(_order(s), _border_words(s, signs, types)) for s, signs in stated.items() if isinstance(s, Linear)]
    found = [text for _, text in sorted(linear, key=lambda each: each[0]) if text]
    found += [_test_words(s, 1 in signs) for s, signs in stated.items() if not isinstance(s, Linear)]
    return tuple(dict.fromkeys(found))


def _test_words(subject: Literal, is_met: bool) -> str:
    if is_met:
        return print_formula(subject)
    if isinstance(subject, Comparison):
        return print_formula(Comparison(_WORDS[ANY - OPS[subject.op]], subject.left, subject.right))
    return f"!{print_formula(subject)}"


def _order(border: Linear) -> tuple[object, ...]:
    return len(border.parts) > 1, border.parts, -border.more


def _border_words(border: Linear, signs: Signs, types: Mapping[str, Type]) -> str:
    op = _WORDS[signs]
    if len(border.parts) == 1:
        name = border.parts[0][0]
        return _bound_words(name, op, -border.more, types[name])
    is_difference = [factor for _, factor in border.parts] == [1, -1]
    numbers = [factor for _, factor in border.parts] + ([] if is_difference else [border.more])
    whole = border.times(Fraction(math.lcm(*(each.denominator for each in numbers))))
    left = Linear(tuple(each for each in whole.parts if each[1] > 0))
    return f"{in_words(left)} {op} {in_words(left.minus(whole))}"


def _bound_words(name: str, op: str, at: Fraction, type: Type) -> str:
    """The text of a bound of one value. A bound between two values of the type is replaced by the nearer permitted
    one."""
    value, step = value_at(at, type), unit(type)
    if value is None and step is not None:
        if op == "!=":
            return ""
        op, at = (">=", math.ceil(at / step) * step) if op[0] == ">" else ("<=", math.floor(at / step) * step)
        value = value_at(Fraction(at), type)
    if value is None:
        return ""
    return f"{name} {op} {print_term(Constant(value, type))}"
