"""Explain the maintenance of views, with reasons and last costs, and the firing of rules: as text, data or a
picture."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upshot.check.active.triggering import Edge
from upshot.check.program import CheckedRule
from upshot.core.errors import UsageError
from upshot.core.schema import Role
from upshot.database.engines import Engine
from upshot.database.explain.dependencies import Dependency, inputs
from upshot.database.explain.drawing import Arrow, Layout, laid_out, svg
from upshot.database.explain.explained_rule import (
    Bindings,
    RulePart,
    TriggeringPart,
    describe_rule,
    explained_triggering,
    label,
    read_by,
)
from upshot.database.explain.explained_view import (
    RelationPart,
    counters,
    describe_relation,
    explained_relation,
    rows,
    summarize_relation,
)
from upshot.database.explain.network import Network, network
from upshot.database.placement import Placement, placement_of
from upshot.database.state import DatabaseState


@dataclass(frozen=True, slots=True)
class Explanation:
    """`str()` is for people, `as_dict()` for programs, `svg()` draws the dependency network with sizes and
    strategies."""

    parts: tuple[RelationPart, ...]
    rules: tuple[RulePart, ...]
    """in the order of their turns"""
    triggering: TriggeringPart
    version: int
    work: Mapping[str, Any]
    placement: Placement
    _network: Network
    _awake: int
    """the number of active rules, in `rules` or not"""

    def __str__(self) -> str:
        shown: dict[str, str] = {}
        parts = [describe_relation(part, shown.setdefault(part.plan, part.name)) for part in self.parts]
        parts += [describe_rule(part, self._awake) for part in self.rules]
        parts += [str(self.triggering)] * bool(self.rules)
        return "\n\n".join(parts) + _last_work(self.work, self.version) + f"engine {self.placement}\n"

    def summary(self) -> str:
        """Two lines for each view and one for each rule: strategy, rows, reason, last cost. No rules, no plans."""
        base = [f"{part.name} ({rows(part.size)})" for part in self.parts if part.schema.role is Role.BASE]
        parts = [f"base relations: {', '.join(base)}"] * bool(base)
        parts += [summarize_relation(part) for part in self.parts if part.schema.role is not Role.BASE]
        parts += [f"{part.name}: active rule, {part.note}" for part in self.rules]
        parts += [f"a cycle of rules: {line}" for line in sorted(map(str, self.triggering.looping))]
        return (
            "\n".join(parts) + _last_work(self.work, self.version).replace("\n\n", "\n") + f"engine {self.placement}\n"
        )

    @property
    def edges(self) -> tuple[Dependency, ...]:
        """The dependencies, active rules included."""
        return self._network.edges

    def layout(self, notes: Mapping[str, str]) -> Layout:
        """The network of the relations and rules that have a note, as `svg` lays it out."""
        return laid_out(self._network.part(notes), notes)

    def _repr_svg_(self) -> str:
        return self.svg()

    def as_dict(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "engine": {"name": self.placement.engine, "reason": self.placement.reason or None},
            "relations": {part.name: part.as_dict() for part in self.parts},
            "rules": {part.name: part.as_dict() for part in self.rules},
            "triggering": self.triggering.as_dict(),
            "work": dict(self.work),
        }

    def svg(self) -> str:
        drawn = {part.name for part in self.rules}
        causes: dict[tuple[str, str], list[Edge]] = {}
        for edge in self.triggering.edges:
            if {edge.source, edge.target} <= drawn:
                causes.setdefault((edge.source, edge.target), []).append(edge)
        return svg(
            self._network,
            {part.name: part.schema for part in self.parts} | {part.name: part.rule.visible for part in self.rules},
            {part.name: part.note for part in self.parts} | {part.name: part.note for part in self.rules},
            [
                Arrow(
                    *names,
                    ", ".join(map(label, edges)),
                    "; ".join(map(str, edges)).replace("`", ""),
                    not self.triggering.looping.isdisjoint(edges),
                )
                for names, edges in causes.items()
            ],
        )


def explain(state: DatabaseState, name: str | None) -> Explanation:
    """The explanation of every relation and active rule, or of one view or rule and all it depends on."""
    with state.reading() as engine:
        checked = state.compiled.checked
        order = {rule.name: turn for turn, rule in enumerate(state.compiled.rules.scheduled, 1)}
        rules = [rule for rule in checked.rules if name in (None, rule.name)]
        rules.sort(key=lambda rule: order.get(rule.name, len(order) + 1))
        reading = {rule.name: read_by(rule, checked) for rule in rules}
        drawn = network(checked, _roots(state, name, rules, reading), reading)
        below, found = inputs(checked), explained_triggering(checked)
        return Explanation(
            tuple(
                explained_relation(state, engine, each, below.get(each, frozenset()), recursive=each in drawn.recursive)
                for each in drawn.names
                if each not in reading
            ),
            tuple(_rule(state, engine, rule, order.get(rule.name, 0)) for rule in rules),
            found if name is None else found.around(name),
            state.version,
            engine.work.as_dict(),
            placement_of(engine),
            drawn,
            len(order),
        )


def _roots(
    state: DatabaseState, name: str | None, rules: Sequence[CheckedRule], reading: Mapping[str, Collection[Dependency]]
) -> set[str] | None:
    """The relations to explain, with all they depend on; None for all."""
    if name is None:
        return None
    if rules:
        shown = {hidden: relation for relation, hidden in state.compiled.checked.input_part.items()}
        written = (action.target for action in rules[0].actions if action.kind != "call")
        return {edge.relation for edge in reading[name]} | {shown.get(target, target) for target in written}
    if state.schema(name).role is Role.BASE:
        hint = "explain a view or an active rule instead"
        raise UsageError(f"`{name}` is a base relation", code="not-a-view", help=hint)
    return {name}


def _rule(state: DatabaseState, engine: Engine, rule: CheckedRule, turn: int) -> RulePart:
    checked = state.compiled.checked
    if rule.becomes is None or rule.becomes not in checked.hidden:
        return RulePart(rule, turn, bindings=Bindings.of(rule, engine))
    below = frozenset(edge.relation for edge in read_by(rule, checked))
    condition = explained_relation(state, engine, rule.becomes, below, recursive=False)
    return RulePart(rule, turn, condition, Bindings.of(rule, engine))


def _last_work(work: Mapping[str, Any], version: int) -> str:
    counts = counters(work)
    return f"\n\nversion {version}: {counts}\n" if counts else "\n\n"
