"""Goal-directed evaluation: the views that a program without later changes need not store.

A view that no output depends on is never computed. A recursive view that is used only with constants is computed by
magic sets, for these constants; `.pragma "magic-transform"` requests magic sets for every use.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram
from upshot.core.precedence import reachable
from upshot.core.schema import Role
from upshot.rewrite.shapes import clauses_by_head, relations_read
from upshot.syntax.ast import Constant, Ignored, Item

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
    """The views that need not be stored if only the outputs of the program are needed, each with the reason.

    Views that constraints and active rules depend on are stored, because these read every change; so are views with
    options. Without outputs all views are stored.
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
    requested = {view for view in free & needed if view in magic or (EVERY in magic and view not in goals)}
    reasons = dict.fromkeys(sorted(requested), '`.pragma "magic-transform"` requests magic sets')
    for view in sorted(free & needed - goals - requested):
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
        self._reads = {
            view: {name for clause in clauses for name in relations_read(clause)}
            for view, clauses in clauses_by_head(checked.clauses).items()
        }

    def below(self, names: Iterable[str]) -> set[str]:
        """These relations, and all that they depend on."""
        return reachable(names, lambda name: self._reads.get(name, ()))

    def above(self, names: Collection[str]) -> set[str]:
        """The views that depend on one of these."""
        return {view for view in self._reads if not self.below(self._reads[view]).isdisjoint(names)}

    def is_recursive(self, view: str) -> bool:
        return view in self.below(self._reads.get(view, ()))

    def only_with_constants(self, view: str, needed: Collection[str]) -> bool:
        """Test whether each use of the view outside its component has a constant."""
        inside = self._component[view]
        users = [each for each in self._clauses if each.head.relation in needed and each.head.relation not in inside]
        uses = [
            atom for clause in users for literal in clause.body for atom in atoms(literal) if atom.relation in inside
        ]
        return bool(uses) and all(any(isinstance(term, Constant) for term in atom.args) for atom in uses)
