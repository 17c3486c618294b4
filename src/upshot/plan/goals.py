"""Goal-directed evaluation: which views a program that is only run need not store.

A view that no output depends on is never computed. A recursive view that is used only with constants is computed by
magic sets, for the bindings that its users have; `.pragma "magic-transform"` requires that for every use.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram
from upshot.core.schema import Role
from upshot.syntax.ast import Atom, Constant, Ignored, Item

EVERY = "*"

_PRAGMA = re.compile(r'\.pragma "?magic-transform"? "?([^"]*)"?')


def magic_pragma(items: Iterable[Item]) -> frozenset[str]:
    """The relations that `.pragma "magic-transform"` names; `*` means all.

    >>> sorted(magic_pragma([Ignored('.pragma "magic-transform" "sg, path"')]))
    ['path', 'sg']
    """
    texts = [item.text for item in items if isinstance(item, Ignored)]
    found = [match[1] for match in map(_PRAGMA.match, texts) if match]
    return frozenset(name for text in found for name in re.split(r"[,\s]+", text) if name)


def unstored_views(checked: CheckedProgram, magic: Collection[str] = ()) -> dict[str, str]:
    """The views that need not be stored when only the outputs of the program count, each with the reason.

    Views that constraints and active rules depend on are stored, because they read every change. Options of a view win.
    Without outputs all views are stored.
    """
    uses = _GoalUses(checked)
    goals = {item.relation for item in checked.directives if item.kind != "input"}
    if not goals:
        return {}
    watched = uses.below({*checked.constraints, *checked.hidden}) if not checked.rules else set(checked.schemas)
    views = {name for name, schema in checked.schemas.items() if schema.role is Role.VIEW}
    free = views - watched - checked.options.keys() - checked.parts.keys()
    needed = uses.below(goals)
    found = dict.fromkeys(sorted(free - needed), "no output depends on it")
    asked = {view for view in free & needed if view in magic or (EVERY in magic and view not in goals)}
    reasons = dict.fromkeys(sorted(asked), '`.pragma "magic-transform"` requests magic sets')
    for view in sorted(free & needed - goals - asked):
        if uses.is_recursive(view) and uses.only_with_constants(view, needed):
            reasons[view] = "it is used only with constants: magic sets compute the rows of the goals"
    for view in sorted(uses.above(reasons) & needed):
        if view not in free:
            return found
        reasons.setdefault(view, "it depends on a view that is computed by magic sets")
    return found | reasons


class _GoalUses:
    """The dependencies between the relations of a program."""

    def __init__(self, checked: CheckedProgram) -> None:
        self._clauses = checked.clauses
        self._component = {view: views for views in checked.strata for view in views}
        self._reads: dict[str, set[str]] = {}
        for clause in checked.clauses:
            read = self._reads.setdefault(clause.head.relation, set())
            read.update(atom.relation for literal in clause.body for atom in atoms(literal))

    def below(self, names: Iterable[str]) -> set[str]:
        """The relations that these depend on, and these."""
        found, waiting = set[str](), list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._reads.get(name, ())
        return found

    def above(self, names: Collection[str]) -> set[str]:
        """The views that depend on one of these."""
        return {view for view in self._reads if not self.below(self._reads[view]).isdisjoint(names)}

    def is_recursive(self, view: str) -> bool:
        return view in self.below(self._reads.get(view, ()))

    def only_with_constants(self, view: str, needed: Collection[str]) -> bool:
        """Tell whether each rule outside the view's component that uses it gives one of its columns a value."""
        inside = self._component[view]
        users = [each for each in self._clauses if each.head.relation in needed and each.head.relation not in inside]
        uses = [
            atom for clause in users for literal in clause.body for atom in atoms(literal) if atom.relation in inside
        ]
        return bool(uses) and all(_has_constant(atom) for atom in uses)


def _has_constant(atom: Atom) -> bool:
    return any(isinstance(term, Constant) for term in atom.args)
