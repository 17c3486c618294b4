"""JSON of trees that are deeper than Python's own writer goes."""

from __future__ import annotations

import json
from typing import Any


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
