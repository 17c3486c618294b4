"""Backward/forward: a row is deleted only after a search for another proof has failed.
[Motik, Nenov, Piro & Horrocks 2015]

Deletion runs in waves. Rows that lost a derivation are checked (`p_check`), and so are the premises of their other
derivations, from row to row, one alternative at a time. A checked row that is derivable from remaining rows is proven
(`p_proven`), and so are checked rows that follow from it. A cycle cannot prove itself: proofs start from rows outside
the stratum that exist before and after the change. When no more rows need a check, the checked rows that are not proven
are deleted (`p_gone`), and only they drive the next wave. The rules are not stratified: waves replace strata. Proven
and deleted rows stay so, hence no row is checked twice. Insertions follow as in `maintenance`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.rewrite.listing import RuleListing
from upshot.rewrite.shapes import atoms_of, without_wildcards
from upshot.strategies.maintenance_listing import list_maintenance
from upshot.strategies.maintenance_rules import (
    MaintenanceProgram,
    MaintenanceRule,
    RelationStates,
    RuleStage,
    ViewRules,
    added_rule,
    assembled,
    in_state,
    kept_rule,
    row_rule,
    rules_by_view,
)
from upshot.strategies.strategy import Generated, Procedure, Strategy
from upshot.syntax.ast import Atom, Not


def bf(program: CheckedProgram, views: Collection[str] | None = None) -> MaintenanceProgram:
    """The backward/forward rules of some views of a normal-form program, of all views by default, layered as those of
    `maintenance`.

    D derives the rows that may be deleted, from deleted rows; C the possible premises of proofs of a checked row; P the
    proofs; N, I and E are those of `maintenance`, with `p_gone` for `p_del`.
    """
    states, inputs, kept = RelationStates(program), set[str](), set[str]()
    rules: list[MaintenanceRule] = []
    for made in rules_by_view(_BackwardForwardRules, program, views, states):
        rules += made.aggregate(inputs) if made.is_aggregate else made.backward_forward(inputs, kept)
    return assembled(program, rules, states, by="bf", in_waves=True)


class _BackwardForwardRules(ViewRules):
    __slots__ = ()

    def delta(self, relation: str, sign: str) -> str:
        """In the stratum itself, only deleted rows drive a deletion."""
        return "gone" if sign == "del" and relation in self.layer else ViewRules.delta(self, relation, sign)

    def derived_state(self, sign: str) -> str:
        return "check" if sign == "del" else sign

    def backward_forward(self, defined: set[str], kept: set[str]) -> Iterator[MaintenanceRule]:
        """D, O, C, P, G, N, I, E of one view; `kept` are the relations that have a rule K."""
        view, states, inputs = self.view, self.states, self.inputs(defined)
        yield from self.driven(RuleStage.DELETE)
        for clause in self.clauses:
            yield from self._checks(clause)
        yield self._rest("O", "open", "old", "check")
        yield from map(self._proof, self.clauses)
        yield from self._kept(kept)
        yield self._rest("G", "gone", "check", "proven")
        yield kept_rule("N1", view, "gone", states)
        yield from self.inputs_without_deleted(inputs)
        yield from self.driven(RuleStage.INSERT)
        yield added_rule("N3", view, "ins", states)
        yield from self.inserted_inputs(inputs)
        yield self.net("E1", "plus", "ins", ("old",))
        yield self.net("E2", "minus", "gone", ("ins",))

    def _checks(self, clause: Clause) -> Iterator[MaintenanceRule]:
        """One rule for each literal of the stratum itself: its rows are checked if the rest of the body is
        satisfied."""
        for number, (position, atom, negated) in enumerate(atoms_of(clause), start=1):
            if negated or atom.relation not in self.layer:
                continue
            types = dict(clause.types)
            premise = without_wildcards(atom, self.program.schemas[atom.relation], types)
            rest = [part for i, other in enumerate(clause.body) if i != position for part in self._stays(other, "old")]
            body = (self.states.atom(clause.head, "check"), self.states.atom(premise, "open"), *rest)
            made = Clause(self.states.atom(premise, "check"), body, types, clause.origin)
            yield MaintenanceRule(f"C{number}", RuleStage.CHECK, made, 0, clause)

    def _proof(self, clause: Clause) -> MaintenanceRule:
        body = [part for literal in clause.body for part in self._stays(literal, "proven")]
        checked = self.states.atom(clause.head, "check")
        made = replace(clause, head=self.states.atom(clause.head, "proven"), body=(checked, *body))
        return MaintenanceRule("P", RuleStage.PROVE, made, 0, clause)

    def _stays(self, literal: Literal, own: str) -> Iterator[Literal]:
        """The literal over rows that exist before and after the change; rows of the stratum itself are in state `own`.
        So rows that never existed together cannot raise an error."""
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
