"""Constraints, active rules and for what they are active: `.deny`, `.rule`, `.activate` and `.deactivate`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn

from upshot.core.diagnostic import did_you_mean
from upshot.core.types import FLOAT
from upshot.syntax.ast import (
    Action,
    Activation,
    ActiveRule,
    Call,
    Constant,
    Deny,
    DenyPolicy,
    Event,
    Item,
    Term,
    Wildcard,
)
from upshot.syntax.bodies import arguments, atom, formula, term
from upshot.syntax.cursor import Cursor
from upshot.syntax.phrases import end_clause, options
from upshot.syntax.qualifiers import listed


def deny(c: Cursor) -> Sequence[Item]:
    """`.deny name(X) :- body.`, or `.deny name on_violation=warn`."""
    c.advance()
    head = atom(c, "the name of a constraint")
    if c.kind == "name" and not head.args and c.peek()[0] == "=":
        return [DenyPolicy(head.relation, options(c), span=c.item_span())]
    if c.kind != ":-":
        c.unexpected("`:-` and what must not hold", help="write a policy as `.deny name on_violation=warn`")
    c.advance()
    body = formula(c)
    end_clause(c, "`,`, `;` or `.`")
    return [Deny(head, body, span=c.item_span())]


def active_rule(c: Cursor) -> Sequence[Item]:
    """`.rule name(params) option=value on event when condition do action, ….`"""
    c.advance()
    name = c.take("name", "the name of a rule")
    parameters: tuple[Term, ...] = arguments(c) if c.kind == "(" else ()
    given = options(c)
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
    actions = [_action(c)]
    while c.kind == ",":
        c.advance()
        actions.append(_action(c))
    end_clause(c, "`,` or `.`")
    return [ActiveRule(name, parameters, given, event, condition, tuple(actions), span=c.item_span())]


def activation(c: Cursor) -> Sequence[Item]:
    """`.activate name(X = value, …)` or `.deactivate name`; without values, for all."""
    active = c.text == ".activate"
    c.advance()
    name = c.take("name", "the name of a rule")
    bindings = tuple(listed(c, _binding)) if c.kind == "(" else ()
    wild = sum(isinstance(value, Wildcard) for _, value in bindings)
    if wild and not (active and wild == len(bindings)):
        c.fail(
            "not-a-constant",
            "`_` stands for values that the database keeps, in `.activate`, for all parameters listed",
            c.item_span().start,
            c.last,
            help="give every parameter a value, or `_` to each",
        )
    return [Activation(name, bindings, active, span=c.item_span())]


def _binding(c: Cursor) -> tuple[str, Constant | Wildcard]:
    """`parameter = value`, or `parameter = _`."""
    if c.kind != "name":
        c.unexpected("a parameter of the rule", help='name it, as in `.activate reorder(I = "nail")`')
    parameter = c.take("name")
    c.take("=", "`=` and a value", opened=-1)
    start = c.start
    value = _folded(term(c))
    if not isinstance(value, Constant | Wildcard):
        help = "give a number, quoted text or another constant"
        c.fail("not-a-constant", f"`{parameter}` needs a constant", start, c.last, help=help)
    return parameter, value


def _folded(value: Term) -> Term:
    """Infinity and NaN, which have no literal and are written as quotients: `1.0 / 0.0`."""
    match value:
        case Call("/", (Constant(float(upper)), Constant(0.0))):
            return Constant(math.nan if upper == 0 else math.copysign(math.inf, upper), FLOAT, span=value.span)
    return value


def _refuse_phrase(c: Cursor, wanted: str) -> NoReturn:
    help = did_you_mean(c.text, ("on", "when", "do")) if c.kind == "name" else ""
    c.unexpected(wanted, help=help or "a rule reads `.rule name(X) on … when … do ….`")


def _event(c: Cursor) -> Event:
    c.advance()
    start = c.start
    kind = _word(c, ("insert", "delete", "update", "change"))
    return Event(kind, atom(c), span=c.span(start))


def _action(c: Cursor) -> Action:
    start = c.start
    kind = _word(c, ("insert", "delete", "call"))
    return Action(kind, atom(c), span=c.span(start))


def _word(c: Cursor, words: tuple[str, ...]) -> str:
    if c.text not in words:
        *most, last = (f"`{word}`" for word in words)
        c.unexpected(f"{', '.join(most)} or {last}", help=did_you_mean(c.text, words))
    word = c.text
    c.advance()
    return word
