"""For what rules are active, as items of the program: however often rules are switched, the text does not grow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from upshot.syntax import print_item
from upshot.syntax.ast import Activation, Item


def settled(items: Iterable[Item]) -> tuple[Item, ...]:
    """The items with the activations of each rule replaced by those that say the same in the shortest way.

    `.activate r` and `.deactivate r` make all earlier ones void; a binding that is there is not added again, and one
    that is taken away goes. One that was never there stays, for `check` to refuse.
    """
    found: list[Item] = []
    last: dict[str, list[Activation]] = {}
    for item in items:
        if isinstance(item, Activation):
            last[item.rule] = _after(last.get(item.rule, []), item)
        else:
            found.append(item)
    return (*found, *(item for each in last.values() for item in each))


def _after(earlier: list[Activation], item: Activation) -> list[Activation]:
    if not item.bindings:
        return [item]
    bound = [each for each in earlier if each.bindings]
    same = [each for each in bound if each.active and _key(each) == _key(item)]
    if item.active:
        return bound if same else [*bound, item]
    if not same:
        return [*earlier, item]
    left = [each for each in bound if each not in same]
    return left or [replace(item, bindings=())]


def _key(item: Activation) -> tuple[str, ...]:
    """The bindings as text, in any order: Python takes 1, 1.0 and true for equal."""
    return tuple(sorted(print_item(replace(item, active=True, bindings=(each,))) for each in item.bindings))
