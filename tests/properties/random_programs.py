"""Random stratified, safe, typed programs as text, with random base data and transactions, from one seed."""

from __future__ import annotations

import datetime
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from tests.properties.cases import Base, Case, Change, Row, Transaction, after
from tests.scripts.script_file import show_value


@dataclass(frozen=True, slots=True)
class Features:
    """How often each feature turns up: 0 never, 1 wherever it fits. `views` and `rows` bound the sizes,
    `columns` are the arities to choose from."""

    recursion: float = 0.5
    nonlinear: float = 0.3
    mutual: float = 0.3
    negation: float = 0.4
    aggregates: float = 0.3
    mean: float = 0.3
    constants: float = 0.08
    comparisons: float = 0.3
    arithmetic: float = 0.3
    division: float = 0.2
    repeated: float = 0.45
    wildcards: float = 0.15
    zero_arity: float = 0.2
    disjunction: float = 0.15
    facts: float = 0.1
    symbols: float = 0.3
    strings: float = 0.1
    exotic: float = 0.1
    nullable: float = 0.15
    errors: float = 0.0
    alternatives: float = 0.0
    ranges: float = 0.0
    columns: tuple[int, ...] = (1, 2, 2, 2, 2, 3)
    views: int = 4
    rows: int = 8
    transactions: int = 4


INTEGERS_AND_SYMBOLS = Features(mean=0, division=0, strings=0, exotic=0, nullable=0)
"""The fragment that an answer-set solver can evaluate too."""


@dataclass(frozen=True, slots=True)
class Relation:
    name: str
    types: tuple[str, ...]

    def declaration(self) -> str:
        return f".decl {self.name}({', '.join(f'c{i}: {each}' for i, each in enumerate(self.types))})"


NUMBERS = (0, 1, 2, 3)
LOWEST, HIGHEST = -2, 6
"""Computed numbers are kept in this range by guards, so recursion through arithmetic ends."""
WORDS = ("a", "b", "ab", "")
DOMAINS: dict[str, tuple[Any, ...]] = {
    "number": NUMBERS,
    "symbol": WORDS,
    "float": (0.0, -0.0, 1.5, -2.0, 0.1, math.inf, math.nan),
    "unsigned": (0, 1, 2, 2**63 + 5),
    "boolean": (False, True),
    "date": (datetime.date(1969, 12, 31), datetime.date(2026, 1, 31), datetime.date(2026, 2, 1)),
    "timestamp": tuple(datetime.datetime(2026, 1, 31, hour, tzinfo=datetime.UTC) for hour in (0, 10)),
    # Small ones: what rules make of them stays within the precision.
    "decimal(10,2)": (Decimal("1.50"), Decimal("-0.25"), Decimal("0.00")),
    "decimal(6,1)": (Decimal("0.5"), Decimal("-0.1"), Decimal("0.0")),
    "decimal(18,6)": (Decimal("0.000001"), Decimal("-2.500000"), Decimal("0.000000")),
}
DECIMALS = tuple(each for each in DOMAINS if each.startswith("decimal"))
EXOTIC = ("float", "unsigned", "boolean", "date", "timestamp", *DECIMALS)


def kind(type: str) -> str:
    return type.removesuffix("?")


# ---- one rule ---------------------------------------------------------------------------------


@dataclass(slots=True)
class RuleWriter:
    """Writes one body, literal by literal, knowing at each point which variables are bound and cannot be NULL."""

    random: random.Random
    features: Features
    kinds: dict[str, str] = field(default_factory=dict)
    solid: set[str] = field(default_factory=set)
    body: list[str] = field(default_factory=list)
    computed: list[str] = field(default_factory=list)
    made: int = 0
    prefix: str = "V"

    def chance(self, weight: float) -> bool:
        return self.random.random() < weight

    def fresh(self, kind: str, *, solid: bool, computed: bool = False) -> str:
        self.made += 1
        name = f"{self.prefix}{self.made}"
        self.kinds[name] = kind
        if solid:
            self.solid.add(name)
        if computed:
            self.computed.append(name)
        return name

    def result(self, kind: str) -> str:
        """A new variable for what a functor or an aggregate gives, which is never NULL."""
        return self.fresh(kind, solid=True, computed=True)

    def bound(self, wanted: str, *, solid: bool = False) -> list[str]:
        return [name for name, each in self.kinds.items() if each == wanted and (not solid or name in self.solid)]

    def constant(self, kind: str) -> str:
        values = [value for value in DOMAINS[kind] if not (isinstance(value, float) and not math.isfinite(value))]
        return show_value(self.random.choice(values))

    def atom(self, relation: Relation) -> str:
        """A positive atom: binds new variables, joins on old ones, repeats them, mixes in constants and `_`."""
        args, before = [], set(self.kinds)
        for type in relation.types:
            known = self.bound(kind(type))
            if self.chance(self.features.constants):
                args.append(self.constant(kind(type)))
            elif self.chance(self.features.wildcards):
                args.append("_")
            elif known and self.chance(self.features.repeated):
                name = self.random.choice(known)
                if name in before or not type.endswith("?"):
                    self.solid.add(name)
                args.append(name)
            else:
                args.append(self.fresh(kind(type), solid=not type.endswith("?")))
        return f"{relation.name}({', '.join(args)})"

    def denial(self, relation: Relation) -> str:
        """A negated atom over bound variables, constants and `_`."""
        args = []
        for type in relation.types:
            known = self.bound(kind(type))
            if known and not self.chance(self.features.constants):
                args.append(self.random.choice(known))
            elif args and self.chance(0.6):
                args.append("_")
            else:
                args.append(self.constant(kind(type)))
        return f"!{relation.name}({', '.join(args)})"

    def comparison(self) -> str | None:
        if not self.kinds:
            return None
        name = self.random.choice(list(self.kinds))
        others = [other for other in self.bound(self.kinds[name]) if other != name]
        other = self.random.choice(others) if others and self.chance(0.5) else self.constant(self.kinds[name])
        self.solid |= {name, other} & set(self.kinds)
        ops = (
            ("=", "!=") if self.kinds[name] == "boolean" else ("=", "!=", "<", "<=", ">", ">=", "!=", "<=", ">=", "!=")
        )
        return f"{name} {self.random.choice(ops)} {other}"

    def term(self) -> str:
        """A number: a bound variable or a constant."""
        known = self.bound("number")
        return self.random.choice(known) if known and self.chance(0.8) else str(self.random.choice(NUMBERS))

    def expression(self) -> str:
        """An integer expression that cannot fail on small operands."""
        operations = ["+", "-", "*", "+", "-"]
        if self.chance(self.features.division):
            return self.random.choice(
                [f"{self.term()} {self.random.choice('/%')} {self.random.choice((2, 3, -2))}",
                 f"max({self.term()}, {self.term()})", f"min({self.term()}, {self.term()}, 2)",
                 f"-{self.term()} + 1", f"{self.term()} band 5", f"({self.term()} + 1) * {self.term()}"]
            )  # fmt: skip
        return f"{self.term()} {self.random.choice(operations)} {self.term()}"

    def arithmetic(self) -> list[str]:
        """A new number, guarded so that a fixpoint over it is finite."""
        expression = self.expression()
        name = self.result("number")
        guards = [f"{name} >= {LOWEST}", f"{name} <= {HIGHEST}"]
        sides = (name, expression) if self.chance(0.7) else (expression, name)
        return [f"{sides[0]} = {sides[1]}", *guards]

    def other_arithmetic(self) -> list[str]:
        """A new float, unsigned or decimal; unbounded, so for rules without recursion only."""
        kinds = [each for each in ("float", "unsigned", *DECIMALS) if self.bound(each)]
        if not kinds:
            return []
        wanted = self.random.choice(kinds)
        left, right = (self.random.choice(self.bound(wanted)) for _ in range(2))
        forms = {
            "float": ("{} + {}", "{} - {}", "{} * {}", "{} / {}", "-{0}", "max({}, {})", "{0} ^ 2.0"),
            "unsigned": ("{0} / 2", "{0} % 2", "min({}, {})", "{} band {}", "{0} bshr 1", "{} bxor {}"),
            **dict.fromkeys(DECIMALS, ("{} + {}", "{} - {}", "-{0}", "max({}, {})")),
        }
        expression = self.random.choice(forms[wanted]).format(left, right)
        return [f"{self.result(wanted)} = {expression}"]

    def string(self) -> list[str]:
        """A literal with a text functor or a text test."""
        known = self.bound("symbol")
        if not known:
            return []
        text = self.random.choice(known)
        choice = self.random.randrange(7)
        if choice == 0:
            other = self.random.choice(known)
            name = self.result("symbol")
            return [f"{name} = cat({text}, {other})", f"strlen({name}) <= 3"]
        if choice == 1:
            return [f"{self.result('number')} = strlen({text})"]
        if choice == 2:
            return [f"{self.result('symbol')} = substr({text}, {self.random.randrange(-1, 3)}, 1)"]
        if choice == 3:
            return [f"{self.result('number')} = to_number(to_string(strlen({text})))"]
        if choice == 4:
            return [self.random.choice(["", "!"]) + f'contains("b", {text})']
        if choice == 5:
            return [f'match("a.*", {text})']
        return [f"ord({text}) < 98"]

    def disjunction(self, relations: Sequence[Relation]) -> str | None:
        """Two ways to be true: both bind the same variable, or both only test."""
        places = [(r, i) for r in relations for i in range(len(r.types)) if not r.types[i].endswith("?")]
        if places and self.chance(0.6):
            first, at = self.random.choice(places)
            same = [(r, i) for r, i in places if r.types[i] == first.types[at]]
            second, then = self.random.choice(same)
            name = self.fresh(kind(first.types[at]), solid=True)
            left = ", ".join(name if i == at else "_" for i in range(len(first.types)))
            right = ", ".join(name if i == then else "_" for i in range(len(second.types)))
            return f"({first.name}({left}) ; {second.name}({right}))"
        solid = set(self.solid)
        left, right = self.comparison(), self.comparison()
        self.solid = solid
        return f"({left} ; {right})" if left and right else None

    def union(self, relations: Sequence[Relation]) -> str | None:
        """Alternatives that have one variable in common, and others that only one of them has."""
        places = [(r, i) for r in relations for i in range(len(r.types)) if not r.types[i].endswith("?")]
        if not places:
            return None
        first, at = self.random.choice(places)
        same = [(r, i) for r, i in places if r.types[i] == first.types[at]]
        name = self.fresh(kind(first.types[at]), solid=True)
        parts = []
        for relation, place in ((first, at), *(self.random.choice(same) for _ in range(self.random.choice((1, 2))))):
            self.made += 1
            args = (name if i == place else f"U{self.made}_{i}" for i in range(len(relation.types)))
            parts.append(f"{relation.name}({', '.join(args)})")
        return f"({' ; '.join(parts)})"

    def range(self) -> str:
        """A number of a range whose ends are numbers that are bound, or constants."""
        ends = [self.random.choice((self.term(), str(self.random.randrange(-2, 6)))) for _ in range(2)]
        steps = [str(self.random.choice((-2, -1, 0, 1, 2, 3)))] if self.chance(0.5) else []
        known = self.bound("number")
        name = self.random.choice(known) if known and self.chance(0.3) else self.result("number")
        self.solid.add(name)
        return f"{name} = range({', '.join([*ends, *steps])})"

    def aggregate(self, relations: Sequence[Relation], *, recursive: bool = False) -> str:
        """`V = f T : { … }`, with or without variables of the rule injected into the body.

        In a recursive rule an injected variable must also be bound inside: no relation of a lower stratum could ask.
        """
        inner = replace(
            self, kinds=dict(self.kinds), solid=set(self.solid), body=[], computed=[], prefix=f"L{self.made}_", made=0
        )
        if self.chance(0.4):
            inner.kinds, inner.solid = {}, set()
        for _ in range(self.random.choice((1, 1, 2))):
            inner.body.append(inner.atom(self.random.choice(relations)))
        if recursive:
            inside = set(re.findall(r"\w+", " ".join(inner.body)))
            inner.kinds = {name: kind for name, kind in inner.kinds.items() if name in inside}
        if self.chance(self.features.comparisons / 2):
            inner.body += filter(None, [inner.comparison()])
        if self.chance(self.features.negation / 2):
            inner.body.append(inner.denial(self.random.choice(relations)))
        if self.features.alternatives and self.chance(self.features.alternatives):
            inner.body += filter(None, [inner.disjunction(relations) if self.chance(0.5) else inner.union(relations)])
        if self.features.ranges and self.chance(self.features.ranges / 2):
            inner.body.append(inner.range())
        local = [name for name in inner.kinds if name not in self.kinds]
        function, target, result = self.fold(local, inner.kinds)
        name = self.result(result)
        return f"{name} = {function} {target}{' ' if target else ''}: {{ {', '.join(inner.body)} }}"

    def fold(self, local: Sequence[str], kinds: Mapping[str, str]) -> tuple[str, str, str]:
        """An aggregate's function, its target among the body's own variables, and the kind of its result."""
        function = self.random.choice(("count", "sum", "min", "max"))
        numeric = [name for name in local if kinds[name] in ("number", "float", *DECIMALS)]
        if function == "sum" and numeric:
            name = self.random.choice(numeric)
            if self.chance(self.features.mean):
                return "mean", name, "float"
            if kinds[name] == "number" and self.chance(self.features.arithmetic):
                return "sum", self.random.choice([f"{name} * 2", f"{name} + 1", f"{name} * {name}"]), "number"
            return "sum", name, kinds[name]
        if function in ("min", "max") and local:
            name = self.random.choice(local)
            return function, name, kinds[name]
        return "count", "", "number"

    def head(self, relation: Relation) -> str:
        """A head whose required columns get variables that cannot be NULL, or constants, or guarded sums."""
        args = []
        for type in relation.types:
            known = self.bound(kind(type), solid=not type.endswith("?"))
            if type.endswith("?") and self.chance(0.1):
                args.append("null")
            elif known and not self.chance(self.features.constants / 2):
                unused = [name for name in known if name not in args]
                known = unused if unused and self.chance(0.8) else known
                computed = [name for name in known if name in self.computed]
                args.append(self.random.choice(computed if computed and self.chance(0.7) else known))
            elif (loose := [name for name in self.bound(kind(type)) if name not in self.solid]) and self.chance(0.7):
                args.append(self.random.choice(loose))
                self.body.append(f"!is_null({args[-1]})")
            else:
                args.append(self.constant(kind(type)))
        return f"{relation.name}({', '.join(args)})"


def rule(
    rng: random.Random, features: Features, view: Relation, below: Sequence[Relation], inside: Sequence[Relation]
) -> str:
    """A rule for `view` over relations of lower strata, with one positive atom for each of `inside`."""
    writer = RuleWriter(rng, features)
    atoms = [rng.choice(below) for _ in range(rng.choice((1, 1, 2, 2, 3) if not inside else (0, 1, 1, 2)))]
    atoms += inside
    rng.shuffle(atoms)
    writer.body = [writer.atom(each) for each in atoms]
    for wanted in map(kind, view.types):
        holders = [each for each in below if wanted in map(kind, each.types)]
        if holders and not writer.bound(wanted) and writer.chance(0.8):
            writer.body.append(writer.atom(rng.choice(holders)))
    steps: list[tuple[float, Callable[[], list[str] | str | None]]] = [
        (features.disjunction, lambda: writer.disjunction(below)),
        (features.strings, writer.string),
        (features.aggregates / 2, lambda: writer.aggregate(below, recursive=bool(inside))),
        (features.arithmetic, writer.arithmetic),
        (0 if inside else features.exotic, writer.other_arithmetic),
        (features.comparisons, writer.comparison),
        (features.negation, lambda: writer.denial(rng.choice(below))),
        (features.negation / 4, lambda: writer.denial(rng.choice(below))),
    ]
    if features.ranges and writer.chance(features.ranges):
        writer.body.append(writer.range())
    for weight, step in steps:
        if writer.chance(weight):
            made = step()
            made = [made] if isinstance(made, str) else made or []
            writer.body += [each for each in made if each.removeprefix("!") not in writer.body]
    head = writer.head(view)
    if writer.chance(0.3):
        rng.shuffle(writer.body)
    return f"{head} :- {', '.join(writer.body)}."


def chain_rule(rng: random.Random, features: Features, view: Relation, below: Sequence[Relation]) -> str | None:
    """A rule of transitive closure, linear or not, if the columns allow one."""
    if len(view.types) == 3:
        return labeled_chain_rule(rng, features, view, below)
    if len(view.types) != 2 or any(each.endswith("?") for each in view.types):
        return None
    left = [each for each in below if each.types == (view.types[0],) * 2]
    right = [each for each in below if each.types == (view.types[1],) * 2]
    if view.types[0] == view.types[1] and rng.random() < features.nonlinear:
        return f"{view.name}(X, Z) :- {view.name}(X, Y), {view.name}(Y, Z)."
    if left and rng.random() < 0.5:
        return f"{view.name}(X, Z) :- {rng.choice(left).name}(X, Y), {view.name}(Y, Z)."
    return f"{view.name}(X, Z) :- {view.name}(X, Y), {rng.choice(right).name}(Y, Z)." if right else None


def labeled_chain_rule(rng: random.Random, features: Features, view: Relation, below: Sequence[Relation]) -> str | None:
    """The same with a label in one of three columns, which edges have in that column too, or not at all."""
    label = rng.randrange(3)
    ends = [type for column, type in enumerate(view.types) if column != label]
    if ends[0] != ends[1] or any(each.endswith("?") for each in view.types):
        return None

    def atom(relation: Relation, *values: str) -> str:
        terms = [*values[:label], "L", *values[label:]] if len(relation.types) == 3 else values
        return f"{relation.name}({', '.join(terms)})"

    steps = [each for each in below if each.types in (view.types, tuple(ends))]
    step = view if not steps or rng.random() < features.nonlinear else rng.choice(steps)
    body = [atom(view, "X", "Y"), atom(step, "Y", "Z")]
    if rng.random() < 0.5:
        body = [atom(step, "X", "Y"), atom(view, "Y", "Z")]
    return f"{atom(view, 'X', 'Z')} :- {', '.join(body)}."


def aggregate_rule(rng: random.Random, features: Features, view: Relation, below: Sequence[Relation]) -> str:
    """`view(G…, V) :- r(G…), V = f T : { … }`: a view whose point is its aggregate."""
    writer = RuleWriter(rng, features)
    if rng.random() < 0.75:
        writer.body = [writer.atom(rng.choice(below))]
    writer.body += [writer.aggregate(below) for _ in range(2 if writer.chance(features.aggregates / 3) else 1)]
    head = writer.head(view)
    return f"{head} :- {', '.join(writer.body)}."


def failing_rule(rng: random.Random, features: Features, view: Relation, below: Sequence[Relation]) -> str | None:
    """A rule that fails for some rows: what it computes depends on one atom and on nothing that could filter it."""
    writer = RuleWriter(rng, replace(features, constants=0, wildcards=0, repeated=0))
    writer.body = [writer.atom(rng.choice(below))]
    numbers = writer.bound("number", solid=True)
    if not numbers:
        return None
    left, right = rng.choice(numbers), rng.choice(numbers)
    expressions = [f"{left} / {right}", f"{left} % {right}", f"{left} * 4611686018427387904", f"3 ^ ({left} * 16)",
                   f"2 ^ ({left} - 1)", f"{left} + 9223372036854775805"]  # fmt: skip
    writer.body.append(f"{writer.result('number')} = {rng.choice(expressions)}")
    return f"{writer.head(view)} :- {', '.join(writer.body)}."


# ---- one program ------------------------------------------------------------------------------


def random_relation(rng: random.Random, features: Features, name: str, *, least: int = 0) -> Relation:
    if least == 0 and rng.random() < features.zero_arity:
        return Relation(name, ())
    types = []
    for _ in range(rng.choice(features.columns)):
        type = "symbol" if rng.random() < features.symbols else "number"
        if rng.random() < features.exotic:
            type = rng.choice(EXOTIC)
        types.append(type + "?" if rng.random() < features.nullable else type)
    return Relation(name, tuple(types))


def random_program(rng: random.Random, features: Features) -> tuple[list[Relation], list[Relation], list[str]]:
    """Base relations, views and rules; each view uses what comes before it, and its own component if recursive."""
    base = [random_relation(rng, features, f"b{i}", least=i == 0) for i in range(rng.choice((2, 2, 3)))]
    views: list[Relation] = []
    rules: list[str] = []
    while len(views) < rng.randint(1, features.views):
        below = [*base, *views, *views]
        size = 2 if rng.random() < features.recursion * features.mutual else 1
        group = [random_relation(rng, features, f"v{len(views) + i}", least=size - 1) for i in range(size)]
        recursive = size == 2 or (group[0].types and rng.random() < features.recursion)
        for view in group:
            rules += view_rules(rng, features, view, below, group if recursive else [])
        views += group
    if features.errors:
        made = [failing_rule(rng, features, rng.choice(views), base) for _ in range(2)]
        rules += filter(None, made)
    return base, views, rules


def view_rules(
    rng: random.Random, features: Features, view: Relation, below: Sequence[Relation], group: Sequence[Relation]
) -> list[str]:
    rules = []
    for _ in range(rng.choice((1, 1, 2))):
        if rng.random() < features.aggregates:
            rules.append(aggregate_rule(rng, features, view, below))
        else:
            rules.append(rule(rng, features, view, below, []))
    if group:
        for _ in range(rng.choice((1, 1, 2))):
            if rng.random() < 0.4 and (chain := chain_rule(rng, features, view, below)):
                rules.append(chain)
                continue
            others = [each for each in group if each != view] or [view]
            inside = [rng.choice(group if rng.random() < 0.3 else others)]
            if rng.random() < features.nonlinear:
                inside.append(rng.choice(group))
            rules.append(rule(rng, features, view, below, inside))
    if rng.random() < features.facts:
        rules.append(f"{RuleWriter(rng, features).head(view)}.")
    return rules


# ---- data and transactions --------------------------------------------------------------------


def random_row(rng: random.Random, relation: Relation) -> Row:
    def value(type: str) -> Any:
        return None if type.endswith("?") and rng.random() < 0.3 else rng.choice(DOMAINS[kind(type)])

    return tuple(map(value, relation.types))


def random_base(rng: random.Random, features: Features, relations: Sequence[Relation]) -> Base:
    sizes = [0 if rng.random() < 0.1 else rng.randint(2, features.rows) for _ in relations]
    return {r.name: frozenset(random_row(rng, r) for _ in range(n)) for r, n in zip(relations, sizes, strict=True)}


def random_transaction(rng: random.Random, relations: Sequence[Relation], state: Base) -> Transaction:
    """Insertions and deletions, some of them idle, some canceling each other; now and then a large batch."""
    changes: list[Change] = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4, 6, 12))):
        relation = rng.choice(relations)
        present = sorted(state[relation.name], key=repr)
        if present and rng.random() < 0.5:
            changes.append(Change("-", relation.name, rng.choice(present)))
        else:
            changes.append(Change("+" if rng.random() < 0.85 else "-", relation.name, random_row(rng, relation)))
        if rng.random() < 0.12:
            last = changes[-1]
            changes.append(replace(last, sign="-" if last.sign == "+" else "+"))
    return tuple(changes)


def random_case(seed: int, features: Features | None = None) -> Case:
    """The case of this seed: the same, on every machine, for ever (as long as this file is unchanged)."""
    rng, features = random.Random(seed), features or Features()
    base, views, rules = random_program(rng, features)
    state = random_base(rng, features, base)
    start, transactions = state, []
    used = [each for each in base if any(f"{each.name}(" in rule for rule in rules)] or base
    for _ in range(rng.randint(2, features.transactions)):
        transactions.append(random_transaction(rng, used, state))
        state = after(state, transactions[-1])
    declarations = tuple(each.declaration() for each in [*base, *views])
    return Case(seed, declarations, tuple(rules), start, tuple(transactions))
