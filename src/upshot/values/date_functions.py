"""Functions on dates and timestamps, one record each. Timestamps are UTC, days are of the Gregorian calendar."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection
from typing import Any

from upshot.core.errors import DataError
from upshot.core.types import Kind
from upshot.values.records import BuiltinFunction, FunctionMeaning
from upshot.values.signatures import fixed, only

_NUMBER, _SYMBOL, _FLOAT = only(Kind.NUMBER), only(Kind.SYMBOL), only(Kind.FLOAT)
_DATE, _TIMESTAMP = only(Kind.DATE), only(Kind.TIMESTAMP)
_TIME = _DATE | _TIMESTAMP

FIELDS: dict[str, Callable[[Any], int]] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "week": lambda day: day.isocalendar().week,
    "day": lambda day: day.day,
    "dow": lambda day: day.isoweekday() % 7,
    "isodow": lambda day: day.isoweekday(),
    "doy": lambda day: day.timetuple().tm_yday,
    "isoyear": lambda day: day.isocalendar().year,
    "decade": lambda day: day.year // 10,
    "century": lambda day: (day.year + 99) // 100,
    "hour": lambda time: getattr(time, "hour", 0),
    "minute": lambda time: getattr(time, "minute", 0),
}
"""The integer parts of a date or time."""

_STARTS: dict[str, Callable[[dt.date], dt.date]] = {
    "day": lambda day: day,
    "week": lambda day: day - dt.timedelta(days=day.weekday()),
    "month": lambda day: day.replace(day=1),
    "quarter": lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
    "year": lambda day: day.replace(month=1, day=1),
    "decade": lambda day: day.replace(year=max(day.year // 10 * 10, 1), month=1, day=1),
    "century": lambda day: day.replace(year=(day.year - 1) // 100 * 100 + 1, month=1, day=1),
}
_CLOCK = {"hour": {"minute": 0, "second": 0, "microsecond": 0}, "minute": {"second": 0, "microsecond": 0},
          "second": {"microsecond": 0}, "milliseconds": {}, "microseconds": {}}  # fmt: skip
UNITS = (*_STARTS, *_CLOCK)
"""The units to which a date or time can be truncated."""


def _field(time: Any, name: str) -> int:
    return FIELDS[_known(name, FIELDS)](time)


def _known(name: str, names: Collection[str]) -> str:
    if name not in names:
        raise DataError(f"unknown part of a date `{name}`", code="not-a-number", help=f"there are {', '.join(names)}")
    return name


def _epoch(time: Any) -> float:
    whole = time if isinstance(time, dt.datetime) else dt.datetime(time.year, time.month, time.day, tzinfo=dt.UTC)
    return whole.timestamp()


def _seconds(time: Any) -> float:
    return getattr(time, "second", 0) + getattr(time, "microsecond", 0) / 1_000_000


def _start(time: dt.datetime, unit: str) -> dt.datetime:
    _known(unit, UNITS)
    if unit == "milliseconds":
        return time.replace(microsecond=time.microsecond // 1000 * 1000)
    if unit in _CLOCK:
        return time.replace(**_CLOCK[unit])  # type: ignore[arg-type]
    first = _STARTS[unit](time.date())
    return dt.datetime(first.year, first.month, first.day, tzinfo=dt.UTC)


def _in_range(compute: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*args: Any) -> Any:
        try:
            return compute(*args)
        except (OverflowError, ValueError):
            raise DataError(
                "a date is outside the years 1 to 9999", code="overflow", help="limit the dates in the rule"
            ) from None

    return checked


def _plus_months(time: Any, months: int) -> Any:
    """The same day `months` months later, or the last day of a shorter month."""
    year, month = divmod(time.year * 12 + time.month - 1 + months, 12)
    following = dt.date(year + (month == 11), (month + 1) % 12 + 1, 1) if (year, month) != (9999, 11) else None
    last = 31 if following is None else (following - dt.timedelta(days=1)).day
    return time.replace(year=year, month=month + 1, day=min(time.day, last))


def _plus_days(time: Any, days: int) -> Any:
    return time + dt.timedelta(days=days)


def _midnight(day: dt.date) -> dt.datetime:
    return dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC)


def _both(python: Callable[..., Any], spark: Any = None, *, fails: bool = False) -> dict[Kind, FunctionMeaning]:
    return dict.fromkeys((Kind.DATE, Kind.TIMESTAMP), FunctionMeaning(python, spark, fails=fails))


def _kept(name: str, python: Callable[..., Any], spelled: str, words: str) -> tuple[BuiltinFunction, BuiltinFunction]:
    """A function of a time and a number that returns the kind of the time, as one function for each kind."""
    return (
        BuiltinFunction(
            f"date_{name}", fixed(_DATE, _DATE, _NUMBER), {Kind.DATE: FunctionMeaning(_in_range(python), fails=True)},
            f"date_{spelled}", words,
        ),
        BuiltinFunction(
            f"timestamp_{name}", fixed(_TIMESTAMP, _TIMESTAMP, _NUMBER),
            {Kind.TIMESTAMP: FunctionMeaning(_in_range(python), fails=True)}, f"timestamp_{spelled}", words,
        ),
    )  # fmt: skip


DATE_FUNCTIONS = (
    BuiltinFunction(
        "date_field", fixed(_NUMBER, _TIME, _SYMBOL), _both(_field, fails=True),
        "date_field(time, name)", f"a part of a date or timestamp: {', '.join(FIELDS)}", sql=("Extract",),
    ),
    BuiltinFunction(
        "seconds", fixed(_FLOAT, _TIME), _both(_seconds),
        "seconds(time)", "the seconds of the minute, with their fraction", sql=("Extract",),
    ),
    BuiltinFunction(
        "epoch", fixed(_FLOAT, _TIME), _both(_epoch),
        "epoch(time)", "the seconds since 1970", sql=("Extract",),
    ),
    BuiltinFunction(
        "time_start", fixed(_TIMESTAMP, _TIMESTAMP, _SYMBOL), {Kind.TIMESTAMP: FunctionMeaning(_start, fails=True)},
        "time_start(time, unit)", f"the start of the unit that a timestamp is in: {', '.join(UNITS)}",
    ),
    *_kept("plus_days", _plus_days, "plus_days(time, n)", "`n` days later"),
    *_kept("plus_months", _plus_months, "plus_months(time, n)", "the day `n` months later, or the month's last day"),
    BuiltinFunction(
        "timestamp_plus_microseconds", fixed(_TIMESTAMP, _TIMESTAMP, _NUMBER),
        {Kind.TIMESTAMP: FunctionMeaning(_in_range(lambda t, n: t + dt.timedelta(microseconds=n)), fails=True)},
        "timestamp_plus_microseconds(time, n)", "`n` microseconds later",
    ),
    BuiltinFunction(
        "days_between", fixed(_NUMBER, _DATE, _DATE), {Kind.DATE: FunctionMeaning(lambda a, b: (a - b).days)},
        "days_between(a, b)", "the days from `b` to `a`", sql=("Sub",),
    ),
    BuiltinFunction(
        "microseconds_between", fixed(_NUMBER, _TIMESTAMP, _TIMESTAMP),
        {Kind.TIMESTAMP: FunctionMeaning(lambda a, b: (a - b) // dt.timedelta(microseconds=1))},
        "microseconds_between(a, b)", "the microseconds from `b` to `a`", sql=("Extract",),
    ),
    BuiltinFunction(
        "to_timestamp", fixed(_TIMESTAMP, _DATE), {Kind.DATE: FunctionMeaning(_midnight)},
        "to_timestamp(date)", "midnight at the start of the day", sql=("Cast",),
    ),
    BuiltinFunction(
        "to_date", fixed(_DATE, _TIMESTAMP), {Kind.TIMESTAMP: FunctionMeaning(lambda time: time.date())},
        "to_date(time)", "the day of a timestamp", sql=("Cast",),
    ),
)  # fmt: skip
