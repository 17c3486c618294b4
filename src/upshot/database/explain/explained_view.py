"""Explain the maintenance of one relation: strategy, reasons and last cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from upshot.check.printing import print_clause
from upshot.core.schema import Role, Schema
from upshot.database import live
from upshot.database.engines import Engine
from upshot.database.live.live_queries import KeptQuery
from upshot.database.placement import placement_of
from upshot.database.state import DatabaseState
from upshot.plan import ProgramPlan
from upshot.plan.pivot import decomposition


@dataclass(frozen=True, slots=True)
class RelationPart:
    """One relation of an explanation. A base relation has no strategy, rules or plan."""

    name: str
    schema: Schema
    size: int | None
    """rows stored; None for a view that is not"""
    recursive: bool = False
    strategy: str = ""
    reasons: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    """the other possible strategies, and why they were not chosen"""
    rules: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    plan: str = ""
    work: Mapping[str, Any] = field(default_factory=dict)
    """counters of the last change, of the whole component; empty if it was not reached"""
    decomposition: str = ""
    """on Spark, the partitioning of the component's recursion, or why there is none"""
    kept: tuple[KeptQuery, ...] = ()
    """queries on an unstored view whose answers are kept current for some parameters"""

    def as_dict(self) -> dict[str, Any]:
        return {
            "role": self.schema.role.value,
            "columns": {column.name: str(column.type) for column in self.schema.columns},
            "size": self.size,
            "recursive": self.recursive,
            "strategy": self.strategy or None,
            "reasons": list(self.reasons),
            "others": dict(self.others),
            "rules": list(self.rules),
            "uses": list(self.uses),
            "plan": self.plan,
            "decomposition": self.decomposition or None,
            "work": dict(self.work),
            "kept": [asdict(each) for each in self.kept],
        }

    @property
    def note(self) -> str:
        """A short text for a picture."""
        return rows(self.size) + (f" · {self.strategy}" if self.strategy else "")


def explained_relation(
    state: DatabaseState, engine: Engine, name: str, uses: frozenset[str], *, recursive: bool
) -> RelationPart:
    checked, plan = state.compiled.checked, state.compiled.plan
    schema = checked.schemas[name]
    size = engine.size(name) if name not in plan.on_demand.unstored else None
    if schema.role is Role.BASE:
        return RelationPart(name, schema, size)
    choice = plan.strategies[name]
    return RelationPart(
        name,
        schema,
        size,
        recursive,
        choice.strategy,
        tuple(choice.reasons),
        choice.others,
        tuple(print_clause(clause) for clause in checked.clauses if clause.head.relation == name),
        tuple(sorted(uses)),
        engine.describe(name),
        next((asdict(done) for views, done in engine.work.views.items() if name in views.split(", ")), {}),
        _decomposition(plan, name) if placement_of(engine).engine == "spark" else "",
        tuple(live.kept.kept_queries(state, name)) if size is None and state.kept.places else (),
    )


def _decomposition(plan: ProgramPlan, view: str) -> str:
    """The decomposition of the view's recursion; empty if it has none."""
    component = next((each for each in plan.components if view in each.views), None)
    if component is None or not component.recursive or not component.strategy.runs_whole:
        return ""
    return str(decomposition(component, plan.normal))


def summarize_relation(part: RelationPart) -> str:
    """The view in two lines."""
    kind = "recursive " * part.recursive + part.schema.role.value
    counts = counters(part.work)
    cost = f"; last change: {counts}" * bool(counts)
    reason = part.reasons[0] if part.reasons else "the only one possible"
    count = sum(each.parameters for each in part.kept)
    kept = f"; answers for {count:,} parameter{'s' * (count != 1)} kept current" * bool(count)
    return f"{part.name}: {kind}, {rows(part.size)}, strategy {part.strategy}\n  because {reason}{cost}{kept}"


def describe_relation(part: RelationPart, first: str) -> str:
    """The part as text; `first` is the part that already shows the same plan, which the views of a component share."""
    kind = "recursive " * part.recursive + part.schema.role.value
    if part.schema.role is Role.BASE:
        kind = "base relation"
    head = f"{part.schema}: {kind}, {rows(part.size)}"
    return "\n".join([head, *(f"  {line}" for line in upkeep(part, first))])


def upkeep(part: RelationPart, first: str) -> Iterator[str]:
    """Strategy, rules, plan and last work, line by line."""
    if part.strategy:
        yield f"strategy {part.strategy}"
        yield from (f"  because {reason}" for reason in part.reasons)
        yield from (f"  rather than {name}, which {why}" for name, why in part.others)
        yield "rules"
        yield from (f"  {line}" for rule in part.rules for line in rule.splitlines())
    for each in part.kept:
        yield f"kept current: {each.query}, for {each}; other parameters are answered on demand"
    if part.decomposition and part.decomposition.rstrip() not in part.plan:
        yield from part.decomposition.rstrip().splitlines()
    if part.plan:
        yield "plan" if first == part.name else f"plan as for {first}"
        yield from (f"  {line}" for line in part.plan.rstrip().splitlines() if first == part.name)
    if counts := counters(part.work):
        yield f"last change: {counts}"
    if decision := part.work.get("decision"):
        yield f"  {decision}"


def counters(work: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in work.items() if isinstance(value, int) and value)


def rows(count: int | None) -> str:
    if count is None:
        return "not stored"
    return "1 row" if count == 1 else f"{count:,} rows"
