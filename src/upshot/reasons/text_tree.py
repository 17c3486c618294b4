"""Trees as indented text in two columns, and as JSON deeper than Python's own writer goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Node = TypeVar("Node")

WIDEST = 64
"""Of the first column; what is longer pushes its note aside."""


@dataclass(frozen=True, slots=True)
class Line:
    statement: str
    note: str = ""


def text_tree(
    root: Node, line: Callable[[Node], Line], below: Callable[[Node], Sequence[Node]], depth: int | None = None
) -> str:
    """The tree, a line a node. A part that was shown before is named again without what is below it.

    >>> print(text_tree("ab", lambda node: Line(node, "both" if len(node) > 1 else "one"), lambda node: node[1:]))
    ab    both
    └─ b  one
    """
    shown: set[int] = set()
    lines: list[tuple[str, str]] = []
    left: list[tuple[Node, str, str, int]] = [(root, "", "", 0)]
    while left:
        node, first, rest, level = left.pop()
        said, inside = line(node), below(node)
        note = said.note
        if inside and id(node) in shown:
            note, inside = "as above", ()
        elif inside and depth is not None and level >= depth:
            note, inside = f"{note}  …".strip(), ()
        shown.add(id(node))
        lines.append((first + said.statement, note))
        last = len(inside) - 1
        left.extend(
            (each, rest + ("└─ " if place == last else "├─ "), rest + ("   " if place == last else "│  "), level + 1)
            for place, each in reversed(list(enumerate(inside)))
        )
    width = max((len(statement) for statement, _ in lines if len(statement) <= WIDEST), default=WIDEST)
    return "\n".join(f"{statement:<{width}}  {note}".rstrip() for statement, note in lines)


def written(tree: dict[str, Any], *fields: str) -> str:
    """The tree as JSON; the one of these fields that a node has, if it has one, holds the list of those below it.

    >>> written({"a": 1, "b": [{"a": 2}, {"a": 3, "b": [{"a": 4}]}]}, "b")
    '{"a": 1, "b": [{"a": 2}, {"a": 3, "b": [{"a": 4}]}]}'
    """
    parts: list[str] = []
    left: list[dict[str, Any] | str] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, str):
            parts.append(node)
            continue
        inside = next((each for each in fields if each in node), None)
        own = json.dumps({key: value for key, value in node.items() if key != inside}, ensure_ascii=False)
        if inside is None:
            parts.append(own)
            continue
        parts.append(f"{own[:-1]}, {json.dumps(inside)}: [")
        left.append("]}")
        for place, each in reversed(list(enumerate(node[inside]))):
            left.append(each)
            left.extend([", "] * bool(place))
    return "".join(parts)
