"""Records and algebraic data types: their definitions, and the canonical text of each of their values.

A value is text in the notation of programs: `[1, "a"]`, `nil`, `$Circle(2.5)`, `$Empty`. The text is canonical, so two
values are equal where their texts are; engines, stores and tables hold nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

from upshot.core.fact_text import ESCAPES, quoted, spelled
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type

NIL = "nil"
"""The record that has no fields; every record type has it."""


class Misshapen(ValueError):
    """A text or Python value is not a value of the type; the message names the expected value."""


@dataclass(frozen=True, slots=True)
class TypeBranch:
    """The fields of one branch, as `(name, type)`; a record has one branch, with an empty tag."""

    tag: str
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """A record type, or an algebraic data type. Types of fields are kinds or names of structures."""

    name: str
    branches: tuple[TypeBranch, ...]

    @property
    def is_record(self) -> bool:
        return self.branches[0].tag == ""

    def branch(self, tag: str) -> TypeBranch | None:
        return next((each for each in self.branches if each.tag == tag), None)

    def __str__(self) -> str:
        if self.is_record:
            return f"{self.name} = [{_listed(self.branches[0])}]"
        return f"{self.name} = " + " | ".join(f"{each.tag} {{{_listed(each)}}}" for each in self.branches)


def _listed(branch: TypeBranch) -> str:
    return ", ".join(f"{name}: {type}" for name, type in branch.fields)


def definition(name: str, known: Mapping[str, Structure]) -> str:
    """The structure and all structures of its fields, as text for `structures`.

    >>> definition("L", {"L": Structure("L", (TypeBranch("", (("head", "number"), ("tail", "L"))),))})
    'L = [head: number, tail: L]'
    """
    found = {name: known[name]}
    pending = [known[name]]
    while pending:
        for branch in pending.pop().branches:
            for _, type in branch.fields:
                if type in known and type not in found:
                    found[type] = known[type]
                    pending.append(known[type])
    return "; ".join(str(each) for each in found.values())


_NAME = r"[A-Za-z_?][\w?.]*"
_BRANCH = re.compile(rf"({_NAME}) \{{([^}}]*)\}}")


@lru_cache(1024)
def structures(text: str) -> Mapping[str, Structure]:
    """Parse a definition: the structures by name, the defined one first."""
    found: dict[str, Structure] = {}
    for part in text.split("; ") if text else ():
        name, _, body = part.partition(" = ")
        if body.startswith("["):
            found[name] = Structure(name, (TypeBranch("", _fields(body[1:-1])),))
        else:
            found[name] = Structure(
                name, tuple(TypeBranch(tag, _fields(inner)) for tag, inner in _BRANCH.findall(body))
            )
    return found


def _fields(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [each.partition(": ") for each in text.split(", ")] if text else []
    return tuple((name, type) for name, _, type in pairs)


# ---- values as text ----------------------------------------------------------------------------------------


def composed(tag: str, values: tuple[Any, ...], kinds: tuple[Kind, ...]) -> str:
    """The value with this tag and these fields.

    >>> composed("", (1, "a"), (Kind.NUMBER, Kind.SYMBOL)), composed("Empty", (), ())
    ('[1, "a"]', '$Empty')
    """
    inner = ", ".join(scalar_text(value, kind) for value, kind in zip(values, kinds, strict=True))
    if not tag:
        return f"[{inner}]"
    return f"${tag}({inner})" if values else f"${tag}"


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\](),]|[^"\[\](),]+')


@lru_cache(65_536)
def parts(text: str) -> tuple[str, tuple[str, ...]] | None:
    """The tag and the texts of the fields of a value; None of `nil`.

    >>> parts('[1, [2, nil]]'), parts("$Empty"), parts("nil")
    (('', ('1', '[2, nil]')), ('Empty', ()), None)
    """
    if text == NIL:
        return None
    if text.startswith("["):
        return "", _split(text[1:-1])
    tag, opened, rest = text[1:].partition("(")
    return tag, _split(rest[:-1]) if opened else ()


def _split(text: str) -> tuple[str, ...]:
    """The parts between commas outside of brackets and quotes."""
    found: list[str] = []
    level, start = 0, 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "[(":
            level += 1
        elif mark in "])":
            level -= 1
        elif mark == "," and level == 0:
            found.append(text[start : token.start()])
            start = token.end() + 1
    return (*found, text[start:]) if text else ()


def scalar_text(value: Any, kind: Kind) -> str:
    """A field as text; that of a structure is its own."""
    match kind:
        case Kind.RECORD:
            return str(value)
        case Kind.FLOAT:
            return _float_text(float(value))
        case Kind.SYMBOL:
            return quoted(value)
        case _:
            return spelled(value)


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(value + 0.0) if math.isfinite(value) else "inf" if value > 0 else "-inf"


_QUOTED = re.compile(r'(?:date|timestamp)\("([^"]*)"\)')
_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


def scalar(text: str, kind: Kind) -> Any:
    """The value of the text of a field."""
    match kind:
        case Kind.NUMBER | Kind.UNSIGNED:
            return int(text)
        case Kind.FLOAT:
            return float(text) + 0.0
        case Kind.SYMBOL:
            return _unquoted(text)
        case Kind.BOOLEAN:
            return text == "true"
        case Kind.DATE:
            return date.fromisoformat(_inner(text))
        case Kind.TIMESTAMP:
            return datetime.fromisoformat(_inner(text)).astimezone(UTC)
        case _:
            return text


def _inner(text: str) -> str:
    found = _QUOTED.fullmatch(text)
    return found[1] if found else text


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    return _ESCAPED.sub(_unescaped, inner) if "\\" in inner else inner


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    return chr(int(code, 16)) if code else ESCAPES.get(found[4], found[4])


NEUTRAL: Mapping[Kind, Any] = {
    Kind.NUMBER: 0,
    Kind.UNSIGNED: 0,
    Kind.FLOAT: 0.0,
    Kind.SYMBOL: "",
    Kind.BOOLEAN: False,
    Kind.DATE: date(1970, 1, 1),
    Kind.TIMESTAMP: datetime(1970, 1, 1, tzinfo=UTC),
    Kind.RECORD: NIL,
}
"""The result for a field that a value does not have; rules never use it, since they test the branch first."""


def field_of(text: str, place: int, kind: Kind) -> Any:
    """The value of one field."""
    found = parts(text)
    if found is None or place >= len(found[1]):
        return NEUTRAL[kind]
    return scalar(found[1][place], kind)


def has_form(tag: str, text: str) -> bool:
    """Test whether the value has this tag; of a record, whether it is not `nil`."""
    if not tag:
        return text.startswith("[")
    return text == f"${tag}" or text.startswith(f"${tag}(")


# ---- values of users ---------------------------------------------------------------------------------------


def canonical(value: Any, type: Type) -> str:
    """The canonical text of a user's value: text, tuples and lists for records, `{"Tag": [fields]}` for branches, None
    for `nil` inside of them; raises `Misshapen`.

    >>> canonical((1, None), Type(Kind.RECORD, "L", definition="L = [head: number, tail: L]"))
    '[1, nil]'
    """
    if isinstance(value, str):
        return read(value, type)
    known = structures(type.definition)
    if not known:
        raise Misshapen("text")
    return _flattened(value, next(iter(known)), known)


def _flattened(value: Any, name: str, known: Mapping[str, Structure]) -> str:
    """The text of a Python value, without recursion, since lists can be long."""
    out: list[str] = []
    stack: list[Any] = [(value, name)]
    while stack:
        each = stack.pop()
        if isinstance(each, str):
            out.append(each)
            continue
        item, type = each
        structure = known.get(type)
        if structure is None:
            out.append(_scalar_of(item, Kind(type)))
        elif isinstance(item, str):
            out.append(_StructureReader(item, known, plain=False).whole(type))
        elif item is None and structure.is_record:
            out.append(NIL)
        else:
            opened, fields, values, closed = _branch_of(item, structure)
            out.append(opened)
            stack.append(closed)
            pairs = list(zip(values, (t for _, t in fields), strict=True))
            for place, pair in reversed(list(enumerate(pairs))):
                stack.append(pair)
                if place:
                    stack.append(", ")
    return "".join(out)


def _branch_of(value: Any, structure: Structure) -> tuple[str, tuple[tuple[str, str], ...], Any, str]:
    tag, values = "", value
    if isinstance(value, Mapping) and len(value) == 1 and not structure.is_record:
        ((tag, values),) = value.items()
    branch = structure.branch(tag)
    if branch is None or not isinstance(values, tuple | list) or len(values) != len(branch.fields):
        raise Misshapen(f"a value of `{structure}`")
    if structure.is_record:
        return "[", branch.fields, values, "]"
    return (f"${tag}(", branch.fields, values, ")") if values else (f"${tag}", (), (), "")


_CLASSES: Mapping[Kind, tuple[type, ...]] = {
    Kind.NUMBER: (int,), Kind.UNSIGNED: (int,), Kind.FLOAT: (int, float), Kind.SYMBOL: (str,),
    Kind.BOOLEAN: (bool,), Kind.DATE: (date,), Kind.TIMESTAMP: (datetime,),
}  # fmt: skip


def _scalar_of(value: Any, kind: Kind) -> str:
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    fits = isinstance(value, _CLASSES[kind]) and (kind is Kind.BOOLEAN or not isinstance(value, bool))
    if isinstance(value, str) and kind in (Kind.DATE, Kind.TIMESTAMP):
        return _checked_scalar(quoted(value), kind)
    if not fits or (kind is Kind.DATE and isinstance(value, datetime)):
        raise Misshapen(f"a `{kind.value}` in a field, not {value!r}")
    if kind is Kind.TIMESTAMP and value.tzinfo is None:
        raise Misshapen("a timestamp with a time zone in a field")
    _check_range(value, kind)
    return scalar_text(value, kind)


def _check_range(value: Any, kind: Kind) -> None:
    if (kind is Kind.NUMBER and value not in NUMBER_RANGE) or (kind is Kind.UNSIGNED and value not in UNSIGNED_RANGE):
        raise Misshapen(f"a `{kind.value}` in the range of 64 bits, not {value}")
    if kind is Kind.SYMBOL:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misshapen(f"valid Unicode text in a field, not {quoted(value)[:40]}") from None


def read(text: str, type: Type, *, plain: bool = False) -> str:
    """The canonical text of a value in the notation of programs, or of Soufflé's files if `plain`: text without
    quotes."""
    known = structures(type.definition)
    if not known:
        return text
    return _StructureReader(text, known, plain=plain).whole(next(iter(known)))


_TEXTS = re.compile(r'(?:date|timestamp)\("[^"]*"\)|"(?:[^"\\]|\\.)*"')


def plain_text(text: str) -> str:
    """The value as Soufflé prints it.

    >>> plain_text('[1, "a"]')
    '[1, a]'
    """
    return _TEXTS.sub(lambda found: _unquoted(found[0]) if found[0][0] == '"' else found[0], text)


_SPACE = re.compile(r"\s*")
_TAG = re.compile(rf"\$({_NAME})\s*")
_SCALAR = re.compile(r'(?:date|timestamp)\("[^"]*"\)|"(?:[^"\\]|\\.)*"|[^,\[\]()"]+')
_PLAIN = re.compile(r'"(?:[^"\\]|\\.)*"|[^,\[\]()]*')


class _StructureReader:
    """Parses one value, with a stack instead of recursion."""

    def __init__(self, text: str, known: Mapping[str, Structure], *, plain: bool) -> None:
        self._text, self._known, self._plain = text, known, plain
        self._position = 0
        self._out: list[str] = []
        self._open: list[tuple[list[str], str, int]] = []
        """For each open value: the types of its remaining fields in reverse, the closing mark, and the number of all
        fields."""

    def whole(self, name: str) -> str:
        self._value(name)
        while self._open:
            fields, closed, count = self._open[-1]
            if fields:
                if len(fields) < count:
                    self._take(",")
                    self._out.append(", ")
                self._value(fields.pop())
            else:
                self._take(closed)
                self._out.append(closed)
                self._open.pop()
        self._blanks()
        if self._position < len(self._text):
            raise Misshapen(f"a value of `{self._known[name]}`, and nothing behind it")
        return "".join(self._out)

    def _blanks(self) -> None:
        found = _SPACE.match(self._text, self._position)
        assert found is not None
        self._position = found.end()

    def _take(self, mark: str) -> None:
        self._blanks()
        if not self._text.startswith(mark, self._position):
            raise Misshapen(f"`{mark}` at character {self._position + 1}")
        self._position += len(mark)

    def _value(self, name: str) -> None:
        self._blanks()
        structure = self._known.get(name)
        if structure is None:
            self._scalar(Kind(name))
        elif structure.is_record:
            self._record(structure)
        else:
            self._tagged(structure)

    def _record(self, structure: Structure) -> None:
        if self._text.startswith(NIL, self._position):
            self._position += len(NIL)
            self._out.append(NIL)
            return
        if not self._text.startswith("[", self._position):
            raise Misshapen(f"a value of `{structure}` or `nil`")
        self._position += 1
        self._push(structure.branches[0], "[", "]")

    def _tagged(self, structure: Structure) -> None:
        found = _TAG.match(self._text, self._position)
        branch = None if found is None else structure.branch(found[1])
        if found is None or branch is None:
            raise Misshapen(f"a value of `{structure}`")
        self._position = found.end()
        if not branch.fields:
            if self._text.startswith("(", self._position):
                self._position += 1
                self._take(")")
            self._out.append(f"${branch.tag}")
            return
        self._take("(")
        self._push(branch, f"${branch.tag}(", ")")

    def _push(self, branch: TypeBranch, opened: str, closed: str) -> None:
        self._out.append(opened)
        self._open.append(([type for _, type in reversed(branch.fields)], closed, len(branch.fields)))

    def _scalar(self, kind: Kind) -> None:
        pattern = _PLAIN if self._plain and kind is Kind.SYMBOL else _SCALAR
        found = pattern.match(self._text, self._position)
        if found is None:
            raise Misshapen(f"a `{kind.value}` at character {self._position + 1}")
        self._position = found.end()
        text = found[0].strip()
        if self._plain and kind is Kind.SYMBOL and not text.startswith('"'):
            text = quoted(text)
        self._out.append(_checked_scalar(text, kind))


_FORMS: Mapping[Kind, Callable[[str], bool]] = {
    Kind.NUMBER: re.compile(r"[+-]?[0-9]{1,40}").fullmatch,  # type: ignore[dict-item]
    Kind.UNSIGNED: re.compile(r"[0-9]{1,40}u?").fullmatch,  # type: ignore[dict-item]
    Kind.FLOAT: re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|inf|nan)").fullmatch,  # type: ignore[dict-item]
    Kind.SYMBOL: lambda text: text.startswith('"') and len(text) > 1,
    Kind.BOOLEAN: lambda text: text in ("true", "false"),
}


def _checked_scalar(text: str, kind: Kind) -> str:
    """The canonical text of a field."""
    form = _FORMS.get(kind)
    try:
        if form is not None and not form(text):
            raise ValueError
        if kind in (Kind.DATE, Kind.TIMESTAMP) and text.startswith('"'):
            text = text[1:-1]
        value = scalar(text.removesuffix("u") if kind is Kind.UNSIGNED else text, kind)
        if isinstance(value, datetime) and not isinstance(value.utcoffset(), timedelta):
            raise ValueError
        if isinstance(value, str):
            value.encode()
    except (ValueError, OverflowError):
        raise Misshapen(f"a `{kind.value}` in a field, not `{text[:40]}`") from None
    _check_range(value, kind)
    return scalar_text(value, kind)
