"""Small random databases with aggregates: over base relations, recursion and negation, above each other and in
constraints; and requests to them."""

from __future__ import annotations

import random
from itertools import product

from tests.revise.random_requests import BASE, Case, Fact

DOMAINS = {2: ((1, 2), (-1, 2), (0, 3)), 3: ((1, 2, 3), (-1, 1, 2), (-2, 0, 3))}

FOLDS = ("count", "sum", "min", "max", "mean")


def random_aggregate_case(seed: int, size: int = 2) -> Case:
    """A case over a domain of two or three numbers."""
    random_ = random.Random(seed)
    domain = random_.choice(DOMAINS[size])
    lines = [f".decl {name}({', '.join(f'c{i}: number' for i in range(arity))})" for name, arity in BASE.items()]
    lines += [".decl r(x: number, y: number)", *_rows(random_)]
    by_group, whole = random_.choice(FOLDS), random_.choice(FOLDS)
    lines += _by_group(random_, by_group) + _whole(random_, whole, by_group)
    lines += _above(random_, domain, by_group, whole)
    if random_.random() < 0.6:
        lines.append(_constraint(random_, domain, by_group, whole))
    rows = [(name, row) for name, arity in BASE.items() for row in product(domain, repeat=arity)]
    facts = frozenset(fact for fact in rows if random_.random() < 0.4)
    asked = random_.sample(_wanted(random_, domain, by_group, whole), random_.choice([1, 1, 2]))
    signs = [random_.random() < 0.6 for _ in asked]
    return Case(
        "\n".join(lines),
        domain,
        facts,
        tuple(fact for fact, there in zip(asked, signs, strict=True) if there),
        tuple(fact for fact, there in zip(asked, signs, strict=True) if not there),
    )


def _rows(random_: random.Random) -> list[str]:
    """What is folded: a recursion, a negation, a join, or a union."""
    return random_.choice(
        [
            ["r(X, Y) :- e(X, Y).", "r(X, Z) :- r(X, Y), e(Y, Z)."],
            ["r(X, Y) :- e(X, Y), !b(Y)."],
            ["r(X, Y) :- e(X, Y), a(Y)."],
            ["r(X, Y) :- e(X, Y).", "r(X, X) :- b(X)."],
        ]
    )


def _value(function: str, target: str, body: str) -> str:
    return f"N = count : {{ {body} }}" if function == "count" else f"N = {function} {target} : {{ {body} }}"


def _type(function: str) -> str:
    return "float" if function == "mean" else "number"


def _by_group(random_: random.Random, function: str) -> list[str]:
    body = random_.choice(["r(X, Y)", "e(X, Y)", "e(X, Y), !b(Y)", "e(X, Y), Y > X", "e(X, Y), a(Y)"])
    around = random_.choice(["a(X)", "e(X, _)", "a(X), !b(X)"])
    return [f".decl g(x: number, n: {_type(function)})", f"g(X, N) :- {around}, {_value(function, 'Y', body)}."]


def _whole(random_: random.Random, function: str, by_group: str) -> list[str]:
    """An aggregate over everything, or over the other aggregate."""
    bodies = ["r(_, Y)", "e(X, Y)", "a(Y)", "a(Y), !b(Y)"]
    if "mean" not in (by_group, function) or function == "count":
        bodies += ["g(_, Y)"] * 2
    value = _value(function, "Y", random_.choice(bodies))
    return [f".decl w(n: {_type(function)})", f"w(N) :- {value}."]


def _number(random_: random.Random, function: str, domain: tuple[int, ...]) -> str:
    if function == "mean":
        return str(random_.choice([float(domain[0]), sum(domain) / 2, float(domain[1])]))
    return str(random_.choice([0, 1, 2, 3, *domain]))


def _above(random_: random.Random, domain: tuple[int, ...], by_group: str, whole: str) -> list[str]:
    op, other = random_.choice(["<", ">", "<=", ">=", "!="]), random_.choice(["<", ">", "!="])
    number, limit = _number(random_, by_group, domain), _number(random_, whole, domain)
    rules = [
        f"p(X) :- g(X, N), N {op} {number}.",
        f"p(X) :- g(X, N), N {op} {number}, !b(X).",
        f"p(X) :- a(X), !h(X). h(X) :- g(X, N), N {op} {number}.",
        f"p(X) :- g(X, N), w(M), N {op} {number}, M {other} {limit}.",
    ]
    if "mean" not in (by_group, whole):
        rules += [f"p(X) :- g(X, N), w(M), N {op} M.", f"p(X) :- g(X, N), M = N + 1, M {op} {number}.",
                  "p(X) :- g(X, N), b(N)."]  # fmt: skip
    return [".decl p(x: number) .decl h(x: number)", "h(X) :- e(X, X), b(X).", random_.choice(rules)]


def _constraint(random_: random.Random, domain: tuple[int, ...], by_group: str, whole: str) -> str:
    op = random_.choice(["<", ">", "!="])
    number, limit = _number(random_, by_group, domain), _number(random_, whole, domain)
    return random_.choice(
        [
            f".deny d(X) :- g(X, N), N {op} {number}.",
            f".deny d(X, N) :- g(X, N), N {op} {number}.",
            f".deny d() :- w(N), N {op} {limit}.",
            f".deny d(X) :- a(X), N = count : {{ e(X, _) }}, N {op} {number.split('.')[0]}.",
            ".deny d(X) :- p(X), b(X).",
        ]
    )


def _wanted(random_: random.Random, domain: tuple[int, ...], by_group: str, whole: str) -> list[Fact]:
    def values(function: str) -> list[float]:
        if function == "mean":
            return [float(domain[0]), sum(domain) / 2, float(domain[1])]
        if function == "count":
            return [0, 1, 2]
        return [*domain, sum(domain), 0]

    found: list[tuple[str, tuple[float, ...]]] = [("p", (x,)) for x in domain] * 2
    found += [("g", (random_.choice(domain), value)) for value in values(by_group)]
    found += [("w", (value,)) for value in values(whole)]
    return list(dict.fromkeys(found))  # type: ignore[arg-type]
