"""Witnesses of `min` and `max`: variables of the aggregate that the rest of the rule uses without binding them.

    oldest(N, A) :- A = max X : { person(N, X) }.

The name of whoever is that old is a witness. The aggregate is taken over all of them, and a copy of its body finds
those that have the value: `A = max X : { person(N', X) }, person(N, X'), A = X'`.
"""

from __future__ import annotations

from collections.abc import Callable

from upshot.check.clause.clause_form import Conjunction, RawLiteral, aggregate_bodies, with_bodies, with_terms
from upshot.check.clause.safety import bind, direct_names, shared
from upshot.check.names.variables import all_names, fold, fresh_name, occurrences, terms_of
from upshot.syntax.ast import Aggregate, Atom, Call, Comparison, Not, Term, Variable

_EXTREMES = ("min", "max")


def with_witnesses(head: Atom, body: Conjunction) -> Conjunction:
    """The body in which aggregates that have witnesses stand beside a copy of their own bodies."""
    taken = all_names((head, *body))
    visible = direct_names(body) | {v.name for a in head.args for v in occurrences(a)}
    for position, literal in enumerate(body):
        if not isinstance(literal, Comparison) or not isinstance(literal.right, Aggregate):
            continue
        aggregate = literal.right
        if aggregate.function not in _EXTREMES or not isinstance(literal.left, Variable):
            continue
        others = (*body[:position], *body[position + 1 :])
        bound = bind(others, (), visible).bound
        bodies = aggregate_bodies(aggregate)
        if len(bodies) > 1:
            continue  # which alternative would the witness be of?
        inside = bind(bodies[0], bound, visible).bound
        witnesses = {name for name in shared(aggregate, visible) if name not in bound and name in inside}
        if witnesses:
            return with_witnesses(head, (*others, *_split(literal, aggregate, witnesses, visible, taken)))
    return body


def _split(
    literal: Comparison, aggregate: Aggregate, witnesses: set[str], visible: set[str], taken: set[str]
) -> Conjunction:
    """The aggregate over all witnesses, and its body for those that have the value."""
    (body,) = aggregate_bodies(aggregate)
    own = all_names(body) | (set() if aggregate.target is None else all_names((aggregate.target,)))
    inner = _renaming(witnesses, taken)
    outer = _renaming(own - visible, taken)
    assert aggregate.target is not None
    over = tuple(_renamed(part, inner) for part in body)
    made = with_bodies(aggregate, _term(aggregate.target, inner), [over])
    same = Comparison("=", literal.left, _term(aggregate.target, outer), span=literal.span)
    copies = tuple(_renamed(part, outer) for part in body)
    return (Comparison("=", literal.left, made, span=literal.span), *copies, same)


def _renaming(names: set[str], taken: set[str]) -> dict[str, str]:
    made: dict[str, str] = {}
    for name in sorted(names):
        made[name] = fresh_name(f"{name}_1", taken)
        taken.add(made[name])
    return made


def _renamed(literal: RawLiteral, names: dict[str, str]) -> RawLiteral:
    plain = literal.body if isinstance(literal, Not) else literal
    if isinstance(plain, Comparison) and isinstance(plain.right, Aggregate):
        moved: RawLiteral = Comparison(
            plain.op, _term(plain.left, names), _aggregate(plain.right, names), span=plain.span
        )
    else:
        moved = with_terms(plain, [_term(each, names) for each in terms_of(plain)])
    return Not(moved, span=literal.span) if isinstance(literal, Not) else moved


def _aggregate(aggregate: Aggregate, names: dict[str, str]) -> Aggregate:
    bodies = [tuple(_renamed(part, names) for part in body) for body in aggregate_bodies(aggregate)]
    target = None if aggregate.target is None else _term(aggregate.target, names)
    return with_bodies(aggregate, target, bodies)


def _term(term: Term, names: dict[str, str]) -> Term:
    visit: Callable[[Term, tuple[Term, ...]], Term] = lambda each, parts: (  # noqa: E731
        Variable(names.get(each.name, each.name), span=each.span)
        if isinstance(each, Variable)
        else Call(each.function, parts, span=each.span)
        if isinstance(each, Call)
        else each
    )
    return fold(term, visit)
