"""The oracle's window functions: each row is computed from all rows of its partition."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from upshot.core.errors import DataError
from upshot.core.types import Kind, Type
from upshot.engine.naive_values import postgres_quotient

_PARSED: Mapping[str, Callable[[str], Any]] = {
    "number": int,
    "unsigned": int,
    "float": float,
    "symbol": lambda text: bytes.fromhex(text).decode(),
    "boolean": lambda text: int(text) != 0,
    "date": dt.date.fromisoformat,
    "timestamp": lambda text: dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC),
    "decimal": Decimal,
}
_ABSENT: Mapping[str, Any] = {
    "number": 0, "unsigned": 0, "float": 0.0, "symbol": "", "boolean": False, "date": dt.date(1970, 1, 1),
    "timestamp": dt.datetime(1970, 1, 1, tzinfo=dt.UTC), "decimal": Decimal(0),
}  # fmt: skip


def _none() -> DataError:
    return DataError("a window has no value", code="not-a-number")


def read(text: str, kind: str) -> Any:
    """The value of a text written by a window function."""
    if text in ("N", "D"):
        return _ABSENT[kind]
    try:
        return _PARSED[kind](text[1:])
    except (ValueError, ArithmeticError):
        raise _none() from None


def written(value: Any) -> str:
    """The text of a value, as window functions write it."""
    if isinstance(value, bool):
        return "01"[value]
    if isinstance(value, str):
        return "".join(f"{byte:02x}" for byte in value.encode())
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%f").rjust(26, "0")
    return format(value, "f") if isinstance(value, Decimal) else repr(value) if isinstance(value, float) else str(value)


def value(lines: str, line: str, function: str) -> str:
    """The value of a window function for one line."""
    rows, words = lines.split("\n"), function.split(" ")
    if len(words) != 3 or line not in rows:
        raise _none()
    try:
        return _value(rows, rows.index(line), *words)
    except (ValueError, KeyError, ArithmeticError):
        raise _none() from None


def _value(rows: list[str], at: int, name: str, kind: str, option: str) -> str:
    keys = [row.partition("|")[0] for row in rows]
    match name:
        case "row_number":
            return f"V{at + 1}"
        case "chosen":
            keys_of = [row.partition("|")[2].split("\t") for row in rows]
            kept: list[int] = []
            for row in range(at + 1):
                if not any(set(keys_of[row]) & set(keys_of[other]) for other in kept):
                    kept.append(row)
            return f"V{int(at in kept)}"
        case "rank":
            return f"V{1 + sum(key < keys[at] for key in keys)}"
        case "dense_rank":
            return f"V{1 + len({key for key in keys if key < keys[at]})}"
        case "ntile":
            sizes = [len(rows[part :: int(option)]) for part in range(int(option))]
            return f"V{next(part for part in range(len(sizes)) if at < sum(sizes[: part + 1])) + 1}"
        case "percent_rank":
            return f"V{sum(key < keys[at] for key in keys) / max(len(rows) - 1, 1)}"
        case "cume_dist":
            return f"V{sum(key <= keys[at] for key in keys) / len(rows)}"
    fields = [row.rpartition("\t")[2] for row in rows]
    if name in ("lag", "lead"):
        step, beyond = (*option.split(","), "N")[:2]
        other = at - int(step) if name == "lag" else at + int(step)
        return fields[other] if 0 <= other < len(rows) else beyond
    if "," in option:
        return _folded(_in_frame(fields, keys, at, option), name, Kind(kind).value)
    last = {"rows": at, "all": len(rows) - 1, "range": max(n for n, key in enumerate(keys) if key == keys[at])}[option]
    return _folded(fields[: last + 1], name, Kind(kind).value)


def _in_frame(fields: list[str], keys: list[str], at: int, frame: str) -> list[str]:
    """The fields of the rows in a frame relative to the row; `range` frames count keys instead of rows."""
    word, start, end = frame.split(",")
    places = list(range(len(keys))) if word == "rows" else [sorted(set(keys)).index(key) for key in keys]
    return [
        field
        for field, place in zip(fields, places, strict=True)
        if (not start or place >= places[at] + int(start)) and (not end or place <= places[at] + int(end))
    ]


def _folded(fields: list[str], name: str, kind: str) -> str:
    given = [(_PARSED[kind](each[1:]), each) for each in fields if each != "N"]
    if name in ("first_value", "last_value"):
        return (fields or ["N"])[0 if name == "first_value" else -1]
    if name.startswith("nth_value:"):
        place = int(name.partition(":")[2])
        return fields[place - 1] if 0 < place <= len(fields) else "N"
    if name == "count":
        return f"V{len(given)}"
    if not given and name in ("min", "max", "sum", "mean"):
        return "N"
    if name in ("min", "max"):
        ranked = sorted(given, key=lambda pair: (isinstance(pair[0], float) and math.isnan(pair[0]), pair[0]))
        return ranked[0 if name == "min" else -1][1]
    if name not in ("sum", "mean"):
        raise KeyError(name)
    if any(isinstance(each, float) and not math.isfinite(each) for each, _ in given):
        return f"V{sum(each for each, _ in given if not math.isfinite(each))!r}"
    total = sum((Fraction(each) for each, _ in given), Fraction(0))
    if name == "mean" and kind == "decimal":
        return f"V{postgres_quotient(total, len(given)):f}"
    if name == "mean":
        return f"V{float(total / len(given))!r}"
    if kind == "float":
        return f"V{float(total)!r}"
    if kind == "decimal":
        places = max(-int(each.as_tuple().exponent) for each, _ in given)
        return f"V{Decimal(f'{int(total * 10**places)}E-{places}'):f}"
    return f"V{int(total)}"


def functions() -> dict[str, Callable[..., Any]]:
    """The window functions by name; the last argument is the result type."""

    def reader(kind: str) -> Callable[..., Any]:
        return lambda text, *_: read(text, kind)

    def found(lines: str, line: str, function: str, _: Type) -> str:
        return value(lines, line, function)

    def joined(lines: str, separator: str, _: Type) -> str:
        try:
            return separator.join(_PARSED["symbol"](line.split("\t")[-1]) for line in lines.split("\n"))
        except ValueError:
            raise _none() from None

    return {
        "join_lines": joined,
        "window_text": lambda each, _: written(each),
        "window_value": found,
        **{f"window_{kind}": reader(kind) for kind in _PARSED},
    }
