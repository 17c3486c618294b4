"""Activations of rules as items of the program: however often rules are switched, the text does not grow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from upshot.check.active.activations import is_open, not_activated
from upshot.core.errors import DataError, ProgramError
from upshot.syntax import print_item
from upshot.syntax.ast import Activation, ActiveRule, Item, Wildcard

if TYPE_CHECKING:
    from upshot.check.program import CheckedRule
    from upshot.database.engines import Engine
    from upshot.database.program.compile import Compiled

Row = tuple[Any, ...]


def normalized(items: Iterable[Item]) -> tuple[Item, ...]:
    """The items with the activations of each rule reduced to the fewest with the same meaning.

    `.activate r` and `.deactivate r` replace all earlier ones; a present binding is not added again, and a deactivated
    one is removed. The deactivation of an absent binding stays, for `check` to refuse. An activation of a group is one
    for each of its rules.
    """
    found: list[Item] = []
    last: dict[str, list[Activation]] = {}
    known = list(items)
    groups = _groups(known) if any(isinstance(item, Activation) for item in known) else {}
    for item in known:
        if isinstance(item, Activation):
            for rule in groups.get(item.rule, (item.rule,)):
                last[rule] = _after(last.get(rule, []), replace(item, rule=rule))
        else:
            found.append(item)
    return (*found, *(item for each in last.values() for item in each))


def _groups(items: Iterable[Item]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in items:
        if isinstance(item, ActiveRule):
            for option, value in item.options:
                for name in value.split(",") if option == "group" else ():
                    found.setdefault(name.strip(), []).append(item.name)
    return found


def _after(earlier: list[Activation], item: Activation) -> list[Activation]:
    if not item.bindings:
        return [item]
    bound = [each for each in earlier if each.bindings]
    if is_open(item):
        return bound if _key(item) in map(_key, filter(is_open, bound)) else [*bound, item]
    same = [each for each in bound if each.active and _key(each) == _key(item)]
    if item.active:
        return bound if same else [*bound, item]
    if not same:
        return [*earlier, item]
    others = [each for each in bound if each not in same]
    return others or [replace(item, bindings=())]


def without_values(items: Iterable[Item]) -> tuple[Item, ...]:
    """The items with `X = _` in place of each value; the values are rows of the database."""
    found: list[Item] = []
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for item in items:
        if not isinstance(item, Activation) or not item.bindings:
            found.append(item)
            continue
        names = tuple(sorted(name for name, _ in item.bindings))
        if item.active and (item.rule, names) not in seen:
            seen.add((item.rule, names))
            found.append(replace(item, bindings=tuple((name, Wildcard()) for name in names)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class BindingRows:
    """The rows that a text inserts into and deletes from the tables of bindings. The tables of rules that are
    `restated`, or activated or deactivated as a whole, are replaced by its rows."""

    inserted: Mapping[str, Sequence[Row]]
    deleted: Mapping[str, Sequence[Row]]
    restated: frozenset[str] = frozenset()

    @staticmethod
    def of(rules: Sequence[CheckedRule], new: Sequence[Item]) -> BindingRows:
        """The activations of the rules in a text; `new` are its items."""
        inserted: dict[str, list[Row]] = {}
        deleted: dict[str, list[Row]] = {}
        for rule in rules:
            for bindings, found in ((rule.activations, inserted), (rule.deactivations, deleted)):
                for binding in bindings if rule.bindings else ():
                    table, row = binding_row(rule, binding)
                    found.setdefault(table, []).append(row)
        restated = {item.name for item in new if isinstance(item, ActiveRule)}
        whole = {item.rule for item in new if isinstance(item, Activation) and not item.bindings}
        restated |= {rule.name for rule in rules if not whole.isdisjoint((rule.name, *rule.groups))}
        return BindingRows(inserted, deleted, frozenset(restated))

    def stage(self, engine: Engine, old: Compiled, new: Compiled) -> None:
        """Stage the rows; `ProgramError` if a rule is deactivated for values for which it was not active."""
        for rule in new.checked.rules:
            for table in rule.bindings:
                known = old.checked.schemas.get(table.name)
                if known is not None and known.types != table.types and engine.size(table.name):
                    raise _other_types(rule, engine.size(table.name))
                rows = self.inserted.get(table.name, ())
                if rule.name in self.restated:
                    engine.replace(table.name, list(rows))
                elif rows:
                    engine.insert(table.name, list(rows))
                for row in self.deleted.get(table.name, ()):
                    if known is None or not engine.contains(table.name, row):
                        raise ProgramError([not_activated(rule, rule.span)])
                    engine.delete(table.name, [row])


def _other_types(rule: CheckedRule, rows: int) -> DataError:
    count = "1 binding" if rows == 1 else f"{rows:,} bindings"
    return DataError(
        f"rule `{rule.name}` is active for {count}, and its parameters would get other types",
        code="schema-change",
        span=rule.span,
        help=f"deactivate it first: `.deactivate {rule.name}`",
    )


def binding_row(rule: CheckedRule, binding: Mapping[str, object]) -> tuple[str, Row]:
    """The table of the rule's bindings with these parameters, and the row in it."""
    table = next(each for each in rule.bindings if {column.name for column in each.columns} == binding.keys())
    return table.name, tuple(binding[column.name] for column in table.columns)


def _key(item: Activation) -> tuple[str, ...]:
    """The bindings as text, in any order: in Python 1, 1.0 and true are equal."""
    return tuple(sorted(print_item(replace(item, active=True, bindings=(each,))) for each in item.bindings))
