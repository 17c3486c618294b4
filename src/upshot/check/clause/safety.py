"""Safety: the bound variables of a clause, and the order of their definitions; unbound variables are unsafe."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from upshot.check.clause.clause_form import Conjunction, RawLiteral, aggregate_bodies
from upshot.check.findings import Findings
from upshot.check.names.variables import occurrences, terms_of
from upshot.syntax.ast import Aggregate, Atom, Comparison, Formula, Not, Term, Variable


@dataclass(frozen=True, slots=True)
class Binding:
    """`bound`: the variables with a value in every solution. `definitions`: the positions of literals `V = …`, each
    after those that it depends on."""

    bound: frozenset[str]
    definitions: tuple[int, ...]


def shared(aggregate: Aggregate, outside: Collection[str]) -> list[str]:
    """The variables of an aggregate that also occur outside it, in order of first appearance."""
    return list(dict.fromkeys(v.name for v in occurrences(aggregate) if v.name in outside))


def names_inside(aggregate: Aggregate, outside: Collection[str]) -> set[str]:
    """The variables visible inside an aggregate: its own, and those of `outside`."""
    names = direct_names([literal for body in aggregate_bodies(aggregate) for literal in body]) | set(outside)
    if aggregate.target is not None:
        names.update(v.name for v in occurrences(aggregate.target, inside_aggregates=False))
    return names


def direct_names(body: Iterable[RawLiteral]) -> set[str]:
    """The variables that occur in literals outside aggregates."""
    return {v.name for literal in body for t in terms_of(literal) for v in occurrences(t, inside_aggregates=False)}


def defines(literal: RawLiteral) -> list[tuple[str, Term]]:
    """The variables that an equation can bind, each with the term of its value; `!(X != t)` counts as `X = t`."""
    plain = literal.body if isinstance(literal, Not) else literal
    if not isinstance(plain, Comparison) or plain.op != ("!=" if isinstance(literal, Not) else "="):
        return []
    found: list[tuple[str, Term]] = []
    if isinstance(plain.left, Variable):
        found.append((plain.left.name, plain.right))
    if isinstance(plain.right, Variable):
        found.append((plain.right.name, plain.left))
    return found


def bind(body: Conjunction, outside: Collection[str], visible: Collection[str]) -> Binding:
    """The variables that the literals bind if those of `outside` are bound; `visible` are the variables of the clause
    outside aggregates.

    Every equation counts its unbound variables, so the time is linear in the length of the body.
    """
    bound = set(outside)
    queue: deque[str] = deque(bound)
    for literal in body:
        if isinstance(literal, Atom):
            for term in literal.args:
                if isinstance(term, Variable) and term.name not in bound:
                    bound.add(term.name)
                    queue.append(term.name)
    waiting: dict[str, list[int]] = {}
    missing: list[int] = []
    equations: list[tuple[int, str]] = []
    definitions: list[int] = []
    ready: deque[int] = deque()
    for position, literal in enumerate(body):
        for name, term in defines(literal):
            needs = shared(term, visible) if isinstance(term, Aggregate) else [v.name for v in occurrences(term)]
            number = len(equations)
            equations.append((position, name))
            needs = list(dict.fromkeys(needs))
            missing.append(len(needs))
            for need in needs:
                waiting.setdefault(need, []).append(number)
            if not needs:
                ready.append(number)
    while ready or queue:
        while queue:
            for number in waiting.get(queue.popleft(), ()):
                missing[number] -= 1
                if missing[number] == 0:
                    ready.append(number)
        if ready:
            position, name = equations[ready.popleft()]
            definitions.append(position)
            if name not in bound:
                bound.add(name)
                queue.append(name)
    return Binding(frozenset(bound), tuple(dict.fromkeys(definitions)))


def check_safety(head: Atom, body: Conjunction, findings: Findings, head_words: str = "the head") -> bool:
    """Test whether every variable of the clause is bound; report those that are not, but for consequences of others."""
    visible = direct_names(body) | {v.name for a in head.args for v in occurrences(a)}
    return _check_body(_ScopedBody(head, body, head_words), (), visible, findings)


def _check_aggregate(aggregate: Aggregate, visible: Collection[str], findings: Findings) -> bool:
    """Test whether the aggregate's own variables are bound in each alternative of it; those shared with the outside
    count as bound."""
    target, outside = Atom("", () if aggregate.target is None else (aggregate.target,)), shared(aggregate, visible)
    inside = names_inside(aggregate, outside)
    bodies = [_ScopedBody(target, body, "the value of the aggregate") for body in aggregate_bodies(aggregate)]
    checks = [_check_body(each, outside, inside, findings) for each in bodies]
    return all(checks)


@dataclass(frozen=True, slots=True)
class _ScopedBody:
    """The body of a clause or an aggregate; `head` has the terms that its variables give values to, `head_words` is
    its name in messages."""

    head: Atom
    literals: Conjunction
    head_words: str


def _check_body(body: _ScopedBody, outside: Collection[str], visible: Collection[str], findings: Findings) -> bool:
    """Test whether every variable is bound, those of nested aggregates too; variables of `outside` are."""
    binding = bind(body.literals, outside, visible)
    fine = True
    reported: set[str] = set()
    blamed = _roots(body.literals, binding, visible)
    counts = _counts(body.head, body.literals)
    for variable, place in _uses(body.head, body.literals, visible, body.head_words):
        if variable.name in binding.bound or variable.name in reported:
            continue
        reported.add(variable.name)
        fine = False
        if variable.name in blamed:
            _report(variable, place, counts, findings)
    for literal in body.literals:
        for aggregate in _aggregates(literal):
            fine = _check_aggregate(aggregate, visible, findings) and fine
    return fine


def _aggregates(literal: RawLiteral) -> Iterator[Aggregate]:
    if isinstance(literal, Comparison) and isinstance(literal.right, Aggregate):
        yield literal.right


def _uses(head: Atom, body: Conjunction, visible: Collection[str], head_words: str) -> Iterator[tuple[Variable, str]]:
    """Every occurrence of a variable that must be bound, the head first, with its place in words."""
    for argument in head.args:
        for variable in occurrences(argument):
            yield variable, head_words
    for literal in body:
        words = "a negated literal" if isinstance(literal, Not) else "a literal"
        if isinstance(literal, Comparison):
            words = "a comparison"
        for term in terms_of(literal):
            if isinstance(term, Aggregate):
                continue
            for variable in occurrences(term):
                yield variable, words
    for literal in body:
        for aggregate in _aggregates(literal):
            for variable in occurrences(aggregate):
                if variable.name in visible:
                    yield variable, "an aggregate"


def _roots(body: Conjunction, binding: Binding, visible: Collection[str]) -> set[str]:
    """The unbound variables to report: without those that would be bound if others were."""
    needs: dict[str, list[str]] = {}
    for literal in body:
        for name, term in defines(literal):
            if name not in binding.bound:
                names = shared(term, visible) if isinstance(term, Aggregate) else [v.name for v in occurrences(term)]
                needs.setdefault(name, []).extend(n for n in names if n not in binding.bound)
    unbound = {n for n in visible if n not in binding.bound}
    roots = {n for n in unbound if not [m for m in needs.get(n, ()) if m != n]}
    users: dict[str, list[str]] = {}
    for name, names in needs.items():
        for need in names:
            users.setdefault(need, []).append(name)
    # A root explains the variables that depend on it; of a cycle without a root, every member is reported.
    explained = set(roots)
    pending = list(roots)
    while pending:
        for user in users.get(pending.pop(), ()):
            if user not in explained:
                explained.add(user)
                pending.append(user)
    return roots | (unbound - explained)


def _counts(head: Atom, body: Conjunction) -> Counter[str]:
    """The number of occurrences of each variable."""
    nodes: tuple[Formula | Term, ...] = (*head.args, *body)
    return Counter(v.name for node in nodes for v in occurrences(node))


def _report(variable: Variable, place: str, counts: Counter[str], findings: Findings) -> None:
    name = variable.name
    label = f"`{name}` occurs nowhere else" if counts[name] == 1 else f"no positive literal binds `{name}`"
    what = "head variable" if place == "the head" else "variable"
    findings.error(
        "unsafe-variable",
        f"{what} `{name}` is not bound in the body"
        if place == "the head"
        else f"{what} `{name}` in {place} is not bound",
        variable.span,
        label=label,
        help=f"use `{name}` in a positive literal of the body, or give it a value with `{name} = …`",
    )
