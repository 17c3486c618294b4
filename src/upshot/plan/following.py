"""The parts of a new program that keep the rows they have: which tables stay, and which views follow the change of
rules."""

from __future__ import annotations

from collections.abc import Collection

from upshot.core.optimizations import Optimizations
from upshot.plan.program_plan import ComponentPlan, ProgramPlan, kept_as
from upshot.plan.rule_changes import RuleChange, rule_change
from upshot.rewrite.changes.changes_of_rules import changes_of_rules
from upshot.rewrite.demand.demand import DemandProgram, RowOrigin
from upshot.strategies.strategy import Stores


def counted(plan: ProgramPlan) -> set[str]:
    """The views that know how often each of their rows is derived."""
    return {view for component in plan.components if keeps_counts(component) for view in component.views}


def keeps_counts(component: ComponentPlan) -> bool:
    return component.strategy.stores is Stores.COUNTS


def following(
    before: ProgramPlan | None, plan: ProgramPlan, recompute: Collection[str]
) -> dict[tuple[str, ...], RuleChange | None]:
    """The components among those to `recompute` that need not be: those whose own rules are the same, and those whose
    rows can follow the change of their rules. What they read must still be in the tables it was in."""
    found: dict[tuple[str, ...], RuleChange | None] = {}
    earlier = {component.views: component for component in before.components} if before is not None else {}
    replaced = set(remade(before, plan))
    for component in plan.components:
        if component.views[0] not in recompute:
            continue
        old = earlier.get(component.views)
        if old is not None and _keeps_tables(old, component, plan, replaced):
            assert before is not None
            change = None if _same_rules(old, component) else _change(before, old, plan, component)
            if change is not None or _same_rules(old, component):
                found[component.views] = change
                continue
        # Its counts cannot be computed anew in place: it gets another table.
        replaced |= set(component.views) if keeps_counts(component) else set()
    return found


def _change(before: ProgramPlan, old: ComponentPlan, plan: ProgramPlan, component: ComponentPlan) -> RuleChange | None:
    """The change as the strategy follows it, by its own stages or by those of another one."""
    other = component.strategy.follows_as
    if other is not None and old.strategy is component.strategy:
        return rule_change(kept_as(before.normal, old, other), kept_as(plan.normal, component, other))
    return rule_change(old, component)


def _keeps_tables(old: ComponentPlan, component: ComponentPlan, plan: ProgramPlan, replaced: Collection[str]) -> bool:
    """Test whether all that the component reads or read, and its own views, are stored where they were."""
    if old.strategy.demand is not None or component.strategy.demand is not None:
        return False
    touched = {*component.views, *component.reads, *old.reads}
    return touched <= plan.normal.schemas.keys() and touched.isdisjoint(replaced)


def _same_rules(old: ComponentPlan, component: ComponentPlan) -> bool:
    return old.clauses == component.clauses and old.strategy == component.strategy


def remade(before: ProgramPlan | None, plan: ProgramPlan, recompute: Collection[str] = ()) -> frozenset[str]:
    """The relations that start without rows: those that are new, have other columns or are kept otherwise, and counted
    views to `recompute`, whose counts cannot be computed anew in place."""
    if before is None:
        return frozenset(plan.normal.schemas)
    known, had_counts, with_counts = before.normal.schemas, counted(before), counted(plan)
    return frozenset(
        name
        for name, schema in plan.normal.schemas.items()
        if name not in known
        or known[name].types != schema.types
        or known[name].lattice != schema.lattice
        or (name in had_counts) != (name in with_counts)
        or (name in with_counts and name in recompute)
    )


# ---- views on demand -----------------------------------------------------------------------------------------


def followed_on_demand(
    before: ProgramPlan | None, plan: ProgramPlan, made: Collection[str], recompute: Collection[str],
    optimizations: Optimizations,
) -> DemandProgram | None:  # fmt: skip
    """The rules by which the views on demand follow from the rules and rows they had before; None if they cannot, or
    if none of them is to `recompute`. Relations `made` have new tables, so what they held before is out of reach."""
    if before is None or not before.on_demand.strategies or plan.on_demand.kept != before.on_demand.kept:
        return None
    if not afresh_on_demand(before, plan, {*recompute, *made}):
        # Every rule below them is the same: such a change is one like any other.
        return None
    views = {"before": before.on_demand.strategies.keys(), "after": plan.on_demand.strategies.keys()}
    program = changes_of_rules(before.normal, plan.normal, views, optimizations)
    shown, were = (each.on_demand.strategies.keys() & each.source.schemas.keys() for each in (plan, before))
    if program is None or shown != were:
        return None
    stored, known = stored_in(program), before.normal.schemas.keys()
    if not stored <= plan.normal.schemas.keys() or not stored.isdisjoint(set(made) & known):
        return None
    return program


def stored_in(program: DemandProgram) -> set[str]:
    """The stored relations whose rows or changes a demand program reads."""
    return {m.relation for m in program.relations.values() if m.held in (RowOrigin.STORED, RowOrigin.CHANGE)}


def afresh_on_demand(before: ProgramPlan | None, plan: ProgramPlan, touched: Collection[str]) -> frozenset[str]:
    """The views that were not on demand before, that are defined otherwise (`touched`), whose copy comes or goes, or
    that become nervous or strict: nervous changes are no difference of two states."""
    if before is None:
        return frozenset(plan.on_demand.strategies)
    old, new = before.on_demand, plan.on_demand
    turned = (old.kept ^ new.kept) | (old.nervous ^ new.nervous)
    return frozenset(view for view in new.strategies if view in touched or view not in old.strategies or view in turned)
