"""What the benchmark compares with on Spark gives the right answers, too: a wrong peer would flatter us."""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest

from bench.graphs import grid_same_generation_size
from bench.parts import Parts
from bench.spark_loops import closure_loop, recomputed_parts, recursive_cte, same_generation_loop
from bench.tasks import Graph

pytestmark = pytest.mark.slow

LEVELS = "spark.sql.cteRecursionLevelLimit"


def test_the_plain_loops_find_exactly_the_closure_and_the_same_generation(spark: Any) -> None:
    graph = Graph("grid", (3,))
    edges = spark.createDataFrame(pyarrow.table(graph.columns(), names=["a", "b"]))
    assert closure_loop(edges, cap=60).size == graph.closure_size()
    assert same_generation_loop(edges, cap=60).size == grid_same_generation_size(3)
    assert closure_loop(edges, cap=0).size is None


def test_the_recomputation_of_the_pipelines_views_has_their_sizes(spark: Any) -> None:
    parts = Parts(rows=4_000, nodes=400)
    frames = {name: spark.createDataFrame(pyarrow.table(columns)) for name, columns in parts.relations().items()}
    assert recomputed_parts(frames, cap=60)[1] == parts.sizes()


def test_spark_has_no_recursive_cte_for_a_closure_with_cycles(spark: Any) -> None:
    edges = spark.createDataFrame(pyarrow.table({"a": [1, 2], "b": [2, 1]}))
    # Each level is a job, and Spark goes through a hundred before it says so.
    spark.conf.set(LEVELS, 5)
    try:
        said = dict(recursive_cte(spark, edges))
    finally:
        spark.conf.unset(LEVELS)
    assert "UNION_NOT_SUPPORTED_IN_RECURSIVE_CTE" in said["UNION"]
    assert "RECURSION" in said["UNION ALL"]
