"""Orders of precedence, and the cycles in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def circle(after: Mapping[str, Collection[str]]) -> list[str]:
    """The names of one circle, each before the next and the last before the first; empty if there is none. `after` has
    for every name those that are to come after it."""
    before: dict[str, list[str]] = {name: [] for name in after}
    for name, followers in after.items():
        for follower in followers:
            before[follower].append(name)
    # Names that nothing waits for are removed until none is left; the rest is on a cycle or precedes one.
    left = {name: set(followers) for name, followers in after.items()}
    free = [name for name, followers in left.items() if not followers]
    while free:
        name = free.pop()
        del left[name]
        for earlier in before[name]:
            left[earlier].discard(name)
            if not left[earlier]:
                free.append(earlier)
    if not left:
        return []
    path = [next(iter(left))]
    while (following := min(left[path[-1]])) not in path:
        path.append(following)
    return path[path.index(following) :]


def all_after(after: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """For every name all that come after it, directly or by way of others."""
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
