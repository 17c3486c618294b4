"""Prioritized production rules that keep views current, or compute them on demand. [Ceri & Widom 1994]"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.operations import DELETED, INSERTED
from upshot.core.types import SYMBOL
from upshot.rewrite.normalize.unique_derivations import unique_derivations
from upshot.rewrite.shapes import aggregates, atoms_of
from upshot.strategies.maintenance_rules import chosen_layers
from upshot.syntax.ast import Atom, Comparison, Constant, Not, Variable, Wildcard

BEFORE = "old"
"""A state that an atom of a production rule can have, beside `inserted`, `deleted` and the current one, which is the
empty text."""

MATERIALIZE = "materialize"
"""The relation that names the views to be computed on demand; what enters it triggers `start` rules."""


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
"""The word of a group in the name of a rule, made from a clause without or with negation."""


@dataclass(frozen=True, slots=True)
class ProductionRule:
    """`clause`: its head has the state that the action gives it, `inserted` or `deleted`; the atoms of its body have
    the state that they are read in. `driver` is the body position of the transition table that triggers the rule;
    `source` the clause it was made from. `distinct`: the body may find a head twice."""

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
        """Rules of smaller rank run first. The `start` rules of a stratum wait for the strata below: run all at once,
        they would fill views above a negation with rows that have to go again."""
        return self.stratum, self.group

    @property
    def view(self) -> str:
        return self.clause.head.relation


@dataclass(frozen=True, slots=True)
class ProductionProgram:
    """The rules, those that run first at the front; `unique` are the views proven to have one derivation a row."""

    rules: tuple[ProductionRule, ...]
    unique: frozenset[str]


def production(
    program: CheckedProgram, views: Collection[str] | None = None, names: Mapping[str, str] | None = None
) -> ProductionProgram:
    """The production rules of some views of a normal-form program, of all views by default.

    A view comes with all views it is mutually recursive with. A deductive rule R gives, for every atom, a rule that
    deletes and one that inserts, driven by the change of that atom, and one that inserts again what was deleted and
    has another derivation. Deletions are found in the state before the rule's transition, the others in the current
    one. Without negation they are called R-del-i, R-ri and R-ins-i; with it NI and ND are driven by negated atoms, PD
    and PI by the others, and RI inserts again. R is the view, with the number of the rule if it has several; `names`
    gives other words for views. An aggregate view has rules that take the old value of a touched group and put the
    new one.
    """
    chosen = {view for layer in chosen_layers(program, views) for view in layer}
    levels, unique = strata(program), unique_derivations(program)
    rules: list[ProductionRule] = []
    for view in (view for layer in program.strata for view in layer if view in chosen):
        own = [clause for clause in program.clauses if clause.head.relation == view]
        for number, clause in enumerate(own, start=1):
            made = _ClauseTriggers(_name(view, number, len(own), names or {}), levels[view], clause, view in unique)
            rules += made.start()
            rules += made.refresh() if aggregates(clause) else made.maintenance()
    return ProductionProgram(tuple(sorted(rules, key=lambda rule: rule.rank)), unique & chosen)


def strata(program: CheckedProgram) -> dict[str, int]:
    """The stratum of every view, from 1: above all that it negates or aggregates, not below anything it uses."""
    levels: dict[str, int] = {}
    for layer in program.strata:
        level = 1
        for clause in program.clauses:
            if clause.head.relation in layer:
                for _, atom, negated in atoms_of(clause):
                    if atom.relation not in layer:
                        below = levels.get(atom.relation, 0)
                        level = max(level, below + (negated or bool(aggregates(clause))))
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
        asked = Atom(MATERIALIZE, (Constant(self.clause.head.relation, SYMBOL),), INSERTED)
        yield self._rule(RulePurpose.START, None, INSERTED, (asked, *self.clause.body), 0)

    def refresh(self) -> Iterator[ProductionRule]:
        """The rules of an aggregate clause: touched groups lose their value and get the present one."""
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
        """NI and PD: a derivation is lost. It was there before, so everything else is read as it was before."""
        for number, position in enumerate(positions, start=1):
            body = [_in_state(literal, BEFORE) for literal in self.clause.body]
            body[position] = replace(_atom(self.clause.body[position]), state=state)
            yield self._rule(group, number if len(positions) > 1 else None, DELETED, body, position)

    def _reinsert(self) -> ProductionRule:
        gone = replace(self.clause.head, state=DELETED)
        return self._rule(RulePurpose.REINSERT, None, INSERTED, (gone, *self.clause.body), 0)

    def _negated_deletions(self, positions: list[int]) -> Iterator[ProductionRule]:
        """ND. The negated literal stays beside its transition table: what was deleted may be back by now."""
        for number, position in enumerate(positions, start=1):
            gone = replace(_atom(self.clause.body[position]), state=DELETED)
            body = (*self.clause.body[:position], gone, *self.clause.body[position:])
            yield self._rule(
                RulePurpose.NEGATED_DELETE, number if len(positions) > 1 else None, INSERTED, body, position
            )

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
    """The columns of an aggregate's rows, those that are no group as wildcards."""
    group = clause.head.args[:-1]
    for term in rows.args:
        yield term if isinstance(term, Variable) and term in group else Wildcard()


def _atom(literal: Literal) -> Atom:
    atom = literal.body if isinstance(literal, Not) else literal
    assert isinstance(atom, Atom)
    return atom


def _in_state(literal: Literal, state: str) -> Literal:
    match literal:
        case Atom():
            return replace(literal, state=state)
        case Not(Atom() as atom):
            return replace(literal, body=replace(atom, state=state))
        case _:
            return literal
