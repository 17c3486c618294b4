"""Backward/forward: a row is deleted only after a search for another proof has failed.
[Motik, Nenov, Piro & Horrocks 2015]

Deletion runs in waves. A row that lost a derivation is looked at (`p_check`), and so is what its other derivations rest
on, from row to row, one alternative at a time; what is derivable from rows that stay is proven (`p_proven`), and with
it all that was looked at and follows. A cycle does not prove itself: proofs start from rows outside the stratum that
are there before and after the change. When nothing is left to ask for, what was looked at and not proven is gone
(`p_gone`), and only that drives the next wave. The rules are not stratified, the waves take the place of strata; what
is proven or gone stays so, hence no row is looked at twice. Insertions follow as in `maintenance`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from upshot.check.names.variables import fresh_name
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Schema
from upshot.core.types import Type
from upshot.rewrite.listing import RuleListing
from upshot.rewrite.shapes import atoms_of
from upshot.strategies.maintenance_listing import list_maintenance
from upshot.strategies.maintenance_rules import (
    MaintenanceProgram,
    MaintenanceRule,
    RelationStates,
    RuleStage,
    ViewRules,
    added_rule,
    assembled,
    chosen_layers,
    in_state,
    kept_rule,
    row_rule,
)
from upshot.strategies.strategy import Generated, Procedure, Strategy
from upshot.syntax.ast import Atom, Not, Term, Variable, Wildcard


def bf(program: CheckedProgram, views: Collection[str] | None = None) -> MaintenanceProgram:
    """The backward/forward rules of some views of a normal-form program, of all views by default, layered as those of
    `maintenance`.

    D finds the rows that may have gone, through what is gone below; C what proofs of a row that is looked at may rest
    on; P the proofs; N, I and E are those of `maintenance`, with `p_gone` for `p_del`.
    """
    layers = chosen_layers(program, views)
    states = RelationStates(program)
    maintained = frozenset(view for layer in layers for view in layer)
    clauses: dict[str, list[Clause]] = {view: [] for view in maintained}
    for clause in program.clauses:
        if clause.head.relation in maintained:
            clauses[clause.head.relation].append(clause)
    entered: set[str] = set()
    kept: set[str] = set()
    rules: list[MaintenanceRule] = []
    for layer in layers:
        for view in layer:
            made = _BackwardForwardRules(program, states, frozenset(layer), maintained, view, tuple(clauses[view]))
            if made.is_aggregate:
                rules += made.aggregate(entered)
            else:
                rules += made.backward_forward(entered, kept)
    return assembled(program, rules, states, by="bf", in_waves=True)


class _BackwardForwardRules(ViewRules):
    __slots__ = ()

    def delta(self, relation: str, sign: str) -> str:
        """In the stratum itself, only what is gone drives a deletion."""
        return "gone" if sign == "del" and relation in self.layer else ViewRules.delta(self, relation, sign)

    def found(self, sign: str) -> str:
        return "check" if sign == "del" else sign

    def backward_forward(self, entered: set[str], kept: set[str]) -> Iterator[MaintenanceRule]:
        """D, O, C, P, G, N, I, E of one view; `kept` are the relations with a rule K by now."""
        view, states, inputs = self.view, self.states, self.inputs(entered)
        yield from self.driven(RuleStage.DELETE)
        for clause in self.clauses:
            yield from self._checks(clause)
        yield self._rest("O", "open", "old", "check")
        yield from map(self._proof, self.clauses)
        yield from self._kept(kept)
        yield self._rest("G", "gone", "check", "proven")
        yield kept_rule("N1", view, "gone", states)
        for number, name in enumerate(inputs, start=1):
            yield kept_rule(f"N'{number}", name, self.delta(name, "del"), states)
        yield from self.driven(RuleStage.INSERT)
        yield added_rule("N3", view, "ins", states)
        for number, name in enumerate(inputs, start=1):
            yield added_rule(f"N''{number}", name, self.delta(name, "ins"), states)
        yield self.net("E1", "plus", "ins", ("old",))
        yield self.net("E2", "minus", "gone", ("ins",))

    def _checks(self, clause: Clause) -> Iterator[MaintenanceRule]:
        """One rule per literal of the stratum itself: its rows are looked at if the rest of the body is there."""
        for number, (position, atom, negated) in enumerate(atoms_of(clause), start=1):
            if negated or atom.relation not in self.layer:
                continue
            asked, types = _without_wildcards(atom, clause, self.program.schemas[atom.relation])
            rest = [
                part for i, other in enumerate(clause.body) if i != position for part in self._staying(other, "old")
            ]
            body = (self.states.atom(clause.head, "check"), self.states.atom(asked, "open"), *rest)
            made = Clause(self.states.atom(asked, "check"), body, types, clause.origin)
            yield MaintenanceRule(f"C{number}", RuleStage.CHECK, made, 0, clause)

    def _proof(self, clause: Clause) -> MaintenanceRule:
        body = [part for literal in clause.body for part in self._staying(literal, "proven")]
        looked_at = self.states.atom(clause.head, "check")
        made = replace(clause, head=self.states.atom(clause.head, "proven"), body=(looked_at, *body))
        return MaintenanceRule("P", RuleStage.PROVE, made, 0, clause)

    def _staying(self, literal: Literal, own: str) -> Iterator[Literal]:
        """The literal over rows that are there before and after the change, those of the stratum itself in state `own`.
        What never was together cannot fail together: an error comes only from rows of one state."""
        match literal:
            case Atom(relation):
                yield self.states.atom(literal, own if relation in self.layer else "kept")
            case Not(Atom()):
                yield in_state(literal, "old", self.states)
                yield in_state(literal, "new", self.states)
            case _:
                yield literal

    def _kept(self, kept: set[str]) -> Iterator[MaintenanceRule]:
        """The rules K: `r_kept :- r, !r_del.`"""
        read = [a.relation for clause in self.clauses for _, a, negated in atoms_of(clause) if not negated]
        for number, name in enumerate([n for n in dict.fromkeys(read) if n not in kept | self.layer], start=1):
            kept.add(name)
            removed = Not(self.states.row(name, self.delta(name, "del")))
            body = (self.states.row(name, "old"), removed)
            yield row_rule(f"K{number}", RuleStage.STATE, name, "kept", body, self.states)

    def _rest(self, name: str, state: str, of: str, without: str) -> MaintenanceRule:
        body = (self.states.row(self.view, of), Not(self.states.row(self.view, without)))
        return row_rule(name, RuleStage.STATE, self.view, state, body, self.states)


def _without_wildcards(atom: Atom, clause: Clause, schema: Schema) -> tuple[Atom, Mapping[str, Type]]:
    """The atom with a variable for every column, and the types of the clause with those of the new variables."""
    types: dict[str, Type] = dict(clause.types)
    args: list[Term] = []
    for term, column in zip(atom.args, schema.columns, strict=True):
        if isinstance(term, Wildcard):
            term = Variable(fresh_name("Any", types))
            types[term.name] = column.type
        args.append(term)
    return replace(atom, args=tuple(args)), types


def _generate(normal: CheckedProgram, views: Collection[str]) -> Generated:
    made = bf(normal, views)
    return Generated(made.rules, made.states)


def _listing(normal: CheckedProgram, view: str | None) -> RuleListing:
    return list_maintenance(bf(normal), view)


STRATEGY = Strategy(
    name="bf",
    procedure=Procedure.WAVES,
    stages=("delete", "check", "prove", "insert"),
    adds="insert",
    rank=4,
    generate=_generate,
    follows_rules=True,
    listing=_listing,
)
