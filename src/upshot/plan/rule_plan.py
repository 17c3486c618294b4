"""Rule plans: the driving rows, the steps in order, the action on the head. Immutable and printable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate

from upshot.check.printing import print_clause
from upshot.check.program import Clause
from upshot.core.types import Type
from upshot.syntax import print_term
from upshot.syntax.ast import Call, Constant, Test, Variable

Operand = Variable | Constant


class State(Enum):
    """The state of a relation that a literal reads."""

    OLD = "old"
    NEW = "new"
    KEPT = "kept"
    """in both states; of a row that may be deleted: not checked yet"""
    PROVEN = "proven"
    """checked, and proven from remaining rows"""


class Change(Enum):
    """The rows that can drive a plan: all rows of a state, or rows with one of these changes."""

    ALL = "all"
    DELETED = "deleted"
    REDERIVED = "rederived"
    INSERTED = "inserted"


class Action(Enum):
    """The action on a derived head."""

    INSERT = "insert"
    """add it to the new state"""
    DELETE = "delete"
    """add it to the overestimate: it may have lost a derivation"""
    REDERIVE = "rederive"
    """return it to the new state if it was over-deleted"""
    ASK = "ask"
    """check whether it is proven: one head per driving row, before further heads are derived"""
    PROVE = "prove"
    """mark it as proven if it is checked"""
    GAIN = "gain"
    """add one to its number of derivations"""
    LOSE = "lose"
    """subtract one from its number of derivations"""


@dataclass(frozen=True, slots=True)
class Match:
    """A match of rows with bindings: key columns equal operands, other columns bind variables, and columns that repeat
    a variable of the same literal are compared. `as_row`: NULL equals itself, as in sets of rows."""

    relation: str
    state: State
    key: tuple[tuple[int, Operand], ...] = ()
    binds: tuple[tuple[int, str], ...] = ()
    repeats: tuple[tuple[int, str], ...] = ()
    as_row: bool = False


@dataclass(frozen=True, slots=True)
class Drive:
    """The first step: every row of a change. `of_negation`: the literal is negated; NULL makes it true before and
    after, so rows with NULL drive nothing. `of_head`: the row is the head itself, which is derived again."""

    change: Change
    match: Match
    of_negation: bool = False
    of_head: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """Every row that matches the bindings so far; `whole`: all columns are bound, so it is a membership test."""

    match: Match
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Absent:
    """Test that the state has no such row. A NULL operand makes the test true, unless `as_row`: then NULL equals
    itself, as in sets of rows."""

    relation: str
    state: State
    operands: tuple[Operand, ...]
    as_row: bool = False


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right` over bound operands."""

    op: str
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Same:
    """Test that both have the same value, with NULL equal to itself; for a head that is computed again."""

    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Compute:
    """Bind the target: `target = call` or `target = operand`."""

    target: str
    value: Call | Operand


@dataclass(frozen=True, slots=True)
class Check:
    """A built-in predicate over bound operands."""

    test: Test
    negated: bool = False


Step = Probe | Absent | Compare | Same | Compute | Check


@dataclass(frozen=True, slots=True)
class RulePlan:
    """The plan of a generated rule; `seed`: it runs once, before the rounds."""

    name: str
    clause: Clause
    head: str
    arguments: tuple[Operand, ...]
    action: Action
    driver: Drive | None
    steps: tuple[Step, ...]
    seed: bool
    types: Mapping[str, Type] = field(hash=False)
    expected: Mapping[int, float] = field(default_factory=dict, hash=False, compare=False)
    """The estimated number of rows per binding for each step that matches rows, by its place."""

    def too_long(self, place: int, type: Type) -> bool:
        """Test whether the head's value at a place may have more digits than its column, of this type, declares.
        Insertions are tested only: a stored row can always be deleted."""
        if self.action not in (Action.INSERT, Action.GAIN) or self.clause.head.state == "deleted":
            return False
        operand = self.arguments[place]
        known = self.types[operand.name] if isinstance(operand, Variable) else operand.type
        return known is not None and known.exceeds(type)

    def mirrors(self, other: RulePlan) -> bool:
        """Test whether the plans differ only in that inserted rows drive one and deleted rows the other, and in their
        actions."""
        ours, theirs = self.driver, other.driver
        if ours is None or theirs is None or {ours.change, theirs.change} != {Change.INSERTED, Change.DELETED}:
            return False
        match = replace(ours.match, state=theirs.match.state)
        if replace(ours, change=theirs.change, match=match) != theirs or self.types != other.types:
            return False
        return (self.arguments, self.steps, self.head) == (other.arguments, other.steps, other.head)

    @property
    def cost(self) -> float:
        """The estimated number of matches for one driving row."""
        return sum(accumulate(self.expected.values(), lambda rows, each: rows * each))

    def __str__(self) -> str:
        return self._described({})

    def described(self) -> str:
        """The plan with the estimated number of rows for each step."""
        tests = {place for place, step in enumerate(self.steps) if isinstance(step, Probe) and step.whole}
        expected = {place: rows for place, rows in self.expected.items() if place not in tests}
        return self._described({place: f", expected ~{about(rows)}" for place, rows in expected.items()})

    def _described(self, notes: Mapping[int, str]) -> str:
        lines = [f"{self.name}: {print_clause(self.clause)}"]
        if self.driver is not None:
            lines.append(f"    for each {self.driver.change.value} row of {_shown(self.driver.match)}")
        lines += [f"    {_step(step)}{notes.get(place, '')}" for place, step in enumerate(self.steps)]
        lines.append(f"    {self.action.value} {self.head}({', '.join(map(print_term, self.arguments))})")
        return "\n".join(lines)


def rounds_read(plans: Iterable[RulePlan], relations: Collection[str]) -> bool:
    """Test whether a plan that runs in rounds looks up rows of one of the relations, beside those that drive it."""
    return any(
        step.match.relation in relations if isinstance(step, Probe) else step.relation in relations
        for plan in plans
        if not plan.seed
        for step in plan.steps
        if isinstance(step, Probe | Absent)
    )


def about(rows: float) -> str:
    """An estimated number of rows for people.

    >>> about(41.7), about(0.25), about(1234.5)
    ('42', '0.25', '1,234')
    """
    return f"{rows:,.0f}" if rows >= 10 else f"{rows:.2g}"


_WHEN = {State.OLD: " before", State.NEW: "", State.KEPT: " before and after", State.PROVEN: " proven"}


def _match(match: Match) -> str:
    return _shown(match) + _WHEN[match.state]


def _shown(match: Match) -> str:
    columns = {c: print_term(o) for c, o in match.key}
    columns |= dict(match.binds) | dict(match.repeats)
    arity = max(columns, default=-1) + 1
    shown = ", ".join(columns.get(c, "_") for c in range(arity))
    return f"{match.relation}({shown})"


def _step(step: Step) -> str:
    match step:
        case Probe(match, whole):
            if whole:
                return f"test {_match(match)}"
            if match.key:
                columns = ", ".join(str(column) for column, _ in match.key)
                return f"probe {_match(match)} on column{'s' * (len(match.key) > 1)} {columns}"
            return f"scan {_match(match)}"
        case Absent(relation, state, operands, _):
            shown = ", ".join(map(print_term, operands))
            return f"test !{relation}({shown})" + _WHEN[state]
        case Compare(op, left, right):
            return f"test {print_term(left)} {op} {print_term(right)}"
        case Same(left, right):
            return f"test {print_term(left)} = {print_term(right)}"
        case Compute(target, value):
            return f"let {target} = {print_term(value)}"
        case Check(test, negated):
            return f"test {'!' * negated}{test.name}({', '.join(map(print_term, test.args))})"
