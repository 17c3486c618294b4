"""Histories of one database: transactions, changes of rules and of how views are kept, and reopening, from one seed.

Rules are written twice, with other names for their variables, with alternatives and heads in common: all that changes
how often a row is derived, and not whether.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.properties.cases import Base, Change, Transaction, after
from tests.properties.random_programs import (
    Features,
    Relation,
    aggregate_rule,
    random_base,
    random_program,
    random_transaction,
    rule,
)
from tests.properties.shrinking import shorter_rules, split
from tests.properties.strategies import STRATEGIES
from upshot.check import check
from upshot.core.errors import ProgramError
from upshot.plan import compile_program
from upshot.strategies.strategy import on_demand
from upshot.syntax import parse

STORED = ("auto", *(strategy for strategy in STRATEGIES if strategy not in on_demand()))


@dataclass(frozen=True, slots=True)
class Version:
    """A program: its rules, and the `.view` and `.deny` lines that say how its views are kept."""

    rules: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reopening:
    """The database is closed and opened again."""


Step = Transaction | Version | Reopening
Way = Callable[[str], list[str]]
"""Makes other rules of one, none if it is to be left out."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """A first program, what its base relations hold first, and what then happens to both."""

    seed: int
    declarations: tuple[str, ...]
    first: Version
    base: Base
    steps: tuple[Step, ...]

    def text(self, version: Version) -> str:
        return "\n".join([*self.declarations, *version.options, *version.rules]) + "\n"

    def __str__(self) -> str:
        loaded = " ".join(str(Change("+", name, row)) for name, rows in self.base.items() for row in rows)
        lines = [f"// seed {self.seed}", self.text(self.first), "---", loaded]
        for step in self.steps:
            match step:
                case Version(rules, options):
                    lines.append("become:\n  " + "\n  ".join((*options, *rules)))
                case Reopening():
                    lines.append("reopen")
                case _:
                    lines.append(" ".join(map(str, step)))
        return "\n".join(lines)


# ---- rules as text ------------------------------------------------------------------------------------------------


def heads_of(text: str) -> tuple[str, ...]:
    """The relations that a rule, a fact or a constraint defines.

    >>> heads_of("v0(X), v1(X, 2) :- b0(X)."), heads_of(".deny d0(X) :- b0(X)."), heads_of("v0(1).")
    (('v0', 'v1'), ('d0',), ('v0',))
    """
    head = text.removeprefix(".deny ").partition(" :- ")[0].removesuffix(".")
    return tuple(each.partition("(")[0] for each in split(head, ","))


def redefinition(old: Version, new: Version) -> str:
    """A text that makes the one program of the other: all rules of every view of which some differ."""
    changed = {name for text in set(old.rules) | set(new.rules) if old.rules.count(text) != new.rules.count(text)
               for name in heads_of(text)}  # fmt: skip
    while more := {n for text in new.rules if changed & {*heads_of(text)} for n in heads_of(text)} - changed:
        changed |= more
    rules = [text for text in new.rules if changed & {*heads_of(text)}]
    # A constraint that is stated again needs its policy again.
    policies = [line for line in new.options if line.startswith(".deny ") and line.split()[1] in changed]
    return "\n".join([*(line for line in new.options if line not in (*old.options, *policies)), *rules, *policies])


def single_change(old: Version, new: Version) -> tuple[str, str] | None:
    """The one rule that `add_rule` or `remove_rule` makes the difference with, if there is such a one."""
    if old.options != new.options:
        return None
    for verb, fewer, more in (("add_rule", old.rules, new.rules), ("remove_rule", new.rules, old.rules)):
        for text in set(more):
            left = list(more)
            left.remove(text)
            if sorted(left) == sorted(fewer) and not text.startswith(".deny"):
                return None if verb == "add_rule" and text in fewer else (verb, text)
    return None


# ---- other rules --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variations:
    """Makes other versions of a program."""

    random: random.Random
    features: Features
    base: Sequence[Relation]
    views: Sequence[Relation]
    strategies: Sequence[str]

    def rules(self, rules: tuple[str, ...]) -> tuple[str, ...]:
        """The rules with one of them changed, doubled, added or removed; every view keeps one."""
        single = (self._reordered, self._shorter, self._new, *[self._removed] * 4)
        return self._varied(rules, (*self._multiplying(), *single))

    def multiplied(self, rules: tuple[str, ...]) -> tuple[str, ...]:
        """Rules that mean the same, of which one is written more than once in some way."""
        return self._varied(rules, self._multiplying())

    def _multiplying(self) -> tuple[Way, ...]:
        return (self._doubled, self._renamed, self._alternatives, self._overlapping, self._two_heads)

    def _varied(self, rules: tuple[str, ...], ways: Sequence[Way]) -> tuple[str, ...]:
        at = self.random.randrange(len(rules))
        made = self.random.choice(ways)(rules[at])
        result = (*rules[:at], *made, *rules[at + 1 :])
        lost = {name for text in rules for name in heads_of(text)} - {
            name for text in result for name in heads_of(text)
        }
        return rules if lost else result

    def _doubled(self, text: str) -> list[str]:
        return [text, text]

    def _renamed(self, text: str) -> list[str]:
        return [text, re.sub(r"\b(V\d+|L\d+_\d+|[XYZ])\b", r"\1_other", text)]

    def _reordered(self, text: str) -> list[str]:
        head, arrow, body = text.removesuffix(".").partition(" :- ")
        literals = split(body, ",") if arrow else []
        self.random.shuffle(literals)
        made = f"{head} :- {', '.join(literals)}." if arrow else text
        return [made] if self.random.random() < 0.5 else [text, made]

    def _alternatives(self, text: str) -> list[str]:
        head, arrow, body = text.removesuffix(".").partition(" :- ")
        return [f"{head} :- ({body} ; {body})."] if arrow else [text, text]

    def _overlapping(self, text: str) -> list[str]:
        """A second rule that has the first as one of its alternatives."""
        head, arrow, body = text.removesuffix(".").partition(" :- ")
        others = [each.removesuffix(".").partition(" :- ")[2] for each in shorter_rules(text)]
        if not arrow or not any(others):
            return [text]
        return [text, f"{head} :- ({body} ; {self.random.choice([each for each in others if each])})."]

    def _two_heads(self, text: str) -> list[str]:
        """The head again, or that of another view with the same columns."""
        if text.startswith(".deny") or " :- " not in text:
            return [text, text]
        head, _, body = text.partition(" :- ")
        name, bracket, args = split(head, ",")[0].partition("(")
        types = {each.name: each.types for each in self.views}
        alike = [each for each in types if types[each] == types.get(name)]
        return [f"{head}, {self.random.choice(alike)}{bracket}{args} :- {body}"]

    def _shorter(self, text: str) -> list[str]:
        found = [each for each in shorter_rules(text) if " :- " in each]
        return [self.random.choice(found)] if found else [text]

    def _new(self, text: str) -> list[str]:
        name = heads_of(text)[0]
        places = [place for place, view in enumerate(self.views) if view.name == name]
        if not places:
            return [text, text]
        view, below = self.views[places[0]], [*self.base, *self.views[: places[0]]]
        if self.random.random() < self.features.aggregates:
            made = aggregate_rule(self.random, self.features, view, below)
        else:
            inside = [view] if self.random.random() < self.features.recursion / 3 else []
            made = rule(self.random, self.features, view, below, inside)
        return [text, made]

    def _removed(self, text: str) -> list[str]:
        return []

    def options(self, version: Version) -> tuple[str, ...]:
        """The lines with another one for one view."""
        name = self.random.choice([each.name for each in self.views])
        kept = [line for line in version.options if not line.startswith(f".view {name} ")]
        return (*kept, self.line(name))

    def line(self, view: str) -> str:
        parts = [f".view {view} strategy={self.random.choice(self.strategies)}"]
        if len(self.strategies) > len(STORED) and self.random.random() < 0.3:
            parts.append(f"materialized={self.random.choice(('true', 'false'))}")
        if self.random.random() < 0.4:
            parts.append(f"policy={self.random.choice(('auto', 'incremental', 'strict', 'full'))}")
        if self.random.random() < 0.4:
            parts.append(f"events={self.random.choice(('all', 'insert', 'delete', 'none'))}")
        return " ".join(parts)


def valid(text: str) -> bool:
    try:
        compile_program(check(parse(text)))
    except ProgramError:
        return False
    return True


def random_evolution(seed: int, features: Features | None = None, *, reopen: float = 0.1) -> Evolution:
    """The history of this seed; with `reopen` 0 the database stays open."""
    rng, features = random.Random(seed), features or Features()
    base, views, rules = random_program(rng, features)
    declarations = tuple(each.declaration() for each in [*base, *views])
    # Whatever lies above a view on demand is on demand too: left to chance, few views would have stored rows.
    vary = Variations(rng, features, base, views, rng.choice((("auto",), STORED, STORED, ("auto", *STRATEGIES))))
    if rng.random() < 0.3:
        rules.append(denial(rng, rng.choice(views)))
    empty = Evolution(seed, declarations, Version(tuple(rules)), {}, ())
    for _ in range(rng.choice((0, 1, 2, 3))):
        multiplied = Version(vary.multiplied(empty.first.rules))
        empty = replace(empty, first=multiplied) if valid(empty.text(multiplied)) else empty
    version = _with_options(empty, vary, rng)
    state = random_base(rng, features, base)
    result = replace(empty, first=version, base=state)
    steps: list[Step] = []
    for _ in range(rng.randint(5, 9)):
        step = _step(rng, result, version, vary, state, reopen)
        if step is None:
            continue
        steps.append(step)
        if isinstance(step, Version):
            version = step
        elif isinstance(step, tuple):
            state = after(state, step)
    # A derivation too many shows when the last one is deleted, one too few while another is left.
    rows = [Change("-", name, row) for name, rows in state.items() for row in sorted(rows, key=repr)]
    rng.shuffle(rows)
    parts = (tuple(rows[: len(rows) // 2]), tuple(rows[len(rows) // 2 :]))
    return replace(result, steps=(*steps, *filter(None, parts)))


def denial(rng: random.Random, view: Relation) -> str:
    """A constraint about the rows of a view; `_with_options` makes it one that warns."""
    args = [f"V{i}" if rng.random() < 0.8 else "_" for i in range(len(view.types))]
    shown = [arg for arg in args if arg != "_"]
    return f".deny d0({', '.join(shown)}) :- {view.name}({', '.join(args)})."


def _with_options(case: Evolution, vary: Variations, rng: random.Random) -> Version:
    """The first program, with another strategy, policy and so on for every view, as far as they go together."""
    version = case.first
    if any(text.startswith(".deny") for text in version.rules):
        version = replace(version, options=(".deny d0 on_violation=warn existing=keep",))
    for view in vary.views:
        if rng.random() < 0.7:
            tried = replace(version, options=(*version.options, vary.line(view.name)))
            version = tried if valid(case.text(tried)) else version
    return version


def _step(
    rng: random.Random, case: Evolution, version: Version, vary: Variations, state: Base, reopen: float
) -> Step | None:
    choice = rng.random()
    if choice < reopen:
        return Reopening()
    if choice < reopen + 0.45:
        for _ in range(3):
            other = replace(version, rules=vary.rules(version.rules))
            if rng.random() < 0.15:
                other = replace(other, options=vary.options(version))
            if other != version and valid(case.text(other)):
                return other
        return None
    used = [each for each in vary.base if any(f"{each.name}(" in text for text in version.rules)] or vary.base
    return random_transaction(rng, used, state)


# ---- smaller ones -------------------------------------------------------------------------------------------------


def simplifications(case: Evolution) -> Iterator[Evolution]:
    """The histories that lack one part of this one, the large parts first."""
    for i in reversed(range(len(case.steps))):
        yield replace(case, steps=case.steps[:i] + case.steps[i + 1 :])
    versions = [case.first, *(step for step in case.steps if isinstance(step, Version))]
    lines = [line for version in versions for line in version.options if line.startswith(".view ")]
    for text in dict.fromkeys([*lines, *(text for version in versions for text in version.rules)]):
        yield _without(case, text)
    for name, rows in case.base.items():
        for row in sorted(rows, key=repr):
            yield replace(case, base={**case.base, name: rows - {row}})
    for i, step in enumerate(case.steps):
        if isinstance(step, tuple):
            for j in range(len(step) if len(step) > 1 else 0):
                yield replace(case, steps=(*case.steps[:i], step[:j] + step[j + 1 :], *case.steps[i + 1 :]))
    for text in dict.fromkeys(text for version in versions for text in version.rules):
        for shorter in shorter_rules(text):
            yield _without(case, text, shorter)


def _without(case: Evolution, text: str, instead: str | None = None) -> Evolution:
    def version(each: Version) -> Version:
        rules = (instead if other == text else other for other in each.rules)
        return Version(tuple(filter(None, rules)), tuple(line for line in each.options if line != text))

    steps = tuple(version(step) if isinstance(step, Version) else step for step in case.steps)
    return replace(case, first=version(case.first), steps=steps)


def sound(case: Evolution) -> bool:
    """Whether every program of the history is one, with rules for the same views throughout."""
    versions = [case.first, *(step for step in case.steps if isinstance(step, Version))]
    views = {frozenset(name for text in version.rules for name in heads_of(text)) for version in versions}
    return len(views) == 1 and all(valid(case.text(version)) for version in versions)
