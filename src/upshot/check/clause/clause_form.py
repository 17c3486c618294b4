"""Rules in clause form: one head, a conjunction of literals, aggregates only as `Variable = aggregate`.

Negation is pushed inward by De Morgan's laws. A negated comparison stays a `Not` here: with NULL operands it differs
from the opposite comparison, and only a whole clause shows whether an operand can be NULL (see `null_cases`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from upshot.check.names.variables import fold, fresh_name, occurrences, terms_of
from upshot.syntax import ast
from upshot.values.aggregates import AGGREGATES
from upshot.values.functions import RANGE
from upshot.values.functors import bare_name

RawLiteral = ast.Atom | ast.Not | ast.Comparison | ast.Test
"""A literal whose `Not` may still hold a comparison."""
Conjunction = tuple[RawLiteral, ...]

MOST_ALTERNATIVES = 1_024
MOST_LITERALS = 20_000
"""The most literals of all alternatives together; a rule without alternatives may have more."""
TRUE = ast.Test("true", ())
FALSE = ast.Test("false", ())


class TooMany(Exception):
    """A formula has more alternatives than a rule may have."""


def alternatives(formula: ast.Formula | None) -> list[Conjunction]:
    """The disjunctive normal form: one conjunction for each alternative, in the order of the text.

    >>> [len(c) for c in alternatives(ast.Not(ast.And((ast.Atom("a", ()), ast.Atom("b", ())))))]
    [1, 1]
    """
    if formula is None:
        return [()]
    done: list[list[list[RawLiteral]]] = []
    stack: list[tuple[ast.Formula, bool, bool]] = [(formula, True, False)]
    while stack:
        current, positive, opened = stack.pop()
        if isinstance(current, ast.Not):
            stack.append((current.body, not positive, False))
        elif not isinstance(current, ast.And | ast.Or):
            done.append([_leaf(current, positive)])
        elif not opened:
            stack.append((current, positive, True))
            stack.extend((part, positive, False) for part in reversed(current.parts))
        else:
            count = len(current.parts)
            parts = done[len(done) - count :]
            del done[len(done) - count :]
            done.append(_product(parts) if isinstance(current, ast.And) is positive else _union(parts))
    return [tuple(c) for c in done[0]]


def _leaf(literal: ast.Atom | ast.Comparison | ast.Test, positive: bool) -> list[RawLiteral]:
    if isinstance(literal, ast.Test) and literal.name in ("true", "false"):
        return [] if (literal.name == "true") is positive else [ast.Test("false", (), span=literal.span)]
    return [literal] if positive else [ast.Not(literal, span=literal.span)]


def _union(parts: list[list[list[RawLiteral]]]) -> list[list[RawLiteral]]:
    if sum(map(len, parts)) > MOST_ALTERNATIVES:
        raise TooMany
    if not parts:
        return [[FALSE]]
    return [conjunction for part in parts for conjunction in part]


def _product(parts: list[list[list[RawLiteral]]]) -> list[list[RawLiteral]]:
    product: list[list[RawLiteral]] = [[]]
    for part in parts:
        if len(product) * len(part) > MOST_ALTERNATIVES:
            raise TooMany
        if len(part) == 1:
            for conjunction in product:
                conjunction.extend(part[0])
        else:
            product = [left + right for left in product for right in part]
            if sum(map(len, product)) > MOST_LITERALS:
                raise TooMany
    return product


class Lifting:
    """Replace the aggregates and ranges of one clause by fresh variables, each with an equation.

    A variable that occurs in an aggregate and outside is shared. One that occurs only inside is local to the aggregate,
    and is renamed if another aggregate has a local variable of the same name. A variable of the aggregated term is
    local too if the body of the aggregate binds it, unless nothing outside binds it: then it is a witness.
    """

    def __init__(self, taken: set[str], parameters: Mapping[str, ast.Constant]) -> None:
        self._taken = taken
        self._parameters = parameters
        self._claimed: set[str] = set()
        self._body: Conjunction = ()
        self._outside: set[str] = set()

    def clause(self, head: ast.Atom, body: Conjunction) -> tuple[ast.Atom, Conjunction]:
        """Head and body with every aggregate as the right side of `Variable = aggregate`."""
        visible = _direct_names([*head.args, *(t for literal in body for t in terms_of(literal))])
        self._claimed |= visible
        self._body, self._outside = body, visible
        added: list[RawLiteral] = []
        args = tuple(self._term(a, {}, visible, added) for a in head.args)
        literals = self._literals(body, {}, visible)
        return ast.Atom(head.relation, args, head.state, span=head.span), (*literals, *added)

    def _literals(self, body: Conjunction, names: Mapping[str, str], visible: set[str]) -> Conjunction:
        result: list[RawLiteral] = []
        for literal in body:
            added: list[RawLiteral] = []
            moved = self._literal(literal, names, visible, added)
            result.extend(added)
            if moved is not None:
                result.append(moved)
        return tuple(result)

    def _literal(
        self, literal: RawLiteral, names: Mapping[str, str], visible: set[str], added: list[RawLiteral]
    ) -> RawLiteral | None:
        if isinstance(literal, ast.Comparison) and literal.op == "=":
            left, right = literal.left, literal.right
            if isinstance(left, ast.Aggregate) and isinstance(right, ast.Variable):
                left, right = right, left
            if isinstance(left, ast.Variable) and isinstance(right, ast.Aggregate):
                variable = _renamed(left, names)
                added.append(ast.Comparison("=", variable, self._aggregate(right, names, visible), span=literal.span))
                return None
            if _is_range(left) and isinstance(right, ast.Variable):
                left, right = right, left
            if isinstance(left, ast.Variable) and _is_range(right):
                args = tuple(self._term(arg, names, visible, added) for arg in right.args)
                return ast.Comparison(
                    "=", _renamed(left, names), ast.Call(RANGE, args, span=right.span), span=literal.span
                )
        plain = literal.body if isinstance(literal, ast.Not) else literal
        terms = terms_of(plain)
        if all(isinstance(t, ast.Variable) and t.name not in names for t in terms):
            return literal
        moved = tuple(self._term(t, names, visible, added) for t in terms)
        rebuilt = with_terms(plain, moved)
        return ast.Not(rebuilt, span=literal.span) if isinstance(literal, ast.Not) else rebuilt

    def _term(self, term: ast.Term, names: Mapping[str, str], visible: set[str], added: list[RawLiteral]) -> ast.Term:
        def visit(current: ast.Term, parts: tuple[ast.Term, ...]) -> ast.Term:
            if isinstance(current, ast.Variable):
                return _renamed(current, names)
            if isinstance(current, ast.Call):
                call = ast.Call(current.function, parts, span=current.span)
                if not _is_range(call):
                    return call
                value = ast.Variable(self._fresh(f"{RANGE}_1"), span=call.span)
                added.append(ast.Comparison("=", value, call, span=call.span))
                return value
            if isinstance(current, ast.Aggregate):
                variable = ast.Variable(self._fresh(current.function), span=current.span)
                aggregate = self._aggregate(current, names, visible)
                added.append(ast.Comparison("=", variable, aggregate, span=current.span))
                return variable
            if isinstance(current, ast.Parameter):
                bound = self._parameters.get(current.name)
                return current if bound is None else replace(bound, span=current.span)
            return current

        return fold(term, visit)

    def _aggregate(self, aggregate: ast.Aggregate, names: Mapping[str, str], visible: set[str]) -> ast.Aggregate:
        choices = alternatives(aggregate.body)
        if len(choices) > 1:
            choices = with_named_wildcards(choices, self._taken)
        target = () if aggregate.target is None else (aggregate.target,)
        own = _direct_names([*target, *(t for c in choices for literal in c for t in terms_of(literal))])
        own -= visible - self._summed(target, choices, visible)
        inner = dict(names)
        for name in sorted(own):
            if name in self._claimed:
                inner[name] = self._fresh(name)
            else:
                inner.pop(name, None)
            self._claimed.add(inner.get(name, name))
        within = visible | own
        literals = [self._literals(body, inner, within) for body in choices]
        added: list[RawLiteral] = []
        moved = None if aggregate.target is None else self._term(aggregate.target, inner, within, added)
        return with_bodies(aggregate, moved, [(*each, *added) for each in literals])

    def _summed(self, target: Sequence[ast.Term], choices: Sequence[Conjunction], visible: set[str]) -> set[str]:
        """The variables of the aggregated term that are local although the same names occur outside."""
        names = _direct_names(target) & visible
        if names:
            names.intersection_update(*(_bound(body, visible - names) for body in choices))
        if names:
            names -= self._outside - _bound(self._body, ())
        return names

    def _fresh(self, base: str) -> str:
        base = bare_name(base)
        name = fresh_name(f"{base}_1" if base in AGGREGATES else base, self._taken)
        self._taken.add(name)
        self._claimed.add(name)
        return name


def with_named_wildcards(bodies: Sequence[Conjunction], taken: set[str]) -> list[Conjunction]:
    """The alternatives of an aggregate with variables in place of the wildcards of positive atoms, the same variable in
    every alternative that has the atom: the aggregate counts solutions over all its variables."""
    named: dict[int, RawLiteral] = {}

    def change(literal: RawLiteral) -> RawLiteral:
        if not isinstance(literal, ast.Atom) or not any(isinstance(each, ast.Wildcard) for each in literal.args):
            return literal
        if id(literal) not in named:
            args = []
            for each in literal.args:
                name = fresh_name("Any", taken)
                if isinstance(each, ast.Wildcard):
                    taken.add(name)
                args.append(ast.Variable(name, span=each.span) if isinstance(each, ast.Wildcard) else each)
            named[id(literal)] = ast.Atom(literal.relation, tuple(args), literal.state, span=literal.span)
        return named[id(literal)]

    return [tuple(map(change, body)) for body in bodies]


def with_bodies(aggregate: ast.Aggregate, target: ast.Term | None, bodies: Sequence[Conjunction]) -> ast.Aggregate:
    """The aggregate of `target` over other alternatives, each in clause form."""
    span = aggregate.body.span
    parts = tuple(ast.And(body or (TRUE,), span=span) for body in bodies)
    return ast.Aggregate(
        aggregate.function, target, parts[0] if len(parts) == 1 else ast.Or(parts), span=aggregate.span
    )


def aggregate_bodies(aggregate: ast.Aggregate) -> tuple[Conjunction, ...]:
    """The alternatives of an aggregate in clause form, each a conjunction."""
    body = aggregate.body
    parts = body.parts if isinstance(body, ast.Or) else (body,)
    return tuple(part.parts for part in parts if isinstance(part, ast.And))  # type: ignore[misc]


def is_aggregate(literal: RawLiteral) -> bool:
    return isinstance(literal, ast.Comparison) and isinstance(literal.right, ast.Aggregate)


def with_terms(literal: ast.Formula, terms: Sequence[ast.Term]) -> RawLiteral:
    """The atom, comparison or test with other terms in the places of its own."""
    match literal:
        case ast.Atom():
            return ast.Atom(literal.relation, tuple(terms), literal.state, span=literal.span)
        case ast.Comparison():
            return ast.Comparison(literal.op, terms[0], terms[1], span=literal.span)
        case ast.Test():
            return ast.Test(literal.name, tuple(terms), span=literal.span)
        case _:
            raise TypeError(f"not a literal: {literal!r}")


def _bound(body: Conjunction, initial: Collection[str]) -> set[str]:
    """The variables that the literals bind, if all aggregates have values."""
    bound = set(initial)
    equations: list[tuple[ast.Term, ast.Term]] = []
    for literal in body:
        plain = literal.body if isinstance(literal, ast.Not) else literal
        if isinstance(literal, ast.Atom):
            bound |= _taken_apart(literal.args)
        elif isinstance(plain, ast.Comparison) and plain.op == ("!=" if isinstance(literal, ast.Not) else "="):
            equations += [(plain.left, plain.right), (plain.right, plain.left)]
    before = -1
    while len(bound) != before:
        before = len(bound)
        for target, value in equations:
            if _direct_names([value]) <= bound:
                bound |= _taken_apart([target])
    return bound


def _taken_apart(terms: Iterable[ast.Term]) -> set[str]:
    """The variables that are bound if the terms are: the terms themselves, and the fields of records and branches."""
    found: set[str] = set()
    waiting = list(terms)
    while waiting:
        term = waiting.pop()
        if isinstance(term, ast.Variable):
            found.add(term.name)
        elif isinstance(term, ast.Call) and (term.function == "[" or term.function.startswith("$")):
            waiting += term.args
    return found


def _is_range(term: ast.Term) -> TypeGuard[ast.Call]:
    return isinstance(term, ast.Call) and term.function == RANGE


def _renamed(variable: ast.Variable, names: Mapping[str, str]) -> ast.Variable:
    new = names.get(variable.name)
    return variable if new is None else ast.Variable(new, span=variable.span)


def _direct_names(terms: Iterable[ast.Term]) -> set[str]:
    return {v.name for t in terms for v in occurrences(t, inside_aggregates=False)}
