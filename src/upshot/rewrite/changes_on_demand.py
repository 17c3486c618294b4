"""The demand program that computes the changes of views nobody stores, each stratum by its own algorithm."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from upshot.check.program import CheckedProgram
from upshot.rewrite.demand import Demand, DemandProgram
from upshot.rewrite.epf import add_epf
from upshot.rewrite.query_rules import add_query_rules
from upshot.rewrite.rod import add_rod

ALGORITHMS: Mapping[str, Callable[[Demand, tuple[str, ...]], None]] = {"rod": add_rod, "epf": add_epf}
"""By strategy; each adds the rules of one stratum."""


def changes_on_demand(
    program: CheckedProgram,
    strategies: Mapping[str, str],
    *,
    changed: Mapping[str, Collection[str]] | None = None,
) -> DemandProgram:
    """The rules for the views named in `strategies` (in normal form; views of one stratum by the same strategy). All
    other views count as stored. `changed`: the signs (`ins`, `del`) that stored relations change by; None for all."""
    stored = {view for layer in program.strata for view in layer if view not in strategies}
    demand = Demand(program, stored=stored, changed=changed)
    views: list[str] = []
    for layer in program.strata:
        if layer[0] in strategies:
            ALGORITHMS[strategies[layer[0]]](demand, layer)
            views += layer
    add_query_rules(demand)
    return demand.program_made(views)
