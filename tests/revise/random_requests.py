"""Small random databases, programs with recursion, negation, projections and comparisons, and requests to them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import product

Fact = tuple[str, tuple[int, ...]]

BASE = {"a": 1, "b": 1, "e": 2}
VIEWS = {"p": 1, "q": 2, "r": 1, "s": 0}
"""Each view may use those before it, and itself."""


@dataclass(frozen=True, slots=True)
class Case:
    text: str
    domain: tuple[int, ...]
    facts: frozenset[Fact]
    insert: tuple[Fact, ...]
    delete: tuple[Fact, ...]

    @property
    def atoms(self) -> list[Fact]:
        """All base facts over the domain."""
        return [(name, row) for name, arity in BASE.items() for row in product(self.domain, repeat=arity)]


def random_case(seed: int, size: int = 2) -> Case:
    """A case over a domain of so many numbers."""
    random_ = random.Random(seed)
    domain = tuple(range(1, size + 1))
    lines = [_declaration(name, arity) for name, arity in {**BASE, **VIEWS}.items()]
    known = list(BASE)
    for view, arity in VIEWS.items():
        for number in range(random_.choice([1, 2, 2, 3])):
            lines.append(_rule(random_, view, arity, known, domain, recursive=number > 0))
        known.append(view)
    if random_.random() < 0.5:
        lines.append(_constraint(random_, known, domain))
    rows = [(name, row) for name, arity in BASE.items() for row in product(domain, repeat=arity)]
    facts = frozenset(fact for fact in rows if random_.random() < 0.4)
    wanted = [(view, row) for view, arity in VIEWS.items() for row in product(domain, repeat=arity)]
    asked = random_.sample(wanted, random_.choice([1, 1, 2]))
    signs = [random_.random() < 0.6 for _ in asked]
    return Case(
        "\n".join(lines),
        domain,
        facts,
        tuple(fact for fact, there in zip(asked, signs, strict=True) if there),
        tuple(fact for fact, there in zip(asked, signs, strict=True) if not there),
    )


def _declaration(name: str, arity: int) -> str:
    return f".decl {name}({', '.join(f'c{i}: number' for i in range(arity))})"


def _atom(random_: random.Random, name: str, variables: list[str], domain: tuple[int, ...]) -> str:
    arity = {**BASE, **VIEWS}[name]
    args = [random_.choice([*variables, *variables, str(random_.choice(domain))]) for _ in range(arity)]
    return f"{name}({', '.join(args)})"


def _body(random_: random.Random, known: list[str], domain: tuple[int, ...], head: list[str]) -> list[str]:
    """Literals that bind the head's variables; negation and comparisons over what is bound."""
    names = ["X", "Y", "Z"]
    literals = [_atom(random_, random_.choice(known), names, domain) for _ in range(random_.choice([1, 1, 2]))]
    bound = sorted({name for literal in literals for name in names if name in literal})
    for name in head:
        if name not in bound:
            unary = [each for each in known if {**BASE, **VIEWS}[each] == 1]
            literals.append(f"{random_.choice(unary)}({name})")
            bound.append(name)
    if bound and random_.random() < 0.45:
        literals.append("!" + _atom(random_, random_.choice(known), bound, domain))
    if bound and random_.random() < 0.15:
        literals.append("!" + _with_wildcard(random_, bound))
    if len(bound) > 1 and random_.random() < 0.25:
        literals.append(f"{bound[0]} {random_.choice(['!=', '<', '='])} {bound[1]}")
    return literals


def _with_wildcard(random_: random.Random, bound: list[str]) -> str:
    name = random_.choice(bound)
    return random_.choice([f"e({name}, _)", f"e(_, {name})"])


def _rule(
    random_: random.Random, view: str, arity: int, known: list[str], domain: tuple[int, ...], *, recursive: bool
) -> str:
    head = ["X", "Y"][:arity]
    literals = _body(random_, known, domain, head)
    if recursive and random_.random() < 0.6:
        free = ["X", "Y", "Z"]
        literals.insert(0, _atom(random_, view, free, domain))
    return f"{view}({', '.join(head)}) :- {', '.join(literals)}."


def _constraint(random_: random.Random, known: list[str], domain: tuple[int, ...]) -> str:
    return f".deny d(X) :- {', '.join(_body(random_, known, domain, ['X']))}."
