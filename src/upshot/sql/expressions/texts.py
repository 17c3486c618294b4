"""Text functions and LIKE, with the semantics of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from upshot.core.types import NUMBER, SYMBOL, Kind
from upshot.sql.expressions.coercion import cast, require_kind
from upshot.sql.expressions.values import Value, applied, call, combined, plain
from upshot.sql.spellings import output_text
from upshot.syntax.ast import Constant, Term

if TYPE_CHECKING:
    from upshot.sql.queries.block import Block

_ANY = r"[\s\S]"
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def text(block: Block, node: exp.Expression) -> Value:
    """The value, which must be text."""
    cure = "use CAST(… AS TEXT)"
    return require_kind(block.statement, block.value(node), (Kind.SYMBOL,), "text", node, help=cure)


def _whole(block: Block, node: exp.Expression) -> Value:
    """The value, which must be an integer."""
    return require_kind(block.statement, block.value(node), (Kind.NUMBER,), "an integer", node, help="use an integer")


def _joined(block: Block, node: exp.Expression) -> Value:
    """`a || b`: NULL if one is NULL; values of other types are cast to text."""
    values = []
    for part in (node.this, node.expression):
        value = block.value(part)
        values.append(value if value.kind in (None, Kind.SYMBOL) else cast(block.statement, value, SYMBOL, part))
    return applied("cat", values, SYMBOL)


def _concatenated(block: Block, node: exp.Expression) -> Value:
    """CONCAT, which skips NULL."""
    parts = [exp.Coalesce(this=output_text(part), expressions=[exp.Literal.string("")]) for part in node.expressions]
    if len(parts) == 1:
        return block.value(parts[0])
    values = [block.value(part) for part in parts]
    return applied("cat", values, SYMBOL)


def _separated(block: Block, node: exp.Expression) -> Value:
    """CONCAT_WS, which skips NULL: each value behind the separator, without the first separator."""
    separator, *parts = node.expressions
    if not parts:
        block.statement.refuse(
            "wrong-arity", "CONCAT_WS needs values to join", node, help="write CONCAT_WS(', ', a, b)"
        )
    marked = [exp.DPipe(this=separator.copy(), expression=output_text(part)) for part in parts]
    start = exp.Add(this=exp.Length(this=separator.copy()), expression=exp.Literal.number(1))
    return block.value(exp.Substring(this=exp.Concat(expressions=marked), start=start))


def _substring(block: Block, node: exp.Expression) -> Value:
    start, length = node.args.get("start"), node.args.get("length")
    values = [text(block, node.this), _whole(block, start if start is not None else exp.Literal.number(1))]
    if length is None:
        return applied("substring_from", values, SYMBOL)
    values.append(_whole(block, length))

    def part(terms: Sequence[Term]) -> Term:
        first, count = terms[1], terms[2]
        if isinstance(first, Constant) and isinstance(count, Constant) and first.value >= 1 and count.value >= 0:
            # `substr` has an inverse for view updating.
            return call("substr", (terms[0], Constant(first.value - 1), count))
        return call("substring", terms)

    return combined(values, part, SYMBOL)


def _trimmed(block: Block, node: exp.Expression) -> Value:
    if node.args.get("collation") is not None:
        block.statement.unsupported("COLLATE", node, help="text is ordered by code points")
    characters = node.args.get("expression")
    values = [text(block, node.this), text(block, characters if characters is not None else exp.Literal.string(" "))]
    name = _TRIMS.get(str(node.args.get("position") or ""), "trim")
    return applied(name, values, SYMBOL)


def _position(block: Block, node: exp.Expression) -> Value:
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        block.statement.unsupported("a search from a position on", node, help="search in SUBSTRING(…)")
    values = [text(block, node.this), text(block, node.args["substr"])]
    return applied("strpos", values, NUMBER)


def _padded(block: Block, node: exp.Expression) -> Value:
    fill = node.args.get("fill_pattern")
    values = [text(block, node.this), _whole(block, node.expression)]
    values.append(text(block, fill) if fill is not None else plain(Constant(" ", SYMBOL), SYMBOL))
    name = "lpad" if node.args.get("is_left") else "rpad"
    return applied(name, values, SYMBOL)


def _initials(block: Block, node: exp.Expression) -> Value:
    return applied("initcap", [text(block, node.this)], SYMBOL)


def _code_point(block: Block, node: exp.Expression) -> Value:
    """ASCII: the code point of the first character, 0 of an empty text."""
    value = text(block, node.this)
    first = Constant(0)
    return combined([value], lambda terms: call("max", (call("ord", terms), first)), NUMBER)


def like_test(block: Block, node: exp.Expression) -> tuple[Value, Constant]:
    """The text that LIKE tests, and the pattern of `match`."""
    escape = None
    if isinstance(node, exp.Escape):
        escape = node.expression.name
        node = node.this
    pattern = block.value(node.expression).constant
    if pattern is None or not isinstance(pattern.value, str):
        block.statement.unsupported("LIKE with a computed pattern", node, help="write the pattern as text")
    found = text(block, node.this)
    if isinstance(node, exp.ILike):
        lowered = applied("lower", [found], SYMBOL)
        return lowered, Constant(like_pattern(pattern.value.lower(), escape), SYMBOL)
    return found, Constant(like_pattern(pattern.value, escape), SYMBOL)


TEXTS: dict[type[exp.Expression], Callable[[Block, exp.Expression], Value]] = {
    exp.DPipe: _joined,
    exp.Concat: _concatenated,
    exp.ConcatWs: _separated,
    exp.Substring: _substring,
    exp.Trim: _trimmed,
    exp.StrPosition: _position,
    exp.Pad: _padded,
    exp.Initcap: _initials,
    exp.Ascii: _code_point,
}


def like_pattern(pattern: str, escape: str | None = None) -> str:
    r"""The regular expression that matches whole texts as LIKE does.

    >>> like_pattern("50\\%_a%")
    '50%[\\s\\S]a[\\s\\S]*'
    """
    mark = "\\" if escape is None else escape
    found: list[str] = []
    place = 0
    while place < len(pattern):
        character = pattern[place]
        if mark and character == mark and place + 1 < len(pattern):
            place += 1
            found.append(re.escape(pattern[place]))
        elif character == "%":
            found.append(_ANY + "*")
        elif character == "_":
            found.append(_ANY)
        else:
            found.append(re.escape(character))
        place += 1
    return "".join(found)
