"""Parse terms and formulas, as in heads, bodies and queries.

`edge(X, Y)` may begin a literal or a value (`strlen(X) > 3`), and `(` may begin a group of literals or an arithmetic
expression. There is no backtracking: a phrase of undecided role is kept as `_Application` or term until the next token
decides.

Each construct that nests calls `enter` with the number of Python stack frames that one more level takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from upshot.core.span import Span
from upshot.core.types import SYMBOL
from upshot.syntax import ast, hints, literals, operators
from upshot.syntax.cursor import Cursor, shown


@dataclass(frozen=True, slots=True)
class _Application:
    """`name(args)`, a literal or a functor call."""

    name: str
    args: tuple[ast.Term, ...]
    span: Span


_Open = ast.Term | _Application
_CONSTANTS = ("number", "string", "parameter")
_OPERANDS = ("name", *_CONSTANTS)
_FORMULAS = (ast.Atom, ast.Comparison, ast.Test, ast.Not, ast.And, ast.Or)


# ---- terms ------------------------------------------------------------------------------------


def term(c: Cursor, floor: int = 0) -> ast.Term:
    """Parse a value with operators of at least the precedence `floor`."""
    start = c.start
    return _operators(c, _operand(c), start, floor)


def _operators(c: Cursor, left: ast.Term, start: int, floor: int) -> ast.Term:
    while (holds := operators.INFIX.get(c.text)) and holds[0] >= floor:
        height, function = c.height, c.text
        c.enter(2)
        c.advance()
        right = term(c, holds[1])
        c.leave(2)
        c.grow(max(height, c.height) + 1, start)
        left = ast.Call(function, (left, right), span=c.span(start))
    return left


def _operand(c: Cursor) -> ast.Term:
    start, kind = c.start, c.kind
    if kind == "name":
        return _value(c, _named(c), start)
    if kind in _CONSTANTS:
        return _constant(c)
    if kind == "@":
        return _functor(c)
    if kind == "-":
        return _prefixed(c)
    if kind == "[":
        return _record(c)
    if kind != "(":
        c.unexpected("a value")
    c.enter(2)
    c.advance()
    inner = term(c)
    c.take(")", "`)` or an operator", opened=start)
    c.leave(2)
    return inner


def _functor(c: Cursor) -> ast.Term:
    """`@f(X)`, or a fold of the user: `@f X : { … }`"""
    start = c.start
    c.advance()
    if c.kind == "@":
        c.give_up(hints.USER_AGGREGATE, start, c.end)
    name = c.take("name", "the name of a function")
    if c.kind in _OPERANDS or c.kind in ("-", "@"):
        return _aggregated(c, f"@{name}", _target(c), start)
    if c.kind != "(":
        c.unexpected("`(` and the arguments")
    args = arguments(c)
    if c.kind == ":" and len(args) == 1 and not c.in_target:
        return _aggregated(c, f"@{name}", args[0], start)
    c.grow(c.height + 1, start)
    return ast.Call(f"@{name}", args, span=c.span(start))


def _constant(c: Cursor) -> ast.Term:
    start, kind, spelling = c.start, c.kind, c.text
    c.advance()
    c.height = 1
    if kind == "number":
        return _number(c, spelling, start)
    if kind == "string":
        return ast.Constant(text_of(c, spelling, start), SYMBOL, span=c.span(start))
    name = behind_dots(c, spelling) if not c.in_query or c.kind == "." else spelling
    if c.kind == "(" or not c.in_query:
        return _branch(c, name, start)
    return ast.Parameter(spelling[1:], span=c.span(start))


def _branch(c: Cursor, name: str, start: int) -> ast.Call:
    """`$A(x, …)`, or `$A` for a branch without fields."""
    args = arguments(c) if c.kind == "(" else ()
    c.grow(c.height + 1, start)
    return ast.Call(name, args, span=c.span(start))


def _record(c: Cursor) -> ast.Call:
    """`[x, …]`"""
    start = c.start
    args = arguments(c, closing="]")
    c.grow(c.height + 1, start)
    return ast.Call("[", args, span=c.span(start))


def _number(c: Cursor, spelling: str, start: int, *, negative: bool = False) -> ast.Constant:
    try:
        constant = literals.number(spelling, negative=negative)
    except literals.BadLiteral as bad:
        c.report(bad.slug, bad.message, start, c.last, help=bad.help)
        constant = ast.Constant(0)
    return ast.Constant(constant.value, constant.type, span=c.span(start))


def text_of(c: Cursor, spelling: str, start: int) -> str:
    """The value of a string token; report a bad escape and continue."""
    try:
        return literals.text(spelling)
    except literals.BadLiteral as bad:
        end = len(spelling) if bad.end is None else bad.end
        c.report(bad.slug, bad.message, start + bad.start, start + end, help=bad.help)
        return ""


def _prefixed(c: Cursor) -> ast.Term:
    """`-X`, `bnot X`. A minus before a number makes a negative constant, unless `^` takes the number first."""
    start, word = c.start, c.text
    c.enter(4)
    c.advance()
    at, spelling = c.start, c.text
    if word == "-" and c.kind == "number":
        c.advance()
        c.height = 1
        if c.kind != "^":
            c.leave(4)
            return _number(c, spelling, start, negative=True)
        operand = _operators(c, _number(c, spelling, at), at, operators.UNARY)
    else:
        operand = term(c, operators.UNARY)
    c.leave(4)
    c.grow(c.height + 1, start)
    return ast.Call(operators.PREFIX[word], (operand,), span=c.span(start))


def arguments(c: Cursor, *, closing: str = ")") -> tuple[ast.Term, ...]:
    """Parse the terms between `(` and `)`, or other brackets; the cursor's height becomes that of the highest term."""
    opened = c.start
    c.enter(4)
    c.advance()
    found: list[ast.Term] = []
    highest = 0
    if c.kind != closing:
        while True:
            found.append(term(c))
            highest = max(highest, c.height)
            if c.kind != ",":
                break
            c.advance()
    c.take(closing, f"`,` or `{closing}`", opened=opened)
    c.leave(4)
    c.height = highest
    return tuple(found)


def _named(c: Cursor, *, literal: bool = False) -> _Open:
    """Parse a term or literal that begins with a name: a variable, a constant, an aggregate, or an application. Only a
    literal may use a relation of a component, `instance.relation`."""
    start, word = c.start, c.text
    if word in operators.PREFIX:
        return _prefixed(c)
    if word in operators.AGGREGATES and c.peek()[0] != "(" and not c.in_check:
        return _aggregate(c)
    c.advance()
    if word == "as" and c.kind == "(":
        return _cast(c, start)
    word = behind_dots(c, word) if literal else word
    c.height = 1
    if c.kind == "(":
        args = arguments(c)
        c.grow(c.height + 1, start)
        return _Application(word, args, c.span(start))
    if word == "_":
        return ast.Wildcard(span=c.span(start))
    if constant := literals.CONSTANT_NAMES.get(word):
        return ast.Constant(constant.value, constant.type, span=c.span(start))
    return ast.Variable(word, span=c.span(start))


def _cast(c: Cursor, start: int) -> ast.Term:
    """`as(X, T)`, from its parenthesis on."""
    opened = c.start
    c.enter(4)
    c.advance()
    inner = term(c)
    c.take(",", "`,` and a type")
    type = qualified_name(c, "the name of a type")
    c.take(")", "`)`", opened=opened)
    c.leave(4)
    c.grow(c.height + 1, start)
    return ast.Call(f"{ast.CAST}{type}", (inner,), span=c.span(start))


def _value(c: Cursor, piece: _Open, start: int) -> ast.Term:
    """Use a phrase of undecided role as a value."""
    if not isinstance(piece, _Application):
        return piece
    name, args, span = piece.name, piece.args, piece.span
    if name in literals.TAGGED:
        return _tagged(c, piece)
    if name in operators.AGGREGATES and len(args) == 1:
        return _aggregated(c, name, _operators(c, args[0], start, 0), start)
    if hint := hints.FUNCTORS.get(name):
        c.give_up(hint, span.start, span.end)
    return ast.Call(name, args, span=span)


def _tagged(c: Cursor, piece: _Application) -> ast.Constant:
    """`date("2026-01-31")` and the like."""
    c.height = 1
    argument = piece.args[0] if len(piece.args) == 1 else None
    try:
        if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
            message, help = (
                f"`{piece.name}(…)` needs one quoted text",
                "it denotes a constant; it does not convert values",
            )
            raise literals.BadLiteral("malformed-literal", message, help)
        constant = literals.tagged(piece.name, argument.value)
    except literals.BadLiteral as bad:
        c.report(bad.slug, bad.message, piece.span.start, piece.span.end, help=bad.help)
        constant = ast.Constant(None)
    return ast.Constant(constant.value, constant.type, span=piece.span)


# ---- aggregates -------------------------------------------------------------------------------


def _aggregate(c: Cursor) -> ast.Aggregate:
    start, function = c.start, c.text
    c.advance()
    if not operators.AGGREGATES[function].takes_value:
        if c.kind in _OPERANDS and c.text not in operators.INFIX:
            _count_takes_nothing(c, start)
        if c.kind != ":":
            _reserved(c, function, start)
        return _aggregated(c, function, None, start)
    if c.kind == ":":
        message = f"`{function}` needs the value to aggregate"
        c.fail("aggregate-target", message, start, c.last, help=f"write `{function} X : {{ … }}`")
    if c.kind not in _OPERANDS and c.kind not in ("(", "-", "@"):
        _reserved(c, function, start)
    return _aggregated(c, function, _target(c), start)


def _target(c: Cursor) -> ast.Term:
    """Parse the value to aggregate. The colon after it belongs to the aggregate, not to a fold inside the value."""
    outer, c.in_target = c.in_target, True
    c.enter(4)
    target = term(c)
    c.leave(4)
    c.in_target = outer
    return target


def _aggregated(c: Cursor, function: str, target: ast.Term | None, start: int) -> ast.Aggregate:
    """Parse an aggregate from its `:` on."""
    if target is not None and function in operators.AGGREGATES and not operators.AGGREGATES[function].takes_value:
        _count_takes_nothing(c, start)
    height = 0 if target is None else c.height
    c.take(":", f"`:` and the body of `{function}`")
    c.enter(9)
    outer, c.in_target = c.in_target, False
    body: ast.Formula
    if c.kind == "{":
        opened = c.start
        c.advance()
        body = formula(c)
        c.take("}", "`,`, `;` or `}`", opened=opened)
    else:
        body = atom(c, "`{` or a relation")
    c.in_target = outer
    c.leave(9)
    c.grow(max(height, c.height) + 1, start)
    return ast.Aggregate(function, target, body, span=c.span(start))


# ---- formulas ---------------------------------------------------------------------------------


def formula(c: Cursor) -> ast.Formula:
    """Parse a body: literals joined by `,`, and with lower precedence by `;`."""
    start = c.start
    return _alternatives(c, _literal(c), start)


def _alternatives(c: Cursor, first: ast.Formula, start: int) -> ast.Formula:
    parts = [_conjunction(c, first, start)]
    highest = c.height
    while c.kind == ";":
        c.advance()
        at = c.start
        parts.append(_conjunction(c, _literal(c), at))
        highest = max(highest, c.height)
    if len(parts) == 1:
        return parts[0]
    c.grow(highest + 1, start)
    flat = tuple(q for p in parts for q in (p.parts if isinstance(p, ast.Or) else (p,)))
    return ast.Or(flat, span=c.span(start))


def _conjunction(c: Cursor, first: ast.Formula, start: int) -> ast.Formula:
    parts = [first]
    highest = c.height
    while c.kind == ",":
        c.advance()
        parts.append(_literal(c))
        highest = max(highest, c.height)
    if len(parts) == 1:
        return first
    c.grow(highest + 1, start)
    flat = tuple(q for p in parts for q in (p.parts if isinstance(p, ast.And) else (p,)))
    return ast.And(flat, span=c.span(start))


def _literal(c: Cursor) -> ast.Formula:
    return _closed(c, _unit(c))


def _unit(c: Cursor) -> ast.Formula | _Open:
    """Parse a literal, or a phrase that may still be a value."""
    start = c.start
    piece: ast.Formula | _Open
    if c.kind == "!":
        return _negation(c)
    if c.kind == "(":
        piece = _group(c)
    elif c.kind == "name":
        if c.text in operators.STATES and _names_state(c):
            return _state_atom(c)
        if c.text == "not" and c.peek()[0] == "name":
            c.give_up(hints.WORDS["not"], start, c.end)
        piece = _named(c, literal=True)
    elif c.kind in _CONSTANTS or c.kind in ("-", "[", "@"):
        piece = _operand(c)
    else:
        c.unexpected("a literal")
    return piece if isinstance(piece, _FORMULAS) else _comparison(c, piece, start)


def _comparison(c: Cursor, piece: _Open, start: int) -> ast.Formula | _Open:
    """Parse the comparison that begins with the phrase; without a comparison operator, return the phrase."""
    if c.kind not in operators.COMPARISONS and c.text not in operators.INFIX and c.kind != ":":
        return piece
    left = _operators(c, _value(c, piece, start), start, 0)
    op, height = c.kind, c.height
    if op not in operators.COMPARISONS:
        return left
    c.advance()
    right = term(c)
    c.grow(max(height, c.height) + 1, start)
    if c.kind in operators.COMPARISONS:
        message, help = "comparisons do not chain", "write `A < B, B < C` for `A < B < C`"
        c.fail("chained-comparison", message, c.start, c.end, help=help)
    return ast.Comparison(op, left, right, span=c.span(start))


def _group(c: Cursor) -> ast.Formula | _Open:
    """Parse a parenthesized formula or term, parentheses dropped."""
    opened = c.start
    c.enter(5)
    c.advance()
    start = c.start
    piece = _unit(c)
    if isinstance(piece, _FORMULAS) or c.kind != ")":
        piece = _alternatives(c, _closed(c, piece), start)
    c.take(")", "`,`, `;` or `)`", opened=opened)
    c.leave(5)
    return piece


def _negation(c: Cursor) -> ast.Formula:
    starts = []
    while c.kind == "!":
        starts.append(c.start)
        c.advance()
    c.enter(3)
    found = _literal(c)
    c.leave(3)
    for start in reversed(starts):
        c.grow(c.height + 1, start)
        found = ast.Not(found, span=c.span(start))
    return found


def _closed(c: Cursor, piece: ast.Formula | _Open) -> ast.Formula:
    """Use a phrase of undecided role as a literal."""
    match piece:
        case _Application(name=name, args=args, span=span):
            return ast.Test(name, args, span=span) if name in operators.TESTS else ast.Atom(name, args, span=span)
        case ast.Variable(name=name, span=span):
            return ast.Test(name, (), span=span) if name in operators.TESTS else ast.Atom(name, (), span=span)
        case ast.Constant(value=bool() as value, span=span):
            return ast.Test("true" if value else "false", (), span=span)
        case ast.Wildcard() | ast.Parameter() | ast.Constant() | ast.Call() | ast.Aggregate():
            _not_a_condition(c, piece)
        case _:
            return piece


def atom(c: Cursor, expected: str = "a relation") -> ast.Atom:
    """`r(t1, …)`, or a bare `r` for a relation without columns."""
    start = c.start
    name = relation_name(c, expected)
    args: tuple[ast.Term, ...] = ()
    c.height = 0
    if c.kind == "(":
        args = arguments(c)
    c.grow(c.height + 1, start)
    return ast.Atom(name, args, span=c.span(start))


def relation_name(c: Cursor, expected: str) -> str:
    """Take the name of a relation; of a component, `instance.relation`."""
    if c.text == "_":
        c.unexpected(expected)
    if c.text in operators.TESTS or c.text in operators.PREFIX or c.text in literals.CONSTANT_NAMES:
        message, help = f"`{c.text}` is a keyword, not the name of a relation", "use another name"
        c.fail("reserved-word", message, c.start, c.end, help=help)
    return qualified_name(c, expected)


def qualified_name(c: Cursor, expected: str) -> str:
    """Take a name, or names joined by dots without space between."""
    return behind_dots(c, c.take("name", expected))


def behind_dots(c: Cursor, name: str) -> str:
    """Take the names that dots join to `name`, and return the whole."""
    words = [name]
    while c.kind == "." and c.start == c.last and c.follows_name():
        c.advance()
        words.append(c.take("name"))
    return ".".join(words)


def _names_state(c: Cursor) -> bool:
    """Test whether `old` is followed by a relation, and not by an operator or the `do` of a rule."""
    kind, text = c.peek()
    return kind == "name" and text not in operators.INFIX and (text != "do" or c.peek(2)[0] == "(")


def _state_atom(c: Cursor) -> ast.Atom:
    """`old r(…)`."""
    start, state = c.start, c.text
    c.advance()
    if not c.in_rule:
        message = f"`{state}` reads another state of a relation; only the condition of a `.rule` can do this"
        c.report("state-outside-rule", message, start, c.last, help=f"remove `{state}`")
    found = atom(c)
    return ast.Atom(found.relation, found.args, state if c.in_rule else "", span=c.span(start))


# ---- refusals ---------------------------------------------------------------------------------


def _not_a_condition(c: Cursor, piece: ast.Term) -> NoReturn:
    assert piece.span is not None
    message = f"`{shown(piece.span.text)}` is a value, but a body needs conditions"
    c.fail("not-a-condition", message, piece.span.start, piece.span.end, help="compare it, as in `X = …`")


def _count_takes_nothing(c: Cursor, start: int) -> NoReturn:
    message = "`count` takes no value: it counts the rows of its body"
    c.fail("aggregate-target", message, start, c.last, help="write `count : { … }`")


def _reserved(c: Cursor, word: str, start: int) -> NoReturn:
    example = f"{word} X : {{ … }}" if operators.AGGREGATES[word].takes_value else f"{word} : {{ … }}"
    help = f"give the variable another name, or write `{example}`"
    c.fail("reserved-word", f"`{word}` is the name of an aggregate", start, start + len(word), help=help)
