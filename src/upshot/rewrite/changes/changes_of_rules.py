"""Propagation and filtration for changes of rules: the old and new states differ in data *and* rules.
[Harrison & Dietrich 1994]

Rows that an added rule derives in the new state are potential additions, rows that a removed rule derived in the old
state potential removals. Both are tested in the other state, under its rules, and propagated like other changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from upshot.check.program import CheckedProgram
from upshot.check.strata import stratify
from upshot.core.errors import ProgramError
from upshot.core.optimizations import ALL, Optimizations
from upshot.rewrite.changes.change_rules import DERIVED_IN, add_group_changes, add_net_rule, differentials
from upshot.rewrite.demand.demand import IN_BODIES, DemandBuilder, DemandProgram, DerivedRule
from upshot.rewrite.demand.magic_sets import add_query_rules
from upshot.rewrite.shapes import aggregate_of, clauses_by_head
from upshot.syntax.ast import Atom


def changes_of_rules(
    before: CheckedProgram,
    after: CheckedProgram,
    views: Mapping[str, Collection[str]],
    optimizations: Optimizations = ALL,
) -> DemandProgram | None:
    """The rules that compute the net changes of unstored views from one normal-form program to another. `views` has the
    unstored views of the two programs under `before` and `after`; all others are stored.

    None if the changes cannot be computed from the rules: a relation has other columns, an aggregate another
    definition, or the rules of both programs together are not stratified.
    """
    both = _united(before, after, views)
    if both is None:
        return None
    unstored = {*views["before"], *views["after"]}
    stored = {view for layer in both.strata for view in layer if view not in unstored}
    demand = DemandBuilder(both, stored=stored, optimizations=optimizations)
    demand.of_changes = True
    demand.clauses = clauses_by_head(after.clauses)
    demand.clauses_before = clauses_by_head(before.clauses)
    shared = [view for layer in both.strata for view in layer if view in views["before"] and view in views["after"]]
    start = Atom(demand.part("rules_changed", "", {}), ())
    demand.add("C", start, (), {})
    for view in shared:
        if demand.is_aggregate(view):
            add_group_changes(demand, demand.clauses[view][0])
            continue
        for sign in ("plus", "minus"):
            _add_sign(demand, view, sign, start)
    add_query_rules(demand)
    return demand.program_made(shared)


def _united(
    before: CheckedProgram, after: CheckedProgram, views: Mapping[str, Collection[str]]
) -> CheckedProgram | None:
    """A program with the relations and clauses of both."""
    old, new = clauses_by_head(before.clauses), clauses_by_head(after.clauses)
    for name in before.schemas.keys() & after.schemas.keys():
        was, now = old[name], new[name]
        folds = any(aggregate_of(clause) is not None for clause in (*was, *now))
        if before.schemas[name].types != after.schemas[name].types or (folds and was != now):
            return None
        if (name in views["before"]) != (name in views["after"]):
            return None
    schemas = {**before.schemas, **after.schemas}
    clauses = tuple(dict.fromkeys((*before.clauses, *after.clauses)))
    try:
        strata = stratify(schemas, clauses)
    except ProgramError:
        return None
    return CheckedProgram(schemas, clauses, {}, strata)


def _add_sign(demand: DemandBuilder, view: str, sign: str, start: Atom) -> None:
    """Add the changes of one sign; `start` is true from the beginning, and drives added or removed rules once."""
    potential, state = demand.name(view, f"{sign}_potential"), DERIVED_IN[sign]
    assert demand.clauses_before is not None
    now, others = demand.clauses[view], demand.clauses_before[view]
    if sign == "minus":
        now, others = others, now
    gate, read = demand.gate(view, IN_BODIES), demand.state(state)
    found = False
    for clause in now:
        head = Atom(potential, clause.head.args)
        if clause not in others:
            found = True
            demand.derive(DerivedRule("C", head, clause, read, gate), start, clause.body)
            continue
        for each in differentials(demand, clause, sign):
            found = True
            demand.derive(DerivedRule(f"P{each.number}", head, clause, read, gate), each.driver, each.rest)
    if found:
        row = demand.row(view)
        add_net_rule(demand, view, sign, potential, name="F")
        demand.add("K", Atom(demand.name(view, state), row), (Atom(potential, row),), demand.row_types(view))
