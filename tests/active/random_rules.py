"""Random sets of active rules over a small program with a closure, a negation and an aggregate."""

from __future__ import annotations

import random
from dataclasses import dataclass

PROGRAM = """
.decl a(x: number, y: number)
.decl b(x: number, y: number)
.decl c(x: number)
.decl path(x: number, y: number)
path(X, Y) :- a(X, Y).
path(X, Z) :- path(X, Y), a(Y, Z).
.decl lonely(x: number)
lonely(X) :- c(X), !b(X, _), !b(_, X).
.decl degree(x: number, n: number) key(x)
degree(X, N) :- c(X), N = count : { a(X, _) }.
"""
BASES = {"a": 2, "b": 2, "c": 1}
VIEWS = {"path": 2, "lonely": 1, "degree": 2}
ARITY = {**BASES, **VIEWS}
VALUES = range(4)


@dataclass(frozen=True, slots=True)
class RuleCase:
    text: str
    base: dict[str, frozenset[tuple[int, ...]]]
    transactions: tuple[tuple[tuple[str, str, tuple[int, ...]], ...], ...]


def random_case(seed: int) -> RuleCase:
    rng = random.Random(seed)
    names = [f"r{number}" for number in range(rng.randint(1, 4))]
    rules = [random_rule(rng, name, names[:place]) for place, name in enumerate(names)]
    base = {name: frozenset(random_row(rng, arity) for _ in range(rng.randint(0, 5))) for name, arity in BASES.items()}
    transactions = tuple(
        tuple(random_statement(rng) for _ in range(rng.randint(2, 6))) for _ in range(rng.randint(2, 4))
    )
    return RuleCase(PROGRAM + "\n".join(rules), base, transactions)


def random_row(rng: random.Random, arity: int) -> tuple[int, ...]:
    return tuple(rng.choice(VALUES) for _ in range(arity))


def random_statement(rng: random.Random) -> tuple[str, str, tuple[int, ...]]:
    name = rng.choice(list(BASES))
    return rng.choice(("insert", "insert", "delete")), name, random_row(rng, BASES[name])


def random_rule(rng: random.Random, name: str, earlier: list[str]) -> str:
    """One rule, safe by construction: what is used was bound by an event or a positive literal."""
    bound: list[str] = []
    event = random_event(rng, bound) if rng.random() < 0.4 else ""
    transitional = rng.random() < 0.3
    literals = [] if event and rng.random() < 0.3 else random_condition(rng, bound, transitional=transitional)
    computed = ""
    if literals and bound and rng.random() < 0.2:
        computed = f"N = {rng.choice(bound)} % 3"
        literals.append(computed)
    usable = [*bound, "N"] if computed else bound
    actions = [random_action(rng, usable) for _ in range(rng.choice((1, 1, 1, 2)))]
    head = name
    if usable and rng.random() < 0.5:
        head = f"{name}({', '.join(rng.sample(usable, rng.randint(1, len(usable))))})"
    when = f"when {', '.join(literals)} " if literals else ""
    return f".rule {head} {random_options(rng, earlier)}{event}{when}do {', '.join(actions)}."


def random_options(rng: random.Random, earlier: list[str]) -> str:
    options = ""
    if rng.random() < 0.3:
        options += f"priority={rng.randint(1, 3)} "
    if rng.random() < 0.3:
        options += f"semantics={rng.choice(('strict', 'nervous'))} "
    if rng.random() < 0.5:
        options += f"coupling={rng.choice(('immediate', 'deferred', 'after'))} "
    elif earlier and rng.random() < 0.3:
        options += f"{rng.choice(('precedes', 'follows'))}={rng.choice(earlier)} "
    return options


def random_event(rng: random.Random, bound: list[str]) -> str:
    if rng.random() < 0.2:
        return f"on update {random_atom(rng, 'degree', bound, rows=2)} "
    relation = rng.choice(list(ARITY))
    return f"on {rng.choice(('insert', 'delete', 'change'))} {random_atom(rng, relation, bound)} "


def random_condition(rng: random.Random, bound: list[str], *, transitional: bool) -> list[str]:
    literals = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        if transitional and rng.random() < 0.2:
            literals.append(f"updated {random_atom(rng, 'degree', bound, rows=2)}")
            continue
        state = rng.choice(("", "old ", "inserted ", "deleted ")) if transitional else ""
        literals.append(state + random_atom(rng, rng.choice(list(ARITY)), bound))
    if bound and rng.random() < 0.4:
        state = rng.choice(("", "old ", "inserted ", "deleted ")) if transitional else ""
        relation = rng.choice(list(ARITY))
        terms = [rng.choice([*bound, "_", str(rng.choice(VALUES))]) for _ in range(ARITY[relation])]
        literals.append(f"!{state}{relation}({', '.join(terms)})")
    if bound and rng.random() < 0.2:
        literals.append(f"{rng.choice(bound)} {rng.choice(('<', '!=', '>='))} {rng.choice(VALUES)}")
    if bound and rng.random() < 0.15:
        literals.append(f"1 <= count : {{ {rng.choice(('a', 'b', 'path'))}({rng.choice(bound)}, _) }}")
    return literals


def random_atom(rng: random.Random, relation: str, bound: list[str], *, rows: int = 1) -> str:
    terms = []
    for _ in range(ARITY[relation] * rows):
        term = rng.choice(("X", "Y", "Z", "X", "Y", "_", str(rng.choice(VALUES))))
        if term in "XYZ" and term not in bound:
            bound.append(term)
        terms.append(term)
    return f"{relation}({', '.join(terms)})"


def random_action(rng: random.Random, usable: list[str]) -> str:
    name = rng.choice(list(BASES))
    terms = [
        rng.choice(usable) if usable and rng.random() < 0.8 else str(rng.choice(VALUES)) for _ in range(BASES[name])
    ]
    if rng.random() < 0.2:
        return f"call tell({', '.join(terms)})"
    return f"{rng.choice(('insert', 'insert', 'delete'))} {name}({', '.join(terms)})"
