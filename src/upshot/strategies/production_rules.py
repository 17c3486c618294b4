"""Prioritized production rules that maintain views, or compute them on demand. [Ceri & Widom 1994]"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.operations import DELETED, INSERTED
from upshot.core.types import SYMBOL
from upshot.rewrite.normalize.unique_derivations import unique_derivations
from upshot.rewrite.shapes import aggregates, atoms_of, clauses_by_head, with_atom
from upshot.strategies.maintenance_rules import chosen_layers
from upshot.syntax.ast import Atom, Comparison, Constant, Not, Variable, Wildcard

BEFORE = "old"
"""The state before the transition. Other states of atoms are `inserted`, `deleted` and the current one, the empty
text."""

MATERIALIZE = "materialize"
"""The relation of the names of views to be computed on demand; insertions into it trigger `start` rules."""


class RulePurpose(IntEnum):
    """The purpose of a rule. Within a stratum, rules of a smaller group run first."""

    START = 0
    """the first round of a view that is computed on demand"""
    NEGATED_INSERT = 1
    """rows deleted because a negated relation gained rows"""
    DELETE = 2
    """rows deleted because a positive relation lost rows"""
    REINSERT = 3
    """deleted rows that have another derivation"""
    NEGATED_DELETE = 4
    """rows inserted because a negated relation lost rows"""
    INSERT = 5
    """rows inserted because a positive relation gained rows"""


_WORD = {
    RulePurpose.START: ("start", "start"),
    RulePurpose.NEGATED_INSERT: ("NI", "NI"),
    RulePurpose.DELETE: ("del", "PD"),
    RulePurpose.REINSERT: ("ri", "RI"),
    RulePurpose.NEGATED_DELETE: ("ND", "ND"),
    RulePurpose.INSERT: ("ins", "PI"),
}
"""The part of a rule's name for its group, for clauses without and with negation."""


@dataclass(frozen=True, slots=True)
class ProductionRule:
    """The head of `clause` has the state `inserted` or `deleted`, after the action; the atoms of its body have the
    states in which they are read. `driver` is the body position of the transition table that triggers the rule;
    `source` is the original clause. `distinct`: the body may derive a head twice."""

    name: str
    stratum: int
    group: RulePurpose
    clause: Clause
    driver: int
    source: Clause
    distinct: bool = True

    @property
    def trigger(self) -> tuple[str, str]:
        """The relation and the operation, `inserted` or `deleted`, that trigger the rule."""
        atom = self.clause.body[self.driver]
        assert isinstance(atom, Atom)
        return atom.relation, atom.state

    @property
    def rank(self) -> tuple[int, int]:
        """Rules of smaller rank run first. The `start` rules of a stratum wait for the strata below: otherwise they
        would fill views above a negation with rows that must be deleted again."""
        return self.stratum, self.group

    @property
    def view(self) -> str:
        return self.clause.head.relation


@dataclass(frozen=True, slots=True)
class ProductionProgram:
    """The rules in the order of their rank; `unique` are the views proven to have one derivation per row."""

    rules: tuple[ProductionRule, ...]
    unique: frozenset[str]


def production(
    program: CheckedProgram, views: Collection[str] | None = None, names: Mapping[str, str] | None = None
) -> ProductionProgram:
    """The production rules of some views of a normal-form program, of all views by default.

    All views that a view is mutually recursive with are included. For every atom of a deductive rule R there is a rule
    that deletes and one that inserts, driven by the change of that atom; one more rule inserts deleted rows that have
    another derivation. Deletions are derived in the state before the rule's transition, the others in the current one.
    Without negation they are called R-del-i, R-ri and R-ins-i; with negation, NI and ND are driven by negated atoms, PD
    and PI by the others, and RI inserts again. R is the view, with the number of the rule if it has several; `names`
    replaces the names of views. An aggregate view has rules that delete the old value of a changed group and insert the
    new one.
    """
    chosen = [view for layer in chosen_layers(program, views) for view in layer]
    levels, unique, clauses = strata(program), unique_derivations(program), clauses_by_head(program.clauses)
    rules: list[ProductionRule] = []
    for view in chosen:
        own = clauses[view]
        for number, clause in enumerate(own, start=1):
            made = _ClauseTriggers(_name(view, number, len(own), names or {}), levels[view], clause, view in unique)
            rules += made.start()
            rules += made.refresh() if aggregates(clause) else made.maintenance()
    return ProductionProgram(tuple(sorted(rules, key=lambda rule: rule.rank)), unique & set(chosen))


def strata(program: CheckedProgram) -> dict[str, int]:
    """The stratum of every view, from 1: above the relations that it negates or aggregates, not below any that it
    reads."""
    levels: dict[str, int] = {}
    clauses = clauses_by_head(program.clauses)
    for layer in program.strata:
        level = 1
        for clause in (clause for view in layer for clause in clauses[view]):
            for _, atom, negated in atoms_of(clause):
                if atom.relation not in layer:
                    level = max(level, levels.get(atom.relation, 0) + (negated or bool(aggregates(clause))))
        levels |= dict.fromkeys(layer, level)
    return levels


def _name(view: str, number: int, count: int, names: Mapping[str, str]) -> str:
    if view in names:
        return f"{names[view]}{number}" if count > 1 else names[view]
    return f"{view}/{number}" if count > 1 else view


@dataclass(frozen=True, slots=True)
class _ClauseTriggers:
    name: str
    stratum: int
    clause: Clause
    unique: bool

    def maintenance(self) -> Iterator[ProductionRule]:
        positive = [position for position, _, negated in atoms_of(self.clause) if not negated]
        negative = [position for position, _, negated in atoms_of(self.clause) if negated]
        yield from self._deletions(RulePurpose.NEGATED_INSERT, negative, INSERTED)
        yield from self._deletions(RulePurpose.DELETE, positive, DELETED)
        if not self.unique:
            yield self._reinsert()
        yield from self._negated_deletions(negative)
        yield from self._insertions(positive)

    def start(self) -> Iterator[ProductionRule]:
        """The rule that applies the clause once, to the current rows, when its view is computed on demand."""
        request = Atom(MATERIALIZE, (Constant(self.clause.head.relation, SYMBOL),), INSERTED)
        yield self._rule(RulePurpose.START, None, INSERTED, (request, *self.clause.body), 0)

    def refresh(self) -> Iterator[ProductionRule]:
        """The rules of an aggregate clause: replace the values of changed groups."""
        rows, comparison = self.clause.body
        assert isinstance(rows, Atom)
        assert isinstance(comparison, Comparison)
        value = replace(self.clause.head, state="")
        for number, state in enumerate((DELETED, INSERTED), start=1):
            yield self._rule(RulePurpose.DELETE, number, DELETED, (replace(rows, state=state), value), 0)
        for number, state in enumerate((DELETED, INSERTED), start=1):
            touched = replace(rows, args=tuple(_group_only(rows, self.clause)), state=state)
            yield self._rule(RulePurpose.INSERT, number, INSERTED, (touched, rows, comparison), 0)

    def _deletions(self, group: RulePurpose, positions: list[int], state: str) -> Iterator[ProductionRule]:
        """NI and PD: a derivation is lost. It existed before, so all other literals are read in the state before."""
        for number, position in enumerate(positions, start=1):
            body = [_in_state(literal, BEFORE) for literal in self.clause.body]
            body[position] = replace(_atom(self.clause.body[position]), state=state)
            yield self._rule(group, number if len(positions) > 1 else None, DELETED, body, position)

    def _reinsert(self) -> ProductionRule:
        deleted = replace(self.clause.head, state=DELETED)
        return self._rule(RulePurpose.REINSERT, None, INSERTED, (deleted, *self.clause.body), 0)

    def _negated_deletions(self, positions: list[int]) -> Iterator[ProductionRule]:
        """ND. The negated literal stays beside its transition table: a deleted row may have been inserted again."""
        for number, position in enumerate(positions, start=1):
            deleted = replace(_atom(self.clause.body[position]), state=DELETED)
            body = (*self.clause.body[:position], deleted, *self.clause.body[position:])
            name = number if len(positions) > 1 else None
            yield self._rule(RulePurpose.NEGATED_DELETE, name, INSERTED, body, position)

    def _insertions(self, positions: list[int]) -> Iterator[ProductionRule]:
        for number, position in enumerate(positions, start=1):
            body = list(self.clause.body)
            body[position] = replace(_atom(self.clause.body[position]), state=INSERTED)
            yield self._rule(RulePurpose.INSERT, number if len(positions) > 1 else None, INSERTED, body, position)

    def _rule(
        self, group: RulePurpose, number: int | None, action: str, body: Collection[Literal], driver: int
    ) -> ProductionRule:
        with_negation = any(negated for _, _, negated in atoms_of(self.clause))
        name = f"{self.name}-{_WORD[group][with_negation]}" + (f"-{number}" if number is not None else "")
        clause = replace(self.clause, head=replace(self.clause.head, state=action), body=tuple(body))
        distinct = action == INSERTED and not self.unique and not aggregates(self.clause)
        return ProductionRule(name, self.stratum, group, clause, driver, self.clause, distinct)


def _group_only(rows: Atom, clause: Clause) -> Iterator[Variable | Wildcard]:
    """The columns of an aggregate's rows, with wildcards for those that are not part of the group."""
    group = clause.head.args[:-1]
    for term in rows.args:
        yield term if isinstance(term, Variable) and term in group else Wildcard()


def _atom(literal: Literal) -> Atom:
    atom = literal.body if isinstance(literal, Not) else literal
    assert isinstance(atom, Atom)
    return atom


def _in_state(literal: Literal, state: str) -> Literal:
    return with_atom(literal, lambda atom: replace(atom, state=state))
