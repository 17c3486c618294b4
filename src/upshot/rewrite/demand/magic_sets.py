"""Supplementary magic sets: the rules that answer one query on a view, for exactly the bindings it has.

The bindings of the goal enter as a rule without a body. Negation is tested behind the gate of its view's stratum, when
all that was asked below has been answered.
"""

from __future__ import annotations

from collections.abc import Collection

from upshot.check.program import CheckedProgram
from upshot.rewrite.demand.demand import DemandBuilder, DemandProgram
from upshot.rewrite.demand.query_rules import add_query_rules
from upshot.syntax.ast import Atom


def magic_sets(
    program: CheckedProgram, goal: Atom, *, stored: Collection[str] = (), state: str = "old"
) -> DemandProgram:
    """The rules whose relation `Meaning(Held.ANSWERS, goal.relation, state)` holds all rows of the goal, its constants
    bound, for a program in normal form; `stored` are the views that are there like base relations.

    The relation also holds what was derived on the way: rows of other bindings of the view. A goal over a stored
    relation has no rules, and its rows are where they lie: `Meaning(Held.STORED, …)`.
    """
    demand = DemandBuilder(program, stored=stored)
    demand.name(goal.relation, state)
    if goal.relation not in demand.stored:
        demand.ask(goal, state, (), (), {})
        add_query_rules(demand)
    return demand.program_made()
