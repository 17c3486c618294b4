"""Parse the qualifiers after the columns of a declaration: keys, short forms of constraints, words of Soufflé."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from upshot.core.diagnostic import did_you_mean
from upshot.syntax.ast import Determines, ForeignKey, NotNull, ShortForm, ValueCheck
from upshot.syntax.bodies import formula, relation_name
from upshot.syntax.cursor import Cursor, shown

_T = TypeVar("_T")

_TUNING = ("eqrel", "btree", "btree_delete", "brie", "inline", "no_inline", "magic", "no_magic", "overridable")
_IO_WORDS = ("input", "output", "printsize")
_LIKE_KEY = ("keys", "kye", "Key", "KEY", "primary", "primary_key", "unique")


@dataclass(slots=True)
class Qualifiers:
    """The qualifiers of a declaration, each kind in the order of the text; `io` are Soufflé's old words for input and
    output."""

    keys: list[tuple[str, ...]] = field(default_factory=list)
    tuning: list[str] = field(default_factory=list)
    constraints: list[ShortForm] = field(default_factory=list)
    io: list[str] = field(default_factory=list)
    part_of: str = ""
    choice: tuple[tuple[str, ...], ...] = ()


def qualifiers(c: Cursor) -> Qualifiers:
    """Parse the qualifiers after the columns of a relation, up to the next item."""
    found = Qualifiers()
    while c.kind == "name" and not c.at_margin():
        word, start = c.text, c.start
        if word == "key" and c.peek()[0] == "(":
            c.advance()
            found.keys.append(_columns(c))
            continue
        if word == "choice" and c.peek()[0] == "-" and c.peek(2)[1] == "domain":
            found.choice = _choice(c)
            continue
        if word == "part_of" and c.peek()[0] == "(" and c.behind_parentheses() not in (".", ":-", ","):
            c.advance()
            found.part_of = _owner(c)
            continue
        if word in _SHORT_FORMS and _is_short_form(c):
            c.advance()
            found.constraints.append(_SHORT_FORMS[word](c, start))
            continue
        if word in _TUNING:
            found.tuning.append(word)
        elif word in _IO_WORDS:
            found.io.append(word)
        elif begins_clause(c) and (word not in _LIKE_KEY or c.starts_line()):
            break
        else:
            _refuse_qualifier(c)
        c.advance()
    return found


def _choice(c: Cursor) -> tuple[tuple[str, ...], ...]:
    """`choice-domain x`, `choice-domain (x, y)` or, with several domains, `choice-domain x, (y, z)`"""
    for _ in range(3):
        c.advance()
    return tuple(separated(c, lambda c: _columns(c) if c.kind == "(" else (_column(c),)))


def _owner(c: Cursor) -> str:
    """`(view)`"""
    opened = c.start
    c.take("(")
    name = relation_name(c, "the name of a view")
    c.take(")", opened=opened)
    return name


def begins_clause(c: Cursor) -> bool:
    """Test whether the current name is the head of the next clause, on the same line."""
    return c.peek()[0] in ("(", ":-", ".", ",")


def _refuse_qualifier(c: Cursor) -> NoReturn:
    help = did_you_mean(c.text, (*_TUNING, "key", *_SHORT_FORMS)) or "write keys as `key(column, …)`"
    c.fail("unknown-qualifier", f"`{shown(c.text)}` is not a qualifier of a relation", c.start, c.end, help=help)


def listed(c: Cursor, read: Callable[[Cursor], _T], *, empty: bool = True) -> list[_T]:
    """`(a, b, …)`."""
    opened = c.start
    c.take("(")
    found = [] if empty and c.kind == ")" else separated(c, read)
    c.take(")", "`,` or `)`", opened=opened)
    return found


def separated(c: Cursor, read: Callable[[Cursor], _T], mark: str = ",") -> list[_T]:
    """`a, b, …`"""
    found = [read(c)]
    while c.kind == mark:
        c.advance()
        found.append(read(c))
    return found


def _column(c: Cursor) -> str:
    return c.take("name", "the name of a column")


def _columns(c: Cursor) -> tuple[str, ...]:
    return tuple(listed(c, _column, empty=False))


# ---- short forms of constraints ---------------------------------------------------------------


def _is_short_form(c: Cursor) -> bool:
    """Test whether the current word opens a short form, and not a clause of a relation with that name."""
    behind = c.peek()[0]
    return c.behind_parentheses() not in (".", ":-", ",") if behind == "(" else behind == "name"


def _name(c: Cursor) -> str:
    """The optional name of a constraint, as in `check positive(…)`."""
    return "" if c.kind == "(" else c.take("name", "`(` or the name of the constraint")


def _foreign_key(c: Cursor, start: int) -> ShortForm:
    """`(a, …) other(b, …)`"""
    name, columns = _name(c), _columns(c)
    if c.kind != "name" or c.at_margin():
        c.unexpected("the referenced relation", help="as in `foreign(item) quantity(item)`")
    relation = relation_name(c, "a relation")
    if c.kind != "(":
        c.unexpected("`(` and the referenced columns", help="as in `foreign(item) quantity(item)`")
    return ForeignKey(columns, relation, _columns(c), name, span=c.span(start))


def _determines(c: Cursor, start: int) -> ShortForm:
    """`(a, … : b, …)`"""
    name, opened = _name(c), c.start
    c.take("(")
    columns = separated(c, _column)
    c.take(":", "`,`, or `:` and the dependent columns", opened=opened)
    determined = separated(c, _column)
    c.take(")", "`,` or `)`", opened=opened)
    return Determines(tuple(columns), tuple(determined), name, span=c.span(start))


def _not_null(c: Cursor, start: int) -> ShortForm:
    """`(a, …)`"""
    return NotNull(_columns(c), span=c.span(start))


def _value_check(c: Cursor, start: int) -> ShortForm:
    """`(condition)`; in it the names of aggregates are columns like any other."""
    name, opened = _name(c), c.start
    c.take("(")
    c.in_check = True
    condition = formula(c)
    c.in_check = False
    c.take(")", "`,`, `;` or `)`", opened=opened)
    return ValueCheck(condition, name, span=c.span(start))


_SHORT_FORMS: dict[str, Callable[[Cursor, int], ShortForm]] = {
    "foreign": _foreign_key,
    "determines": _determines,
    "notnull": _not_null,
    "check": _value_check,
}
