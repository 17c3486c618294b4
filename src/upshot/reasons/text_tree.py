"""Trees as indented text in two columns, and as JSON of any depth."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Node = TypeVar("Node")

WIDEST = 64
"""The widest first column; a longer line moves its note to the right."""


@dataclass(frozen=True, slots=True)
class Line:
    statement: str
    note: str = ""


def text_tree(
    root: Node, line: Callable[[Node], Line], below: Callable[[Node], Sequence[Node]], depth: int | None = None
) -> str:
    """The tree, one line for each node. A part that was shown before is only named.

    >>> print(text_tree("ab", lambda node: Line(node, "both" if len(node) > 1 else "one"), lambda node: node[1:]))
    ab    both
    └─ b  one
    """
    shown: set[int] = set()
    lines: list[tuple[str, str]] = []
    pending: list[tuple[Node, str, str, int]] = [(root, "", "", 0)]
    while pending:
        node, first, rest, level = pending.pop()
        text, inside = line(node), below(node)
        note = text.note
        if inside and id(node) in shown:
            note, inside = "as above", ()
        elif inside and depth is not None and level >= depth:
            note, inside = f"{note}  …".strip(), ()
        shown.add(id(node))
        lines.append((first + text.statement, note))
        last = len(inside) - 1
        pending.extend(
            (each, rest + ("└─ " if place == last else "├─ "), rest + ("   " if place == last else "│  "), level + 1)
            for place, each in reversed(list(enumerate(inside)))
        )
    width = max((len(statement) for statement, _ in lines if len(statement) <= WIDEST), default=WIDEST)
    return "\n".join(f"{statement:<{width}}  {note}".rstrip() for statement, note in lines)


def json_tree(tree: dict[str, Any], *fields: str) -> str:
    """The tree as JSON; `fields` name the fields that hold the lists of nodes below a node.

    >>> json_tree({"a": 1, "b": [{"a": 2}, {"a": 3, "b": [{"a": 4}]}]}, "b")
    '{"a": 1, "b": [{"a": 2}, {"a": 3, "b": [{"a": 4}]}]}'
    """
    parts: list[str] = []
    pending: list[dict[str, Any] | str] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            parts.append(node)
            continue
        inside = next((each for each in fields if each in node), None)
        own = json.dumps({key: value for key, value in node.items() if key != inside}, ensure_ascii=False)
        if inside is None:
            parts.append(own)
            continue
        parts.append(f"{own[:-1]}, {json.dumps(inside)}: [")
        pending.append("]}")
        for place, each in reversed(list(enumerate(node[inside]))):
            pending.append(each)
            pending.extend([", "] * bool(place))
    return "".join(parts)
