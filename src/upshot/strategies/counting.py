"""Counting: rules for the numbers of derivations that each row of a non-recursive view gains and loses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from upshot.check.program import CheckedProgram, Clause
from upshot.core.errors import UsageError
from upshot.rewrite.listing import RuleListing
from upshot.rewrite.shapes import aggregates, atoms_of, is_recursive
from upshot.strategies.maintenance_listing import list_maintenance
from upshot.strategies.maintenance_rules import (
    MaintenanceProgram,
    MaintenanceRule,
    RelationStates,
    RuleStage,
    added_rule,
    aggregate_rule,
    assembled,
    chosen_layers,
    in_state,
    kept_rule,
)
from upshot.strategies.strategy import Generated, Obstacle, Procedure, Stores, Strategy, Verdict, ViewShape


def counting(program: CheckedProgram, views: Collection[str] | None = None) -> MaintenanceProgram:
    """The counting rules of some views of a normal-form program, by default of all that are not recursive.

    For the i-th atom of a clause, `Ci+` derives gained derivations (head `p_gain`) and `Ci-` lost ones (head `p_loss`);
    each solution of the body is one derivation. Atoms to the left of the delta literal are read in the old state, those
    to the right in the new one, so that a derivation from two changed rows is counted once. Insertions into a negated
    relation remove derivations, deletions from it add some. `r_ins` and `r_del` are the net changes of r, a base
    relation or a view; N' and N'' define the new states from them. An aggregate view has the rule A.
    """
    states = RelationStates(program)
    rules: list[MaintenanceRule] = []
    for layer in _countable(program, views):
        for clause in program.clauses:
            if clause.head.relation in layer:
                rules += [aggregate_rule(clause, states)] if aggregates(clause) else _rules(clause, states)
    defined = {rule.clause.head.relation for rule in rules}
    read = [meaning.relation for meaning in states.entered().values() if meaning.state == "new"]
    for number, relation in enumerate([each for each in read if states.name(each, "new") not in defined], start=1):
        rules.append(kept_rule(f"N'{number}", relation, "del", states))
        rules.append(added_rule(f"N''{number}", relation, "ins", states))
    return assembled(program, rules, states, by="counting")


def _countable(program: CheckedProgram, views: Collection[str] | None) -> Iterator[tuple[str, ...]]:
    for layer in chosen_layers(program, views):
        if is_recursive(program, layer):
            if views is None:
                continue
            raise UsageError(
                f"`{layer[0]}` is recursive: its derivations cannot be counted",
                code="strategy-not-applicable",
                help="maintain it with strategy=maintenance",
            )
        yield layer


def _rules(clause: Clause, states: RelationStates) -> Iterator[MaintenanceRule]:
    for number, (position, atom, negated) in enumerate(atoms_of(clause), start=1):
        for sign, change in (("+", "gain"), ("-", "loss")):
            state = "ins" if (sign == "+") is not negated else "del"
            body = (
                *(in_state(literal, "old", states) for literal in clause.body[:position]),
                states.atom(atom, state),
                *(in_state(literal, "new", states) for literal in clause.body[position + 1 :]),
            )
            made = replace(clause, head=states.atom(clause.head, change), body=body)
            yield MaintenanceRule(f"C{number}{sign}", RuleStage.COUNT, made, position, clause)


def _generate(normal: CheckedProgram, views: Collection[str]) -> Generated:
    made = counting(normal, views)
    return Generated(made.rules, made.states)


def _obstacle(shape: ViewShape) -> Obstacle | None:
    if shape.recursive:
        return Obstacle("is recursive: its derivations cannot be counted", "use `maintenance`")
    return None


def _verdict(shape: ViewShape) -> Verdict | None:
    if shape.folds:
        return None
    if not shape.stored:
        reason = "would store its rows, and compute least; `materialized=true` requests it"
        return None if shape.recursive else Verdict(1, reason)
    if shape.best:
        return Verdict(3, "cannot: a better row deletes another, whatever its derivations")
    if shape.recursive:
        return Verdict(3, "cannot: a cycle would support itself")
    if shape.multiplies:
        return Verdict(3, "would count every one of them")
    return Verdict(9, "not recursive: counting derivations needs no rederivation")


def _listing(normal: CheckedProgram, view: str | None) -> RuleListing:
    """The rules of one view, or of all views that are not recursive."""
    made = counting(normal, None if view is None else [view])
    if not made.rules:
        raise UsageError(
            "counting needs a non-recursive view, and every view of the program is recursive",
            code="strategy-not-applicable",
            help="use `--strategy maintenance`",
        )
    return list_maintenance(made, view)


STRATEGY = Strategy(
    name="counting",
    procedure=Procedure.COUNTS,
    stores=Stores.COUNTS,
    stages=("count",),
    adds="count",
    rank=2,
    generate=_generate,
    obstacle=_obstacle,
    verdict=_verdict,
    follows_rules=True,
    listing=_listing,
)
