"""Which components of a new program can go on with the rows they have."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from upshot.engine.local.component import Component
from upshot.engine.local.installed import Installed, counted, same_shape
from upshot.plan.program_plan import ProgramPlan
from upshot.plan.rule_changes import RuleChange, rule_change


def following(
    before: Installed, plan: ProgramPlan, recompute: Collection[str]
) -> dict[tuple[str, ...], RuleChange | None]:
    """The components among those to `recompute` that need not be: those whose own rules are the same, and those whose
    rows can follow the change of their rules. What they read must still be in the tables it was in."""
    found: dict[tuple[str, ...], RuleChange | None] = {}
    earlier = {component.plan.views: component for component in before.components}
    replaced = _replaced(before, plan)
    for component in plan.components:
        old = earlier.get(component.views)
        touched = {*component.views, *component.reads}
        if old is None or old.is_on_demand or component.views[0] in plan.on_demand.strategies:
            able = False
        else:
            touched |= old.plan.reads
            able = touched <= plan.normal.schemas.keys() and touched.isdisjoint(replaced)
            change = rule_change(old.plan, component) if able else None
            able = able and (change is not None or _same_rules(old, component.clauses, component.strategy))
        if component.views[0] not in recompute:
            continue
        if able:
            assert old is not None
            found[component.views] = None if _same_rules(old, component.clauses, component.strategy) else change
        else:
            # Its counts cannot be computed anew in place: it gets another table.
            replaced |= set(component.views) if component.strategy == "counting" else set()
    return found


def _same_rules(old: Component, clauses: tuple[object, ...], strategy: str) -> bool:
    return old.plan.clauses == clauses and old.plan.strategy == strategy


def _replaced(before: Installed, plan: ProgramPlan) -> set[str]:
    """The relations that are new, or get a new table because they have other columns or are kept otherwise."""
    schemas: Mapping[str, object] = before.schemas
    with_counts = counted(plan)
    return {
        name
        for name, schema in plan.normal.schemas.items()
        if name not in schemas
        or not same_shape(before.schemas[name], schema)
        or before.tables[name].counted != (name in with_counts)
    }
