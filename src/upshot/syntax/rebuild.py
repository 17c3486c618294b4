"""Map a function over a tree; unchanged nodes are shared with the original."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from upshot.syntax.ast import Atom, Formula, SyntaxNode

N = TypeVar("N")


def rebuilt(root: N, visit: Callable[[Any], Any]) -> N:
    """Replace every node by `visit(node)`, children before their parents.

    It needs no recursion, since trees can be deeper than Python's stack.

    >>> from upshot.syntax.ast import Atom, Variable
    >>> rebuilt(Atom("edge", (Variable("X"),)), lambda n: Variable("Y") if isinstance(n, Variable) else n)
    Atom(relation='edge', args=(Variable(name='Y'),), state='')
    """
    made: dict[int, Any] = {}
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:
        node, has_children = waiting.pop()
        children = _children(node)
        if has_children:
            changed = _with_children(node, children, made)
            made[id(node)] = visit(changed) if isinstance(changed, SyntaxNode) else changed
        else:
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(children.values()))
    found: N = made[id(root)]
    return found


def map_atoms(root: N, change: Callable[[Atom], Formula]) -> N:
    """Replace every atom of a formula, those in aggregates too."""
    return rebuilt(root, lambda node: change(node) if isinstance(node, Atom) else node)


def _children(node: Any) -> dict[Any, Any]:
    if isinstance(node, tuple):
        return dict(enumerate(node))
    if not isinstance(node, SyntaxNode):
        return {}
    found = {}
    for name in _names(type(node)):
        value = getattr(node, name)
        if isinstance(value, _INNER):
            found[name] = value
    return found


_INNER = (SyntaxNode, tuple)


_NAMES: dict[type, tuple[str, ...]] = {}


def _names(kind: type) -> tuple[str, ...]:
    """The fields of a kind of node that can hold nodes."""
    if kind not in _NAMES:
        _NAMES[kind] = tuple(each.name for each in fields(kind) if each.name != "span") if is_dataclass(kind) else ()
    return _NAMES[kind]


def _with_children(node: Any, children: dict[Any, Any], made: dict[int, Any]) -> Any:
    changed = {name: made[id(child)] for name, child in children.items() if made[id(child)] is not child}
    if not changed:
        return node
    return tuple(made[id(each)] for each in node) if isinstance(node, tuple) else replace(node, **changed)
