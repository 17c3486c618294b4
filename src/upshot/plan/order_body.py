"""The steps of a rule body in a good order: from the driving literal outward, cheapest match first, filters as
soon as bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from upshot.check.program import Literal
from upshot.core.types import Kind, Type
from upshot.plan.rule_plan import Absent, Check, Compare, Compute, Match, Operand, Probe, Same, State, Step
from upshot.plan.statistics import Statistics, fan_out
from upshot.syntax.ast import Atom, Call, Comparison, Constant, Not, Term, Test, Variable

MOST_STARTS = 4
"""A scan over all rows may start at any literal; of a long body only the smallest few relations are tried."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a literal's relation name stands for: a relation and one of its states."""

    relation: str
    state: State


Resolve = Callable[[str], Resolved]


@dataclass(frozen=True, slots=True)
class Ordered:
    """`cost`: rows expected to be visited per driving row; `types`: of variables that the order introduced."""

    steps: tuple[Step, ...]
    cost: float
    types: Mapping[str, Type]


def match_atom(atom: Atom, bound: set[str], resolve: Resolve) -> Match:
    """How the atom's rows meet the bound variables."""
    key: list[tuple[int, Operand]] = []
    binds: dict[str, int] = {}
    repeats: list[tuple[int, str]] = []
    for column, term in enumerate(atom.args):
        match term:
            case Constant():
                key.append((column, term))
            case Variable(name) if name in bound:
                key.append((column, term))
            case Variable(name) if name in binds:
                repeats.append((column, name))
            case Variable(name):
                binds[name] = column
            case _:
                pass
    resolved = resolve(atom.relation)
    pairs = tuple((column, name) for name, column in binds.items())
    return Match(resolved.relation, resolved.state, tuple(key), pairs, tuple(repeats))


def order_body(
    body: Sequence[Literal],
    bound: set[str],
    *,
    resolve: Resolve,
    types: Mapping[str, Type],
    statistics: Statistics,
    first: int | None = None,
) -> Ordered:
    """Greedy: every filter that is ready, then the atom with the fewest expected rows; `first` forces the first atom.

    What can fail (arithmetic that overflows, a division) comes after every literal that does not need its result,
    so that it fails only for a binding that satisfies the rest of the body.
    """
    bound = set(bound)
    waiting = list(range(len(body)))
    steps: list[Step] = []
    rows, cost = 1.0, 0.0
    while waiting:
        done = _ready_filters(body, waiting, bound, resolve, types, steps, may_fail=False)
        choice = first
        if choice is None and not done:
            choice = _next_atom(body, waiting, bound, resolve, types, statistics)
        if choice is None and not done:
            done = _ready_filters(body, waiting, bound, resolve, types, steps, may_fail=True)
        if choice is None and not done:
            choice = _next_atom(body, waiting, bound, resolve, {}, statistics)
        if choice is not None:
            first = None
            atom = body[choice]
            assert isinstance(atom, Atom)
            rows *= max(_expected(atom, bound, resolve, statistics)[0], 1e-6)
            cost += rows
            match = match_atom(atom, bound, resolve)
            steps.append(Probe(match, whole=len(match.key) == len(atom.args)))
            bound |= {name for _, name in match.binds}
            done.add(choice)
        waiting = [i for i in waiting if i not in done]
    introduced = {s.target: types[s.target[:-1]] for s in steps if isinstance(s, Compute) and s.target not in types}
    return Ordered(tuple(steps), cost, introduced)


def best_start(
    body: Sequence[Literal], *, resolve: Resolve, types: Mapping[str, Type], statistics: Statistics
) -> int | None:
    """The atom to scan when nothing drives the rule, None if the body has no atom."""
    atoms = [(i, a) for i, a in enumerate(body) if isinstance(a, Atom)]
    if not atoms:
        return None
    small = sorted(atoms, key=lambda pair: statistics.size(resolve(pair[1].relation).relation))[:MOST_STARTS]

    def cost(pair: tuple[int, Atom]) -> float:
        ordered = order_body(body, set(), resolve=resolve, types=types, statistics=statistics, first=pair[0])
        return ordered.cost

    return min(small, key=cost)[0]


def _expected(literal: Literal, bound: set[str], resolve: Resolve, statistics: Statistics) -> tuple[float, int]:
    assert isinstance(literal, Atom)
    match = match_atom(literal, bound, resolve)
    columns = tuple(column for column, _ in match.key)
    return fan_out(statistics, match.relation, len(literal.args), columns), -len(columns)


def _next_atom(
    body: Sequence[Literal],
    waiting: list[int],
    bound: set[str],
    resolve: Resolve,
    types: Mapping[str, Type],
    statistics: Statistics,
) -> int | None:
    """The waiting atom with the fewest expected rows; with `types`, of those that need no result that can fail."""
    awaited = {name for i in waiting for name in _results(body[i], types)} - bound
    atoms = [i for i in waiting if isinstance(body[i], Atom) and awaited.isdisjoint(_names(body[i]))]
    return min(atoms, key=lambda i: _expected(body[i], bound, resolve, statistics), default=None)


def _results(literal: Literal, types: Mapping[str, Type]) -> set[str]:
    """The variables that a literal which can fail may bind."""
    if not types or not _can_fail(literal, types) or not isinstance(literal, Comparison) or literal.op != "=":
        return set()
    return {side.name for side in (literal.left, literal.right) if isinstance(side, Variable)}


def _names(literal: Literal) -> set[str]:
    assert isinstance(literal, Atom)
    return {term.name for term in literal.args if isinstance(term, Variable)}


_NEVER_FAILS = {"cat", "strlen", "substr", "ord", "to_string", "max", "min", "band", "bor", "bxor", "bnot", "bshr"}


def _can_fail(literal: Literal, types: Mapping[str, Type]) -> bool:
    match literal:
        case Not(Test(name)) | Test(name):
            return name == "match"
        case Comparison(_, left, right):
            sides = [(left, right), (right, left)]
            calls = [(target, call) for target, call in sides if isinstance(call, Call)]
            return any(
                call.function not in _NEVER_FAILS
                and not (isinstance(target, Variable) and types[target.name].kind is Kind.FLOAT)
                for target, call in calls
            )
        case _:
            return False


def _ready_filters(
    body: Sequence[Literal],
    waiting: list[int],
    bound: set[str],
    resolve: Resolve,
    types: Mapping[str, Type],
    steps: list[Step],
    *,
    may_fail: bool,
) -> set[int]:
    """Append every literal that needs no further binding; the positions done. Negations come after other filters."""
    done: set[int] = set()
    for negations in (False, True):
        for i in waiting:
            literal = body[i]
            if isinstance(literal, Atom) or i in done or _is_negated_atom(literal) != negations:
                continue
            if not may_fail and _can_fail(literal, types):
                continue
            found = _filter_steps(literal, bound, resolve)
            steps += found
            bound |= {step.target for step in found if isinstance(step, Compute)}
            if found:
                done.add(i)
    return done


def _is_negated_atom(literal: Literal) -> bool:
    return isinstance(literal, Not) and isinstance(literal.body, Atom)


def _filter_steps(literal: Literal, bound: set[str], resolve: Resolve) -> list[Step]:
    """The steps for a comparison, test or negation, none while a variable is missing."""
    match literal:
        case Comparison("=", left, right):
            return _equation(left, right, bound)
        case Not(Atom(_, args) | Test(_, args)) | Test(_, args):
            if not all(_is_bound(t, bound) for t in args):
                return []
        case Comparison(_, left, right):
            if not (_is_bound(left, bound) and _is_bound(right, bound)):
                return []
        case _:
            raise AssertionError(f"not in normal form: {literal}")
    match literal:
        case Not(Atom(name, args)):
            resolved = resolve(name)
            return [Absent(resolved.relation, resolved.state, tuple(_operand(t) for t in args))]
        case Not(Test() as test):
            return [Check(test, negated=True)]
        case Test():
            return [Check(literal)]
        case Comparison(op, left, right):
            return [Compare(op, _operand(left), _operand(right))]
        case _:
            raise AssertionError(literal)


def _equation(left: Term, right: Term, bound: set[str]) -> list[Step]:
    """Bind the side that is still unbound; compare if both are bound."""
    for target, value in ((left, right), (right, left)):
        if not isinstance(target, Variable) or not _is_bound(value, bound):
            continue
        if target.name not in bound:
            return [Compute(target.name, value if isinstance(value, Call) else _operand(value))]
        if isinstance(value, Call):
            again = Variable(target.name + "'")
            return [Compute(again.name, value), Same(target, again)]
    if _is_bound(left, bound) and _is_bound(right, bound):
        return [Compare("=", _operand(left), _operand(right))]
    return []


def _is_bound(term: Term, bound: set[str]) -> bool:
    match term:
        case Constant():
            return True
        case Variable(name):
            return name in bound
        case Call(_, args):
            return all(_is_bound(t, bound) for t in args)
        case _:
            return False


def _operand(term: Term) -> Operand:
    assert isinstance(term, Variable | Constant), term
    return term
