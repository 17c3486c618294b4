"""The items of components as written: `.comp`, `.init`, `.override`."""

from __future__ import annotations

from collections.abc import Callable

from upshot.syntax.ast import Component, ComponentUse, Instance, Override, TypeName, WrittenItem
from upshot.syntax.bodies import qualified_name, relation_name
from upshot.syntax.cursor import Cursor

_ReadItems = Callable[[Cursor], tuple[WrittenItem, ...]]
_ReadType = Callable[[Cursor], TypeName]


def component(c: Cursor, read_items: _ReadItems, read_type: _ReadType) -> Component:
    """`.comp Name<T, …> : Base<T>, … { items }`"""
    start = c.start
    c.enter(6)
    c.advance()
    depth = c.depth
    name = c.take("name", "the name of a component")
    parameters = tuple(each.name for each in _types(c, read_type))
    bases: list[ComponentUse] = []
    while c.kind in (":", ",") and (bases or c.kind == ":"):
        c.advance()
        bases.append(_use(c, read_type))
    span, opened = c.span(start), c.start
    c.take("{", "`{` and the items of the component")
    found = read_items(c)
    c.take("}", "an item or `}`", opened=opened)
    c.depth = depth
    c.leave(6)
    return Component(name, parameters, tuple(bases), found, span=span)


def instance(c: Cursor, read_type: _ReadType) -> Instance:
    """`.init name = Component<A, …>`"""
    c.advance()
    name = c.take("name", "the name of an instance")
    c.take("=", "`=` and a component")
    used = _use(c, read_type)
    return Instance(name, used, span=c.item_span())


def override(c: Cursor) -> Override:
    """`.override relation`"""
    c.advance()
    return Override(relation_name(c, "the name of a relation"), span=c.item_span())


def _use(c: Cursor, read_type: _ReadType) -> ComponentUse:
    start = c.start
    name = qualified_name(c, "the name of a component")
    return ComponentUse(name, _types(c, read_type), span=c.span(start))


def _types(c: Cursor, read_type: _ReadType) -> tuple[TypeName, ...]:
    """`<A, B>`, or nothing."""
    if c.kind != "<":
        return ()
    opened = c.start
    c.advance()
    found = [read_type(c)]
    while c.kind == ",":
        c.advance()
        found.append(read_type(c))
    c.take(">", "`,` or `>`", opened=opened)
    return tuple(found)
