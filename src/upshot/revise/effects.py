"""Effects of a realization for any values of its placeholders: formulas for rows that follow, and what is open.

`balance(A, S)` over a new entry of `?1` comes to `?1 - 20`: rows that the ground program derived with symbols are shown
with formulas. Of relations in which rules compare new values without a condition on them being stated, only the values
that were tried tell the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from upshot.check.names.variables import variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.revise.conditions import ANY, Condition, Conditions, names_of
from upshot.revise.request import Column, Key, Row
from upshot.revise.rule_forms import cells, made_columns
from upshot.revise.rules import GroupedView, columns_in, fold_of
from upshot.revise.witnesses import is_refuted
from upshot.rewrite.shapes import aggregate_of, atoms_of
from upshot.syntax.ast import Atom, Comparison, Not, Variable, Wildcard


@dataclass(frozen=True, slots=True, repr=False)
class Formula:
    """A value for any new values: `name` is how it is written, `witness` what it came to with those that were tried."""

    name: str
    witness: Any = field(compare=False, default=None)

    def __repr__(self) -> str:
        """The spelling in rows: `?1 - 19`."""
        return self.name


@dataclass(frozen=True, slots=True)
class Consequences:
    """Rows of views that fresh values bring, by their rows with witnesses; views of which that is not all (`open`), and
    those of which it is."""

    rows: Mapping[Key, Row] = field(default_factory=dict)
    open: frozenset[str] = frozenset()
    certain: frozenset[str] = frozenset()


def is_decided(condition: Condition, stated: Conditions, types: Mapping[str, Any]) -> bool:
    """Test whether stated conditions decide another one."""
    if not {*names_of(condition.subject)} <= types.keys():
        return False
    for signs in (condition.signs, ANY - condition.signs):
        both = {**stated, condition.subject: stated.get(condition.subject, ANY) & signs}
        if is_refuted(both, types):
            return True
    return False


# ---- rules that the request does not depend on -----------------------------------------------------------------------


class Looks:
    """The rules of a whole program: where they compare, fold or compute values on their way."""

    def __init__(self, program: CheckedProgram) -> None:
        self._clauses = program.clauses
        self._best = {name for name, schema in program.schemas.items() if schema.lattice is not None}
        self._made = made_columns(program.clauses)
        self._folds: dict[str, GroupedView] = {}
        for clause in program.clauses:
            found = fold_of(clause, program.schemas) if aggregate_of(clause) is not None else None
            if found is not None:
                self._folds[found.view] = found

    def moving(self, columns: Iterable[Column]) -> frozenset[Column]:
        """The columns to which values of these come, or what is computed from them."""
        found, size = set(columns), -1
        while len(found) != size:
            size = len(found)
            for clause in self._clauses:
                head, fold = clause.head, self._folds.get(clause.head.relation)
                if fold is not None:
                    found.update((fold.view, at) for at in range(fold.width) if (fold.below, at) in found)
                    if fold.target is not None and (fold.below, fold.target) in found:
                        found.add((fold.view, fold.width))
                    continue
                names = _computed_from({name for name, column in cells(_atoms(clause)) if column in found}, clause.body)
                found.update(column for name, column in cells([head]) if name in names)
        return frozenset(found)

    def open(self, columns: Iterable[Column], certain: Collection[str]) -> frozenset[str]:
        """The views that may come to something else with other values in these columns, but for those that are
        `certain`: rules on the way to them compare such values, fold them, or compute others from them."""
        moving, found, size = self.moving(columns), set[str](), -1
        while len(found) != size:
            size = len(found)
            for clause in self._clauses:
                name = clause.head.relation
                if name not in certain and name not in found and self._looks(clause, moving, found):
                    found.add(name)
        return frozenset(found)

    def _looks(self, clause: Clause, moving: Collection[Column], found: Collection[str]) -> bool:
        fold = self._folds.get(clause.head.relation)
        if fold is not None:
            places = (*range(fold.width), *(() if fold.target is None else (fold.target,)))
            computed = any(column[0] == fold.below and column in moving for column in self._made)
            return fold.below in found or computed or any((fold.below, at) in moving for at in places)
        atoms = _atoms(clause)
        if any(atom.relation in found for atom in atoms):
            return True
        if clause.head.relation in self._best and any(column in moving for _, column in cells(atoms)):
            return True
        built_ins = (each for each in clause.body if _is_built_in(each))
        used = {name for each in built_ins if not _joins(each) for name in variables(each)}
        for name, column in cells(atoms):
            is_joined = len(list(columns_in(name, atoms))) > 1
            if column in moving and (name in used or (column in self._made and is_joined)):
                return True
        return any(
            (atom.relation, at) in moving and not isinstance(term, Variable | Wildcard)
            for atom in atoms
            for at, term in enumerate(atom.args)
        )


def _atoms(clause: Clause) -> list[Atom]:
    return [atom for _, atom, _ in atoms_of(clause)]


def _is_built_in(literal: Literal) -> bool:
    return not isinstance(literal.body if isinstance(literal, Not) else literal, Atom)


def _joins(literal: Literal) -> bool:
    match literal:
        case Comparison("=" | "!=", Variable(), Variable()):
            return True
        case _:
            return False


def _computed_from(names: set[str], literals: Iterable[Literal]) -> set[str]:
    size = -1
    while len(names) != size:
        size = len(names)
        for each in literals:
            if isinstance(each, Comparison) and each.op == "=" and names & {*variables(each)}:
                names = names | {*variables(each)}
    return names
