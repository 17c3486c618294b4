"""Aggregates per group: exact running totals; the rows of a group are read only when its extreme value is deleted."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upshot.check.program import Clause
from upshot.core.errors import Error, OverflowError_
from upshot.core.schema import Schema
from upshot.core.types import Kind, Type, decimal_of
from upshot.engine.local.kernel.layout import MAX_INDEX_COLUMNS, NEW, T_DEL, T_INS
from upshot.engine.local.storage.codec import Codec, Misfit, null_code, wide_digits
from upshot.engine.local.storage.storage import Table
from upshot.engine.user_functions import START
from upshot.rewrite.shapes import conjunction
from upshot.syntax.ast import Aggregate, Atom, Comparison, Constant, Variable
from upshot.values.aggregates import AGGREGATES, rounded
from upshot.values.functors import is_functor
from upshot.values.numeric_functions import quotient
from upshot.values.records import RunningState

Codes = NDArray[np.int64]
Group = tuple[int, ...]

_GROUP = 300
"""Approximate bytes of a group beside its row."""

_LOOK = 1024
"""New groups between two checks of the memory limit."""

_FEW = 64
"""At most this many rows are grouped one by one, which is faster than sorting them."""

_MANY = 1024
"""Larger new groups get leaders at once; reading a smaller group again takes microseconds."""


@dataclass(slots=True)
class Leaders:
    """The best values of a large group with their numbers of rows, so that the next extreme needs no reading of rows.

    Invariant: all values of the group that are at least as good as the worst one here are here, with exact counts.
    `ranked` has the distinct values from the worst to the best; `key` orders codes, larger is better.
    """

    key: Callable[[int], Any]
    bound: int
    ranked: list[int] = field(default_factory=list)
    counts: Counter[int] = field(default_factory=Counter)

    def insert(self, codes: Iterable[int]) -> None:
        for code in codes:
            if code in self.counts:
                self.counts[code] += 1
            elif self.ranked and self.key(code) > self.key(self.ranked[0]):
                self.counts[code] = 1
                self.ranked.insert(bisect_left(self.ranked, self.key(code), key=self.key), code)
        if len(self.ranked) > 2 * self.bound:
            dropped, self.ranked = self.ranked[: -self.bound], self.ranked[-self.bound :]
            for code in dropped:
                del self.counts[code]

    def delete(self, codes: Iterable[int]) -> None:
        for code in codes:
            if code in self.counts:
                self.counts[code] -= 1
                if self.counts[code] == 0:
                    del self.counts[code]
                    del self.ranked[bisect_left(self.ranked, self.key(code), key=self.key)]

    @property
    def best(self) -> int | None:
        return self.ranked[-1] if self.ranked else None


@dataclass(slots=True)
class Total:
    """A group's state: the number of its rows, and of those with a value, their exact sum, the numbers of infinities
    and NaNs, the extreme code; for a user fold, its state."""

    rows: int = 0
    values: int = 0
    total: Fraction | int = 0
    highs: int = 0
    lows: int = 0
    nans: int = 0
    extreme: int | None = None
    leaders: Leaders | None = None
    state: Any = START

    def copy(self) -> Total:
        """The state without its leaders: after a rollback, they are computed again when needed."""
        return Total(
            self.rows, self.values, self.total, self.highs, self.lows, self.nans, self.extreme, state=self.state
        )


class AggregateView:
    """`agg(G…, V) :- aux(G…, _…), V = f T : { aux(G…, L…) }.` over the tables of aux and agg."""

    def __init__(self, clause: Clause, schema: Schema, source: Schema, table: Table, rows: Table, codec: Codec) -> None:
        comparison = clause.body[-1]
        assert isinstance(comparison, Comparison)
        assert isinstance(comparison.right, Aggregate)
        (body,) = conjunction(comparison.right.body)
        assert isinstance(body, Atom)
        self.function = comparison.right.function
        self._known = AGGREGATES[self.function]
        self._running = self._known.running
        self.width = schema.arity - 1
        self.result = schema.columns[-1].type
        self.table, self._rows, self._codec = table, rows, codec
        self._encode = codec.encoder(self.result)
        self._groups: dict[Group, Total] = {}
        self._undo: dict[Group, Total | None] = {}
        self._clause = clause
        table.weigh(_GROUP)
        self._find_target(comparison.right, body, source)
        self._better = self._rank()

    def _find_target(self, aggregate: Aggregate, body: Atom, source: Schema) -> None:
        self._column: int | None = None
        self._constant: int | None = None
        self.type: Type = self.result
        match aggregate.target:
            case Variable(name):
                names = [arg.name if isinstance(arg, Variable) else None for arg in body.args]
                self._column = names.index(name)
                self.type = source.columns[self._column].type
            case Constant(value, type) if type is not None:
                self._constant = self._codec.encoder(type)(value)
                self.type = type
            case _:
                pass

    def texts(self) -> tuple[int, ...]:
        """The code of the aggregated constant, if it is a text."""
        is_text = self._constant is not None and self.type.in_dictionary
        return (self._constant,) if is_text and self._constant is not None else ()

    # ---- change --------------------------------------------------------------------------------------------

    def apply(self) -> int:
        """Update the groups touched by the change of aux and stage the new values; return the number of groups."""
        return self._update(self._rows.listed(T_DEL), self._rows.listed(T_INS))

    def load(self, mask: int = NEW) -> int:
        """Compute all groups from the rows of a state; return their number."""
        for group, total in self._groups.items():
            self._undo.setdefault(group, total)
        self._groups = {}
        self.table.retract_all(as_view=False)
        return self._update(np.empty((0, self._rows.arity), np.int64), self._rows.in_state(mask))

    def prepare_changes(self) -> None:
        """Build the index by which a group is read again."""
        if self.width and self._running in (RunningState.EXTREME, RunningState.GROUP):
            self._rows.index_on(range(self.width)[:MAX_INDEX_COLUMNS])

    def folded(self, groups: Codes, mask: int) -> Codes:
        """The result rows of these groups, from the rows of a state, without storing anything."""
        found = []
        for group in map(tuple, groups.tolist()):
            rows = self._rows_of(group, mask)
            self._fold(group, range(len(rows)) if self._column is None else rows[:, self._column].tolist(), 1)
            total = self._groups.pop(group)
            if self._running is RunningState.GROUP and total.values:
                total.extreme = self._read_again(total, self._targets(rows))
            value = self._encoded(total) if total.rows else None
            if value is not None:
                found.append((*group, value))
        return np.array(found, np.int64).reshape(len(found), self.width + 1)

    def accept(self) -> None:
        self._undo.clear()

    def rollback(self) -> None:
        for group, total in self._undo.items():
            if total is None:
                self._groups.pop(group, None)
            else:
                self._groups[group] = total
        self._undo.clear()

    def _update(self, deleted: Codes, inserted: Codes) -> int:
        touched: dict[Group, int | None] = {}
        for codes, sign in ((deleted, -1), (inserted, 1)):
            for group, targets in _by_group(codes, self.width, self._column):
                if group not in touched:
                    touched[group] = self._begin(group)
                self._fold(group, targets, sign)
        deletions: list[Group] = []
        insertions: list[Group] = []
        for group, before in touched.items():
            after = self._value(group)
            if before != after:
                deletions += [(*group, before)] if before is not None else []
                insertions += [(*group, after)] if after is not None else []
        for rows, insert in ((deletions, False), (insertions, True)):
            if rows:
                self.table.stage(np.array(rows, np.int64), insert=insert)
        return len(touched)

    def _begin(self, group: Group) -> int | None:
        """Save the group for a rollback; return its value before the change."""
        total = self._groups.get(group)
        before = None if total is None else self._encoded(total)
        if group not in self._undo:
            self._undo[group] = None if total is None else total.copy()
        return before

    def _fold(self, group: Group, targets: Iterable[int] | None, sign: int) -> None:
        total = self._groups.get(group)
        if total is None:
            total = self._groups[group] = Total()
            if len(self._groups) % _LOOK == 0:
                # The table accounts for a group when its row is inserted, after all groups of the change.
                self.table.storage.account.check(_GROUP * (len(self._groups) - self.table.capacity))
        codes = list(targets) if targets is not None else []
        if self._column is None:
            count = len(codes)
            codes = [] if self._constant is None else [self._constant] * count
            total.rows += sign * count
        else:
            total.rows += sign * len(codes)
        present = [code for code in codes if code != null_code(self.type)] if self.type.nullable else codes
        total.values += sign * len(present)
        if self._running is RunningState.TOTAL:
            self._add(total, present, sign)
        elif self._running is RunningState.EXTREME and present:
            self._extend(total, present, sign)
        elif self._running is RunningState.GROUP:
            total.extreme = None
            if present and is_functor(self.function):
                self._merge(total, present, sign)

    def _merge(self, total: Total, codes: list[int], sign: int) -> None:
        """Update the state of a user fold, if it keeps one."""
        functions = self._codec.functions
        with placed(self._clause):
            if functions.keeps_state(self.function):
                values = self._codec.decode(np.array(codes, np.int64), self.type.required())
                total.state = functions.merged(self.function, total.state, values, sign)

    def _add(self, total: Total, codes: list[int], sign: int) -> None:
        if self.type.is_wide:
            values = self._codec.dictionary.values
            total.total += sign * sum(wide_digits(values[code]) for code in codes)
            return
        if self.type.kind is not Kind.FLOAT:
            shift = 2**63 if self.type.kind is Kind.UNSIGNED else 0
            total.total += sign * (sum(codes) + shift * len(codes))
            return
        for value in self._codec.decode(np.array(codes, np.int64), self.type.required()):
            if math.isnan(value):
                total.nans += sign
            elif math.isinf(value):
                total.highs += sign * (value > 0)
                total.lows += sign * (value < 0)
            else:
                total.total += sign * Fraction(value)

    def _extend(self, total: Total, codes: list[int], sign: int) -> None:
        best = self._best(codes)
        if total.leaders is not None:
            (total.leaders.delete if sign < 0 else total.leaders.insert)(codes)
        if sign < 0:
            # Another row may have the same extreme value: that is tested when the value is needed.
            if best == total.extreme:
                total.extreme = None
        elif total.values == len(codes):
            total.extreme = best
            if len(codes) > _MANY:
                total.leaders = self._leaders(np.array(codes, np.int64))
        elif total.extreme is not None:
            total.extreme = self._best([best, total.extreme])

    def _best(self, codes: list[int]) -> int:
        pick = max if self.function == "max" else min
        if self.type.in_dictionary:
            return pick(codes, key=self._codec.dictionary.values.__getitem__)
        return pick(codes)

    def _rank(self) -> Callable[[int], Any]:
        """The sort key of codes; larger is better."""
        sign = 1 if self.function == "max" else -1
        if not self.type.in_dictionary:
            return lambda code: sign * code
        values = self._codec.dictionary.values
        return values.__getitem__ if sign > 0 else lambda code: _Descending(values[code])

    # ---- values --------------------------------------------------------------------------------------------

    def _value(self, group: Group) -> int | None:
        """The code of the group's value after the change, None if it has none; an empty group is dropped."""
        total = self._groups[group]
        if total.rows == 0:
            del self._groups[group]
            return None
        if self._running in (RunningState.EXTREME, RunningState.GROUP) and total.values and total.extreme is None:
            total.extreme = total.leaders.best if total.leaders is not None else None
            if total.extreme is None:
                total.extreme = self._read_again(total, self._targets_of(group))
        return self._encoded(total)

    def _read_again(self, total: Total, codes: Codes) -> int:
        """The value of a group, from the targets of all its rows; a large group gets leaders."""
        present = codes[codes != null_code(self.type)] if self.type.nullable else codes
        if self._running is RunningState.GROUP:
            values = self._codec.decode(present, self.type.required())
            if is_functor(self.function):
                return self._code(self._of_users(total, values))
            return self._code(self._known.python(values, self.type.required()))
        total.leaders = None
        if len(present) <= _FEW:
            return self._best(present.tolist())
        total.leaders = self._leaders(present)
        assert total.leaders.best is not None
        return total.leaders.best

    def _of_users(self, total: Total, values: Iterable[Any]) -> Any:
        functions = self._codec.functions
        with placed(self._clause):
            if functions.keeps_state(self.function):
                return functions.finished(self.function, total.state)
            return functions.folded(self.function, values)

    def _leaders(self, codes: Codes) -> Leaders:
        """The leaders of a group: as many as the square root of its rows, so that the cost of reading a group again is
        spread over that many deletions."""
        leaders = Leaders(self._better, max(_FEW, math.isqrt(len(codes))))
        if self.type.in_dictionary:
            distinct = sorted(np.unique(codes).tolist(), key=self._better)[-leaders.bound :]
            kept = codes[np.isin(codes, np.array(distinct, np.int64))]
        elif self.function == "max":
            kept = codes[codes >= np.partition(codes, len(codes) - leaders.bound)[len(codes) - leaders.bound]]
        else:
            kept = codes[codes <= np.partition(codes, leaders.bound - 1)[leaders.bound - 1]]
        values, counts = np.unique(kept, return_counts=True)
        leaders.counts.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        leaders.ranked = sorted(leaders.counts, key=self._better)
        return leaders

    def _targets_of(self, group: Group) -> Codes:
        return self._targets(self._rows_of(group, NEW))

    def _targets(self, rows: Codes) -> Codes:
        if self._column is None:
            assert self._constant is not None
            return np.full(len(rows), self._constant, np.int64)
        return rows[:, self._column]

    def _rows_of(self, group: Group, mask: int) -> Codes:
        if not group:
            return self._rows.in_state(mask)
        return self._rows.matching(tuple(range(self.width)), np.array(group, np.int64), mask)

    def _encoded(self, total: Total) -> int | None:
        if self._running is RunningState.ROWS:
            return self._code(total.rows)
        if self._running in (RunningState.EXTREME, RunningState.GROUP):
            return total.extreme if total.values else None
        if self.function == "mean":
            return self._code(self._mean(total)) if total.values else None
        if self.type.kind is Kind.FLOAT:
            return self._code(_rounded(total))
        if self.function == "average":
            return self._code(quotient(self._total(total), total.values)) if total.values else None
        if self.type.is_wide:
            return self._code(self._total(total))
        if self.type.kind is Kind.DECIMAL:
            return self._in_range(int(total.total), -(10**18) + 1, 10**18 - 1)
        return self._code(int(total.total))

    def _total(self, total: Total) -> Decimal:
        """The exact sum of decimals."""
        return decimal_of(int(total.total), self.type.scale)

    def _mean(self, total: Total) -> Any:
        if self.type.kind is Kind.FLOAT:
            return _rounded(total) / total.values
        return float(Fraction(total.total, total.values * 10**self.type.scale))

    def _code(self, value: Any) -> int:
        try:
            return self._encode(value)
        except Misfit:
            raise self._overflow(value) from None

    def _in_range(self, value: int, low: int, high: int) -> int:
        if not low <= value <= high:
            raise self._overflow(value)
        return value

    def _overflow(self, value: Any) -> OverflowError_:
        help = "use floats or decimals"
        if self.result.kind is Kind.DECIMAL:
            exact = decimal_of(value, self.result.scale) if isinstance(value, int) else value
            value, help = f"{exact:f}", "use smaller values, or floats"
        what = f"the {self.function} of a group is `{value}`, which is outside the range of `{self.result}`"
        return OverflowError_(what, code="overflow", span=self._clause.origin, help=help)


@contextmanager
def placed(clause: Clause) -> Iterator[None]:
    """Inside, an error without a source span gets that of the clause."""
    try:
        yield
    except Error as error:
        error.span = error.span or clause.origin
        raise


@dataclass(frozen=True, slots=True)
class _Descending:
    """Text in descending order."""

    text: str

    def __lt__(self, other: _Descending) -> bool:
        return self.text > other.text


def _rounded(total: Total) -> float:
    if total.nans or (total.highs and total.lows):
        return math.nan
    if total.highs or total.lows:
        return math.inf if total.highs else -math.inf
    return rounded(total.total)


def _by_group(codes: Codes, width: int, column: int | None) -> Iterator[tuple[Group, list[int] | range]]:
    """The rows by group: the codes of the group, and those of the target column (or a range of the same length)."""
    if len(codes) == 0:
        return
    if width == 0:
        yield (), (range(len(codes)) if column is None else codes[:, column].tolist())
        return
    if len(codes) <= _FEW:
        few: dict[Group, list[int]] = {}
        for row in codes.tolist():
            few.setdefault(tuple(row[:width]), []).append(0 if column is None else row[column])
        yield from few.items()
        return
    order = np.lexsort(tuple(codes[:, i] for i in reversed(range(width))))
    ranked = codes[order]
    changes = np.any(ranked[1:, :width] != ranked[:-1, :width], axis=1)
    starts = np.concatenate(([0], np.flatnonzero(changes) + 1, [len(codes)])).tolist()
    groups = ranked[starts[:-1], :width].tolist()
    targets = None if column is None else ranked[:, column].tolist()
    for i, group in enumerate(groups):
        start, end = starts[i], starts[i + 1]
        yield tuple(group), (range(end - start) if targets is None else targets[start:end])
