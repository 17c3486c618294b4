"""What a contender is asked to do, as plain data that travels to its process, and what it answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bench import graphs
from bench.graphs import Edges

FORMS = ("integer", "large", "text", "ternary")
"""integer: node numbers · large: node numbers above 2**32 · text: names of nodes · ternary: a label on every edge"""

LARGE = 2**40 + 7
LABELS = 2


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph by name and measures: `grid` (N), `random` (nodes, edges a node leads to on average), `blocks`
    (nodes, edges). `form` is how its nodes are written."""

    kind: str
    measures: tuple[int, ...]
    form: str = "integer"

    def __str__(self) -> str:
        if self.kind == "random":
            short = f"g{self.measures[0] // 1000}k"
        elif self.kind == "grid":
            short = f"grid{self.measures[0]}"
        else:
            short = f"blocks({','.join(map(str, self.measures))})"
        return short if self.form == "integer" else f"{short} {self.form}"

    def edges(self) -> Edges:
        """The edges over small node numbers; a ternary random graph is made by `labeled`."""
        if self.kind == "grid":
            return graphs.grid(*self.measures)
        if self.kind == "random":
            nodes, degree = self.measures
            return graphs.random_graph(nodes, degree / nodes)
        return graphs.blocks(*self.measures)

    def labeled(self) -> Edges:
        """Three columns: source, target, label.

        In a `blocks` graph every block has one label, so the closure keeps its size. Elsewhere two graphs over the
        same nodes lie on top of each other, told apart by the label alone, each with half the pairs of the original.
        """
        if self.kind == "blocks":
            edges = self.edges()
            return np.column_stack([edges, edges[:, 0] // graphs.BLOCK % LABELS])
        if self.kind == "grid":
            raise ValueError("a grid has no labeled form")
        nodes, degree = self.measures
        smaller = round(nodes / LABELS**0.5)
        parts = [graphs.random_graph(smaller, degree / nodes * LABELS**0.5, seed=s) for s in range(1, LABELS + 1)]
        return np.concatenate([np.column_stack([p, np.full(len(p), s)]) for s, p in enumerate(parts)])

    def columns(self) -> list[Any]:
        """The columns of `edge` as NumPy arrays or lists of text, in the graph's form."""
        if self.form == "ternary":
            return [np.ascontiguousarray(column) for column in self.labeled().T]
        source, target = (np.ascontiguousarray(column) for column in self.edges().T)
        if self.form == "large":
            return [source + LARGE, target + LARGE]
        if self.form == "text":
            return [[node_name(n) for n in column.tolist()] for column in (source, target)]
        return [source, target]

    def closure_size(self) -> int:
        """The exact number of tuples of the closure."""
        if self.kind == "grid":
            return graphs.grid_closure_size(*self.measures)
        if self.kind == "blocks":
            return graphs.blocks_closure_size(self.edges())
        if self.form == "ternary":
            edges = self.labeled()
            return sum(graphs.closure_size(edges[edges[:, 2] == label, :2]) for label in range(LABELS))
        return graphs.closure_size(self.edges())


def node_name(number: int) -> str:
    """The text key of a node: of the length names have, and not in the order of the numbers."""
    return f"node-{number * 2654435761 % 2**32:08x}"


@dataclass(frozen=True, slots=True)
class Task:
    """`kind` is closure, same_generation, changes, inventory, the same on Spark (`spark_…`), or pipeline; `options` are
    the kind's own, JSON values only."""

    kind: str
    graph: Graph | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Task:
        graph = data["graph"]
        if graph is not None:
            graph = Graph(graph["kind"], tuple(graph["measures"]), graph["form"])
        return cls(data["kind"], graph, data["options"])


@dataclass(slots=True)
class Answer:
    """What a contender's process hands back.

    `seconds` is the work itself: the process was started, packages were imported and the input was generated before.
    `size` is what must be exactly right. `memory` is the growth of the resident set from just before the work to its
    peak. `times` are the seconds of single transactions; `figures` anything else worth a column,
    `notes` what is better said in words. `unfinished` is the limit that it did not finish within.
    """

    seconds: float = 0.0
    size: int = 0
    memory: int = 0
    peak: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    missing: str = ""
    unfinished: float = 0.0
    error: str = ""

    @property
    def bytes_per_tuple(self) -> float:
        return self.memory / max(1, self.size)
