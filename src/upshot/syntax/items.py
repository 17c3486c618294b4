"""Items: facts, rules and directives, each read whole or given up with a diagnostic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from upshot.core.diagnostic import did_you_mean
from upshot.core.fact_text import quoted
from upshot.syntax import hints
from upshot.syntax.ast import (
    Attribute,
    Declaration,
    Directive,
    Ignored,
    Item,
    Rule,
    TypeDeclaration,
    TypeName,
    ViewDirective,
)
from upshot.syntax.bodies import atom, formula, refuse_qualified, relation_name, text_of
from upshot.syntax.cursor import DIRECTIVES, Abandon, Cursor, shown
from upshot.syntax.phrases import end_clause, options, pair
from upshot.syntax.qualifiers import begins_clause, listed, qualifiers
from upshot.syntax.rule_items import activation, active_rule, deny

_OWN = (
    "decl",
    "type",
    "input",
    "output",
    "printsize",
    "view",
    "deny",
    "rule",
    "activate",
    "deactivate",
    "plan",
    "pragma",
)


def items(c: Cursor) -> tuple[Item, ...]:
    """Every item of the text; one that cannot be read is reported and passed over."""
    found: list[Item] = []
    while c.kind != "end":
        c.begin_item()
        directive = _directive(c)
        try:
            if directive:
                found.extend(_READERS[directive](c))
            else:
                found.append(_clause(c))
        except Abandon:
            _recover(c, directive)
    return tuple(found)


def _directive(c: Cursor) -> str:
    """The directive at hand, `.` for an unknown one, `#` and `%` for lines of other languages, else nothing."""
    if c.kind in ("directive", "#", "%"):
        return c.text
    return "." if c.kind == "." and c.follows_name() else ""


def _recover(c: Cursor, directive: str) -> None:
    if directive in (".comp", ".lattice"):
        c.skip_block()
    elif directive in ("#", "%"):
        c.skip_comment()
    elif directive in ("", ".deny", ".rule"):
        c.skip_clause()
    else:
        c.skip_line()


# ---- clauses ----------------------------------------------------------------------------------


def _clause(c: Cursor) -> Item:
    """A fact or a rule."""
    if c.kind != "name":
        _refuse_start(c)
    heads = [atom(c)]
    while c.kind == ",":
        c.advance()
        heads.append(atom(c, "a head"))
    if c.kind == "<=":
        message = "subsumption `r(…) <= r(…)` is not supported"
        c.fail("unsupported-subsumption", message, c.start, c.end, help="keep the best row with `min` or `max`")
    body = None
    if c.kind == ":-":
        c.advance()
        body = formula(c)
        end_clause(c, "`,`, `;` or `.`")
    else:
        end_clause(c, "`:-` or `.`", help="write a rule as `head :- body.`, a fact as `head.`")
    return Rule(tuple(heads), body, span=c.item_span())


def _refuse_start(c: Cursor) -> NoReturn:
    """Gives up at a token that starts no item."""
    if c.kind == ":-":
        help = "write a condition that must never hold as `.deny name(X) :- …`"
        c.fail("missing-head", "this rule has no head", c.start, c.end, help=help)
    if c.kind == ".":
        help = "only facts, rules, `.deny` and `.rule` end with `.`"
        c.fail("unexpected-token", "unexpected `.`", c.start, c.end, help=help)
    c.unexpected("a fact, a rule or a directive")


# ---- declarations -----------------------------------------------------------------------------


def _declaration(c: Cursor) -> Sequence[Item]:
    """`.decl a, b(x: t, …) key(x) …`: one declaration a name; the old words input and output become directives."""
    c.advance()
    names = [relation_name(c, "the name of a relation")]
    while c.kind == ",":
        c.advance()
        names.append(relation_name(c, "the name of a relation"))
    refuse_qualified(c)
    attributes = _attributes(c)
    said = qualifiers(c)
    span = c.item_span()
    found: list[Item] = [
        Declaration(
            name, attributes, tuple(said.keys), tuple(said.tuning), tuple(said.constraints), said.part_of, span=span
        )
        for name in names
    ]
    return found + [Directive(kind, name, span=span) for kind in said.io for name in names]


def _attributes(c: Cursor) -> tuple[Attribute, ...]:
    if c.kind != "(":
        c.unexpected("`(` and the columns", help="declare a relation without columns as `r()`")
    return tuple(listed(c, _attribute))


def _attribute(c: Cursor) -> Attribute:
    start = c.start
    name = c.take("name", "the name of a column")
    c.take(":", "`:` and the type")
    return Attribute(name, _type_name(c), span=c.span(start))


def _type_name(c: Cursor) -> TypeName:
    """`symbol`, `decimal(10,2)?`. A name may end in `?`, so the mark is often part of the token."""
    start = c.start
    if not c.text.strip("?"):
        c.unexpected("a type")
    name = c.take("name", "a type")
    nullable = name.endswith("?")
    sizes: tuple[int, ...] = ()
    if c.kind == "(" and not nullable:
        sizes = tuple(listed(c, _size))
    if c.text == "?" and not nullable:
        nullable = True
        c.advance()
    if c.kind == "<>":
        c.give_up(hints.DIRECTIVES[".lattice"], c.start, c.end)
    refuse_qualified(c)
    return TypeName(name.rstrip("?"), sizes, nullable, span=c.span(start))


def _size(c: Cursor) -> int:
    start = c.start
    spelling = c.take("number", "a number")
    if not spelling.isdecimal() or len(spelling) > 4:
        help = "write `decimal(precision,scale)`, as in `decimal(10,2)`"
        c.fail("malformed-number", "not a valid type size", start, c.last, help=help)
    return int(spelling)


# ---- types, files, views ----------------------------------------------------------------------


def _type_declaration(c: Cursor) -> Sequence[Item]:
    """`.type T <: B`, `.type T = A | B`, and Soufflé's older spellings."""
    old = {".number_type": "number", ".symbol_type": "symbol"}.get(c.text)
    c.advance()
    name = c.take("name", "the name of a type")
    equivalent = c.kind == "="
    if old or c.kind not in ("<:", "="):
        if not old and not (c.kind in ("end", "directive") or c.starts_line() or begins_clause(c)):
            c.unexpected("`<:` or `=`")
        return [TypeDeclaration(name, (TypeName(old or "symbol"),), span=c.item_span())]
    c.advance()
    bases = [_base(c)]
    while c.kind == "|" and equivalent:
        c.advance()
        bases.append(_base(c))
    return [TypeDeclaration(name, tuple(bases), equivalent, span=c.item_span())]


def _base(c: Cursor) -> TypeName:
    found = _type_name(c)
    if c.kind == "{":
        message = "algebraic data types are not supported"
        c.fail("unsupported-adt", message, c.start, c.end, help="use one relation per branch")
    return found


def _files(c: Cursor) -> Sequence[Item]:
    """`.input a, b(key="value", …)`: one directive a relation, each with all the parameters."""
    kind = c.text[1:]
    c.advance()
    names = [c.take("name", "the name of a relation")]
    while c.kind == ",":
        c.advance()
        names.append(c.take("name", "the name of a relation"))
    refuse_qualified(c)
    parameters = tuple(listed(c, pair)) if c.kind == "(" else ()
    return [Directive(kind, name, parameters, span=c.item_span()) for name in names]


def _view(c: Cursor) -> Sequence[Item]:
    c.advance()
    name = c.take("name", "the name of a view")
    given = options(c)
    if c.kind == "name" and not c.starts_line() and not begins_clause(c):
        c.unexpected("`option=value`", help="options are `strategy=…`, `materialized=…` and `policy=…`")
    return [ViewDirective(name, given, span=c.item_span())]


# ---- accepted and ignored, or refused ---------------------------------------------------------


def _pragma(c: Cursor) -> Sequence[Item]:
    c.advance()
    words = [_quoted(c)]
    if c.kind == "string":
        words.append(_quoted(c))
    return [Ignored(f".pragma {' '.join(words)}", span=c.item_span())]


def _quoted(c: Cursor) -> str:
    start = c.start
    return quoted(text_of(c, c.take("string", "quoted text"), start))


def _plan(c: Cursor) -> Sequence[Item]:
    """`.plan 0:(1,2), 1:(2,1)`."""
    c.advance()
    orders = [_order(c)]
    while c.kind == ",":
        c.advance()
        orders.append(_order(c))
    return [Ignored(f".plan {', '.join(orders)}", span=c.item_span())]


def _order(c: Cursor) -> str:
    version = c.take("number", "a number")
    c.take(":")
    return f"{version}:({','.join(listed(c, lambda c: c.take('number', 'a number')))})"


def _foreign_line(c: Cursor) -> NoReturn:
    if c.kind == "%":
        c.fail("unexpected-token", "unexpected `%`", c.start, c.end, help="comments start with `//`")
    c.unexpected("an item")


def _refused(c: Cursor) -> Sequence[Item]:
    hint, start, end = hints.DIRECTIVES[c.text], c.start, c.end
    c.advance()
    c.give_up(hint, start, end)


def _unknown(c: Cursor) -> Sequence[Item]:
    start = c.start
    c.advance()
    word = c.text
    if word in DIRECTIVES:
        c.fail("unexpected-token", f"a space is missing after `.{word}`", start, c.end)
    known = [f".{d}" for d in _OWN]
    help = did_you_mean(f".{word}", known) or f"known are {', '.join(f'`{d}`' for d in known)}"
    c.fail("unknown-directive", f"unknown directive `.{shown(word)}`", start, c.end, help=help)


_READERS: Mapping[str, Callable[[Cursor], Sequence[Item]]] = {
    ".": _unknown,
    "#": _foreign_line,
    "%": _foreign_line,
    ".decl": _declaration,
    ".type": _type_declaration,
    ".number_type": _type_declaration,
    ".symbol_type": _type_declaration,
    ".input": _files,
    ".output": _files,
    ".printsize": _files,
    ".view": _view,
    ".deny": deny,
    ".rule": active_rule,
    ".activate": activation,
    ".deactivate": activation,
    ".pragma": _pragma,
    ".plan": _plan,
} | dict.fromkeys(hints.DIRECTIVES, _refused)
