from __future__ import annotations

import random

import numpy as np
import pytest

from bench import graphs
from bench.edge_changes import edge_changes
from bench.inventory import Inventory
from bench.tasks import FORMS, Graph, Task, node_name


def _closure(edges: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """The closure by its definition, for graphs small enough."""
    reach = set(edges)
    while True:
        longer = {(a, d) for a, b in reach for c, d in edges if b == c} - reach
        if not longer:
            return reach
        reach |= longer


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_formula_counts_the_closure_of_a_grid(size: int) -> None:
    edges = [tuple(e) for e in graphs.grid(size).tolist()]
    assert graphs.grid_closure_size(size) == len(_closure(edges)) == graphs.closure_size(graphs.grid(size))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_formula_counts_same_generation_on_a_grid(size: int) -> None:
    edges = [tuple(e) for e in graphs.grid(size).tolist()]
    same = {(x, y) for p, x in edges for q, y in edges if p == q and x != y}
    while longer := {(x, y) for a, b in same for p, x in edges if p == a for q, y in edges if q == b} - same:
        same |= longer
    assert graphs.grid_same_generation_size(size) == len(same)


@pytest.mark.parametrize("seed", range(30))
def test_closure_size_agrees_with_the_definition_cycles_included(seed: int) -> None:
    rng = random.Random(seed)
    nodes = rng.randint(1, 12)
    edges = sorted({(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(rng.randint(1, 25))})
    assert graphs.closure_size(np.array(edges)) == len(_closure(edges))


def test_a_blocks_graph_keeps_its_promises() -> None:
    edges = graphs.blocks(2000, 6000)
    source, target = edges.T
    assert len({tuple(e) for e in edges.tolist()}) == 6000
    assert np.all((source < target) & (target <= source + graphs.REACH))
    assert np.all(source // graphs.BLOCK == target // graphs.BLOCK)
    assert graphs.blocks_closure_size(edges) == graphs.closure_size(edges) == 162_623


def test_the_same_name_is_the_same_graph() -> None:
    assert np.array_equal(graphs.random_graph(100, 0.05), graphs.random_graph(100, 0.05))
    assert Graph("random", (1000, 10)).closure_size() == 1_000_000


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_blocks_graph_has_a_closure_of_the_same_size(form: str) -> None:
    graph = Graph("blocks", (400, 1000), form)
    rows = list(zip(*(list(map(str, column)) for column in graph.columns()), strict=True))
    assert len(set(rows)) == 1000
    assert graph.closure_size() == Graph("blocks", (400, 1000)).closure_size()


def test_two_nodes_never_share_a_name() -> None:
    assert len({node_name(n) for n in range(100_000)}) == 100_000


def test_the_effect_of_an_edge_is_what_recomputation_says() -> None:
    graph = Graph("blocks", (400, 900))
    edges = [tuple(e) for e in graph.edges().tolist()]
    for change in edge_changes(graph, 5):
        without = np.array([e for e in edges if e != change.row])
        assert change.lost == graph.closure_size() - graphs.closure_size(without)


def test_a_task_survives_the_way_to_another_process() -> None:
    task = Task("changes", Graph("blocks", (400, 900), "text"), {"edges": 3})
    assert Task.from_json(task.to_json()) == task


def test_crossings_are_items_that_were_not_low() -> None:
    inventory = Inventory(1000)
    crossings = dict(inventory.crossings(50))
    assert len(crossings) == 50
    assert all(not inventory.low[item] and n < inventory.threshold[item] for item, n in crossings.items())
