"""Functions on text, one record each. Characters are code points.

Functions of Soufflé (`cat`, `substr`, `ord`) count from 0, those of PostgreSQL from 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from upshot.core.errors import DataError
from upshot.core.types import Kind
from upshot.values.inverses import TEXTS, Roots
from upshot.values.records import BuiltinFunction, FunctionMeaning, SparkCall
from upshot.values.signatures import fixed, only, uniform

_NUMBER, _SYMBOL = only(Kind.NUMBER), only(Kind.SYMBOL)
_MOST = 10**7
"""The most characters of a result."""


def _cased(change: Callable[[str], str]) -> Callable[[str], str]:
    """Change case character by character; one that would become several characters is unchanged, as in PostgreSQL."""

    def cased(text: str) -> str:
        if text.isascii():
            return change(text)
        return "".join(made if len(made := change(each)) == 1 else each for each in text)

    return cased


_UPPER, _LOWER = _cased(str.upper), _cased(str.lower)


def _initial(text: str) -> str:
    made, inside = [], False
    for each in text:
        made.append(_LOWER(each) if inside else _UPPER(each))
        inside = each.isalnum()
    return "".join(made)


def _padded(text: str, length: int, fill: str, *, left: bool) -> str:
    length = max(length, 0)
    _refuse_large(length)
    if len(text) >= length or not fill:
        return text[:length]
    padding = (fill * ((length - len(text)) // len(fill) + 1))[: length - len(text)]
    return padding + text if left else text + padding


def _refuse_large(length: int) -> None:
    if length > _MOST:
        raise DataError(
            f"a text of {length} characters is too long", code="overflow", help=f"make at most {_MOST} characters"
        )


def _repeated(text: str, count: int) -> str:
    _refuse_large(len(text) * max(count, 0))
    return text * max(count, 0)


def _left(text: str, count: int) -> str:
    return text[:count]


def _right(text: str, count: int) -> str:
    return text[-count:] if count > 0 else text[-count:] if count < 0 else ""


def _field(text: str, separator: str, place: int) -> str:
    if place == 0:
        raise DataError("`split_part` has no field 0", code="not-a-number", help="count from 1, or from -1 backward")
    fields = text.split(separator) if separator else [text]
    place = place - 1 if place > 0 else len(fields) + place
    return fields[place] if 0 <= place < len(fields) else ""


def _translated(text: str, these: str, those: str) -> str:
    table: dict[int, str | None] = {}
    for place, each in enumerate(these):
        table.setdefault(ord(each), those[place] if place < len(those) else None)
    return text.translate(table)


def _part(text: str, start: int, length: int) -> str:
    """`SUBSTRING(text FROM start FOR length)`; positions before the first character count."""
    if length < 0:
        raise DataError(f"a substring of {length} characters", code="not-a-number", help="use a length from 0 on")
    return text[max(start - 1, 0) : max(start - 1 + length, 0)]


def _from(text: str, start: int) -> str:
    return text[max(start - 1, 0) :]


def _character(code: int) -> str:
    if not 0 < code < 0x110000 or 0xD800 <= code < 0xE000:
        raise DataError(f"`chr({code})` is not a character", code="not-a-number", help="use a Unicode code point")
    return chr(code)


def _substr(text: str, start: int, length: int) -> str:
    return "" if start < 0 or length < 0 else text[start : start + length]


def _spark_substr(call: SparkCall) -> Any:
    # Positions are 64-bit here and 32-bit in Spark; within the text both are small.
    (text, start, length), F = call.columns, call.F
    size = F.length(text)
    part = F.substr(text, (start + 1).cast("int"), F.least(length, size.cast("long")).cast("int"))
    return F.when((start < 0) | (length < 0) | (start >= size), F.lit("")).otherwise(part)


def _spark_ord(call: SparkCall) -> Any:
    (text,), F = call.columns, call.F
    return F.when(text == "", F.lit(-1)).otherwise(F.ascii(text)).cast("long")


def _invertible(
    name: str, python: Callable[..., Any], spark: Callable[[SparkCall], Any]
) -> dict[Kind, FunctionMeaning]:
    return {Kind.SYMBOL: FunctionMeaning(python, spark, inverse=TEXTS[name])}


def _text(
    name: str, python: Callable[..., Any], arguments: tuple[int, ...], spelled: str, words: str, *,
    result: int = _SYMBOL, fails: bool = False, sql: tuple[str, ...] = (),
) -> BuiltinFunction:  # fmt: skip
    first = Kind.SYMBOL if arguments[0] == _SYMBOL else Kind.NUMBER
    return BuiltinFunction(
        name, fixed(result, *arguments), {first: FunctionMeaning(python, fails=fails)}, spelled, words, sql=sql
    )


_ONE, _TWO, _THREE = (_SYMBOL,), (_SYMBOL, _SYMBOL), (_SYMBOL, _SYMBOL, _SYMBOL)
_COUNTED = (_SYMBOL, _NUMBER)

TEXT_FUNCTIONS = (
    BuiltinFunction(
        "cat", uniform(_SYMBOL, 2, or_more=True),
        _invertible("cat", lambda *parts: "".join(parts), lambda call: call.F.concat(*call.columns)),
        "cat(a, b, …)", "texts joined", sql=("DPipe", "Concat"),
    ),
    BuiltinFunction(
        "strlen", fixed(_NUMBER, _SYMBOL),
        _invertible("strlen", len, lambda call: call.F.length(call.columns[0]).cast("long")),
        "strlen(text)", "number of characters (Soufflé: bytes)", sql=("Length",),
    ),
    BuiltinFunction(
        "substr", fixed(_SYMBOL, _SYMBOL, _NUMBER, _NUMBER), _invertible("substr", _substr, _spark_substr),
        "substr(text, start, length)", "part of a text, counted from 0; empty if `start` or `length` is negative",
        sql=("Substring",),
    ),
    BuiltinFunction(
        "ord", fixed(_NUMBER, _SYMBOL), _invertible("ord", lambda text: ord(text[0]) if text else -1, _spark_ord),
        "ord(text)", "code point of the first character, -1 of an empty text",
    ),
    BuiltinFunction(
        "reverse", fixed(_SYMBOL, _SYMBOL),
        {
            Kind.SYMBOL: FunctionMeaning(
                lambda text: text[::-1],
                lambda call: call.F.reverse(call.columns[0]),
                inverse=lambda image: Roots((image.value[::-1],), are_all=True),
            )
        },
        "reverse(text)", "characters in the opposite order", sql=("Reverse",),
    ),
    _text("upper", _UPPER, _ONE, "upper(text)", "in upper case", sql=("Upper",)),
    _text("lower", _LOWER, _ONE, "lower(text)", "in lower case", sql=("Lower",)),
    _text("initcap", _initial, _ONE, "initcap(text)", "each word capitalized"),
    _text("trim", str.strip, _TWO, "trim(text, characters)", "without these characters at both ends"),
    _text("ltrim", str.lstrip, _TWO, "ltrim(text, characters)", "without these characters at the start"),
    _text("rtrim", str.rstrip, _TWO, "rtrim(text, characters)", "without these characters at the end"),
    _text(
        "replace", lambda text, old, new: text.replace(old, new) if old else text, _THREE,
        "replace(text, old, new)", "every `old` replaced", sql=("Replace",),
    ),
    _text("translate", _translated, _THREE, "translate(text, from, to)", "characters replaced one by one",
          sql=("Translate",)),
    _text("strpos", lambda text, part: text.find(part) + 1, _TWO, "strpos(text, part)",
          "position of the first `part`, 0 if there is none", result=_NUMBER),
    _text("lpad", lambda text, length, fill: _padded(text, length, fill, left=True), (*_COUNTED, _SYMBOL),
          "lpad(text, length, fill)", "padded on the left, or truncated, to a length", fails=True),
    _text("rpad", lambda text, length, fill: _padded(text, length, fill, left=False), (*_COUNTED, _SYMBOL),
          "rpad(text, length, fill)", "padded on the right, or truncated, to a length", fails=True),
    _text("repeat", _repeated, _COUNTED, "repeat(text, n)", "the text `n` times", fails=True, sql=("Repeat",)),
    _text("left", _left, _COUNTED, "left(text, n)", "the first characters; a negative `n` leaves out the last",
          sql=("Left",)),
    _text("right", _right, _COUNTED, "right(text, n)", "the last characters; a negative `n` leaves out the first",
          sql=("Right",)),
    _text("split_part", _field, (_SYMBOL, _SYMBOL, _NUMBER), "split_part(text, separator, n)",
          "the n-th field", fails=True, sql=("SplitPart",)),
    _text("substring", _part, (_SYMBOL, _NUMBER, _NUMBER), "substring(text, start, length)",
          "part of a text, counted from 1", fails=True),
    _text("substring_from", _from, _COUNTED, "substring_from(text, start)", "the rest of a text, counted from 1"),
    _text("chr", _character, (_NUMBER,), "chr(n)", "the character of a code point", fails=True, sql=("Chr",)),
)  # fmt: skip
