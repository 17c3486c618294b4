"""Small random databases of numbers, programs that compare them, and requests; what they come to, worked out by hand.

Nothing of the product is used here: rules are evaluated, and changes tried, one by one.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations

Fact = tuple[str, tuple[int, ...]]
Update = tuple[frozenset[Fact], frozenset[Fact]]
Column = tuple[str, int]

BASE = {"a": 1, "b": 1, "e": 2}
VIEWS = {"v": 1, "w": 1, "p": 0, "r": 1}
"""Each view may use those before it; `r` has a key of `e`."""
KEYS = (1, 2)
OPS: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Literal:
    """A row of a relation, there or not; arguments are numbers and names of variables."""

    relation: str
    args: tuple[int | str, ...]
    there: bool = True

    def __str__(self) -> str:
        return f"{'' if self.there else '!'}{self.relation}({', '.join(map(str, self.args))})"


@dataclass(frozen=True, slots=True)
class Compared:
    """A variable compared with another, or none, plus a number."""

    left: str
    op: str
    right: str
    more: int

    def __str__(self) -> str:
        if not self.right:
            return f"{self.left} {self.op} {self.more}"
        more = f" {'+' if self.more > 0 else '-'} {abs(self.more)}" if self.more else ""
        return f"{self.left} {self.op} {self.right}{more}"

    def holds(self, known: Mapping[str, int]) -> bool:
        return OPS[self.op](known[self.left], self.more + (known[self.right] if self.right else 0))


@dataclass(frozen=True, slots=True)
class Rule:
    """`computed` is a variable of the head and what is added to another for it."""

    head: Literal
    body: tuple[Literal, ...]
    tests: tuple[Compared, ...]
    computed: tuple[str, str, int] | None = None

    def __str__(self) -> str:
        parts = [str(each) for each in (*self.body, *self.tests)]
        if self.computed:
            parts.append(str(Compared(self.computed[0], "=", *self.computed[1:])))
        return f"{self.head} :- {', '.join(parts)}."


@dataclass(frozen=True, slots=True)
class Case:
    rules: tuple[Rule, ...]
    denied: Rule | None
    has_key: bool
    facts: frozenset[Fact]
    insert: tuple[Fact, ...]
    delete: tuple[Fact, ...]

    @property
    def text(self) -> str:
        lines = [
            f".decl {name}({', '.join(f'c{i}: number' for i in range(n))})" for name, n in {**BASE, **VIEWS}.items()
        ]
        lines = [f"{each} key(c0)" if self.has_key and each.startswith(".decl e") else each for each in lines]
        lines += [str(each) for each in self.rules]
        return "\n".join(lines)

    @property
    def constraint(self) -> str:
        return "" if self.denied is None else f".deny {self.denied}\n.deny d existing=keep"

    @property
    def every_rule(self) -> tuple[Rule, ...]:
        return self.rules if self.denied is None else (*self.rules, self.denied)

    @property
    def domain(self) -> tuple[int, ...]:
        """Every number that is named, those around it, and some that are far away."""
        named = {value for _, row in (*self.facts, *self.insert, *self.delete) for value in row}
        for rule in self.every_rule:
            named.update(v for each in (rule.head, *rule.body) for v in each.args if isinstance(v, int))
            named.update(each.more for each in rule.tests)
            named.update([rule.computed[2]] if rule.computed else [])
        near = {value + step for value in named for step in (-1, 0, 1)}
        ends = {min(near, default=0) - 1, max(near, default=0) + 1, -500, 500, 501}
        return tuple(sorted(near | ends))

    @property
    def atoms(self) -> list[Fact]:
        """The base rows that changes are made of."""
        unary = [(name, (value,)) for name in ("a", "b") for value in self.domain]
        return unary + [("e", (key, value)) for key in KEYS for value in self.domain]


# ---- what rules come to ----------------------------------------------------------------------------------------------

Model = dict[str, set[tuple[int, ...]]]


def model_of(rules: Iterable[Rule], facts: Iterable[Fact]) -> Model:
    found: Model = {name: set() for name in (*BASE, *VIEWS, "d")}
    for name, row in facts:
        found[name].add(row)
    for rule in rules:
        for known in _instances(rule.body, found, {}):
            values = dict(known)
            if rule.computed:
                values[rule.computed[0]] = values[rule.computed[1]] + rule.computed[2]
            if all(each.holds(values) for each in rule.tests):
                found[rule.head.relation].add(_row(rule.head, values))
    return found


def _row(literal: Literal, known: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(known[each] if isinstance(each, str) else each for each in literal.args)


def _instances(body: tuple[Literal, ...], model: Model, known: dict[str, int]) -> Iterator[dict[str, int]]:
    if not body:
        yield known
        return
    first, rest = body[0], body[1:]
    if not first.there:
        if _row(first, known) not in model[first.relation]:
            yield from _instances(rest, model, known)
        return
    for row in model[first.relation]:
        longer = dict(known)
        if all(
            (longer.setdefault(term, value) if isinstance(term, str) else term) == value
            for term, value in zip(first.args, row, strict=True)
        ):
            yield from _instances(rest, model, longer)


def is_realization(case: Case, update: Update) -> bool:
    after = (case.facts - update[1]) | update[0]
    if case.has_key:
        keys = [row[0] for name, row in after if name == "e"]
        if len(keys) != len(set(keys)):
            return False
    model = model_of(case.every_rule, after)
    return (
        all(row in model[name] for name, row in case.insert)
        and not any(row in model[name] for name, row in case.delete)
        and (case.denied is None or model["d"] <= _violations(case))
    )


@cache
def _violations(case: Case) -> set[tuple[int, ...]]:
    return model_of(case.every_rule, case.facts)["d"]


def is_minimal(case: Case, update: Update) -> bool:
    """Whether no part of a realization is one."""
    changes = [(fact, there) for facts, there in zip(update, (True, False), strict=True) for fact in facts]
    for size in range(len(changes)):
        for chosen in combinations(changes, size):
            part = frozenset(f for f, there in chosen if there), frozenset(f for f, there in chosen if not there)
            if is_realization(case, part):
                return False
    return True


def minimal_realizations(case: Case, most: int) -> set[Update]:
    """Those with at most so many changes."""
    found: list[frozenset[Fact]] = []
    for size in range(most + 1):
        for flipped in combinations(case.atoms, size):
            changed = frozenset(flipped)
            update = changed - case.facts, changed & case.facts
            if not any(each <= changed for each in found) and is_realization(case, update):
                found.append(changed)
    return {(changed - case.facts, changed & case.facts) for changed in found}


def models(case: Case, update: Update) -> tuple[Model, Model]:
    """What is there before the update, and after it."""
    return (
        model_of(case.every_rule, case.facts),
        model_of(case.every_rule, (case.facts - update[1]) | update[0]),
    )


def linked_columns(case: Case) -> dict[Column, set[Column]]:
    """For each column, those with which it shares a variable, or an equality, directly or not."""
    groups: list[set[Column]] = [{(name, at)} for name, n in {**BASE, **VIEWS, "d": 1}.items() for at in range(n)]
    for rule in case.every_rule:
        places: dict[str, set[Column]] = {}
        for literal in (rule.head, *rule.body):
            for at, term in enumerate(literal.args):
                if isinstance(term, str):
                    places.setdefault(term, set()).add((literal.relation, at))
        met = list(places.values())
        met += [places[t.left] | places[t.right] for t in rule.tests if t.right and t.op in ("=", "!=") and not t.more]
        for each in met:
            joined = [group for group in groups if group & each]
            groups = [group for group in groups if not group & each] + [set().union(*joined)]
    return {column: group for group in groups for column in group}


# ---- random ones -----------------------------------------------------------------------------------------------------


def random_case(seed: int) -> Case:
    chance = random.Random(seed)
    named = chance.sample(range(12), 2)
    rules = [rule for view in VIEWS for rule in _rules(chance, view, named)]
    denied = _denied(chance, named) if chance.random() < 0.7 else None
    facts = frozenset(
        [(name, (chance.choice([*named, 3, 5]),)) for name in ("a", "b") for _ in range(chance.choice([0, 0, 1, 2]))]
        + [("e", (key, chance.choice([*named, 4]))) for key in KEYS if chance.random() < 0.4]
    )
    wanted: list[Fact] = [
        ("p", ()),
        ("p", ()),
        ("r", (1,)),
        ("w", (chance.choice(named),)),
        ("v", (chance.choice(named),)),
    ]
    asked = list(dict.fromkeys(chance.sample(wanted, chance.choice([1, 1, 1, 2]))))
    signs = [chance.random() < 0.8 for _ in asked]
    return Case(
        tuple(rules),
        denied,
        chance.random() < 0.4,
        facts,
        tuple(fact for fact, there in zip(asked, signs, strict=True) if there),
        tuple(fact for fact, there in zip(asked, signs, strict=True) if not there),
    )


def _rules(chance: random.Random, view: str, named: list[int]) -> Iterator[Rule]:
    for _ in range(chance.choice([1, 1, 2])):
        yield _rule(chance, view, named)


def _rule(chance: random.Random, view: str, named: list[int]) -> Rule:
    known = ["a", "b", "e", *list(VIEWS)[: list(VIEWS).index(view)]]
    known = [each for each in known if each not in ("p", "r")]
    if view == "r":
        body = [Literal("e", ("K", "X"))]
        head, names = Literal("r", ("K",)), ["X"]
    else:
        body = [_atom(chance, chance.choice(known), "X")]
        head, names = Literal(view, ("X",) if VIEWS[view] else ()), ["X"]
    if chance.random() < 0.5:
        name = chance.choice(["X", "Y", "Y"])
        body.append(_atom(chance, chance.choice(known), name))
        names = ["X", "Y"] if name == "Y" else names
    if chance.random() < 0.25:
        body.append(
            Literal(chance.choice([each for each in known if each != "e"]), (chance.choice(names),), there=False)
        )
    tests = [_test(chance, names, named) for _ in range(chance.choice([0, 1, 1, 2]))]
    computed = None
    if view in ("v", "w") and chance.random() < 0.2:
        head, computed = Literal(view, ("Z",)), ("Z", "X", chance.choice([-1, 1, 2]))
    return Rule(head, tuple(body), tuple(tests), computed)


def _atom(chance: random.Random, relation: str, name: str) -> Literal:
    return Literal("e", (chance.choice(KEYS), name)) if relation == "e" else Literal(relation, (name,))


def _test(chance: random.Random, names: list[str], named: list[int]) -> Compared:
    op = chance.choice(["<", "<=", ">", ">=", "<", ">", "!=", "="])
    if len(names) > 1 and chance.random() < 0.5:
        return Compared(names[0], op, names[1], chance.choice([0, 0, 1, -2]))
    return Compared(chance.choice(names), op, "", chance.choice(named))


def _denied(chance: random.Random, named: list[int]) -> Rule:
    made = _rule(chance, "p", named)
    return Rule(Literal("d", ("X",)), made.body, made.tests)
