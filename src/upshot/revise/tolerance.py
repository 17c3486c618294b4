"""Between which bounds the value of an aggregate may move without a difference to a derivation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upshot.check.names.variables import variables
from upshot.check.program import Literal
from upshot.core.types import Kind, Type
from upshot.reasons.search import Instance
from upshot.revise.request import Key
from upshot.revise.spans import ANY, Span, Spans, around, common, compared, mirrored, point, shifted
from upshot.revise.term_values import UNKNOWN, value_of
from upshot.syntax.ast import Atom, Call, Comparison, Term, Variable

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


@dataclass(frozen=True, slots=True)
class Moved:
    """What is computed from a value: the value or what it lacks to 0, and something more."""

    is_negative: bool = False
    more: Any = 0

    def back(self, spans: Spans) -> Spans:
        """The values for which what is computed lies in the spans."""
        found = shifted(spans, -self.more) if self.more else spans
        return mirrored(found) if self.is_negative else found

    def plus(self, more: Any) -> Moved:
        return Moved(self.is_negative, self.more + more)

    def negative(self) -> Moved:
        return Moved(not self.is_negative, -self.more)


Names = dict[str, Moved]
"""The variables that move with a value."""


def wished(variable: str, literals: Sequence[Literal], known: Mapping[str, Any], types: Mapping[str, Type]) -> Spans:
    """The values that comparisons of a variable, or of what is computed from it, with what is known leave to it."""
    names = _moved({variable: Moved()}, literals, known, types)
    spans = ANY
    for each in literals:
        if isinstance(each, Comparison) and not names.keys().isdisjoint(variables(each)):
            spans = common(spans, _allowed(names, each, known, types) or ANY)
    return spans


def _moved(start: Names, literals: Sequence[Literal], known: Mapping[str, Any], types: Mapping[str, Type]) -> Names:
    """The variables that equations compute from those that move, with them."""
    names, size = dict(start), 0
    while len(names) != size:
        size = len(names)
        for each in literals:
            for side, other in _sides(each):
                if isinstance(side, Variable) and side.name not in names and isinstance(other, Call):
                    made = _computed(other, names, known, types)
                    if made is not None and types[side.name].kind in (Kind.NUMBER, Kind.DECIMAL):
                        names[side.name] = made
    return names


def _sides(literal: Literal) -> Iterator[tuple[Term, Term]]:
    if isinstance(literal, Comparison) and literal.op == "=":
        yield literal.left, literal.right
        yield literal.right, literal.left


def _computed(term: Call, names: Names, known: Mapping[str, Any], types: Mapping[str, Type]) -> Moved | None:
    """How a sum or difference moves with one of its terms, if the other is known."""
    moving = [place for place, arg in enumerate(term.args) if not names.keys().isdisjoint(variables(arg))]
    if len(moving) != 1 or not isinstance(arg := term.args[moving[0]], Variable):
        return None
    rest = [value_of(each, known, types) for place, each in enumerate(term.args) if place != moving[0]]
    if UNKNOWN in rest or None in rest:
        return None
    match term.function, moving[0], rest:
        case "neg", _, []:
            return names[arg.name].negative()
        case "+", _, [more]:
            return names[arg.name].plus(more)
        case "-", 0, [less]:
            return names[arg.name].plus(-less)
        case "-", 1, [whole]:
            return names[arg.name].negative().plus(whole)
        case _:
            return None


def _allowed(names: Names, comparison: Comparison, known: Mapping[str, Any], types: Mapping[str, Type]) -> Spans | None:
    """The values for which a comparison holds; None if that is not known."""
    for side, other, op in (
        (comparison.left, comparison.right, comparison.op),
        (comparison.right, comparison.left, _MIRRORED[comparison.op]),
    ):
        if isinstance(side, Variable) and side.name in names and names.keys().isdisjoint(variables(other)):
            value = value_of(other, known, types)
            if value is not UNKNOWN and value is not None and value == value:
                return names[side.name].back(compared(op, value, types[side.name]))
    return None


def tolerated(instances: Sequence[Instance], leaf: Key, root: Key) -> tuple[Span, int | None]:
    """The values around that of an aggregate with which the derivation of the root, made of these instances, would be
    one as well; and the column of the root in which the value is then found, if it is in one."""
    value, spans, moved = leaf[1][-1], ANY, Moved()
    current, place = leaf, len(leaf[1]) - 1
    if leaf == root:
        return Span(), place
    while True:
        users = [each for each in instances if current in each.premises]
        step = _passed_on(users[0], current, place, moved) if len(users) == 1 else None
        if step is None:
            return point(value), None
        found, places = step
        spans = common(spans, found)
        if not places:
            return around(spans, value), None
        if len(places) > 1:
            return point(value), None
        current = users[0].head
        ((place, moved),) = places
        if current == root:
            return (around(spans, value), place) if moved == Moved() else (point(value), None)


def _passed_on(user: Instance, row: Key, place: int, moved: Moved) -> tuple[Spans, list[tuple[int, Moved]]] | None:
    """How a rule uses one value of a row: between what bounds, in which columns of its head; None if it has another use
    for it."""
    known, types = user.rule.values(user.binding), user.rule.types
    atoms = [each for each in user.rule.body if isinstance(each, Atom) and _names(each, row, known)]
    if len(atoms) != 1 or not isinstance(term := atoms[0].args[place], Variable):
        return None
    if sum(each == term for each in atoms[0].args) > 1:
        return None
    rest = [each for each in user.rule.body if each is not atoms[0]]
    names, spans = _moved({term.name: moved}, rest, known, types), ANY
    for literal in rest:
        if names.keys().isdisjoint(variables(literal)) or _defines(literal, names, known, types):
            continue
        found = _allowed(names, literal, known, types) if isinstance(literal, Comparison) else None
        if found is None:
            return None
        spans = common(spans, found)
    head = user.rule.clause.head.args
    return spans, [(at, names[t.name]) for at, t in enumerate(head) if isinstance(t, Variable) and t.name in names]


def _defines(literal: Literal, names: Names, known: Mapping[str, Any], types: Mapping[str, Type]) -> bool:
    """Whether the literal is an equation that computes a variable that moves."""
    return any(
        isinstance(side, Variable)
        and isinstance(other, Call)
        and side.name in names
        and side.name not in variables(other)
        and _computed(other, names, known, types) == names[side.name]
        for side, other in _sides(literal)
    )


def _names(atom: Atom, row: Key, known: Mapping[str, Any]) -> bool:
    """Whether the atom stands for this row in an instance."""
    if atom.relation != row[0]:
        return False
    return all(value_of(term, known, {}) == value for term, value in zip(atom.args, row[1], strict=True))
