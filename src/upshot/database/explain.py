"""How views are maintained, why so, and what it cost last time: as text, as data, as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from upshot.check.printing import print_clause
from upshot.core.errors import UsageError
from upshot.core.schema import Role, Schema
from upshot.database.dependencies import inputs
from upshot.database.drawing import svg
from upshot.database.engines import Engine
from upshot.database.network import Network, network
from upshot.database.placement import Placement, placement_of
from upshot.database.state import State
from upshot.plan import ProgramPlan
from upshot.plan.pivot import decomposition


@dataclass(frozen=True, slots=True)
class Part:
    """One relation of an explanation. A base relation has no strategy, rules or plan."""

    name: str
    schema: Schema
    size: int | None
    """rows stored; None for a view that is not"""
    recursive: bool
    strategy: str
    reasons: tuple[str, ...]
    others: tuple[tuple[str, str], ...]
    """the other strategies that would have been possible, and why not"""
    rules: tuple[str, ...]
    uses: tuple[str, ...]
    plan: str
    work: Mapping[str, Any]
    """counters of the last change, of the whole component; empty if it was not reached"""
    decomposition: str = ""
    """on Spark, how the recursion of the component is cut into parts, or why it is not"""


@dataclass(frozen=True, slots=True)
class Explanation:
    """`str()` is for people, `as_dict()` for programs, `svg()` the dependency network with sizes and strategies."""

    parts: tuple[Part, ...]
    version: int
    work: Mapping[str, Any]
    placement: Placement
    _network: Network

    def __str__(self) -> str:
        shown: dict[str, str] = {}
        parts = [_described(part, shown.setdefault(part.plan, part.name)) for part in self.parts]
        return "\n\n".join(parts) + _last_work(self.work, self.version) + f"engine {self.placement}\n"

    def _repr_svg_(self) -> str:
        """Notebooks show the picture."""
        return self.svg()

    def as_dict(self) -> dict[str, Any]:
        relations = {
            part.name: {
                "role": part.schema.role.value,
                "columns": {column.name: str(column.type) for column in part.schema.columns},
                "size": part.size,
                "recursive": part.recursive,
                "strategy": part.strategy or None,
                "reasons": list(part.reasons),
                "others": dict(part.others),
                "rules": list(part.rules),
                "uses": list(part.uses),
                "plan": part.plan,
                "decomposition": part.decomposition or None,
                "work": dict(part.work),
            }
            for part in self.parts
        }
        engine = {"name": self.placement.engine, "reason": self.placement.reason or None}
        return {"version": self.version, "engine": engine, "relations": relations, "work": dict(self.work)}

    def svg(self) -> str:
        """The network as an SVG document."""
        parts = {part.name: part for part in self.parts}
        return svg(self._network, {name: part.schema for name, part in parts.items()}, lambda name: _note(parts[name]))


def explain(state: State, view: str | None) -> Explanation:
    """The explanation of every relation, or of one view and all it rests on."""
    with state.reading() as engine:
        if view is not None and state.schema(view).role is Role.BASE:
            hint = "its rows are what transactions put there; explain a view"
            raise UsageError(f"`{view}` is a base relation", code="not-a-view", help=hint)
        drawn = network(state.compiled.checked, view)
        names = [name for layer in drawn.layers for slot in layer for name in slot.members]
        below = inputs(state.compiled.checked)
        parts = tuple(_part(state, engine, name, drawn, below.get(name, frozenset())) for name in names)
        return Explanation(parts, state.version, engine.work.as_dict(), placement_of(engine), drawn)


def _part(state: State, engine: Engine, name: str, drawn: Network, uses: frozenset[str]) -> Part:
    checked, plan = state.compiled.checked, state.compiled.plan
    schema = checked.schemas[name]
    size = engine.size(name) if name not in plan.on_demand.unstored else None
    if schema.role is Role.BASE:
        return Part(name, schema, size, False, "", (), (), (), (), "", {})
    choice = plan.strategies[name]
    rules = tuple(print_clause(clause) for clause in checked.clauses if clause.head.relation == name)
    reasons, recursive = tuple(choice.reasons), name in drawn.recursive
    work = next((asdict(done) for views, done in engine.work.views.items() if name in views.split(", ")), {})
    told = engine.describe(name)
    parts = _decomposition(plan, name) if placement_of(engine).engine == "spark" else ""
    used = tuple(sorted(uses))
    return Part(name, schema, size, recursive, choice.strategy, reasons, choice.others, rules, used, told, work, parts)


def _decomposition(plan: ProgramPlan, view: str) -> str:
    """How the recursion that the view is part of is cut into parts; nothing if it is part of none."""
    component = next((each for each in plan.components if view in each.views), None)
    if component is None or not component.recursive or component.strategy == "production":
        return ""
    return str(decomposition(component, plan.normal))


def _described(part: Part, first: str) -> str:
    """The part as text; `first` is the part that already shows the same plan, views of one component share theirs."""
    kind = "recursive " * part.recursive + part.schema.role.value
    if part.schema.role is Role.BASE:
        kind = "base relation"
    lines = [f"{part.schema}: {kind}, {_rows(part.size)}"]
    if part.strategy:
        lines.append(f"  strategy {part.strategy}")
        lines += [f"    because {reason}" for reason in part.reasons]
        lines += [f"    rather than {name}, which {why}" for name, why in part.others]
        lines.append("  rules")
        lines += [f"    {line}" for rule in part.rules for line in rule.splitlines()]
    if part.decomposition and part.decomposition.rstrip() not in part.plan:
        lines += [f"  {line}" for line in part.decomposition.rstrip().splitlines()]
    if part.plan:
        lines.append("  plan" if first == part.name else f"  plan as for {first}")
        lines += [f"    {line}" for line in part.plan.rstrip().splitlines()] * (first == part.name)
    if counters := _counters(part.work):
        lines.append(f"  last change: {counters}")
    if decision := part.work.get("decision"):
        lines.append(f"    {decision}")
    return "\n".join(lines)


def _last_work(work: Mapping[str, Any], version: int) -> str:
    counters = _counters(work)
    return f"\n\nversion {version}: {counters}\n" if counters else "\n\n"


def _counters(work: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in work.items() if isinstance(value, int) and value)


def _note(part: Part) -> str:
    return _rows(part.size) + (f" · {part.strategy}" if part.strategy else "")


def _rows(count: int | None) -> str:
    if count is None:
        return "not stored"
    return "1 row" if count == 1 else f"{count:,} rows"
