"""The strategies every suite tries, as the `.view` lines that ask for them."""

from __future__ import annotations

from upshot.check.program import CheckedProgram
from upshot.engine.naive import nodes
from upshot.syntax.ast import Atom

STRATEGIES = (
    "maintenance", "bf", "recompute", "counting", "production", "rod", "epf", "propagation", "differencing",
)  # fmt: skip


def recursive_views(program: CheckedProgram) -> set[str]:
    """The views that depend on themselves."""
    uses = {
        (clause.head.relation, node.relation)
        for clause in program.clauses
        for literal in clause.body
        for node in nodes(literal)
        if isinstance(node, Atom)
    }
    alone = {view for view, used in uses if view == used}
    return alone | {view for component in program.strata if len(component) > 1 for view in component}


def view_options(program: CheckedProgram, strategy: str) -> list[str]:
    """One `.view` line for each view that can be maintained this way and says nothing else of itself."""
    recursive = recursive_views(program) if strategy == "counting" else set()
    left = [view for component in program.strata for view in component if view not in recursive | set(program.options)]
    return [f".view {view} strategy={strategy}" for view in left]
