"""The demand program that computes the changes of views nobody stores, each stratum by its own algorithm."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from upshot.check.program import CheckedProgram
from upshot.rewrite.demand import Demand, DemandProgram
from upshot.rewrite.epf import add_epf
from upshot.rewrite.operators import operators
from upshot.rewrite.propagation import add_propagation
from upshot.rewrite.query_rules import add_query_rules
from upshot.rewrite.rod import add_rod

ALGORITHMS: Mapping[str, Callable[[Demand, tuple[str, ...]], None]] = {
    "rod": add_rod,
    "epf": add_epf,
    "propagation": add_propagation,
}
"""By strategy; each adds the rules of one stratum."""


def changes_on_demand(
    program: CheckedProgram,
    strategies: Mapping[str, str],
    *,
    changed: Mapping[str, Collection[str]] | None = None,
) -> DemandProgram:
    """The rules for the views named in `strategies` (in normal form; views of one stratum by the same strategy). All
    other views count as stored. `changed`: the signs (`ins`, `del`) that stored relations change by; None for all.
    Views that an algorithm puts in between have no results of their own."""
    views = [view for layer in program.strata for view in layer if view in strategies]
    program, strategies = _prepared(program, strategies)
    stored = {view for layer in program.strata for view in layer if view not in strategies}
    demand = Demand(program, stored=stored, changed=changed, helpers=strategies.keys() - set(views))
    for layer in program.strata:
        if layer[0] in strategies:
            ALGORITHMS[strategies[layer[0]]](demand, layer)
    add_query_rules(demand)
    return demand.program_made(views)


def _prepared(program: CheckedProgram, strategies: Mapping[str, str]) -> tuple[CheckedProgram, Mapping[str, str]]:
    """The program as its algorithms take it, and the strategies of all its views that are not stored."""
    propagated = [view for view, strategy in strategies.items() if strategy == "propagation"]
    if not propagated:
        return program, strategies
    prepared = operators(program, propagated)
    return prepared, {**strategies, **dict.fromkeys(prepared.schemas.keys() - program.schemas.keys(), "propagation")}
