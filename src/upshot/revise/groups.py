"""Groups of aggregates as rules of the solver: count, sum and mean as weights of rows, min and max by their rows.

If a sum has a row with a fresh amount, or the group can gain rows that are not known yet, the solver chooses freely how
the sum compares, and a witness must agree. The value of a median, or of any other function, is always chosen freely and
computed for each candidate.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from upshot.core.types import Kind
from upshot.revise.conditions import (
    Conditions,
    Signs,
    Subject,
    all_replaced,
    condition_of,
    linear_value,
    names_of,
    signed,
)
from upshot.revise.demand import has_symbol
from upshot.revise.ground_program import GroundProgram, GroupNode
from upshot.revise.ordered_values import Linear, number_of, value_at
from upshot.revise.placeholders import Symbol
from upshot.revise.request import Key
from upshot.revise.rules import COUNT
from upshot.revise.witnesses import is_refuted, pinned
from upshot.syntax.ast import Comparison, Constant
from upshot.values.aggregates import AGGREGATES

if TYPE_CHECKING:
    from upshot.revise.solver import Solver

LARGEST = 2**30


class GroupRules:
    """The rules of one group. `is_there` is true if the group has rows, `rest` if it gains unknown rows."""

    def __init__(self, solver: Solver, group: GroupNode) -> None:
        self._solver, self.group = solver, group
        fold = group.fold
        self._rows = [(key, fold.amount_in(key[1])) for key in group.rows if fold.amount_in(key[1]) is not None]
        self.rest: int | None = None
        if not group.is_exhausted:
            self.rest = solver.atom()
            solver.rule(self.rest, [], choice=True)
            if solver.program.rules.is_base(fold.below):
                solver.rule(None, [self.rest, -solver.other(fold.below)])
        elif fold.function not in ("min", "max") and any(map(has_symbol, group.rows)):
            # With one more fresh value than permitted, the group can gain any number of rows.
            self.rest = solver.beyond()
        rows = [solver.truth(key) for key, _ in self._rows]
        self.is_there = solver.any_of([*rows, *([] if self.rest is None else [self.rest])])
        self._compared: dict[Linear, tuple[int, int, int]] = {}
        self._free: int | None = None

    @property
    def free(self) -> int:
        """A literal that is true if the solver may choose how the value of the group compares."""
        if self._free is None:
            symbolic = [self._solver.truth(key) for key, value in self._rows if isinstance(value, Symbol)]
            self._free = self._solver.any_of([*symbolic, *([] if self.rest is None else [self.rest])])
        return self._free

    def equals(self, value: Any) -> int:
        """A literal that is true if the group has a value."""
        number = number_of(value)
        if number is None and not self.group.fold.is_weighed:
            decided = self._solver.atom()
            self._solver.rule(decided, [], choice=True)
            return decided
        if number is None:
            # A value without an order is a minimum or maximum only of rows that have it.
            return self._solver.any_of([self._solver.truth(key) for key, each in self._rows if each == value])
        return self.compared(Linear((), number))[1]

    def compared(self, border: Linear) -> tuple[int, int, int]:
        """Literals that are true if the value of the group is less than, equal to, greater than a number; a minimum or
        maximum is also compared with expressions of fresh values."""
        if border not in self._compared:
            is_extreme = self.group.fold.function in ("min", "max")
            self._compared[border] = self._extreme(border) if is_extreme else self._weighed(border.more)
        return self._compared[border]

    def _weighed(self, number: Fraction) -> tuple[int, int, int]:
        solver = self._solver
        less, equal, greater = solver.atom(), solver.atom(), solver.atom()
        native = self._native(number)
        open_ = self.free
        solver.decide((less, equal, greater), [open_])
        if native is None:
            solver.decide((less, equal, greater), [-open_])
        else:
            at_least, above = native
            fold = self.group.fold
            if fold.function == COUNT or (fold.function == "sum" and fold.type.kind is Kind.UNSIGNED):
                # Further rows only increase the value.
                solver.rule(None, [open_, less, at_least])
                solver.rule(None, [open_, equal, above])
            elif fold.function == "sum" and fold.constant and number % Fraction(fold.constant):
                solver.rule(None, [equal])
            solver.rule(less, [-open_, -at_least])
            solver.rule(equal, [-open_, at_least, -above])
            solver.rule(greater, [-open_, above])
        return less, equal, greater

    def _native(self, number: Fraction) -> tuple[int, int] | None:
        """Literals for at least, and more than, a number; None if clingo cannot add the weights."""
        plain = [(key, number_of(value)) for key, value in self._rows if not isinstance(value, Symbol)]
        if not self.group.fold.is_weighed or any(value is None for _, value in plain):
            return None
        is_mean = self.group.fold.function == "mean"
        amounts = [(key, value - (number if is_mean else 0)) for key, value in plain if value is not None]
        bound = Fraction(0) if is_mean else number
        share = math.lcm(bound.denominator, *(value.denominator for _, value in amounts))
        weights = [(literal, int(value * share)) for literal, value in self._once(amounts)]
        limit = int(bound * share)
        if sum(abs(weight) for _, weight in weights) + abs(limit) > LARGEST:
            return None
        return self._solver.at_least(limit, weights), self._solver.at_least(limit + 1, weights)

    def _once(self, amounts: Sequence[tuple[Key, Fraction]]) -> Iterator[tuple[int, Fraction]]:
        """Literals for rows with their amounts; one for rows that exclude each other."""
        if self.group.fold.inner is None:
            yield from ((self._solver.truth(key), value) for key, value in amounts)
            return
        alike: dict[Key, tuple[list[int], Fraction]] = {}
        for key, value in amounts:
            alike.setdefault(self.group.fold.same(key), ([], value))[0].append(self._solver.truth(key))
        yield from ((self._solver.any_of(literals), value) for literals, value in alike.values())

    def _extreme(self, border: Linear) -> tuple[int, int, int]:
        """Compare a minimum: one row below is enough for less; greater needs no row below and none equal."""
        solver = self._solver
        is_min = self.group.fold.function == "min"
        before = -1 if is_min else 1
        beyond = solver.any_of(each for key, value in self._rows for each in self._row(key, value, before, border))
        on = solver.any_of(each for key, value in self._rows for each in self._row(key, value, 0, border))
        less, equal, greater = solver.atom(), solver.atom(), solver.atom()
        first, last = (less, greater) if is_min else (greater, less)
        known = [] if self.rest is None else [-self.rest]
        solver.rule(first, [beyond, *known])
        solver.rule(equal, [on, -beyond, *known])
        solver.rule(last, [self.is_there, -on, -beyond, *known])
        if self.rest is not None:
            solver.decide((less, equal, greater), [self.rest])
            # Further rows cannot undo the effect of a known one.
            solver.rule(None, [beyond, self.rest, -first])
        return less, equal, greater

    def _row(self, key: Key, value: Any, side: int, border: Linear) -> list[int]:
        """A literal for a present row whose value lies on a side of a border; none if it cannot."""
        solver, demand = self._solver, self._solver.program.demand
        moving = linear_value(value, demand.types)
        if moving is not None:
            made = demand.narrowed(signed(moving.minus(border), Signs((side,))))
        elif isinstance(value, Symbol) and not border.parts and value_at(border.more, value.type) is not None:
            at = Constant(value_at(border.more, value.type), value.type)
            made = condition_of(Comparison("<=>"[side + 1], value.written, at), demand.types)
        else:
            made = False
        if isinstance(made, bool):
            return [solver.truth(key)] if made else []
        both = solver.atom()
        solver.rule(both, [solver.truth(key), solver.sign(made.subject, made.signs)])
        return [both]


# ---- values of groups in a candidate ---------------------------------------------------------------------------------


def with_totals(needed: Conditions, program: GroundProgram, true: Collection[Key]) -> dict[Subject, Signs] | None:
    """Replace the symbols of groups in conditions by their values; None if that contradicts them."""
    kept: dict[Subject, Signs] = {}
    totals: dict[str, Linear] = {}
    for subject, signs in needed.items():
        names = [name for name in names_of(subject) if name in program.totals]
        values = {name: total_value(program.totals[name], program, true) for name in names}
        totals |= {name: value for name, value in values.items() if value is not None}
        unknown = [program.totals[name] for name, value in values.items() if value is None]
        if (names and not isinstance(subject, Linear)) or any(_is_undecided(each, program, true) for each in unknown):
            return None
        if not unknown:
            kept[subject] = signs
    return all_replaced(kept, totals, program.demand.types)


def is_contradictory(needed: Conditions, program: GroundProgram, true: Collection[Key]) -> bool:
    """Test whether conditions contradict the values of the groups that they name, in a candidate."""
    named = [name for each in needed for name in names_of(each) if name in program.totals]
    if not named or any(not isinstance(each, Linear) and {*named} & {*names_of(each)} for each in needed):
        return False
    stated = with_totals(needed, program, true)
    if stated is None:
        return True
    types = {name: program.demand.types[name] for each in stated for name in names_of(each)}
    if is_refuted(stated, types):
        return True
    values = pinned(stated, types)
    groups = map(program.group_of, dict.fromkeys(named))
    return any(group is not None and _has_equal_rows(group, true, values) for group in groups)


def _has_equal_rows(group: GroupNode, true: Collection[Key], values: Mapping[str, Any]) -> bool:
    """Test whether two rows of a sum or mean are equal with these values of symbols: then they count once."""
    rows = {group.fold.same(key)[1] for key in group.rows if key in true}
    plain = {tuple(values.get(v.name, v) if isinstance(v, Symbol) else v for v in row) for row in rows}
    return group.fold.function in ("sum", "mean") and len(plain) < len(rows)


def total_value(total: Symbol, program: GroundProgram, true: Collection[Key]) -> Linear | None:
    """The value of a group in a candidate as an expression of fresh amounts; None if it is not linear."""
    group = program.group_of(total.name)
    return None if group is None else group_value(group, true, program.demand.types)


def _is_undecided(total: Symbol, program: GroundProgram, true: Collection[Key]) -> bool:
    """Test whether a group has a fresh amount on which no conditions can be stated."""
    group = program.group_of(total.name)
    if group is None or group.fold.is_weighed:
        return False
    return any(isinstance(group.fold.amount_in(key[1]), Symbol) for key in group.rows if key in true)


def group_value(group: GroupNode, true: Collection[Key], types: Mapping[str, Any]) -> Linear | None:
    """The value of a group as an expression of fresh amounts; None if it has no rows or is not linear."""
    fold = group.fold
    rows = {fold.same(key): key[1] for key in group.rows if key in true}
    amounts = [amount for row in rows.values() if (amount := fold.amount_in(row)) is not None]
    if not fold.is_weighed:
        if not amounts or fold.amount_type is None or any(isinstance(each, Symbol) for each in amounts):
            return None
        return linear_value(AGGREGATES[fold.function].python(amounts, fold.amount_type), types)
    made = [value for each in amounts if (value := linear_value(each, types)) is not None]
    if not made or len(made) < len(amounts):
        return None
    if fold.function in ("min", "max"):
        if len(made) > 1 and any(each.parts for each in made):
            return None
        return (min if fold.function == "min" else max)(made, key=lambda each: each.more)
    total = functools.reduce(Linear.plus, made)
    return total.times(Fraction(1, len(made))) if fold.function == "mean" else total
