"""The oracle's records: text read into tuples, and printed again, one value at a time.

A record is `("", field, …)`, a branch `("Tag", field, …)`, `nil` is None; fields are Python values.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any

_ATOM = re.compile(r'(date|timestamp)\("([^"]*)"\)|[^\s,\[\]()]+')
_ESCAPE = re.compile(r"\\(x..|u....|U........|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def make(form: str, *fields: Any) -> str:
    """The text of a value whose form is `P(number, record)` or `$Tag(symbol)`."""
    name, kinds = form[:-1].split("(")
    shown = [show(each, kind) for each, kind in zip(fields, kinds.split(", "), strict=False)]
    if not name.startswith("$"):
        return "[" + ", ".join(shown) + "]"
    return name + ("(" + ", ".join(shown) + ")" if shown else "")


def show(value: Any, kind: str) -> str:
    match value:
        case str() if kind == "record":
            return value
        case str():
            return '"' + "".join(map(_escaped, value)) + '"'
        case bool():
            return str(value).lower()
        case float() if not math.isfinite(value):
            return "nan" if math.isnan(value) else f"{value}"
        case dt.datetime():
            return f'timestamp("{value.replace(tzinfo=None).isoformat()}Z")'
        case dt.date():
            return f'date("{value}")'
    return repr(value)


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    for name, meant in _LETTERS.items():
        if letter == meant:
            return "\\" + name
    code = ord(letter)
    if letter.isprintable():
        return letter
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def field(kind: str, text: str, place: int) -> Any:
    """The field of a value; where there is none, some value of the kind that nobody looks at."""
    tree = read(text)
    if tree is None or place + 1 >= len(tree):
        return {"number": 0, "unsigned": 0, "float": 0.0, "symbol": "", "boolean": False, "record": "nil",
                "date": dt.date(1970, 1, 1), "timestamp": dt.datetime(1970, 1, 1, tzinfo=dt.UTC)}[kind]  # fmt: skip
    value = tree[place + 1]
    if kind == "record":
        return unread(value)
    return float(value) if kind == "float" else value


def has_tag(tag: str, text: str) -> bool:
    tree = read(text)
    return tree is not None and tree[0] == tag


def unread(value: Any) -> str:
    """The text of what `read` has given."""
    if value is None:
        return "nil"
    shown = [unread(each) if each is None or isinstance(each, tuple) else show(each, "") for each in value[1:]]
    if not value[0]:
        return "[" + ", ".join(shown) + "]"
    return f"${value[0]}" + ("(" + ", ".join(shown) + ")" if shown else "")


def read(text: str) -> Any:
    value, end = _value(text, 0)
    assert end == len(text), text
    return value


def _value(text: str, at: int) -> tuple[Any, int]:
    if text[at] == "[":
        fields, at = _fields(text, at + 1, "]")
        return ("", *fields), at
    if text[at] == "$":
        found = re.compile(r"\$([\w?.]+)").match(text, at)
        assert found
        if text[found.end() : found.end() + 1] != "(":
            return (found[1],), found.end()
        fields, at = _fields(text, found.end() + 1, ")")
        return (found[1], *fields), at
    if text[at] == '"':
        end = at + 1
        while text[end] != '"':
            end += 2 if text[end] == "\\" else 1
        return _ESCAPE.sub(_letter, text[at + 1 : end]), end + 1
    found = _ATOM.match(text, at)
    assert found, text
    return _atom(found), found.end()


def _fields(text: str, at: int, closing: str) -> tuple[list[Any], int]:
    fields = []
    while text[at] != closing:
        value, at = _value(text, at)
        fields.append(value)
        if text[at] == ",":
            at += 2
    return fields, at + 1


def _letter(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _LETTERS.get(code, code)


def _atom(found: re.Match[str]) -> Any:
    if found[1]:
        return (dt.date if found[1] == "date" else dt.datetime).fromisoformat(found[2])
    match found[0]:
        case "nil":
            return None
        case "true" | "false" as word:
            return word == "true"
        case word if re.fullmatch(r"-?[0-9]+", word):
            return int(word)
        case word:
            return float(word)
