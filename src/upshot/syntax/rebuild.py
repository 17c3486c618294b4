"""Trees made again with other spans or names; nodes that do not change are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

from upshot.syntax.ast import SyntaxNode

N = TypeVar("N", bound=SyntaxNode)


def rebuilt(node: N, change: Callable[[SyntaxNode], SyntaxNode]) -> N:
    """The tree with `change` applied to every node, the innermost first."""
    values: dict[str, Any] = {}
    for each in fields(node):
        if each.name == "span":
            continue
        old = getattr(node, each.name)
        new = _value(old, change)
        if new is not old:
            values[each.name] = new
    changed = change(replace(node, **values) if values else node)
    return changed  # type: ignore[return-value]


def _value(value: Any, change: Callable[[SyntaxNode], SyntaxNode]) -> Any:
    if isinstance(value, SyntaxNode):
        return rebuilt(value, change)
    if isinstance(value, tuple):
        made = tuple(_value(each, change) for each in value)
        return made if any(new is not old for new, old in zip(made, value, strict=True)) else value
    return value
