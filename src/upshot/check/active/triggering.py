"""The triggering graph of active rules: its edges, its cycles, and rules whose order matters.

The graph is conservative: an edge means that an action may cause a change that triggers the other rule, judged by the
signs of changes through all views. An action that can only make a condition false makes no edge. [Aiken, Widom &
Hellerstein 1992]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from upshot.check.active.events import Event, Events, written
from upshot.check.findings import Findings
from upshot.check.program import CheckedProgram, CheckedRule
from upshot.check.strata import order_of
from upshot.core.operations import DELETED, INSERTED, OPPOSITE
from upshot.core.precedence import all_after
from upshot.core.span import Span


@dataclass(frozen=True, slots=True)
class Edge:
    """An action of `source` inserts into or deletes from `relation`, which can trigger `target` by `event`, a change of
    that relation or of a view of it."""

    source: str
    target: str
    relation: str
    operation: str
    event: Event

    def __str__(self) -> str:
        verb = "inserting into" if self.operation == INSERTED else "deleting from"
        return f"`{self.source}` triggers `{self.target}` by {verb} `{self.relation}`"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two rules without an order, and the reason why their order matters."""

    first: str
    second: str
    reason: str


@dataclass(frozen=True, slots=True)
class Triggering:
    """`rules` in the order of their definition; `cycles` that may not terminate; `conflicts` of rules without an
    order."""

    rules: tuple[str, ...]
    edges: tuple[Edge, ...]
    cycles: tuple[tuple[Edge, ...], ...]
    conflicts: tuple[Conflict, ...]


def triggering(program: CheckedProgram) -> Triggering:
    """The triggering graph of a program's rules."""
    events = Events.of(program)
    answered = {rule.name: events.triggers(rule) for rule in program.rules}
    edges = tuple(edge for rule in program.rules for edge in _edges(rule, program.rules, events, answered))
    return Triggering(
        tuple(rule.name for rule in program.rules),
        edges,
        tuple(_cycles(program, edges, events)),
        tuple(_conflicts(program.rules, events)),
    )


def _edges(
    source: CheckedRule, rules: Iterable[CheckedRule], events: Events, answered: Mapping[str, frozenset[Event]]
) -> Iterator[Edge]:
    seen: set[tuple[str, Event]] = set()
    for action, event in written(source):
        reached = events.consequences(source, action)
        for rule in rules:
            found = sorted(reached & answered[rule.name])
            if not found or (rule.name, event) in seen:
                continue
            if any(events.can_match(source, action, rule, each) for each in found):
                seen.add((rule.name, event))
                yield Edge(source.name, rule.name, *event, found[0])


# ---- cycles -------------------------------------------------------------------------------------


def _cycles(program: CheckedProgram, edges: Sequence[Edge], events: Events) -> Iterator[tuple[Edge, ...]]:
    """A shortest cycle through every rule that is on one, unless its rules are known to terminate."""
    names = [rule.name for rule in program.rules]
    rules = {rule.name: rule for rule in program.rules}
    out: dict[str, list[Edge]] = {name: [] for name in names}
    for edge in edges:
        out[edge.source].append(edge)
    seen: set[frozenset[tuple[str, str]]] = set()
    for component in order_of(names, [(edge.source, edge.target) for edge in edges]):
        if events.must_end([rules[name] for name in component], program.rules):
            continue
        for name in component:
            cycle = _shortest(name, out)
            key = frozenset((edge.source, edge.target) for edge in cycle)
            if cycle and key not in seen:
                seen.add(key)
                yield cycle


def _shortest(start: str, out: Mapping[str, Sequence[Edge]]) -> tuple[Edge, ...]:
    """A shortest cycle through a rule; empty if there is none."""
    arrived: dict[str, Edge] = {}
    queue = deque([start])
    while queue and start not in arrived:
        for edge in out[queue.popleft()]:
            if edge.target not in arrived:
                arrived[edge.target] = edge
                queue.append(edge.target)
    if start not in arrived:
        return ()
    path = [arrived[start]]
    while path[-1].source != start:
        path.append(arrived[path[-1].source])
    return tuple(reversed(path))


# ---- order --------------------------------------------------------------------------------------


def _conflicts(rules: Sequence[CheckedRule], events: Events) -> Iterator[Conflict]:
    later = _later(rules)
    writes = {rule.name: dict.fromkeys(event for _, event in written(rule)) for rule in rules}
    reads = {rule.name: events.relations(rule) for rule in rules}
    for first, second in combinations(rules, 2):
        if (first.coupling, first.priority) != (second.coupling, second.priority):
            continue
        if second.name in later[first.name] or first.name in later[second.name]:
            continue
        reason = (
            _interferes(first, second, writes, reads)
            or _interferes(second, first, writes, reads)
            or _opposite(first, second, writes)
        )
        if reason:
            yield Conflict(first.name, second.name, reason)


_VERBS = {INSERTED: "inserts into", DELETED: "deletes from"}


def _interferes(
    writer: CheckedRule,
    reader: CheckedRule,
    writes: Mapping[str, Iterable[Event]],
    reads: Mapping[str, Collection[str]],
) -> str:
    for relation, operation in writes[writer.name]:
        if relation in reads[reader.name]:
            return f"`{writer.name}` {_VERBS[operation]} `{relation}`, which `{reader.name}` reads"
    return ""


def _opposite(first: CheckedRule, second: CheckedRule, writes: Mapping[str, Collection[Event]]) -> str:
    for relation, operation in writes[first.name]:
        if (relation, OPPOSITE[operation]) in writes[second.name]:
            other = _VERBS[OPPOSITE[operation]]
            return f"`{first.name}` {_VERBS[operation]} `{relation}`, and `{second.name}` {other} it"
    return ""


def _later(rules: Sequence[CheckedRule]) -> dict[str, set[str]]:
    """The rules that must follow each rule, by `precedes` and `follows`."""
    after: dict[str, set[str]] = {rule.name: set() for rule in rules}
    for rule in rules:
        after[rule.name].update(name for name in rule.precedes if name in after)
        for name in rule.follows:
            if name in after:
                after[name].add(rule.name)
    return all_after(after)


# ---- warnings ------------------------------------------------------------------------------------------------------


def warn_of_interplay(program: CheckedProgram, findings: Findings) -> None:
    """Warn of cycles of rules, and of rules without an order whose order matters."""
    if not program.rules:
        return
    found = triggering(program)
    spans = {rule.name: rule.span for rule in program.rules}
    _warn_of_cycles(found, spans, findings)
    for conflict in found.conflicts:
        findings.warn(
            "rule-order-matters",
            f"rules `{conflict.first}` and `{conflict.second}` have no order: {conflict.reason}",
            spans[conflict.second],
            label="runs second because it is defined later",
            help=f"set the order: `precedes={conflict.second}` for `{conflict.first}`, or a `priority`",
        )


def _warn_of_cycles(found: Triggering, spans: Mapping[str, Span | None], findings: Findings) -> None:
    for cycle in found.cycles:
        alone = len(cycle) == 1
        findings.warn(
            "rules-may-not-terminate",
            ("rule" if alone else "rules")
            + f" {' → '.join(f'`{edge.source}`' for edge in cycle)} may not terminate: "
            + ", ".join(map(str, cycle)),
            spans[cycle[0].source],
            label="can trigger itself" if alone else "part of a cycle",
            help="let the action make the condition false; otherwise a limit on firings stops it",
        )
