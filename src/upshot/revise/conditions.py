"""Conditions on fresh values: the comparisons and tests that instances of rules put on them, and witnesses for those.

A linear comparison is a border, an expression that is 0 on it, and the signs that the expression may have: `?1 > 100`
is the border `?1 - 100` with the sign +1. Any other test of fresh values is kept as it is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any

from upshot.check.names.variables import fold, variables
from upshot.check.program import Literal
from upshot.core.types import Kind, Type
from upshot.engine.time_limit import check_time
from upshot.revise.built_ins import UNKNOWN, holds, roots, value_of
from upshot.revise.families import of_type
from upshot.revise.ordered_values import (
    Linear,
    NotLinearError,
    containing,
    extent,
    inside,
    matching,
    new_value,
    number_of,
    symbolic,
    unit,
    value_at,
)
from upshot.revise.placeholders import Symbol
from upshot.revise.rule_forms import new_values
from upshot.syntax.ast import Call, Comparison, Constant, Not, Term, Test, Variable
from upshot.syntax.printing import print_formula, print_term
from upshot.values.structures import MAKE

Signs = frozenset[int]
"""The sides of a border: below it (-1), on it (0), above it (1)."""
ANY: Signs = frozenset((-1, 0, 1))
OPS: Mapping[str, Signs] = {
    "<": Signs((-1,)), "<=": Signs((-1, 0)), "=": Signs((0,)), ">=": Signs((0, 1)), ">": Signs((1,)),
    "!=": Signs((-1, 1)),
}  # fmt: skip
_WORDS = {signs: op for op, signs in OPS.items()}
_TURNED = {"<": ">", "<=": ">=", "=": "=", "!=": "!=", ">=": "<=", ">": "<"}

Subject = Linear | Literal
"""A border, or a test that is true (+1) or not (-1)."""
Ends = tuple[Fraction | None, Fraction | None]

ROUNDS = 8
"""Times that the bounds of some values are used for those of others."""
MOST_TRIED, MOST_STEPS = 60, 600
"""Values of one symbol that are tried for a witness, and of all."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A subject and the signs it may have."""

    subject: Subject
    signs: Signs


@dataclass(frozen=True, slots=True)
class Assignment:
    """The signs of subjects over symbols with types: what a witness has to meet. Symbols in `apart` differ pairwise."""

    signs: Mapping[Subject, Signs]
    types: Mapping[str, Type]
    apart: Sequence[frozenset[str]] = ()
    is_usable: Callable[[str, Any], bool] = field(default=lambda name, value: True, compare=False)


def substituted(literal: Literal, binding: Mapping[str, Any], types: Mapping[str, Type]) -> Literal:
    """A built-in with constants for the variables that have values, and symbols as variables."""

    def visit(node: Term, parts: tuple[Term, ...]) -> Term:
        match node:
            case Variable(name):
                value = binding[name]
                return symbol_term(value) if isinstance(value, Symbol) else Constant(value, types[name].required())
            case Call(function, _):
                return Call(function, parts)
            case _:
                return node

    match literal:
        case Comparison(op, left, right):
            return Comparison(op, fold(left, visit), fold(right, visit))
        case Test(name, args):
            return Test(name, tuple(fold(each, visit) for each in args))
        case Not(Test(name, args)):
            return Not(Test(name, tuple(fold(each, visit) for each in args)))
        case _:
            raise AssertionError(f"{literal} is no built-in")


def symbol_term(symbol: Symbol) -> Term:
    """The symbol as conditions write it."""
    return Variable(symbol.name) if symbol.term is None else symbol.term


def condition_of(literal: Literal, types: Mapping[str, Type]) -> Condition | bool:
    """A built-in over symbols as a condition; True or False if it holds for all values, or none."""
    match literal:
        case Comparison(op, left, right):
            if any(isinstance(each, Constant) and each.value is None for each in (left, right)):
                return False
            if left == right:
                return 0 in OPS[op]
            border = _border(left, right, types)
            if border is None:
                return _opaque(_turned(literal) if isinstance(left, Constant) else literal)
            return signed(border, OPS[op])
        case Not(Test() as test):
            return Condition(test, Signs((-1,)))
        case _:
            return Condition(literal, Signs((1,)))


def _turned(literal: Comparison) -> Comparison:
    return Comparison(_TURNED[literal.op], literal.right, literal.left)


def _opaque(literal: Comparison) -> Condition:
    """A comparison that is not linear: `=` and `<` stand for the others as well."""
    match literal.op:
        case "!=":
            return Condition(Comparison("=", literal.left, literal.right), Signs((-1,)))
        case ">=" | "<=":
            turned = "<" if literal.op == ">=" else ">"
            return Condition(Comparison(turned, literal.left, literal.right), Signs((-1,)))
        case _:
            return Condition(literal, Signs((1,)))


def signed(border: Linear, signs: Signs) -> Condition | bool:
    """A condition on a border, scaled so that equal ones are one."""
    if not border.parts:
        return ((border.more > 0) - (border.more < 0)) in signs
    turned = border.parts[0][1] < 0
    return Condition(border.scaled(), Signs(-each for each in signs) if turned else signs)


def _border(left: Term, right: Term, types: Mapping[str, Type]) -> Linear | None:
    binding = {name: new_value(name) for each in (left, right) for name in variables(each)}
    try:
        sides = [symbolic(each, binding, types, lambda term: value_of(term, {}, types)) for each in (left, right)]
    except NotLinearError:
        return None
    made = []
    for side in sides:
        number = side if isinstance(side, Linear) else number_of(side) if side is not UNKNOWN else None
        if number is None:
            return None
        made.append(number if isinstance(number, Linear) else Linear((), number))
    return made[0].minus(made[1])


def names_of(subject: Subject) -> tuple[str, ...]:
    """The symbols that a subject is about."""
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


# ---- witnesses -------------------------------------------------------------------------------------------------------


def witnesses(wanted: Assignment) -> Iterator[dict[str, Any]]:
    """Values of the symbols that meet all signs, as far as some are found."""
    ends = bounds_of({s: signs for s, signs in wanted.signs.items() if isinstance(s, Linear)}, wanted.types)
    if any(low is not None and high is not None and low > high for low, high in ends.values()):
        return
    # A record comes after its fields: they make it.
    made = {s.left.name for s in wanted.signs if isinstance(s, Comparison) and isinstance(s.left, Variable)
            and isinstance(s.right, Call) and s.right.function == MAKE}  # fmt: skip
    order = sorted(wanted.types, key=lambda name: (name in made, _freedom(ends[name]), name))
    yield from _witnesses(wanted, order, ends, {}, iter(range(MOST_STEPS)))


def _freedom(ends: Ends) -> int:
    low, high = ends
    return (low is None) + (high is None) + (low != high)


def is_refuted(wanted: Assignment) -> bool:
    """Test whether no values can satisfy the signs, as far as bounds tell."""
    borders = {s: signs for s, signs in wanted.signs.items() if isinstance(s, Linear)}
    if any(not signs for signs in wanted.signs.values()):
        return True
    ends = bounds_of(borders, wanted.types)
    if any(low is not None and high is not None and low > high for low, high in ends.values()):
        return True
    fixed = {name: low for name, (low, high) in ends.items() if low is not None and low == high}
    for border, signs in borders.items():
        if fixed.keys() >= {name for name, _ in border.parts}:
            value = border.at(fixed)
            if (value > 0) - (value < 0) not in signs:
                return True
    return False


def _witnesses(
    wanted: Assignment, order: Sequence[str], ends: Mapping[str, Ends], known: dict[str, Any], steps: Iterator[int]
) -> Iterator[dict[str, Any]]:
    check_time()
    if len(known) == len(order):
        yield known
        return
    name = order[len(known)]
    for each in islice(_candidates(wanted, name, ends[name], known), MOST_TRIED):
        if next(steps, None) is None:
            return
        value = of_type(each, wanted.types[name])
        found = {**known, name: value}
        if value is not UNKNOWN and wanted.is_usable(name, value) and _agrees(wanted, name, found):
            yield from _witnesses(wanted, order, ends, found, steps)


def _agrees(wanted: Assignment, name: str, known: Mapping[str, Any]) -> bool:
    for family in wanted.apart:
        if name in family and any(other != name and known.get(other) == known[name] for other in family):
            return False
    return all(
        sign_of(subject, known, wanted.types) in signs
        for subject, signs in wanted.signs.items()
        if name in (names := names_of(subject)) and known.keys() >= {*names}
    )


def _candidates(wanted: Assignment, name: str, ends: Ends, known: Mapping[str, Any]) -> Iterator[Any]:
    """Values of a symbol: on the borders that others leave to it, between them, and such that pass its tests."""
    type, places = wanted.types[name], set[Fraction]()
    for subject in wanted.signs:
        if isinstance(subject, Linear):
            parts = dict(subject.parts)
            factor = parts.pop(name, None)
            if factor is not None:
                numbers = {each: number_of(known[each]) for each in parts if each in known}
                if numbers.keys() >= parts.keys() and None not in numbers.values():
                    rest = Linear(tuple(parts.items()), subject.more).at(numbers)  # type: ignore[arg-type]
                    places.add(-rest / factor)
                elif not numbers:
                    places.add(-subject.more / factor)
    yield from _tested(wanted, name, known)
    if type.kind is Kind.RECORD:
        yield from new_values(type)
    low, high = ends
    between = sorted(each for each in places if (low is None or each >= low) and (high is None or each <= high))
    marks: list[Fraction | None] = [_before(low, type), *between, _after(high, type)]
    gaps = [inside(first, last, type) for first, last in pairwise(marks)]
    on = [value for each in between if (value := value_at(each, type)) is not None]
    firsts = [list(islice(gap, 3)) for gap in gaps]
    if low is not None and low == high and (only := value_at(low, type)) is not None:
        yield only
    yield from (value for rank in range(3) for each in reversed(firsts) for value in each[rank : rank + 1])
    yield from on
    for gap in gaps:
        yield from islice(gap, 12)


def _before(low: Fraction | None, type: Type) -> Fraction | None:
    if low is None or low == extent(type)[0]:
        return None
    return low - (unit(type) or Fraction(1, 2**20))


def _after(high: Fraction | None, type: Type) -> Fraction | None:
    if high is None or high == extent(type)[1]:
        return None
    return high + (unit(type) or Fraction(1, 2**20))


def _tested(wanted: Assignment, name: str, known: Mapping[str, Any]) -> Iterator[Any]:
    """Values for which tests and equations that are not linear may hold."""
    for subject, signs in wanted.signs.items():
        match subject:
            case Test("match", (Constant(pattern), Variable(other))) if other == name and 1 in signs:
                yield from islice(matching(pattern, 1), 8)
            case Test("contains", (Constant(needle), Variable(other))) if other == name and 1 in signs:
                yield from containing(needle, 1)
            case Test("contains", (Variable(other), Constant(text))) if other == name and 1 in signs:
                yield from (text, text[:1], text[1:2], "")
            case Comparison(_, left, right):
                for side, value in ((left, right), (right, left)):
                    if name in variables(side) and name not in variables(value):
                        there = value_of(value, known, wanted.types)
                        if there is not UNKNOWN and there is not None:
                            yield from _around(side, there, name, known, wanted.types)


def _around(side: Term, value: Any, name: str, known: Mapping[str, Any], types: Mapping[str, Type]) -> Iterator[Any]:
    """Values for which a term comes to a value, or to one near it."""
    near = [value]
    if isinstance(value, int) and not isinstance(value, bool):
        near += [value + 1, value - 1, value * 2 + 7, value * 2 - 7, value + 1000, value - 1000]
    elif isinstance(value, float):
        near += [value + 1, value - 1]
    for each in near:
        for number in (1, 2, 3):
            found = roots(side, each, name, known, types, number)
            yield from found.values
            if found.are_all:
                break
    if isinstance(value, int):
        yield from (sign * (abs(value) + step) for step in (0, 1, 2, 10) for sign in (1, -1))


def bounds_of(borders: Mapping[Linear, Signs], types: Mapping[str, Type]) -> dict[str, Ends]:
    """The least and the greatest values of symbols on these sides of borders: no others can do, though not all between
    them need to.

    >>> from upshot.core.types import NUMBER
    >>> above, below = (new_value("?1").plus(Linear((), Fraction(-each))) for each in (1, 3))
    >>> bounds_of({above: frozenset({1}), below: frozenset({-1})}, {"?1": NUMBER})
    {'?1': (Fraction(2, 1), Fraction(2, 1))}
    """
    found: dict[str, Ends] = {name: extent(type) for name, type in types.items()}
    for _ in range(ROUNDS):
        before = dict(found)
        for border, signs in borders.items():
            for name, factor in border.parts:
                others = Linear(tuple(each for each in border.parts if each[0] != name), border.more).times(-1 / factor)
                sides = signs if factor > 0 else frozenset(-each for each in signs)
                found[name] = _narrowed(found[name], (_end(others, found, 0), _end(others, found, 1)), sides,
                                        unit(types[name]))  # fmt: skip
        if found == before:
            break
    return found


def _end(value: Linear, known: Mapping[str, Ends], which: int) -> Fraction | None:
    total = value.more
    for name, factor in value.parts:
        end = known[name][which if factor > 0 else 1 - which]
        if end is None:
            return None
        total += factor * end
    return total


def _narrowed(ends: Ends, other: Ends, signs: Signs, step: Fraction | None) -> Ends:
    """The ends of a value that lies on these sides of another, of which the ends are known."""
    low, high = ends
    if -1 not in signs and other[0] is not None:
        low = max([_least(other[0], step, is_met=0 in signs), *([] if low is None else [low])])
    if 1 not in signs and other[1] is not None:
        high = min([-_least(-other[1], step, is_met=0 in signs), *([] if high is None else [high])])
    if 0 not in signs and other[0] is not None and other[0] == other[1] and step is not None:
        low = low + step if low == other[0] else low
        high = high - step if high == other[0] else high
    return low, high


def _least(bound: Fraction, step: Fraction | None, *, is_met: bool) -> Fraction:
    """The least value of a type from a bound on, or beyond it."""
    if step is None:
        return bound
    return (math.ceil(bound / step) if is_met else math.floor(bound / step) + 1) * step


# ---- in words --------------------------------------------------------------------------------------------------------


def renamed(subject: Subject, names: Mapping[str, str]) -> Subject:
    """A subject with other names for its symbols."""
    if isinstance(subject, Linear):
        return Linear(tuple(sorted((names.get(name, name), factor) for name, factor in subject.parts)), subject.more)
    types = {name: Type(Kind.SYMBOL) for name in variables(subject)}
    called = {name: Symbol(names.get(name, name), types[name], ("", 0)) for name in types}
    made = substituted(subject, called, types)
    assert isinstance(made, Comparison | Test), "a subject is no negation"
    return made


def without_implied(stated: Mapping[Subject, Signs], types: Mapping[str, Type] | None = None) -> dict[Subject, Signs]:
    """The same conditions without those on a border that another border of the same symbols implies, or on several
    symbols that the bounds of each imply."""
    left = dict(stated)
    for subject, signs in stated.items():
        if isinstance(subject, Linear):
            others = (
                (each, left[each])
                for each in left
                if isinstance(each, Linear) and each != subject and each.parts == subject.parts
            )
            if any(_implies(each, own, subject, signs) for each, own in others):
                del left[subject]
    for subject, signs in list(left.items()):
        if isinstance(subject, Linear) and len(subject.parts) > 1 and types:
            rest = {each: own for each, own in left.items() if each != subject}
            if all(is_refuted(Assignment({**rest, subject: Signs((side,))}, types)) for side in ANY - signs):
                left = rest
    return left


def _implies(one: Linear, signs: Signs, other: Linear, other_signs: Signs) -> bool:
    places = sorted((-one.more, -other.more))
    for place in (places[0] - 1, places[0], sum(places) / 2, places[1], places[1] + 1):
        first, second = place + one.more, place + other.more
        if (first > 0) - (first < 0) in signs and (second > 0) - (second < 0) not in other_signs:
            return False
    return True


def words(stated: Mapping[Subject, Signs], types: Mapping[str, Type]) -> tuple[str, ...]:
    """Conditions as programs write them, one symbol after the other."""
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
    return len(border.parts) > 1, [(name, factor) for name, factor in border.parts], -border.more


def _border_words(border: Linear, signs: Signs, types: Mapping[str, Type]) -> str:
    op = _WORDS[signs]
    (name, _), *rest = border.parts
    if not rest:
        return _bound_words(name, op, -border.more, types[name])
    if len(rest) == 1 and rest[0][1] == -1:
        more = -border.more
        shift = f" {'+' if more > 0 else '-'} {_number(abs(more))}" if more else ""
        return f"{name} {op} {rest[0][0]}{shift}"
    numbers = border.more, *(factor for _, factor in border.parts)
    border = border.times(Fraction(math.lcm(*(each.denominator for each in numbers))))
    left = " + ".join(_part(*each) for each in border.parts if each[1] > 0)
    right = [_part(each, -factor) for each, factor in border.parts if factor < 0]
    more = -border.more
    if more or not right:
        right.append(_number(more))
    return f"{left} {op} {' + '.join(right)}"


def _part(name: str, factor: Fraction) -> str:
    return name if factor == 1 else f"{_number(factor)} * {name}"


def _number(value: Fraction) -> str:
    return str(int(value)) if value.denominator == 1 else str(float(value))


def _bound_words(name: str, op: str, at: Fraction, type: Type) -> str:
    """A bound of one value; one that no value of the type meets is stated by the value beside it."""
    value, step = value_at(at, type), unit(type)
    if value is None and step is not None:
        if op == "!=":
            return ""
        op, at = (">=", math.ceil(at / step) * step) if op[0] == ">" else ("<=", math.floor(at / step) * step)
        value = value_at(Fraction(at), type)
    if value is None:
        return ""
    return f"{name} {op} {print_term(Constant(value, type))}"


def pinned(stated: Mapping[Subject, Signs], types: Mapping[str, Type]) -> dict[str, Any]:
    """The symbols that conditions leave one value only, with it."""
    borders = {s: signs for s, signs in stated.items() if isinstance(s, Linear)}
    ends = bounds_of(borders, types)
    found = {}
    for name, (low, high) in ends.items():
        if low is not None and low == high and (value := value_at(low, types[name])) is not None:
            found[name] = value
    return found


def with_values(stated: Mapping[Subject, Signs], values: Mapping[str, Any], types: Mapping[str, Type]
                ) -> dict[Subject, Signs] | None:  # fmt: skip
    """The conditions with values for some symbols; None if those do not meet them."""
    found: dict[Subject, Signs] = {}
    for subject, signs in stated.items():
        made: Condition | bool
        if isinstance(subject, Linear):
            border = Linear((), subject.more)
            for name, factor in subject.parts:
                number = number_of(values[name]) if name in values else None
                border = border.plus((new_value(name) if number is None else Linear((), number)).times(factor))
            made = signed(border, signs)
        else:
            named = {each: values.get(each, Symbol(each, types[each], ("", 0))) for each in variables(subject)}
            literal = substituted(subject, named, types)
            if not variables(literal):
                made = (1 if holds(literal, {}, {}) else -1) in signs
            else:
                base = condition_of(literal, types)
                made = base if isinstance(base, bool) else Condition(base.subject, base.signs & ANY)
                if not isinstance(made, bool) and 1 not in signs:
                    made = Condition(made.subject, ANY - made.signs)
        if made is False:
            return None
        if isinstance(made, Condition):
            found[made.subject] = found.get(made.subject, ANY) & made.signs
    return found


def without_symbols(stated: Mapping[Subject, Signs], names: Collection[str], types: Mapping[str, Type]
                    ) -> dict[Subject, Signs]:  # fmt: skip
    """The conditions without symbols that equations determine: what those are equal to stands in their place."""
    left = dict(stated)
    while True:
        found = next(
            (
                (s, n)
                for s, signs in left.items()
                for n in names_of(s)
                if n in names and _solved(s, signs, n) is not None
            ),
            None,
        )
        if found is None:
            return {s: signs for s, signs in left.items() if not {*names_of(s)} & {*names}}
        equation, name = found
        term = _solved(equation, left[equation], name)
        assert term is not None, "it was solved before"
        made: dict[Subject, Signs] = {}
        for subject, signs in left.items():
            if subject == equation:
                continue
            if name not in names_of(subject):
                made[subject] = made.get(subject, ANY) & signs
                continue
            condition = _replaced(subject, signs, name, term, types)
            if isinstance(condition, Condition):
                made[condition.subject] = made.get(condition.subject, ANY) & condition.signs
        left = made


def _solved(subject: Subject, signs: Signs, name: str) -> Term | Linear | None:
    """The value that a condition equates with a symbol, if one does."""
    if isinstance(subject, Linear):
        if signs != {0}:
            return None
        factor = dict(subject.parts)[name]
        rest = Linear(tuple(each for each in subject.parts if each[0] != name), subject.more)
        return rest.times(-1 / factor)
    match subject:
        case Comparison("=", Variable(one), term) | Comparison("=", term, Variable(one)) if (
            one == name and signs == {1} and name not in variables(term)
        ):
            return term
        case _:
            return None


def _replaced(subject: Subject, signs: Signs, name: str, value: Term | Linear, types: Mapping[str, Type]
              ) -> Condition | bool:  # fmt: skip
    if isinstance(subject, Linear) and isinstance(value, Linear):
        factor = dict(subject.parts)[name]
        rest = Linear(tuple(each for each in subject.parts if each[0] != name), subject.more)
        return signed(rest.plus(value.times(factor)), signs)
    term = as_term(value, types[name]) if isinstance(value, Linear) else value
    if isinstance(subject, Linear):
        factor = dict(subject.parts)[name]
        rest = Linear(tuple(each for each in subject.parts if each[0] != name), subject.more).times(-1 / factor)
        turned = signs if factor > 0 else Signs(-each for each in signs)
        literal: Literal = Comparison(_WORDS[turned], term, as_term(rest, types[name]))
        return condition_of(literal, types)
    named = {n: Symbol(n, types[n], ("", 0), term if n == name else None) for n in variables(subject)}
    found = condition_of(substituted(subject, named, types), types)
    if isinstance(found, bool) or 1 in signs:
        return found
    return Condition(found.subject, ANY - found.signs)


def as_term(value: Linear, type: Type) -> Term:
    """A linear expression as programs write it."""
    number = value_at(value.more, type)
    term: Term | None = None
    for name, factor in value.parts:
        part: Term = Variable(name)
        if factor != 1:
            part = Call("*", (Constant(value_at(factor, type), type), part))
        term = part if term is None else Call("+", (term, part))
    if term is None:
        return Constant(number, type)
    return term if not value.more else Call("+", (term, Constant(number, type)))
