"""Variables of terms and literals, fresh names, and traversals without recursion."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

from upshot.syntax.ast import (
    Aggregate,
    And,
    Atom,
    Call,
    Comparison,
    Formula,
    Not,
    Or,
    Term,
    Test,
    Variable,
    subterms,
)

T = TypeVar("T")


def variables(node: Formula | Term, *, inside_aggregates: bool = True) -> tuple[str, ...]:
    """The names of the variables in a literal, formula or term, in order of first appearance.

    >>> variables(Atom("edge", (Variable("Y"), Variable("X"), Variable("Y"))))
    ('Y', 'X')
    """
    return tuple(dict.fromkeys(v.name for v in occurrences(node, inside_aggregates=inside_aggregates)))


def occurrences(node: Formula | Term, *, inside_aggregates: bool = True) -> Iterator[Variable]:
    """Every occurrence of a variable, from left to right."""
    if isinstance(node, Variable):
        return iter((node,))
    return (n for n in walk(node, inside_aggregates=inside_aggregates) if isinstance(n, Variable))


def atoms(node: Formula | Term) -> Iterator[Atom]:
    """Every atom of a formula, aggregate bodies included, from left to right."""
    return (n for n in walk(node) if isinstance(n, Atom))


def walk(node: Formula | Term, *, inside_aggregates: bool = True) -> Iterator[Formula | Term]:
    """The node and its descendants in preorder, without recursion."""
    stack: list[Formula | Term] = [node]
    while stack:
        current = stack.pop()
        yield current
        match current:
            case Atom() | Test() | Call():
                stack.extend(reversed(current.args))
            case Comparison():
                stack += (current.right, current.left)
            case Not():
                stack.append(current.body)
            case And() | Or():
                stack.extend(reversed(current.parts))
            case Aggregate() if inside_aggregates:
                stack.append(current.body)
                if current.target is not None:
                    stack.append(current.target)
            case _:
                pass


def terms_of(literal: Formula) -> tuple[Term, ...]:
    """The arguments or operands of a literal; none of a conjunction or disjunction."""
    body: Formula = literal
    while isinstance(body, Not):
        body = body.body
    if isinstance(body, Comparison):
        return (body.left, body.right)
    return body.args if isinstance(body, Atom | Test) else ()


def fold(term: Term, visit: Callable[[Term, tuple[T, ...]], T]) -> T:
    """Fold a term bottom-up: `visit` takes a term and its results for the arguments; no recursion.

    >>> from upshot.syntax.ast import Constant
    >>> fold(Call("+", (Constant(1), Constant(2))), lambda t, parts: sum(parts) if parts else t.value)
    3
    """
    if not isinstance(term, Call):
        return visit(term, ())
    done: list[T] = []
    for current in reversed(list(subterms(term))):
        if isinstance(current, Call):
            parts = tuple(done.pop() for _ in current.args)
            done.append(visit(current, parts))
        else:
            done.append(visit(current, ()))
    return done[0]


def fresh_name(base: str, taken: Collection[str]) -> str:
    """`base`, or `base` with the smallest number that makes it a new name.

    >>> fresh_name("aux", {"aux", "aux_1"})
    'aux_2'
    """
    if base not in taken:
        return base
    number = 1
    while f"{base}_{number}" in taken:
        number += 1
    return f"{base}_{number}"


def all_names(nodes: Iterable[Formula | Term]) -> set[str]:
    """The names of all variables in the nodes."""
    return {v.name for node in nodes for v in occurrences(node)}
