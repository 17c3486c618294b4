"""Dates, timestamps and intervals: EXTRACT, DATE_TRUNC, sums and differences.

As in PostgreSQL, a date and an interval make a timestamp, a date and an integer a date.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from upshot.core.types import DATE, FLOAT, NUMBER, SYMBOL, TIMESTAMP, Kind, Type
from upshot.sql.expressions.coercion import coerced, require_kind, zero
from upshot.sql.expressions.values import Value, applied, call, combined, plain
from upshot.sql.trees import unwrapped
from upshot.syntax import literals
from upshot.syntax.ast import Constant, Term
from upshot.values.date_functions import FIELDS, UNITS

if TYPE_CHECKING:
    from upshot.sql.queries.block import Block

_TIMES = (Kind.DATE, Kind.TIMESTAMP)
_CLOCK = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1000, "microsecond": 1}
_MONTHS = {"year": 12, "quarter": 3, "month": 1, "decade": 120, "century": 1200}
_DAYS = {"day": 1, "week": 7}
_SHORT = {"mon": "month", "min": "minute", "sec": "second", "hr": "hour", "yr": "year", "y": "year", "d": "day"}
_ELEMENT = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]+)")
_NOW = (exp.CurrentDate, exp.CurrentTimestamp, exp.Localtimestamp, exp.CurrentTime)


@dataclass(frozen=True, slots=True)
class _Interval:
    """An interval: months, days and microseconds, none of which can be converted to another."""

    months: int = 0
    days: int = 0
    microseconds: int = 0


def arithmetic(block: Block, node: exp.Expression) -> Value | None:
    """The sum or difference, if an operand is a date, a timestamp or an interval; None otherwise."""
    if not isinstance(node, exp.Add | exp.Sub):
        if _has_interval(node):
            block.statement.unsupported("an interval as a value", node, help="add it to a date or subtract it")
        return None
    left, right = node.this, node.expression
    if isinstance(node, exp.Add) and _has_interval(left) and not _has_interval(right):
        left, right = right, left
    sign = -1 if isinstance(node, exp.Sub) else 1
    if _has_interval(right):
        return _moved(block, left, right, sign, node)
    if _has_interval(left):
        block.statement.unsupported("an interval as a value", node, help="add it to a date or subtract it")
    values = [block.value(left), block.value(right)]
    if not any(value.kind in _TIMES for value in values):
        return None
    return _with_days(block, node, values, sign)


def _with_days(block: Block, node: exp.Expression, values: list[Value], sign: int) -> Value:
    """A date and an integer, or the difference of two dates in days."""
    if sign > 0 and values[1].kind is Kind.DATE:
        values = [values[1], values[0]]
    date, other = values
    if date.kind is Kind.DATE and other.kind is Kind.NUMBER:
        count = other if sign > 0 else applied("neg", [other], NUMBER)
        return applied("date_plus_days", [date, count], DATE)
    if sign < 0 and other.kind in _TIMES:
        pair = [coerced(block.statement, value, DATE, node) if value.constant else value for value in values]
        if all(value.kind is Kind.DATE for value in pair):
            return applied("days_between", pair, NUMBER)
        block.statement.unsupported(
            "the difference of timestamps, which is an interval,", node,
            help="write EXTRACT(EPOCH FROM a - b), compare it with an INTERVAL, or cast both to DATE",
        )  # fmt: skip
    block.statement.refuse(
        "type-mismatch", "this cannot be added to a date or timestamp", node, help="add an INTERVAL, or days to a date"
    )


def _moved(block: Block, time_node: exp.Expression, node: exp.Expression, sign: int, whole: exp.Expression) -> Value:
    """A time plus or minus an interval, which is a timestamp."""
    factor, interval = _interval(block, node)
    time = _time(block, time_node)
    value = coerced(block.statement, time, TIMESTAMP, whole)
    for name, amount in (
        ("timestamp_plus_months", interval.months), ("timestamp_plus_days", interval.days),
        ("timestamp_plus_microseconds", interval.microseconds),
    ):  # fmt: skip
        if amount:
            value = _steps(name, value, factor, sign * amount)
    return value


def _steps(name: str, value: Value, factor: Value | None, amount: int) -> Value:
    count = Constant(amount)
    if factor is None:
        return combined([value], lambda terms: call(name, (terms[0], count)), TIMESTAMP)
    return combined([value, factor], lambda terms: call(name, (terms[0], call("*", (terms[1], count)))), TIMESTAMP)


# ---- intervals ----------------------------------------------------------------------------------


def _has_interval(node: exp.Expression) -> bool:
    node = unwrapped(node)
    if isinstance(node, exp.Cast) and node.args["to"].this == exp.DType.INTERVAL:
        return True
    if isinstance(node, exp.Mul):
        return _has_interval(node.this) or _has_interval(node.expression)
    return isinstance(node, exp.Interval)


def _interval(block: Block, node: exp.Expression) -> tuple[Value | None, _Interval]:
    """The factor of the interval, if any, and the interval."""
    node = unwrapped(node)
    if isinstance(node, exp.Mul):
        left, right = (node.this, node.expression) if _has_interval(node.expression) else (node.expression, node.this)
        factor, interval = _interval(block, right)
        count = block.value(left)
        if factor is not None or count.kind is not Kind.NUMBER:
            block.statement.unsupported("this product with an interval", node, help="multiply it with an integer")
        return count, interval
    return None, _read(block, node)


def _read(block: Block, node: exp.Expression) -> _Interval:
    text = node.this
    unit = node.args.get("unit")
    if not isinstance(text, exp.Literal):
        if isinstance(text, exp.Neg) and isinstance(text.this, exp.Literal):
            text = exp.Literal.string(f"-{text.this.name}")
        else:
            block.statement.unsupported("a computed interval", node, help="write n * INTERVAL '1 day'")
    written = f"{text.name} {unit.name}" if unit is not None else text.name
    found = _ELEMENT.findall(written.lower())
    if not found or _ELEMENT.sub("", written.lower()).strip(" ,"):
        block.statement.refuse(
            "malformed-literal", f"cannot read the interval '{written}'", node, help="write INTERVAL '1 year 2 months'"
        )
    months = days = microseconds = 0
    for number, word in found:
        months, days, microseconds = _added(block, node, number, word, (months, days, microseconds))
    return _Interval(months, days, microseconds)


def _added(
    block: Block, node: exp.Expression, number: str, word: str, before: tuple[int, int, int]
) -> tuple[int, int, int]:
    months, days, microseconds = before
    name = word.removesuffix("s") if len(word) > 1 else word
    name = {"centurie": "century"}.get(name, _SHORT.get(name, name))
    if name in _CLOCK:
        return months, days, microseconds + round(float(number) * _CLOCK[name])
    if "." not in number and name in _MONTHS:
        return months + int(number) * _MONTHS[name], days, microseconds
    if "." not in number and name in _DAYS:
        return months, days + int(number) * _DAYS[name], microseconds
    block.statement.refuse(
        "malformed-literal", f"cannot read `{number} {word}` as an interval", node,
        help=f"use whole numbers of {', '.join((*_MONTHS, *_DAYS))}, or {', '.join(_CLOCK)}",
    )  # fmt: skip


# ---- differences of timestamps --------------------------------------------------------------------


def _difference(block: Block, node: exp.Expression) -> Value | None:
    """The microseconds between two times, at least one of them a timestamp; None for any other expression."""
    node = unwrapped(node)
    if not isinstance(node, exp.Sub) or _has_interval(node.this) or _has_interval(node.expression):
        return None
    values = [block.value(each) for each in (node.this, node.expression)]
    if not any(value.kind is Kind.TIMESTAMP for value in values):
        return None
    pair = [coerced(block.statement, value, TIMESTAMP, node) for value in values]
    if not all(value.type is None or value.kind is Kind.TIMESTAMP for value in pair):
        return None
    return applied("microseconds_between", pair, NUMBER)


def lengths(block: Block, left: exp.Expression, right: exp.Expression) -> tuple[Value, Value] | None:
    """The microseconds of both sides, if a difference of timestamps is compared with an interval; None otherwise. As in
    PostgreSQL, a month has 30 days here, and a day 24 hours."""
    if _has_interval(left) is _has_interval(right):
        return None
    first, second = (_length(block, node) for node in (left, right))
    return None if first is None or second is None else (first, second)


def _length(block: Block, node: exp.Expression) -> Value | None:
    if not _has_interval(node):
        return _difference(block, node)
    factor, interval = _interval(block, node)
    whole = Constant((interval.months * 30 + interval.days) * 24 * _CLOCK["hour"] + interval.microseconds)
    if factor is None:
        return plain(whole, NUMBER)
    return combined([factor], lambda terms: call("*", (terms[0], whole)), NUMBER)


_PARTS = {"day": (None, 24 * _CLOCK["hour"]), "hour": (24, _CLOCK["hour"]), "minute": (60, _CLOCK["minute"])}
"""The parts of a difference: how many of them make the next larger one, and the microseconds of one."""


def _part(block: Block, node: exp.Expression, name: str, length: Value) -> Value:
    """A part of a difference, truncated toward zero; seconds and EPOCH have six decimals."""
    if name in _PARTS:
        several, size = _PARTS[name]
        whole = combined([length], lambda terms: call("/", (terms[0], Constant(size))), NUMBER)
        return whole if several is None else combined([whole], lambda t: call("%", (t[0], Constant(several))), NUMBER)
    if name not in ("epoch", "second", "seconds"):
        block.statement.unsupported(
            f"EXTRACT({name.upper()} …) of a difference",
            node,
            help=f"there are {', '.join((*_PARTS, 'second, epoch'))}",
        )
    if name != "epoch":
        length = combined([length], lambda terms: call("%", (terms[0], Constant(_CLOCK["minute"]))), NUMBER)
    decimal = combined([length], lambda terms: call("to_decimal", (terms[0], zero(0))), Type(Kind.DECIMAL).widest())
    unit = literals.tagged("decimal", "0.000001")
    return combined([decimal], lambda terms: call("*", (terms[0], unit)), Type(Kind.DECIMAL, scale=6).widest())


# ---- parts --------------------------------------------------------------------------------------


def _time(block: Block, node: exp.Expression) -> Value:
    value = block.value(node)
    if value.kind is Kind.SYMBOL and value.constant is not None:
        return coerced(block.statement, value, TIMESTAMP, node)
    return require_kind(block.statement, value, _TIMES, "a date", node, help="use a date or timestamp")


def _extract(block: Block, node: exp.Expression) -> Value:
    """EXTRACT and DATE_PART: whole numbers but for seconds and EPOCH."""
    name = node.this.name.lower()
    if (length := _difference(block, node.expression)) is not None:
        return _part(block, node, name, length)
    time = _time(block, node.expression)
    if name in ("epoch", "second", "seconds"):
        return combined([time], lambda terms: call("epoch" if name == "epoch" else "seconds", terms), FLOAT)
    if name not in FIELDS:
        block.statement.unsupported(
            f"EXTRACT({name.upper()} …)", node, help=f"there are {', '.join((*FIELDS, 'second', 'epoch'))}"
        )
    field = Constant(name, SYMBOL)
    return combined([time], lambda terms: call("date_field", (terms[0], field)), NUMBER)


def _truncated(block: Block, node: exp.Expression) -> Value:
    """DATE_TRUNC, which returns a timestamp."""
    unit = node.args["unit"].name.lower()
    unit = f"{unit}s" if unit in ("millisecond", "microsecond") else unit
    if unit not in UNITS:
        block.statement.unsupported(f"DATE_TRUNC('{unit}', …)", node, help=f"there are {', '.join(UNITS)}")
    time = coerced(block.statement, _time(block, node.this), TIMESTAMP, node)
    start = Constant(unit, SYMBOL)
    return combined([time], lambda terms: call("time_start", (terms[0], start)), TIMESTAMP)


def _date(block: Block, node: exp.Expression) -> Value:
    """`date(x)`"""
    return block.value(exp.Cast(this=node.this.copy(), to=exp.DataType.build("date")))


def _now(block: Block, node: exp.Expression) -> Value:
    """The time of a query; refused in a view and in a live query, which have none."""
    now = block.translation.now
    if now is None:
        what = "a view" if block.translation.is_view else "a live query"
        block.statement.unsupported(
            f"`{block.statement.spelled(node)}` in {what}", node,
            help=f"{what} changes by transactions only, and not with time: keep the date in a table, or pass it to "
            "a query as a parameter",
        )  # fmt: skip
    block.translation.reads_clock = True
    is_date = isinstance(node, exp.CurrentDate)
    term: Term = Constant(now.date(), DATE) if is_date else Constant(now, TIMESTAMP)
    found: Type = DATE if is_date else TIMESTAMP
    return plain(term, found)


DATES: dict[type[exp.Expression], Callable[[Block, exp.Expression], Value]] = {
    exp.Extract: _extract,
    exp.TimestampTrunc: _truncated,
    exp.DateTrunc: _truncated,
    exp.Date: _date,
    **dict.fromkeys(_NOW, _now),
}
