"""Rule plans as DataFrames: the driving rows, joined and filtered step by step, down to the heads."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import assert_never

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from upshot.core.schema import Schema
from upshot.core.types import Kind
from upshot.engine.local.components.plan_shape import used_names
from upshot.engine.spark.frames.expressions import (
    ExpressionContext,
    can_be_null,
    check_fails,
    checked,
    compared,
    compute_fails,
    computed,
    digits_checked,
    reserved_checked,
    same,
)
from upshot.engine.spark.frames.joins import all_equal, beside, in_one_part, is_alone, sent
from upshot.plan.rule_plan import (
    Absent,
    Action,
    Change,
    Check,
    Compare,
    Compute,
    Drive,
    Match,
    Operand,
    Probe,
    RulePlan,
    Same,
    State,
    Step,
)
from upshot.spark.types import framed, literal
from upshot.syntax.ast import Call, Constant, Variable

Read = Callable[[str, State], DataFrame]
"""A relation in a state."""

Driven = Callable[[str, Change], DataFrame]
"""The rows of a relation that changed in a way."""


_lenient: ContextVar[bool] = ContextVar("lenient", default=False)


@contextmanager
def lenient_digits() -> Iterator[None]:
    """Inside, decimals with more digits than their column declares are accepted: a store with such rows must open."""
    token = _lenient.set(True)
    try:
        yield
    finally:
        _lenient.reset(token)


_SPLITTING = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.skewJoin.enabled": "true",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "3",
}


@contextmanager
def hubs_split(session: SparkSession, *, beyond: int = 32 << 20) -> Iterator[None]:
    """Inside, a partition of a join that one key makes larger than `beyond` bytes is split among several tasks.

    For jobs that join large relations with each other: watching the sizes doubles the time of tiny ones. (Salting the
    keys instead was measured at up to twice the time of the plain join, hub or no hub.)
    """
    sizes = ("skewJoin.skewedPartitionThresholdInBytes", "advisoryPartitionSizeInBytes")
    settings = {**_SPLITTING, **{f"spark.sql.adaptive.{name}": f"{beyond}b" for name in sizes}}
    before = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, known in before.items():
            if known is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, known)


def heads(
    plan: RulePlan,
    read: Read,
    drive: Driven,
    *,
    session: SparkSession,
    schemas: Mapping[str, Schema],
    small: bool = False,
    signed: bool = False,
) -> DataFrame:
    """The heads that the plan derives, in columns c0 … cn; not distinct, one row per derivation if the plan counts.

    `small`: the driving rows, and the rows that they join, are few enough to be broadcast. A plan driven by all rows of
    a relation reads them with `read`. `signed`: the driving rows have a last column, which is also the last of the
    heads."""
    body = _Body(plan, read, schemas, session, small, few=small or plan.driver is None, signed=signed)
    body.start(drive)
    steps = list(plan.steps)
    while steps:
        negations = _leading_negations(steps)
        if negations:
            steps = steps[len(negations) :]
            body.keep(steps)
            body.absent(negations)
        else:
            step = steps.pop(0)
            body.keep(steps)
            body.step(step)
    return body.heads()


def _leading_negations(steps: Sequence[Step]) -> list[Absent]:
    found: list[Absent] = []
    for step in steps:
        if not isinstance(step, Absent):
            break
        found.append(step)
    return found


@dataclass(slots=True)
class _Body:
    """The bindings so far as a frame: a column per variable that is still needed. `frame` is None while there is only
    the one empty binding."""

    plan: RulePlan
    read: Read
    schemas: Mapping[str, Schema]
    session: SparkSession
    small: bool
    few: bool
    """True if the bindings may be broadcast: the driver is small, or there are no rows yet."""
    frame: DataFrame | None = None
    columns: dict[str, str] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)
    conditions: list[Column] = field(default_factory=list)
    made: int = 0
    signed: bool = False
    """True if the bindings have a column `sign`."""
    rule: ExpressionContext = field(init=False)

    def __post_init__(self) -> None:
        self.rule = ExpressionContext.of(self.plan, {})

    # ---- scaffolding ---------------------------------------------------------------------------------------

    @property
    def scope(self) -> ExpressionContext:
        return replace(self.rule, columns=self.columns)

    @property
    def counts(self) -> bool:
        return self.plan.action in (Action.GAIN, Action.LOSE)

    def keep(self, later: Sequence[Step]) -> None:
        """Note the steps after the next one: columns that they do not use are dropped."""
        self.needed = used_names(later) | {o.name for o in self.plan.arguments if isinstance(o, Variable)}

    @property
    def _sign(self) -> list[str]:
        return ["sign"] if self.signed else []

    def fresh(self) -> str:
        self.made += 1
        return f"b{self.made}"

    def bindings(self) -> DataFrame:
        """The frame with all conditions so far."""
        if self.frame is None:
            self.frame = self.session.range(0, 1, 1, 1).select(F.lit(True).alias("unit"))
        if self.conditions:
            self.frame = self.frame.filter(functools.reduce(operator.and_, self.conditions))
            self.conditions = []
        return self.frame

    def _project(self, frame: DataFrame, computed: Mapping[str, Column] | None = None) -> None:
        """Keep the columns of the variables that are needed, and add the computed ones."""
        self.columns = {name: column for name, column in self.columns.items() if name in self.needed}
        kept = [*self.columns.values(), *self._sign]
        if not computed:
            self.frame = frame.selectExpr(*(kept or ["true AS unit"]))
            return
        added = []
        for name, column in computed.items():
            self.columns[name] = self.fresh()
            added.append(column.alias(self.columns[name]))
        self.frame = frame.select(*kept, *added)

    # ---- the start -----------------------------------------------------------------------------------------

    def start(self, drive: Driven) -> None:
        driver = self.plan.driver
        if driver is None:
            return
        match = driver.match
        if driver.change is Change.ALL:
            rows = self.read(match.relation, match.state)
        else:
            rows = drive(match.relation, driver.change)
        self.keep(self.plan.steps)
        signs = {len(framed(self.schemas[match.relation].types)): "sign"} if self.signed else {}
        self._bind(self._selected(rows, match, driver), match, signs)

    def _selected(
        self, rows: DataFrame, match: Match, driver: Drive | None = None, *, as_row: bool = False
    ) -> DataFrame:
        """The rows that satisfy the literal's own conditions; `as_row`: as sets compare rows."""
        of_head = as_row or (driver is not None and driver.of_head)
        of_negation = driver is not None and driver.of_negation
        first = {name: column for column, name in match.binds}
        conditions: list[Column] = []
        for column, operand in match.key:
            if isinstance(operand, Constant):
                conditions.append(self._equals(_column(column), operand, null_safe=of_head))
        for column, name in match.repeats:
            left, right = _column(column), _column(first[name])
            conditions.append(left.eqNullSafe(right) if of_head or match.as_row else left == right)
        for column, name in match.binds:
            nullable = self.schemas[match.relation].columns[column].type.nullable
            if nullable and (of_negation or not self.plan.types[name].nullable):
                conditions.append(_column(column).isNotNull())
        return rows.filter(functools.reduce(operator.and_, conditions)) if conditions else rows

    def _equals(self, column: Column, operand: Constant, *, null_safe: bool) -> Column:
        """NULL equals nothing, except where a head finds itself."""
        if operand.value is None:
            return column.isNull() if null_safe else F.lit(False)
        assert operand.type is not None
        return column == literal(operand.value, operand.type)

    def _bind(self, rows: DataFrame, match: Match, keys: Mapping[int, str]) -> DataFrame:
        """The rows with a column per variable that is needed and per key column; they are the bindings if there are
        none yet."""
        made = {name: (column, self.fresh()) for column, name in match.binds if name in self.needed}
        chosen = [*made.values(), *keys.items()]
        self.columns = {**self.columns, **{name: alias for name, (_, alias) in made.items()}}
        frame = _renamed(rows, chosen) if chosen else rows.selectExpr(f"true AS {self.fresh()}")
        if self.frame is None:
            self.frame = frame
        return frame

    # ---- steps ---------------------------------------------------------------------------------------------

    def step(self, step: Step) -> None:
        match step:
            case Probe():
                self._probe(step)
            case Compare():
                self.conditions.append(compared(step, self.scope))
            case Same():
                self.conditions.append(same(step, self.scope))
            case Check():
                self._check(step)
            case Compute():
                self._compute(step)
            case Absent():
                self.absent([step])
            case _:
                assert_never(step)

    def _check(self, step: Check) -> None:
        holds = checked(step, self.scope)
        if not check_fails(step):
            self.conditions.append(holds)
            return
        frame = self.bindings()
        self._project(frame, {"": holds})
        self.conditions.append(F.col(self.columns.pop("")))

    def _compute(self, step: Compute) -> None:
        scope = self.scope
        value, fails = computed(step, scope), compute_fails(step, scope)
        operands = step.value.args if isinstance(step.value, Call) else (step.value,)
        may_miss = any(isinstance(o, Variable | Constant) and can_be_null(o, scope) for o in operands)
        unused = step.target not in self.needed
        self._project(self.bindings(), {step.target: value})
        # Also for an unused value: Spark drops a column that nothing reads, and its error with it.
        if not self.plan.types[step.target].nullable and (may_miss or (fails and unused)):
            self.conditions.append(F.col(self.columns[step.target]).isNotNull())

    def _probe(self, step: Probe) -> None:
        match = step.match
        rows = self._selected(self.read(match.relation, match.state), match)
        joined = [(column, operand) for column, operand in match.key if isinstance(operand, Variable)]
        if self.frame is None:
            # No driver, and nothing is bound: start from the literal's rows.
            self._bind(rows, match, {})
            self.few = self.small
            return
        left = self.bindings()
        keys = {column: self.fresh() for column, _ in joined}
        bound = dict(self.columns)
        right = self._bind(rows, match, keys)
        condition = self._on([(bound[o.name], o, match.relation, c, keys[c]) for c, o in joined])
        if self.few:
            # A row with all its columns bound occurs once, so an inner join is a membership test. The bindings are
            # broadcast, and Spark cannot broadcast the left side of a semi-join.
            frame = sent(left).join(in_one_part(right), condition, "inner")
        elif not self.counts and not any(name in self.needed for _, name in match.binds):
            frame = in_one_part(left).join(beside(right), condition, "left_semi")
        else:
            frame = in_one_part(left).join(beside(right), condition, "inner")
        self.few = self.small
        self._project(frame)

    def _on(self, pairs: Iterable[tuple[str, Variable, str, int, str]]) -> Column:
        """Equality of bound columns and key columns. A variable of two literals is nullable only if a head is
        rederived, where NULL equals NULL."""
        conditions = []
        for bound, variable, relation, column, key in pairs:
            nullable = self.plan.types[variable.name].nullable
            conditions.append((bound, key, nullable and self.schemas[relation].columns[column].type.nullable))
        return all_equal(conditions) if conditions else F.lit(True)

    def absent(self, steps: Sequence[Absent]) -> None:
        """Keep the bindings for which none of the rows is present. A row with NULL among its operands never is, unless
        it is looked up as a row."""
        base = self.bindings()
        frame = base
        for step in steps:
            if not step.as_row and any(isinstance(o, Constant) and o.value is None for o in step.operands):
                continue
            frame = self._without(frame, base, step)
        self._project(frame)

    def _without(self, frame: DataFrame, base: DataFrame, step: Absent) -> DataFrame:
        named = [(column, o) for column, o in enumerate(step.operands) if isinstance(o, Variable)]
        fixed = tuple((column, o) for column, o in enumerate(step.operands) if isinstance(o, Constant))
        match = Match(step.relation, step.state, fixed)
        keys = {column: self.fresh() for column, _ in named}
        rows = self._selected(self.read(step.relation, step.state), match, as_row=step.as_row)
        rows = _renamed(rows, list(keys.items())) if keys else rows.selectExpr(f"true AS {self.fresh()}")
        pairs = [(self.columns[operand.name], keys[column]) for column, operand in named]
        if not pairs:
            # One row at most.
            return frame.join(F.broadcast(rows), F.lit(True), "left_anti")
        nullable = {keys[c] for c, _ in named if step.as_row and self.schemas[step.relation].columns[c].type.nullable}

        def same_row(sides: Iterable[tuple[str, str]]) -> Column:
            return all_equal([(a, b, b in nullable) for a, b in sides])

        if self.few and not is_alone():
            # Spark cannot broadcast the left side of an anti-join either: the matching rows are looked up first.
            aliases = {bound: self.fresh() for bound, _ in pairs}
            few = base.selectExpr(*(f"{bound} AS {alias}" for bound, alias in aliases.items()))
            found = same_row((aliases[bound], key) for bound, key in pairs)
            rows = F.broadcast(rows.join(F.broadcast(few), found, "left_semi"))
        return in_one_part(frame).join(beside(rows), same_row(pairs), "left_anti")

    # ---- the end -------------------------------------------------------------------------------------------

    def heads(self) -> DataFrame:
        frame, scope = self.bindings(), self.scope
        if not self.plan.arguments:
            return frame.selectExpr("true AS c0", *(f"{name} AS c1" for name in self._sign))
        chosen = [self._argument(i, operand, scope).alias(f"c{i}") for i, operand in enumerate(self.plan.arguments)]
        return frame.select(*chosen, *(F.col(name).alias(f"c{len(chosen)}") for name in self._sign))

    def _argument(self, place: int, operand: Operand, scope: ExpressionContext) -> Column:
        schema = self.schemas[self.plan.head]
        type = schema.columns[place].type
        made = literal(operand.value, type) if isinstance(operand, Constant) else scope.column(operand)
        if type.nullable and type.kind in (Kind.NUMBER, Kind.UNSIGNED) and not can_be_null(operand, scope):
            return reserved_checked(made, type, scope)
        if self.plan.too_long(place, type) and not _lenient.get():
            return digits_checked(made, schema, place, scope)
        return made


def _renamed(rows: DataFrame, columns: Iterable[tuple[int, str]]) -> DataFrame:
    """Some columns of a relation's frame under other names. As text: a column made in Python is some calls to Java."""
    return rows.selectExpr(*(f"c{position} AS {name}" for position, name in columns))


def _column(position: int) -> Column:
    return F.col(f"c{position}")
