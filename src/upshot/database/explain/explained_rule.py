"""An active rule explained: its trigger, its condition and its actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from upshot.check.active.triggering import Edge, triggering
from upshot.check.printing import print_clause
from upshot.check.program import CheckedProgram, CheckedRule
from upshot.check.strata import order_of
from upshot.database.explain.dependencies import Dependency, uses
from upshot.database.explain.explained_view import RelationPart, rows, upkeep
from upshot.syntax.ast import Constant
from upshot.syntax.printing import print_term

if TYPE_CHECKING:
    from upshot.database.engines import Engine

_INTO = {"inserted": "inserted into", "deleted": "deleted from", "updated": "updated in"}
_VERBS = {"inserted": "inserting into", "deleted": "deleting from"}
_SIGNS = {"inserted": "+", "deleted": "-"}


MOST_SHOWN = 10
"""The most bindings of a rule that are listed."""


@dataclass(frozen=True, slots=True)
class Bindings:
    """The values of its parameters for which a rule is active: the `first` of `count`."""

    first: tuple[Mapping[str, object], ...]
    count: int

    @staticmethod
    def of(rule: CheckedRule, engine: Engine) -> Bindings | None:
        """None for a rule that is active for all values."""
        if rule.is_awake and not rule.bindings:
            return None
        first: list[Mapping[str, object]] = []
        for table in rule.bindings:
            names = [column.name for column in table.columns]
            found = engine.rows(table.name)
            some = found.sorted() if len(found) <= MOST_SHOWN else islice(found, MOST_SHOWN - len(first))
            first += [dict(zip(names, row, strict=True)) for row in some]
        return Bindings(tuple(first[:MOST_SHOWN]), sum(engine.size(table.name) for table in rule.bindings))


@dataclass(frozen=True, slots=True)
class RulePart:
    """One active rule of an explanation. `turn` counts from 1, in the order in which triggered rules run; it is 0 for
    an inactive rule. `condition` is the hidden view of a strict condition, `bindings` the values for which it is
    active, if not for all."""

    rule: CheckedRule
    turn: int
    condition: RelationPart | None = None
    bindings: Bindings | None = None

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def options(self) -> list[str]:
        rule = self.rule
        options = [rule.coupling, rule.semantics, f"per {rule.per}"] + [f"priority {rule.priority}"] * bool(
            rule.priority
        )
        options += [f"group {name}" for name in rule.groups]
        return options + [f"precedes {name}" for name in rule.precedes] + [f"follows {name}" for name in rule.follows]

    @property
    def actions(self) -> list[str]:
        return [action.text for action in self.rule.actions]

    @property
    def note(self) -> str:
        """A short text for a picture."""
        return f"{f'turn {self.turn}' if self.turn else 'inactive'} · {self.rule.coupling} · {', '.join(self.actions)}"

    def as_dict(self) -> dict[str, Any]:
        rule = self.rule
        hidden = rule.becomes if rule.asleep else self.condition and self.condition.name
        return {
            "columns": {column.name: str(column.type) for column in rule.visible.columns},
            "parameters": list(rule.parameters),
            "identity": [rule.instance.columns[place].name for place in rule.identity],
            "turn": self.turn or None,
            **{name: getattr(rule, name) for name in ("coupling", "semantics", "per", "priority")},
            "precedes": list(rule.precedes),
            "follows": list(rule.follows),
            "triggers": [
                {"relation": None if relation == hidden else relation, "operation": operation}
                for relation, operation in rule.triggers
            ],
            "condition": self.condition and {k: v for k, v in self.condition.as_dict().items() if k != "role"},
            "windows": {
                window.schema.name: {
                    "relation": None if window.relation == hidden else window.relation,
                    "operation": window.operation,
                }
                for window in rule.windows
            },
            "questions": [print_clause(clause) for clause in rule.clauses],
            "unless": [print_clause(clause) for clause in rule.before],
            "actions": self.actions,
            "groups": list(rule.groups),
            "activations": [{}] if self.bindings is None else [dict(binding) for binding in self.bindings.first],
            "active_for": None if self.bindings is None else self.bindings.count,
        }


def describe_rule(part: RulePart, turns: int) -> str:
    """The rule as text; `turns` is the number of active rules."""
    turn = f"turn {part.turn} of {turns}" if part.turn else "inactive"
    head = f"{part.rule.visible}: active rule, {turn}, {', '.join(part.options)}"
    return "\n".join([head, *(f"  {line}" for line in _lines(part))])


def _lines(part: RulePart) -> Iterator[str]:
    rule, condition = part.rule, part.condition
    if condition is not None or rule.asleep:
        identity = ", ".join(rule.instance.columns[place].name for place in rule.identity)
        yield f"triggered when its condition becomes true{f' for another {identity}' if identity else ''}"
    if rule.asleep:
        yield "condition, not kept while it is inactive"
        yield from (f"  {print_clause(clause)}" for clause in rule.asleep)
    elif condition is not None:
        yield f"condition, kept for it alone: {rows(condition.size)}"
        yield from (f"  {line}" for line in upkeep(condition, condition.name))
    else:
        yield f"triggered by {' or '.join(f'rows {_INTO[op]} {relation}' for relation, op in rule.triggers)}"
    yield from _questions(part)
    yield "actions"
    yield from (f"  {action}" for action in part.actions)
    if part.bindings is not None:
        found = part.bindings
        yield from (f"active for {each}" for each in _activations(rule, found) or ["nothing"])
        if found.count > len(found.first):
            yield f"active for {found.count - len(found.first):,} more"


def _questions(part: RulePart) -> Iterator[str]:
    """The queries at the rule's turn, and their windows."""
    rule = part.rule
    if not rule.clauses:
        yield "at its turn it fires for the rows inserted into its condition"
        return
    yield "at its turn it evaluates"
    for clause in rule.clauses:
        yield from (f"  {line}" for line in print_clause(clause).splitlines())
    if rule.before:
        yield "  unless it held before"
    for clause in rule.before:
        yield from (f"    {line}" for line in print_clause(clause).splitlines())
    for window in rule.windows:
        is_hidden = window.relation == rule.becomes and (part.condition is not None or bool(rule.asleep))
        where = "its condition" if is_hidden else window.relation
        yield f"  where {window.schema.name} are the rows {_INTO[window.operation]} {where} since its last turn"


def _activations(rule: CheckedRule, bindings: Bindings) -> list[str]:
    types = {column.name: column.type for column in rule.instance.columns}
    return [
        ", ".join(f"{name} = {print_term(Constant(value, types[name]))}" for name, value in binding.items())
        for binding in bindings.first
    ]


# ---- the triggering graph --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TriggeringPart:
    """The edges of the triggering graph, those that are `looping` (on a cycle that is not known to end), and the
    shortest such cycles. `hidden` are the views of conditions, which are not named."""

    edges: tuple[Edge, ...]
    looping: frozenset[Edge]
    cycles: tuple[tuple[Edge, ...], ...]
    hidden: frozenset[str]

    def around(self, rule: str) -> TriggeringPart:
        cycles = tuple(cycle for cycle in self.cycles if any(rule == edge.source for edge in cycle))
        return replace(self, edges=tuple(e for e in self.edges if rule in (e.source, e.target)), cycles=cycles)

    def __str__(self) -> str:
        lines = ["triggering"]
        if not self.edges:
            lines.append("  no rule here can trigger one")
        for edge in self.edges:
            through = self.through(edge)
            path = f"by {_VERBS[edge.operation]} {edge.relation}" + f", through {through}" * bool(through)
            lines.append(f"  {edge.source} → {edge.target} {path}{', on a cycle' * (edge in self.looping)}")
        for cycle in self.cycles:
            names = [edge.source for edge in cycle]
            lines.append(f"  cycle {' → '.join([*names, names[0]])}: it is not known to terminate")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        edges = [
            {
                "source": edge.source,
                "target": edge.target,
                "relation": edge.relation,
                "operation": edge.operation,
                "through": self.through(edge),
                "cycle": edge in self.looping,
            }
            for edge in self.edges
        ]
        return {"edges": edges, "cycles": [[edge.source for edge in cycle] for cycle in self.cycles]}

    def through(self, edge: Edge) -> str | None:
        """The view between two rules, if there is one."""
        view = edge.event[0]
        return None if view == edge.relation or view in self.hidden else view


def explained_triggering(program: CheckedProgram) -> TriggeringPart:
    found = triggering(program)
    ends = {edge.source for cycle in found.cycles for edge in cycle}
    groups = order_of(found.rules, [(edge.source, edge.target) for edge in found.edges])
    home = {name: group for group in groups for name in group if ends.intersection(group)}
    looping = frozenset(edge for edge in found.edges if edge.source in home and edge.target in home[edge.source])
    return TriggeringPart(found.edges, looping, found.cycles, program.hidden)


def label(edge: Edge) -> str:
    """Text such as `+order`, for a picture."""
    return _SIGNS[edge.operation] + edge.relation


# ---- the relations of a rule -------------------------------------------------------------------------


def read_by(rule: CheckedRule, program: CheckedProgram) -> frozenset[Dependency]:
    """The relations that trigger a rule or that it queries, as edges to it, by the names that users know."""
    shown = {hidden: name for name, hidden in program.input_part.items()}
    windows: Mapping[str, str] = {window.schema.name: window.relation for window in rule.windows}
    own = [clause for clause in program.clauses if clause.head.relation in program.hidden & {rule.becomes}]
    own += rule.asleep
    hidden = program.hidden | {clause.head.relation for clause in rule.asleep}
    found = {(relation, False, False) for relation, _ in rule.triggers}
    for clause in (*own, *rule.clauses, *rule.before):
        for relation, negated, aggregated in uses(clause):
            # Negation of a window is no negation of the relation.
            found.add((windows[relation], False, False) if relation in windows else (relation, negated, aggregated))
    return frozenset(
        Dependency(shown.get(relation, relation), rule.name, negated, aggregated)
        for relation, negated, aggregated in found
        if relation not in hidden and relation not in rule.helpers
    )
