"""Which edges of a `blocks` graph are taken out and put back, and what exactly each costs the closure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import graphs
from bench.tasks import Graph


@dataclass(frozen=True, slots=True)
class EdgeChange:
    """`row` as the graph's form writes it; `lost` is the number of closure tuples that go when the edge goes."""

    row: tuple[Any, ...]
    lost: int


def edge_changes(graph: Graph, count: int) -> list[EdgeChange]:
    """`count` different edges drawn at random, each with its exact effect, computed without any contender."""
    edges, columns = graph.edges(), graph.columns()
    per_block = graphs.by_block(edges)
    changes = []
    for position in np.random.default_rng(5).permutation(len(edges))[:count].tolist():
        source, target = edges[position].tolist()
        block = per_block[source // graphs.BLOCK]
        rest = [edge for edge in block if edge != (source, target)]
        lost = graphs.acyclic_closure_size(block) - graphs.acyclic_closure_size(rest)
        changes.append(EdgeChange(tuple(_plain(column[position]) for column in columns), lost))
    return changes


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
