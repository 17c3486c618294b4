"""The dependency network of a program in layers: base relations first, every view after its inputs.

Layers by longest path, order within a layer by the mean position of the neighbors [Sugiyama, Tagawa, Toda 1981]. An
edge that skips layers has a free slot in each of them, so that it is never drawn behind a box.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from upshot.check.program import CheckedProgram
from upshot.database.explain.dependencies import Dependency, dependencies, everything_below, inputs

SWEEPS = 6


@dataclass(frozen=True, slots=True)
class Slot:
    """A position in a layer: the views of one component, stacked, or a passing edge."""

    members: tuple[str, ...]
    passing: Dependency | None = None


@dataclass(frozen=True, slots=True)
class Network:
    """`layers` from base to top, active rules in the last; `edges` as in the program, also inside components;
    `recursive` has the members of recursive components."""

    layers: tuple[tuple[Slot, ...], ...]
    edges: tuple[Dependency, ...]
    recursive: frozenset[str]
    rules: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """All boxes, layer by layer."""
        return [name for layer in self.layers for slot in layer for name in slot.members]

    def part(self, names: Collection[str]) -> Network:
        """The network of some of them, without empty layers."""
        edges = tuple(edge for edge in self.edges if edge.view in names and edge.relation in names)
        layers = (
            tuple(Slot(tuple(n for n in slot.members if n in names), slot.passing) for slot in layer)
            for layer in self.layers
        )
        kept = (tuple(slot for slot in layer if slot.members or slot.passing in edges) for layer in layers)
        return Network(
            tuple(layer for layer in kept if any(slot.members for slot in layer)),
            edges,
            self.recursive.intersection(names),
            self.rules.intersection(names),
        )


def network(
    program: CheckedProgram,
    roots: Collection[str] | None = None,
    rules: Mapping[str, Collection[Dependency]] = MappingProxyType({}),
) -> Network:
    """The network of the whole program, or of `roots` and their inputs, with `rules`, in order, and the relations they
    read; the facts of a view are part of the view."""
    shown_as = {hidden: name for name, hidden in program.input_part.items()}
    names = [name for name in program.schemas if name not in shown_as and name not in program.hidden]
    if roots is not None:
        below = everything_below(roots, inputs(program))
        names = [name for name in names if name in below]
    edges = [edge for edge in dependencies(program) if edge.view in names and edge.relation in names]
    components = _components(program, names)
    home = {name: component for component in components for name in component}
    levels = _levels(components, home, edges)
    last = 1 + max(levels.values(), default=-1)
    for rule, reading in rules.items():
        components.append((rule,))
        home[rule], levels[(rule,)] = (rule,), last
        edges += sorted(reading)
    recursive = {edge.view for edge in edges if home[edge.view] == home[edge.relation]}
    return Network(
        _ordered(_slotted(components, levels, home, edges), home, edges),
        tuple(edges),
        frozenset(name for component in components if recursive.intersection(component) for name in component),
        frozenset(rules),
    )


def _components(program: CheckedProgram, names: Collection[str]) -> list[tuple[str, ...]]:
    views = {name for component in program.strata for name in component}
    base = [(name,) for name in names if name not in views]
    return base + [component for component in program.strata if component[0] in names]


def _levels(
    components: Iterable[tuple[str, ...]], home: Mapping[str, tuple[str, ...]], edges: Iterable[Dependency]
) -> dict[tuple[str, ...], int]:
    """The longest path from the base to each component; they are in evaluation order, so one pass is enough."""
    below: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    for edge in edges:
        if home[edge.relation] != home[edge.view]:
            below[home[edge.view]].add(home[edge.relation])
    levels: dict[tuple[str, ...], int] = {}
    for component in components:
        levels[component] = 1 + max((levels[each] for each in below[component]), default=-1)
    return levels


def _slotted(
    components: Iterable[tuple[str, ...]],
    levels: Mapping[tuple[str, ...], int],
    home: Mapping[str, tuple[str, ...]],
    edges: Iterable[Dependency],
) -> list[list[Slot]]:
    layers: list[list[Slot]] = [[] for _ in range(1 + max(levels.values(), default=0))]
    for component in components:
        layers[levels[component]].append(Slot(component))
    for edge in edges:
        for level in range(levels[home[edge.relation]] + 1, levels[home[edge.view]]):
            layers[level].append(Slot((), edge))
    return layers


def _ordered(
    layers: list[list[Slot]], home: Mapping[str, tuple[str, ...]], edges: Iterable[Dependency]
) -> tuple[tuple[Slot, ...], ...]:
    before, after = _neighbors(layers, home, edges)
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        for level in range(1, len(layers)) if forward else range(len(layers) - 2, -1, -1):
            other = layers[level - 1] if forward else layers[level + 1]
            place = {(level - 1 if forward else level + 1, slot): n / len(other) for n, slot in enumerate(other)}
            near = before if forward else after
            own = {slot: n / len(layers[level]) for n, slot in enumerate(layers[level])}
            mean = {slot: _mean([place[key] for key in near[level, slot]], own[slot]) for slot in layers[level]}
            layers[level].sort(key=mean.__getitem__)
    return tuple(tuple(layer) for layer in layers)


Neighbors = dict[tuple[int, Slot], list[tuple[int, Slot]]]


def _neighbors(
    layers: list[list[Slot]], home: Mapping[str, tuple[str, ...]], edges: Iterable[Dependency]
) -> tuple[Neighbors, Neighbors]:
    """For each slot its neighbors in the layers before and after."""
    level_of = {name: level for level, layer in enumerate(layers) for slot in layer for name in slot.members}
    before: Neighbors = defaultdict(list)
    after: Neighbors = defaultdict(list)
    for edge in edges:
        first, last = level_of[edge.relation], level_of[edge.view]
        if first == last:
            continue
        path = [Slot(home[edge.relation]), *(Slot((), edge) for _ in range(first + 1, last)), Slot(home[edge.view])]
        for level, (left, right) in enumerate(pairwise(path), first):
            after[level, left].append((level + 1, right))
            before[level + 1, right].append((level, left))
    return before, after


def _mean(numbers: list[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise
