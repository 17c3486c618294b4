"""Sideways information passing: the order in which the literals of a body are joined, from bound variables outward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum

from upshot.check.names.variables import variables
from upshot.check.program import Literal
from upshot.core.types import Type
from upshot.rewrite.normalize.occurrences import needed_by
from upshot.syntax.ast import Atom, Call, Comparison, Constant, Not, Term, Test, Variable
from upshot.values.conditions import TESTS
from upshot.values.functions import FUNCTIONS


def next_literal(
    waiting: Sequence[Literal],
    bound: Collection[str],
    types: Mapping[str, Type],
    is_queried: Callable[[Literal], bool],
    *,
    outward: bool = True,
    small: Collection[str] = (),
    initial: Collection[str] = (),
    rule: Sequence[Literal] = (),
) -> int:
    """The place of the literal to join next. In this order: filters whose variables are bound; an atom of a `small`
    relation; an atom that continues the chain of joins, stored ones before queried ones, then the one with the fewest
    free arguments; negations. A literal that can fail comes after all literals that do not need its result. Not
    `outward`: atoms from left to right. `initial`: the variables bound before the first join. `rule`: the body that the
    literals are from."""
    ready = [i for i, literal in enumerate(waiting) if _is_ready(literal, bound)]
    filters = [i for i in ready if not isinstance(waiting[i], Atom) and not is_negation(waiting[i])]
    for i in filters:
        if not can_fail(waiting[i], types):
            return i
    awaited = {name for literal in waiting if can_fail(literal, types) for name in equated(literal)} - set(bound)
    atoms = [i for i in ready if isinstance(waiting[i], Atom)]
    independent = [i for i in atoms if awaited.isdisjoint(variables(waiting[i]))]
    if independent and not outward:
        return independent[0]
    if independent:
        few = [i for i in independent if _relation(waiting[i]) in small]
        return min(few or independent, key=lambda i: _rank(waiting[i], bound, initial, is_queried(waiting[i])))
    negations = [i for i in ready if is_negation(waiting[i])]
    if len(filters) > 1 and not negations:
        use = uses(rule)
        return min(filters, key=lambda i: (use.get(waiting[i], Use.HEAD), i))
    return next(iter((*negations, *filters, *atoms)))


def _relation(literal: Literal) -> str:
    assert isinstance(literal, Atom)
    return literal.relation


def _rank(literal: Literal, bound: Collection[str], initial: Collection[str], queried: bool) -> tuple[int, bool, int]:
    """Smaller is better. Literals that share only `initial` variables multiply: so a literal that shares a variable
    with one joined already comes first, even if it must be queried. A literal that shares only constants comes last: it
    is a cross product."""
    assert isinstance(literal, Atom)
    names = {name for name in variables(literal) if name in bound}
    known = sum(is_bound(term, bound) for term in literal.args)
    if known == len(literal.args) or any(name not in initial for name in names):
        product = 0
    elif names:
        product = 1 if any(name not in initial for name in bound) else 0
    else:
        product = 2
    return product, queried, len(literal.args) - known


def _is_ready(literal: Literal, bound: Collection[str]) -> bool:
    """Test whether all variables are bound that the literal needs and cannot bind."""
    match literal:
        case Atom():
            return True
        case Comparison("=", left, right):
            sides = [(left, right), (right, left)]
            can_bind = any(
                isinstance(side, Variable) and all(name in bound for name in needed_by(literal, side.name, bound))
                for side, _ in sides
            )
            return can_bind or all(name in bound for name in variables(literal))
        case _:
            return all(name in bound for name in variables(literal))


def is_negation(literal: Literal) -> bool:
    return isinstance(literal, Not) and isinstance(literal.body, Atom)


def is_bound(term: Term, bound: Collection[str]) -> bool:
    match term:
        case Constant():
            return True
        case Variable(name):
            return name in bound
        case Call(_, args):
            return all(is_bound(t, bound) for t in args)
        case _:
            return False


def equated(literal: Literal) -> set[str]:
    """The variables that an equation may bind."""
    if not isinstance(literal, Comparison) or literal.op != "=":
        return set()
    return {side.name for side in (literal.left, literal.right) if isinstance(side, Variable)}


class Use(IntEnum):
    """The use of a computed value. Of the literals that can fail, those with the smallest use are computed first."""

    TEST = 0
    JOIN = 1
    HEAD = 2


def uses(body: Sequence[Literal]) -> dict[Literal, Use]:
    """The use of each literal in the body of a rule: TEST if it is a test that can reject a binding, or computes a
    value for one; JOIN if it computes a value for a join; else HEAD. An equation is a test if another equation or an
    atom also binds its variable. All plans of the rule depend on this, so that they compute in one order, whatever
    drives them."""
    targets = [equated(literal) for literal in body]
    defined = Counter(name for names in targets for name in names)
    makers: dict[str, list[int]] = {}
    rows: dict[str, list[set[str]]] = {}
    for i, (literal, names) in enumerate(zip(body, targets, strict=True)):
        for name in names:
            makers.setdefault(name, []).append(i)
        row = {*variables(literal)} if isinstance(literal, Atom) else set[str]()
        for name in row:
            rows.setdefault(name, []).append(row)

    def is_test(i: int) -> bool:
        needed = {*variables(body[i])}
        return not targets[i] or any(
            defined[name] > 1 or any(needed <= row for row in rows.get(name, ())) for name in targets[i]
        )

    found = [Use.HEAD] * len(body)
    for use in (Use.TEST, Use.JOIN):
        of_atoms = use is Use.JOIN
        queue = [i for i, each in enumerate(body) if isinstance(each, Atom) is of_atoms and (of_atoms or is_test(i))]
        while queue:
            i = queue.pop()
            if found[i] > use:
                found[i] = use
                queue += [maker for name in variables(body[i]) for maker in makers.get(name, ())]
    return dict(zip(body, found, strict=True))


def can_fail(literal: Literal, types: Mapping[str, Type]) -> bool:
    """Test whether evaluating the literal can raise an error: overflow, division by zero, a bad pattern."""
    match literal:
        case Not(Test(name)) | Test(name):
            return TESTS[name].fails
        case Comparison(_, left, right):
            sides = [(left, right), (right, left)]
            calls = [(target, call) for target, call in sides if isinstance(call, Call)]
            return any(
                FUNCTIONS[call.function].fails(types[target.name].kind if isinstance(target, Variable) else None)
                for target, call in calls
            )
        case _:
            return False
