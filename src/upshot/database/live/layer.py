"""The installed program: the user's program, and live queries beside it.

The rows of unstored views that followers need are stored in copies made for them (`partial_views`), so that a commit
costs what it changes there. Nothing of this is in the log: followers subscribe again after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from upshot.check.names.variables import walk
from upshot.check.program import CheckedProgram, Clause, ViewOptions
from upshot.check.strata import stratify
from upshot.core.schema import Schema
from upshot.database.live.live_queries import LiveQuery, reads_of
from upshot.database.program.compile import Compiled
from upshot.plan import compile_program
from upshot.rewrite.demand.lift_parameters import LiftedQuery
from upshot.rewrite.demand.linearize import linearize
from upshot.rewrite.demand.partial_views import partial_views
from upshot.rewrite.shapes import relations_below
from upshot.syntax.ast import Aggregate, Call, SyntaxNode
from upshot.syntax.rebuild import rebuilt
from upshot.values.functors import MARK, bare_name, is_functor, signature_of


def layered(compiled: Compiled, queries: Iterable[LiveQuery]) -> Compiled:
    """The program with the queries, under names that users cannot write."""
    shapes = [query.shape for query in queries]
    if not shapes:
        return compiled
    checked = compiled.checked
    unstored = compiled.plan.on_demand.unstored & checked.schemas.keys()
    clauses, schemas, options = list(checked.clauses), dict(checked.schemas), dict(checked.options)
    for shape in shapes:
        own = {shape.answer.name: shape.answer, **shape.helpers}
        if shape.parameters.columns:
            own[shape.parameters.name] = shape.parameters
        schemas |= own
        added, more, on_demand = _partial(replace(checked, schemas=schemas), shape, unstored)
        clauses += added
        schemas |= more
        options |= dict.fromkeys(
            (shape.answer.name, *shape.helpers) if on_demand else (), ViewOptions(materialized=False)
        )
    hidden = checked.hidden | (schemas.keys() - checked.schemas.keys())
    made = replace(
        checked,
        clauses=tuple(clauses),
        schemas=schemas,
        options=options,
        hidden=hidden,
        strata=stratify(schemas, clauses),
    )
    plan = compile_program(made, stored=True)
    beside = frozenset(plan.normal.schemas.keys() - compiled.plan.normal.schemas.keys())
    return replace(compiled, checked=made, plan=replace(plan, live_queries=beside))


def calls(queries: Iterable[LiveQuery], functor: str) -> bool:
    """Test whether a query calls the function, by its name with types."""
    clauses = [clause for query in queries for clause in query.shape.clauses]
    nodes = (node for clause in clauses for part in (clause.head, *clause.body) for node in walk(part))
    return any(isinstance(node, Call | Aggregate) and node.function == functor for node in nodes)


def with_functors(shape: LiftedQuery, functors: Mapping[str, str]) -> LiftedQuery | None:
    """The shape with the current names of functions, which change with their values or code; None if one was removed or
    has other types."""
    missing = False

    def change(node: SyntaxNode) -> SyntaxNode:
        nonlocal missing
        if not isinstance(node, Call | Aggregate) or not is_functor(node.function):
            return node
        known = functors.get(f"{MARK}{bare_name(node.function)}", "")
        missing |= not known or signature_of(known) != signature_of(node.function)
        return node if known == node.function or missing else replace(node, function=known)

    clauses = tuple(
        replace(each, head=rebuilt(each.head, change), body=tuple(rebuilt(part, change) for part in each.body))
        for each in shape.clauses
    )
    return None if missing else shape if clauses == shape.clauses else replace(shape, clauses=clauses)


def _partial(
    program: CheckedProgram, shape: LiftedQuery, unstored: frozenset[str]
) -> tuple[list[Clause], dict[str, Schema], bool]:
    """The clauses of a query over parts of unstored views, with their schemas; True if it must be computed on demand
    because it reads such a view as a whole."""
    below = relations_below(program.clauses, reads_of(shape)) & unstored
    if not below:
        return list(shape.clauses), {}, False
    linear, on_demand = program, set(unstored)
    for view in sorted(below):
        made = linearize(linear, view)
        if made.program is not None:
            linear = made.program
            on_demand |= {made.exits} - {""}
    found = partial_views(linear, shape.clauses, on_demand, {})
    if found is None:
        return list(shape.clauses), {}, True
    return list(found.clauses), dict(found.schemas), False
