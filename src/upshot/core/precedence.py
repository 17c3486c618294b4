"""Directed graphs of names: reachable nodes, orders of precedence, and cycles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def reachable(start: Iterable[Node], successors: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """The nodes that paths from `start` lead to, those of `start` included.

    >>> sorted(reachable([1], {1: [2], 2: [1], 3: [1]}.__getitem__))
    [1, 2]
    """
    found = set(start)
    pending = list(found)
    while pending:
        new = set(successors(pending.pop())) - found
        found |= new
        pending += new
    return found


def circle(after: Mapping[str, Collection[str]]) -> list[str]:
    """The names of one cycle, each before the next and the last before the first; empty if there is none. `after` maps
    every name to those that must follow it.

    >>> circle({"a": ["b"], "b": ["a"], "c": ["a"]})
    ['a', 'b']
    """
    sorter = TopologicalSorter[str]()
    for name, followers in after.items():
        for follower in sorted(followers):
            sorter.add(follower, name)
    try:
        sorter.prepare()
    except CycleError as error:
        found: list[str] = error.args[1][:-1]
        start = found.index(next(name for name in after if name in found))
        return found[start:] + found[:start]
    return []


def all_after(after: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """The names that follow each name, directly or indirectly."""
    return {name: reachable(after[name], after.__getitem__) for name in after}
