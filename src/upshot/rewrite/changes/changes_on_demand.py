"""The demand program that computes the changes of views nobody stores, each stratum by its own algorithm."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from upshot.check.program import CheckedProgram
from upshot.rewrite.changes.event_paths import event_paths
from upshot.rewrite.demand.demand import Demand, DemandProgram
from upshot.rewrite.demand.linear_views import linear_views
from upshot.rewrite.demand.query_rules import add_query_rules
from upshot.rewrite.normalize.unfold import unfold
from upshot.rewrite.strategies.differencing import add_differencing
from upshot.rewrite.strategies.epf import add_epf
from upshot.rewrite.strategies.maintenance import atoms_of
from upshot.rewrite.strategies.operators import operators
from upshot.rewrite.strategies.partial_evaluation import partial_evaluation, reached
from upshot.rewrite.strategies.propagation import add_propagation
from upshot.rewrite.strategies.rod import add_rod
from upshot.rewrite.strategies.wave_front import last_reads
from upshot.rewrite.stratified import stratified

ALGORITHMS: Mapping[str, Callable[[Demand, tuple[str, ...]], None]] = {
    "rod": add_rod,
    "epf": add_epf,
    "propagation": add_propagation,
    "differencing": add_differencing,
}
"""By strategy; each adds the rules of one stratum."""


def changes_on_demand(
    program: CheckedProgram,
    strategies: Mapping[str, str],
    *,
    changed: Mapping[str, Collection[str]] | None = None,
    wanted: Mapping[str, Collection[str]] | None = None,
    nervous: Collection[str] = (),
    unfolding: bool = True,
    specializing: bool = True,
    sip: bool = True,
    memo: bool = True,
) -> DemandProgram:
    """The rules for the views named in `strategies` (in normal form; views of one stratum by the same strategy). All
    other views count as stored.

    `changed`: the signs (`ins`, `del`) that stored relations change by. `wanted`: the views that somebody listens to,
    and for what (`plus`, `minus`); rules that lead to nothing else are left out. None for all. Then, with
    `specializing`, closures are made linear and constants are pushed down into copies of rules, and with `unfolding` a
    view of `differencing` that only one other reads is expanded into it. `nervous`: views of `differencing` that may
    report rows that were there before, or still are; only those that no other reads do. Views that an algorithm puts in
    between have no results of their own. Without `sip` the literals of a rule are joined as they stand, from left to
    right. With `memo` the answers about views that none of these changes reaches serve both states.
    """
    views = [view for layer in program.strata for view in layer if view in (strategies if wanted is None else wanted)]
    if wanted is not None and specializing:
        program, strategies = linear_views(program, strategies)
        program, strategies = _specialized(program, strategies, wanted)
    if wanted is not None and unfolding:
        program = unfold(program, [v for v, s in strategies.items() if s == "differencing" and v not in wanted])
    strategies = {view: strategy for view, strategy in strategies.items() if view in program.schemas}
    program, strategies = _prepared(program, strategies)
    read = {atom.relation for clause in program.clauses for _, atom, _ in atoms_of(clause)}
    nervous = [view for view in nervous if view not in read]
    demand = Demand(
        program,
        stored={view for layer in program.strata for view in layer if view not in strategies},
        changed=changed,
        helpers=strategies.keys() - set(views),
        needed=None if wanted is None else event_paths(program, strategies, wanted, nervous),
        nervous=nervous,
        sip=sip,
        memo=memo,
    )
    demand.of_changes = True
    for layer in program.strata:
        wanted_of = [(view, sign) for view in layer for sign in ("plus", "minus") if demand.wants(view, sign)]
        if layer[0] in strategies and wanted_of and not demand.is_steady(layer[0]):
            ALGORITHMS[strategies[layer[0]]](demand, layer)
    add_query_rules(demand)
    return demand.program_made(views, last_reads(demand))


def _specialized(
    program: CheckedProgram, strategies: Mapping[str, str], wanted: Collection[str]
) -> tuple[CheckedProgram, Mapping[str, str]]:
    """The program with constants pushed down, without the views that nobody needs any more."""
    made, copies = partial_evaluation(program, list(strategies), list(wanted))
    strategies = {**strategies, **{copy: strategies[original] for copy, original in copies.items()}}
    stored = [view for layer in made.strata for view in layer if view not in strategies]
    needed = reached(made.clauses, [*wanted, *stored])
    gone = {view for view in strategies if view not in needed}
    clauses = [clause for clause in made.clauses if clause.head.relation not in gone]
    schemas = {name: schema for name, schema in made.schemas.items() if name not in gone}
    return stratified(made, clauses, schemas, by="partial_evaluation"), strategies


def _prepared(program: CheckedProgram, strategies: Mapping[str, str]) -> tuple[CheckedProgram, Mapping[str, str]]:
    """The program as its algorithms take it, and the strategies of all its views that are not stored."""
    propagated = [view for view, strategy in strategies.items() if strategy == "propagation"]
    if not propagated:
        return program, strategies
    prepared = operators(program, propagated)
    return prepared, {**strategies, **dict.fromkeys(prepared.schemas.keys() - program.schemas.keys(), "propagation")}
