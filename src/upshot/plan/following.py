"""The parts of a new program that keep their rows: the tables that stay, and the views that follow a change of rules
without recomputation."""

from __future__ import annotations

from collections.abc import Collection

from upshot.core.optimizations import Optimizations
from upshot.plan.program_plan import ComponentPlan, ProgramPlan, kept_as
from upshot.plan.rule_changes import RuleChange, rule_change
from upshot.rewrite.changes.changes_of_rules import changes_of_rules
from upshot.rewrite.demand.demand import DemandProgram, RowOrigin
from upshot.strategies.strategy import Stores


def counted(plan: ProgramPlan) -> set[str]:
    """The views that store the number of derivations of each row."""
    return {view for component in plan.components if keeps_counts(component) for view in component.views}


def keeps_counts(component: ComponentPlan) -> bool:
    return component.strategy.stores is Stores.COUNTS


def not_recomputed(
    before: ProgramPlan | None, plan: ProgramPlan, recompute: Collection[str]
) -> dict[tuple[str, ...], RuleChange | None]:
    """The components among those to `recompute` that need no recomputation: their own rules are the same (None), or
    their rows can follow the change of their rules. The relations that they read must have kept their tables."""
    found: dict[tuple[str, ...], RuleChange | None] = {}
    earlier = {component.views: component for component in before.components} if before is not None else {}
    replaced = set(new_tables(before, plan))
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
        # Counts cannot be recomputed in place: the views get new tables.
        replaced |= set(component.views) if keeps_counts(component) else set()
    return found


def _change(before: ProgramPlan, old: ComponentPlan, plan: ProgramPlan, component: ComponentPlan) -> RuleChange | None:
    """The change of rules, for the stages of the strategy that applies it."""
    other = component.strategy.follows_as
    if other is not None and old.strategy is component.strategy:
        return rule_change(kept_as(before.normal, old, other), kept_as(plan.normal, component, other))
    return rule_change(old, component)


def _keeps_tables(old: ComponentPlan, component: ComponentPlan, plan: ProgramPlan, replaced: Collection[str]) -> bool:
    """Test whether the views of the component, and all relations that it reads or has read, have kept their tables."""
    if old.strategy.demand is not None or component.strategy.demand is not None:
        return False
    touched = {*component.views, *component.reads, *old.reads}
    return touched <= plan.normal.schemas.keys() and touched.isdisjoint(replaced)


def _same_rules(old: ComponentPlan, component: ComponentPlan) -> bool:
    return old.clauses == component.clauses and old.strategy == component.strategy


def new_tables(before: ProgramPlan | None, plan: ProgramPlan, recompute: Collection[str] = ()) -> frozenset[str]:
    """The relations that get new, empty tables: those that are new, have other columns or another form of storage, and
    counted views to `recompute`, since counts cannot be recomputed in place."""
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
    """The rules for the changes of views on demand after a change of rules; None if there are none, or if none of the
    views is to `recompute`. Relations `made` have new tables: their old rows cannot be read."""
    if before is None or not before.on_demand.strategies or plan.on_demand.kept != before.on_demand.kept:
        return None
    if not redefined_on_demand(before, plan, {*recompute, *made}):
        # All rules below the views are the same: their changes are computed as usual.
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
    return {m.relation for m in program.relations.values() if m.origin in (RowOrigin.STORED, RowOrigin.CHANGE)}


def redefined_on_demand(before: ProgramPlan | None, plan: ProgramPlan, touched: Collection[str]) -> frozenset[str]:
    """The views on demand whose changes cannot be computed from rules: those that were not on demand before, that have
    other definitions (`touched`), whose stored copy is added or removed, or whose semantics changes between strict and
    nervous, since nervous changes are not the difference of two states."""
    if before is None:
        return frozenset(plan.on_demand.strategies)
    old, new = before.on_demand, plan.on_demand
    turned = (old.kept ^ new.kept) | (old.nervous ^ new.nervous)
    return frozenset(view for view in new.strategies if view in touched or view not in old.strategies or view in turned)
