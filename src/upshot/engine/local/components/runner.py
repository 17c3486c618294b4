"""Run assembled phases on the kernel, handle its stops, and count its work."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from upshot.core.errors import DataError, EngineError, Error, LimitError, OverflowError_
from upshot.engine.limits import Limits
from upshot.engine.local.components.assemble import Phase
from upshot.engine.local.components.phases import drift_limit
from upshot.engine.local.kernel import layout as op
from upshot.engine.local.kernel.crew import Crew
from upshot.engine.local.kernel.machine import MACHINE
from upshot.engine.local.kernel.memory import Buffer
from upshot.engine.local.kernel.threads import WORKERS
from upshot.engine.local.storage.codec import Codec
from upshot.engine.local.storage.storage import Storage, Table
from upshot.engine.time_limit import check_time, is_limited
from upshot.engine.work import ViewWork
from upshot.plan.rule_plan import Change, RulePlan
from upshot.syntax import print_term
from upshot.values.records import too_long

_SLICE = 1 << 27
"""Steps of the compiled kernel between two checks of the clock and of interrupts."""

_SHORT_SLICE = 1 << 23
"""The same under a time limit: some hundredths of a second."""

_LIST = {Change.DELETED: op.FROM_DEL, Change.REDERIVED: op.FROM_RED, Change.INSERTED: op.FROM_INS}

_NEVER = (1 << 63) - 1

_NO_NUMBERS = np.empty(0, np.int64)

Progress = Callable[[str, int], None]
"""Called from time to time with the number of rows of a view that is being computed."""


class Runner:
    """Runs phases on the kernel, one at a time, over the tables of one storage."""

    def __init__(self, storage: Storage, codec: Codec, limits: Limits) -> None:
        self.storage, self.codec, self._limits = storage, codec, limits
        self._state = Buffer(8 * op.S_COMPONENT)
        self._words = self._state.words()
        self._header = array("q", bytes(8 * op.S_COMPONENT))
        """The words of the state at the start of a run."""
        self._header_words = memoryview(self._header)
        self._block = Buffer()
        self.lenient = False
        """Accept values with more digits than their column declares: a store with such rows must open."""
        self.progress: Progress | None = None
        self.trace: Callable[[str], None] | None = None
        """Called at the end of every round with the stage's name, when set."""
        self.workers = WORKERS
        self.worth_sharing = 1 << 15
        """The minimum number of driving rows for a plan that workers share."""
        self.worth_walking = 1 << 10
        """The minimum number of rows in the relations below a closure that is computed by walks
        (docs/decisions/0007)."""
        self.most_cells = 8
        """The maximum number of cells per row for a closure in the dense form (docs/decisions/0009)."""
        self.worth_preparing = 1 << 10
        """The minimum number of rows for a load that builds the indexes for changes."""

    @property
    def max_rounds(self) -> int:
        return self._limits.max_rounds

    def run(
        self, phase: Phase, component: Sequence[tuple[str, Table]], grows: Change | None, numbered: dict[int, Table],
        work: ViewWork, *, resumed: bool = False, numbers: NDArray[np.int64] | None = None,
        replan: Callable[[], Phase] | None = None,
    ) -> None:  # fmt: skip
        """Run a phase to its fixpoint and add its counters to `work`; `grows` is the list of the component's tables
        that drives the rounds. If it is `resumed`, seed plans do not run again, and the caller has set the first window
        of each driving table; so it has if it passes the `numbers` of a component of many tables. Between two rounds,
        when the component has several times the rows for which it was planned, `replan` returns the phase to continue
        with."""
        started = time.perf_counter()
        if numbers is None:
            numbers = _NO_NUMBERS
            if grows is not None:
                numbers = np.array([table.number for _, table in component], np.int64)
                for _, table in () if resumed else component:
                    table.set(op.T_LO, 0)
                    table.set(op.T_HI, 0)
        self._begin(phase, numbers, grows, resumed)
        if replan is not None and grows is not None:
            self._set(op.S_DRIFT, _drifted(component))
        while True:
            result = MACHINE.run(
                phase.code.address, phase.table.address, self.storage.tables, self.storage.indexes,
                phase.registers.address, phase.cursors.address, self._state.address,
            )  # fmt: skip
            if result == op.DONE:
                break
            if result == op.DRIFTED:
                assert replan is not None
                phase = replan()
                self._prepare(phase)
                self._set(op.S_NPLANS, phase.count)
                self._set(op.S_BLOCK, self._block.address)
                self._set(op.S_DRIFT, _drifted(component))
                continue
            if self._attend(result, phase, component, numbered):
                self._restart(phase, component, numbers, grows, work)
        self._add_to(work)
        work.seconds += time.perf_counter() - started

    def _restart(
        self, phase: Phase, component: Sequence[tuple[str, Table]], numbers: NDArray[np.int64], grows: Change | None,
        work: ViewWork,
    ) -> None:  # fmt: skip
        """Restart the phase after rows got new numbers. Inserted rows stay, and drive the rounds like other insertions
        of the phase."""
        changed, drift = self.changed, self._get(op.S_DRIFT)
        self._add_to(work)
        work.filtered += changed  # counted again at the end
        for _, table in component:
            table.set(op.T_LO, 0)
            table.set(op.T_HI, 0)
        self._begin(phase, numbers, grows, resumed=False)
        self._set(op.S_DRIFT, drift)
        self._set(op.S_CHANGED, changed)

    def _begin(self, phase: Phase, numbers: NDArray[np.int64], grows: Change | None, resumed: bool) -> None:
        if self._state.size < 8 * (op.S_COMPONENT + len(numbers)):
            self._state.reserve(8 * (op.S_COMPONENT + len(numbers)))
            self._words = self._state.words()
        self._prepare(phase)
        compiled, header = MACHINE.is_compiled, self._header
        slice_ = _SHORT_SLICE if is_limited() else _SLICE
        header[op.S_BLOCK] = self._block.address
        header[op.S_NPLANS] = phase.count
        header[op.S_BUDGET] = slice_ if compiled else MACHINE.patience
        header[op.S_MAXROUNDS] = self._limits.max_rounds
        header[op.S_LIST] = _LIST[grows] if grows is not None else op.FROM_INS
        header[op.S_TRACE] = self.trace is not None
        header[op.S_WORKERS] = self.workers if compiled else 1
        header[op.S_WORTH] = self.worth_sharing
        header[op.S_NTABLES] = len(numbers)
        header[op.S_ROUND] = resumed
        header[op.S_DRIFT] = _NEVER
        self._words[: op.S_COMPONENT] = self._header_words
        if len(numbers):
            self._state.view(np.int64, op.S_COMPONENT + len(numbers))[op.S_COMPONENT :] = numbers

    def _prepare(self, phase: Phase) -> None:
        for extern in phase.externs:
            extern.input.empty_scratch()
        self._block.reserve(8 * op.BLOCK * (1 + phase.widest))
        phase.limit_digits(lenient=self.lenient)

    def _set(self, word: int, value: int) -> None:
        self._words[word] = value

    def _get(self, word: int) -> int:
        return self._words[word]

    def _attend(
        self, result: int, phase: Phase, component: Sequence[tuple[str, Table]], numbered: dict[int, Table]
    ) -> bool:
        """Handle a stop of the kernel, so that it can continue, or raise the error that ends the run. Return True if
        rows got new numbers."""
        if is_limited():
            check_time(max((table.size for _, table in component), default=0))
        detail = self._get(op.S_DETAIL)
        if result == op.GROW:
            return self._grow(detail, phase, component, numbered)
        elif result == op.SPENT:
            if not MACHINE.is_compiled:
                MACHINE.run_out()
            slice_ = _SHORT_SLICE if is_limited() else _SLICE
            self._set(op.S_BUDGET, slice_ if MACHINE.is_compiled else MACHINE.patience)
            if self.progress is not None:
                for name, table in component:
                    self.progress(name, table.size)
        elif result == op.EXTERN:
            extern = phase.externs[detail]
            try:
                extern.evaluate(self.codec)
            except Error as error:
                error.span = error.span or phase.plan_at(self._get(op.S_PC)).clause.origin
                raise
        elif result == op.SHARE:
            self._share(phase, numbered)
        elif result == op.ROUND_ENDED:
            if self.trace is not None:
                self.trace(phase.plans[0].action.value)
        elif result == op.TOO_MANY_ROUNDS:
            raise self._too_many_rounds(component)
        elif result == op.TOO_LONG:
            raise _too_long(phase, self._get(op.S_PC), detail)
        else:
            raise _arithmetic_error(result, phase.plan_at(detail))
        return False

    def _share(self, phase: Phase, numbered: dict[int, Table]) -> None:
        """Run the kernel's current plan with several workers, each on a part of the driving rows."""
        table = numbered[self._get(op.S_HEAD)]
        crew = Crew(phase, self.storage, self._state.address, self.workers)
        try:
            result = crew.run(table)
        finally:
            crew.release()
        if result == op.TOO_LONG:
            raise _too_long(phase, crew.place, crew.detail)
        if result != op.DONE:
            raise _arithmetic_error(result, phase.plan_at(crew.detail))
        self._set(op.S_RUNNING, 0)
        self._set(op.S_PLAN, self._get(op.S_PLAN) + 1)

    def _grow(
        self, number: int, phase: Phase, component: Sequence[tuple[str, Table]], numbered: dict[int, Table]
    ) -> bool:
        for extern in phase.externs:
            if extern.input.number == number:
                extern.input.grow_scratch()
                return False
        try:
            return numbered[number].grow()
        except MemoryError as error:
            names = ", ".join(f"`{name}` ({table.size} rows)" for name, table in component)
            raise EngineError(
                f"out of memory while computing {names}", code="out-of-memory", help="the transaction was rolled back"
            ) from error

    def check_rounds(self, rounds: int, component: Sequence[tuple[str, Table]]) -> None:
        """Raise an error if a recursion took more rounds than allowed."""
        if rounds > self._limits.max_rounds:
            raise self._too_many_rounds(component)

    def _too_many_rounds(self, component: Sequence[tuple[str, Table]]) -> LimitError:
        name, table = max(component, key=lambda pair: pair[1].size)
        return LimitError(
            f"`{name}` was still growing after {self._limits.max_rounds} rounds, with {table.size} rows",
            code="recursion-limit", help="limit the recursion in the rules, or raise `max_rounds` if it is finite",
        )  # fmt: skip

    def _add_to(self, work: ViewWork) -> None:
        if not MACHINE.is_compiled:
            MACHINE.patience -= self._get(op.S_STEPS)
        words = self._words
        work.probed += words[op.S_PROBED]
        work.matched += words[op.S_MATCHED]
        work.derived += words[op.S_DERIVED]
        work.filtered += words[op.S_DERIVED] - words[op.S_CHANGED]
        work.rounds += words[op.S_ROUND]

    @property
    def changed(self) -> int:
        """The number of rows that the last run added to its lists."""
        return self._get(op.S_CHANGED)


def _drifted(component: Sequence[tuple[str, Table]]) -> int:
    """The number of rows beyond which the component must be planned again."""
    return drift_limit(sum(table.size for _, table in component))


def _too_long(phase: Phase, place: int, code: int) -> OverflowError_:
    schema, column = phase.limits[place]
    value = Decimal(code).scaleb(-schema.types[column].scale)
    return too_long(schema, column, f"{value:f}", phase.plan_at(place).clause.origin)


def _arithmetic_error(result: int, plan: RulePlan) -> Error:
    rule = f"in the rule for `{plan.head}({', '.join(map(print_term, plan.arguments))})`"
    span = plan.clause.origin
    if result == op.ZERO_DIVISION:
        return DataError(
            f"division by zero {rule}", code="division-by-zero", span=span, help="guard the division with `!= 0`"
        )
    if result == op.NEGATIVE_EXPONENT:
        return DataError(
            f"an integer power with a negative exponent {rule}", code="negative-exponent", span=span, help="use floats"
        )
    if result == op.RESERVED:
        return DataError(
            f"the one value that a nullable column cannot store is derived {rule}",
            code="reserved-value",
            span=span,
            help="declare the column without `?`, or exclude the value",
        )
    return OverflowError_(
        f"a number is outside the 64-bit range {rule}",
        code="overflow",
        span=span,
        help="use floats, or limit the values",
    )
