"""Partial orders of names: their cycles, and their transitive closure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter


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
    found: dict[str, set[str]] = {}
    for name in after:
        reached: set[str] = set()
        waiting = list(after[name])
        while waiting:
            each = waiting.pop()
            if each not in reached:
                reached.add(each)
                waiting.extend(after[each])
        found[name] = reached
    return found
