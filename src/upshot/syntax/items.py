"""Parse items: facts, rules and directives. An item with an error is reported and skipped."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from upshot.core.diagnostic import did_you_mean
from upshot.core.fact_text import quoted
from upshot.core.types import FLOAT
from upshot.syntax import ast, hints
from upshot.syntax.bodies import arguments, atom, formula, qualified_name, relation_name, term, text_of
from upshot.syntax.cursor import DIRECTIVES, Abandon, Cursor, shown
from upshot.syntax.qualifiers import begins_clause, listed, qualifiers, separated

# ---- constraints and active rules --------------------------------------------------------------------------
# `.deny`, `.rule`, `.activate` and `.deactivate`.


def _deny(c: Cursor) -> Sequence[ast.Item]:
    """`.deny name(X) :- body.`, or `.deny name on_violation=warn`."""
    c.advance()
    head = atom(c, "the name of a constraint")
    if c.kind == "name" and not head.args and c.peek()[0] == "=":
        return [ast.DenyPolicy(head.relation, _options(c), span=c.item_span())]
    if c.kind != ":-":
        c.unexpected("`:-` and what must not hold", help="write a policy as `.deny name on_violation=warn`")
    c.advance()
    body = formula(c)
    _end_clause(c, "`,`, `;` or `.`")
    return [ast.Deny(head, body, span=c.item_span())]


def _active_rule(c: Cursor) -> Sequence[ast.Item]:
    """`.rule name(params) option=value on event when condition do action, ….`"""
    c.advance()
    name = c.take("name", "the name of a rule")
    parameters: tuple[ast.Term, ...] = arguments(c) if c.kind == "(" else ()
    chosen = _options(c)
    event = condition = None
    if c.text == "on":
        event = _event(c)
    if c.text == "when":
        c.advance()
        c.in_rule = True
        condition = formula(c)
        c.in_rule = False
    if c.text != "do":
        _refuse_phrase(c, "`,`, `;` or `do`" if condition else "`when` or `do`" if event else "`on`, `when` or `do`")
    c.advance()
    actions = tuple(separated(c, _action))
    _end_clause(c, "`,` or `.`")
    return [ast.ActiveRule(name, parameters, chosen, event, condition, actions, span=c.item_span())]


def _activation(c: Cursor) -> Sequence[ast.Item]:
    """`.activate name(X = value, …)` or `.deactivate name`; without bindings, for all values."""
    active = c.text == ".activate"
    c.advance()
    name = c.take("name", "the name of a rule")
    bindings = tuple(listed(c, _binding)) if c.kind == "(" else ()
    wild = sum(isinstance(value, ast.Wildcard) for _, value in bindings)
    if wild and not (active and wild == len(bindings)):
        c.fail(
            "not-a-constant",
            "`_` stands for values that the database keeps, in `.activate`, for all parameters listed",
            c.item_span().start,
            c.last,
            help="give every parameter a value, or `_` to each",
        )
    return [ast.Activation(name, bindings, active, span=c.item_span())]


def _binding(c: Cursor) -> tuple[str, ast.Constant | ast.Wildcard]:
    """`parameter = value`, or `parameter = _`."""
    if c.kind != "name":
        c.unexpected("a parameter of the rule", help='name it, as in `.activate reorder(I = "nail")`')
    parameter = c.take("name")
    c.take("=", "`=` and a value", opened=-1)
    start = c.start
    value = _folded(term(c))
    if not isinstance(value, ast.Constant | ast.Wildcard):
        help = "give a number, quoted text or another constant"
        c.fail("not-a-constant", f"`{parameter}` needs a constant", start, c.last, help=help)
    return parameter, value


def _folded(value: ast.Term) -> ast.Term:
    """Fold the quotients `1.0 / 0.0` and `0.0 / 0.0`, which stand for infinity and NaN: these have no literal."""
    match value:
        case ast.Call("/", (ast.Constant(float(upper)), ast.Constant(0.0))):
            return ast.Constant(math.nan if upper == 0 else math.copysign(math.inf, upper), FLOAT, span=value.span)
    return value


def _refuse_phrase(c: Cursor, expected: str) -> NoReturn:
    help = did_you_mean(c.text, ("on", "when", "do")) if c.kind == "name" else ""
    c.unexpected(expected, help=help or "a rule reads `.rule name(X) on … when … do ….`")


def _event(c: Cursor) -> ast.EventClause:
    c.advance()
    start = c.start
    kind = _word(c, ("insert", "delete", "update", "change"))
    return ast.EventClause(kind, atom(c), span=c.span(start))


def _action(c: Cursor) -> ast.ActionClause:
    start = c.start
    kind = _word(c, ("insert", "delete", "call"))
    return ast.ActionClause(kind, atom(c), span=c.span(start))


def _word(c: Cursor, words: tuple[str, ...]) -> str:
    if c.text not in words:
        *most, last = (f"`{word}`" for word in words)
        c.unexpected(f"{', '.join(most)} or {last}", help=did_you_mean(c.text, words))
    word = c.text
    c.advance()
    return word


# ---- items -------------------------------------------------------------------------------------------------


LATTICES = ("min", "max", "any", "all", "union")
"""The words before the type of a column of which one value is kept."""


def items(c: Cursor, *, closed_by: str = "end") -> tuple[ast.WrittenItem, ...]:
    """Parse every item of the text, or of the block that a token closes; an item with an error is reported and
    skipped."""
    found: list[ast.WrittenItem] = []
    while c.kind not in ("end", closed_by):
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
    """The directive at the cursor, `.` for an unknown one, `#` and `%` for lines of other languages, else nothing."""
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


def _clause(c: Cursor) -> ast.Item:
    """A fact or a rule."""
    if c.kind != "name":
        _refuse_start(c)
    heads = [atom(c)]
    between = c.kind if c.kind == "|" else ","
    while c.kind == between:
        c.advance()
        heads.append(atom(c, "a head"))
    if c.kind == "<=" and len(heads) == 1:
        return _subsumption(c, heads[0])
    body = None
    if c.kind == ":-":
        c.advance()
        body = formula(c)
        _end_clause(c, "`,`, `;` or `.`")
    else:
        _end_clause(c, "`:-` or `.`", help="write a rule as `head :- body.`, a fact as `head.`")
    made = ast.DisjunctiveRule if between == "|" else ast.Rule
    return made(tuple(heads), body, span=c.item_span())


def _subsumption(c: Cursor, worse: ast.Atom) -> ast.Subsumption:
    """`<= better :- body.`"""
    c.advance()
    better = atom(c, "the row that is better")
    if c.kind != ":-":
        c.unexpected("`:-` and the condition", help="as in `dist(X, A) <= dist(X, B) :- B <= A.`")
    c.advance()
    body = formula(c)
    _end_clause(c, "`,`, `;` or `.`")
    return ast.Subsumption(worse, better, body, span=c.item_span())


def _refuse_start(c: Cursor) -> NoReturn:
    """Report a token that starts no item."""
    if c.kind == ":-":
        help = "write a condition that must never hold as `.deny name(X) :- …`"
        c.fail("missing-head", "this rule has no head", c.start, c.end, help=help)
    if c.kind == ".":
        help = "only facts, rules, `.deny` and `.rule` end with `.`"
        c.fail("unexpected-token", "unexpected `.`", c.start, c.end, help=help)
    c.unexpected("a fact, a rule or a directive")


# ---- declarations -----------------------------------------------------------------------------


def _declaration(c: Cursor) -> Sequence[ast.Item]:
    """`.decl a, b(x: t, …) key(x) …`: one declaration for each name; the old words `input` and `output` become
    directives."""
    c.advance()
    names = separated(c, lambda c: relation_name(c, "the name of a relation"))
    if c.kind == "=":
        c.give_up(hints.DELTA, c.start, c.end)
    if c.kind != "(":
        c.unexpected("`(` and the columns", help="declare a relation without columns as `r()`")
    attributes = tuple(listed(c, _attribute))
    words = qualifiers(c)
    span, keys, tuning, constraints = c.item_span(), tuple(words.keys), tuple(words.tuning), tuple(words.constraints)
    found: list[ast.Item] = [
        ast.Declaration(name, attributes, keys, tuning, constraints, words.part_of, words.choice, span=span)
        for name in names
    ]
    return found + [ast.Directive(kind, name, span=span) for kind in words.io for name in names]


def _functor(c: Cursor) -> Sequence[ast.Item]:
    """`.functor f(x: number, y: symbol): number pure`; in Soufflé the parameters have no names."""
    c.advance()
    name = c.take("name", "the name of a function")
    if c.kind != "(":
        c.unexpected("`(` and the types of the arguments")
    parameters = tuple(listed(c, _parameter))
    c.take(":", "`:` and the type of the value")
    result = _type_name(c)
    kind, revision = c.text, 0
    explicit = kind in ("stateful", "pure", "fold") and not c.at_margin()
    if explicit:
        c.advance()
        if c.kind == "(":
            (revision,) = listed(c, _size, empty=False)[:1]
    stateful, fold = explicit and kind == "stateful", explicit and kind == "fold"
    return [ast.FunctorDeclaration(name, parameters, result, stateful, revision, fold, span=c.item_span())]


def _parameter(c: Cursor) -> ast.Attribute:
    start = c.start
    if c.peek()[0] == ":":
        name = c.take("name", "the name of a parameter")
        c.advance()
        return ast.Attribute(name, _type_name(c), span=c.span(start))
    return ast.Attribute("x", _type_name(c), span=c.span(start))


def _attribute(c: Cursor) -> ast.Attribute:
    start = c.start
    name = c.take("name", "the name of a column")
    c.take(":", "`:` and the type")
    lattice = ""
    if c.text in hints.SET_LATTICES and c.peek()[0] == "name":
        c.give_up(hints.SET_LATTICES[c.text], c.start, c.end)
    if c.text in LATTICES and c.peek()[0] == "name":
        lattice = c.text
        c.advance()
    return ast.Attribute(name, _type_name(c), lattice, span=c.span(start))


def _type_name(c: Cursor) -> ast.TypeName:
    """`symbol`, `decimal(10,2)?`. The `?` is usually part of the token, since a name may end in `?`."""
    start = c.start
    if not c.text.strip("?"):
        c.unexpected("a type")
    name = qualified_name(c, "a type")
    nullable = name.endswith("?")
    sizes: tuple[int, ...] = ()
    if c.kind == "(" and not nullable:
        sizes = tuple(listed(c, _size))
    if c.text == "?" and not nullable:
        nullable = True
        c.advance()
    if c.kind == "<>":
        c.give_up(hints.DIRECTIVES[".lattice"], c.start, c.end)
    return ast.TypeName(name.rstrip("?"), sizes, nullable, span=c.span(start))


def _size(c: Cursor) -> int:
    start = c.start
    spelling = c.take("number", "a number")
    if not spelling.isdecimal() or len(spelling) > 4:
        help = "write `decimal(precision,scale)`, as in `decimal(10,2)`"
        c.fail("malformed-number", "not a valid type size", start, c.last, help=help)
    return int(spelling)


# ---- types, files, views ----------------------------------------------------------------------


def _type_declaration(c: Cursor) -> Sequence[ast.Item]:
    """`.type T <: B`, `.type T = A | B`, and Soufflé's older spellings."""
    old = {".number_type": "number", ".symbol_type": "symbol"}.get(c.text)
    c.advance()
    name = qualified_name(c, "the name of a type")
    equivalent = c.kind == "="
    if old or c.kind not in ("<:", "="):
        if not old and not (c.kind in ("end", "directive") or c.starts_line() or begins_clause(c)):
            c.unexpected("`<:` or `=`")
        return [ast.TypeDeclaration(name, (ast.TypeName(old or "symbol"),), span=c.item_span())]
    c.advance()
    if equivalent and (branches := _branches(c)):
        return [ast.TypeDeclaration(name, (), True, branches, span=c.item_span())]
    bases = separated(c, _type_name, "|") if equivalent else [_type_name(c)]
    return [ast.TypeDeclaration(name, tuple(bases), equivalent, span=c.item_span())]


def _branches(c: Cursor) -> tuple[ast.BranchDeclaration, ...]:
    """`[x: number, …]`, or `A { x: number } | B { } | …`; empty if types follow instead."""
    if c.kind == "[":
        return (_branch(c, "[", "]"),)
    if c.kind != "name" or c.peek()[0] != "{":
        return ()
    return tuple(separated(c, lambda c: _branch(c, "{", "}"), "|"))


def _branch(c: Cursor, opening: str, closing: str) -> ast.BranchDeclaration:
    start = c.start
    name = c.take("name", "the name of a branch") if opening == "{" else ""
    opened = c.start
    c.take(opening, f"`{opening}` and the fields")
    fields: list[ast.Attribute] = []
    while c.kind != closing:
        fields.append(_attribute(c))
        if c.kind != ",":
            break
        c.advance()
    c.take(closing, f"`,` or `{closing}`", opened=opened)
    return ast.BranchDeclaration(name, tuple(fields), span=c.span(start))


def _files(c: Cursor) -> Sequence[ast.Item]:
    """`.input a, b(key="value", …)`: one directive for each relation, with the same parameters."""
    kind = c.text[1:]
    c.advance()
    if c.kind == "*":
        c.give_up(hints.EVERY_RELATION, c.start, c.end)
    names = separated(c, lambda c: qualified_name(c, "the name of a relation"))
    parameters = tuple(listed(c, _pair)) if c.kind == "(" else ()
    return [ast.Directive(kind, name, parameters, span=c.item_span()) for name in names]


def _view(c: Cursor) -> Sequence[ast.Item]:
    c.advance()
    name = qualified_name(c, "the name of a view")
    chosen = _options(c)
    if c.kind == "name" and not c.starts_line() and not begins_clause(c):
        c.unexpected("`option=value`", help="options are `strategy=…`, `materialized=…` and `policy=…`")
    return [ast.ViewDirective(name, chosen, span=c.item_span())]


# ---- accepted and ignored, or refused ---------------------------------------------------------


def _pragma(c: Cursor) -> Sequence[ast.Item]:
    c.advance()
    words = [_quoted(c)]
    if c.kind == "string":
        words.append(_quoted(c))
    return [ast.Ignored(f".pragma {' '.join(words)}", span=c.item_span())]


def _quoted(c: Cursor) -> str:
    start = c.start
    return quoted(text_of(c, c.take("string", "quoted text"), start))


def _plan(c: Cursor) -> Sequence[ast.Item]:
    """`.plan 0:(1,2), 1:(2,1)`."""
    c.advance()
    return [ast.Ignored(f".plan {', '.join(separated(c, _order))}", span=c.item_span())]


def _order(c: Cursor) -> str:
    version = c.take("number", "a number")
    c.take(":")
    return f"{version}:({','.join(listed(c, lambda c: c.take('number', 'a number')))})"


def _limit(c: Cursor) -> Sequence[ast.Item]:
    """`.limitsize r(n=100)`"""
    c.advance()
    name = qualified_name(c, "the name of a relation")
    parameters = ", ".join(f"{key}={value}" for key, value in listed(c, _pair))
    return [ast.Ignored(f".limitsize {name}({parameters})", span=c.item_span())]


def _foreign_line(c: Cursor) -> NoReturn:
    if c.kind == "%":
        c.fail("unexpected-token", "unexpected `%`", c.start, c.end, help="comments start with `//`")
    c.unexpected("an item")


def _refused(c: Cursor) -> Sequence[ast.Item]:
    hint, start, end = hints.DIRECTIVES[c.text], c.start, c.end
    c.advance()
    c.give_up(hint, start, end)


def _unknown(c: Cursor) -> Sequence[ast.Item]:
    start = c.start
    c.advance()
    word = c.text
    if word in DIRECTIVES:
        c.fail("unexpected-token", f"a space is missing after `.{word}`", start, c.end)
    help = did_you_mean(f".{word}", _DIRECTIVES) or f"known are {', '.join(f'`{name}`' for name in _DIRECTIVES)}"
    c.fail("unknown-directive", f"unknown directive `.{shown(word)}`", start, c.end, help=help)


# ---- components ----------------------------------------------------------------------------------------------


def _component(c: Cursor) -> Sequence[ast.WrittenItem]:
    """`.comp Name<T, …> : Base<T>, … { items }`"""
    start = c.start
    c.enter(6)
    c.advance()
    depth = c.depth
    name = c.take("name", "the name of a component")
    parameters = tuple(each.name for each in _types(c))
    bases: list[ast.ComponentUse] = []
    while c.kind in (":", ",") and (bases or c.kind == ":"):
        c.advance()
        bases.append(_use(c))
    span, opened = c.span(start), c.start
    c.take("{", "`{` and the items of the component")
    found = items(c, closed_by="}")
    c.take("}", "an item or `}`", opened=opened)
    c.depth = depth
    c.leave(6)
    return [ast.Component(name, parameters, tuple(bases), found, span=span)]


def _instance(c: Cursor) -> Sequence[ast.WrittenItem]:
    """`.init name = Component<A, …>`"""
    c.advance()
    name = c.take("name", "the name of an instance")
    c.take("=", "`=` and a component")
    used = _use(c)
    return [ast.ComponentInstance(name, used, span=c.item_span())]


def _override(c: Cursor) -> Sequence[ast.WrittenItem]:
    """`.override relation`"""
    c.advance()
    return [ast.Override(relation_name(c, "the name of a relation"), span=c.item_span())]


def _use(c: Cursor) -> ast.ComponentUse:
    start = c.start
    name = qualified_name(c, "the name of a component")
    return ast.ComponentUse(name, _types(c), span=c.span(start))


def _types(c: Cursor) -> tuple[ast.TypeName, ...]:
    """`<A, B>`, or nothing."""
    if c.kind != "<":
        return ()
    opened = c.start
    c.advance()
    found = separated(c, _type_name)
    c.take(">", "`,` or `>`", opened=opened)
    return tuple(found)


_Reader = Callable[[Cursor], Sequence[ast.WrittenItem]]
_DIRECTIVES: Mapping[str, _Reader] = {
    ".decl": _declaration,
    ".type": _type_declaration,
    ".input": _files,
    ".output": _files,
    ".printsize": _files,
    ".view": _view,
    ".deny": _deny,
    ".rule": _active_rule,
    ".activate": _activation,
    ".deactivate": _activation,
    ".plan": _plan,
    ".pragma": _pragma,
    ".limitsize": _limit,
    ".functor": _functor,
    ".comp": _component,
    ".init": _instance,
    ".override": _override,
}
_READERS: Mapping[str, _Reader] = {
    **_DIRECTIVES,
    ".number_type": _type_declaration,
    ".symbol_type": _type_declaration,
    ".": _unknown,
    "#": _foreign_line,
    "%": _foreign_line,
    **dict.fromkeys(hints.DIRECTIVES, _refused),
}


# ---- phrases that items share --------------------------------------------------------------------------------


def _end_clause(c: Cursor, expected: str, *, help: str = "") -> None:
    """Take the `.`; where the next item begins without one, report it as missing and keep the clause."""
    if c.kind == "." and not (c.starts_line() and c.follows_name()):
        c.advance()
    elif c.kind in (".", "end", "directive") or (c.kind == "name" and c.at_margin()):
        message, label, help = "this clause has no end", "`.` missing", "end it with `.`"
        c.report("missing-period", message, c.last, c.last, label=label, help=help)
    else:
        c.unexpected(expected, help=help)


def _pair(c: Cursor) -> tuple[str, str]:
    """`key=value`."""
    key = c.take("name", "the name of an option")
    c.take("=")
    return key, _option_value(c)


def _option_value(c: Cursor) -> str:
    start, sign = c.start, ""
    if c.kind == "-":
        sign = "-"
        c.advance()
        if c.kind != "number":
            c.unexpected("a number")
    if c.kind not in ("name", "number", "string"):
        c.unexpected("a value", help="a value is a word, a number or quoted text")
    kind, spelling = c.kind, c.text
    c.advance()
    return text_of(c, spelling, start) if kind == "string" else sign + spelling


def _options(c: Cursor) -> tuple[tuple[str, str], ...]:
    found = []
    while c.kind == "name" and c.peek()[0] == "=":
        found.append(_pair(c))
    return tuple(found)
