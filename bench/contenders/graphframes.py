"""GraphFrames' connected components, where its package for Spark can be fetched."""

from __future__ import annotations

import time

import pyarrow
from graphframes import GraphFrame

from bench import spark_session
from bench.tasks import Answer, Task

PACKAGE = "io.graphframes:graphframes-spark4_2.13:0.12.1"


def run(task: Task) -> Answer:
    cannot = spark_session.missing()
    if cannot is not None:
        return cannot
    try:
        spark = spark_session.session(**{"spark.jars.packages": PACKAGE})
    except Exception as error:  # noqa: BLE001 - Spark ends with whatever its dependency resolver says
        return Answer(missing=f"{PACKAGE} cannot be fetched: {str(error)[:100]}")
    assert task.graph is not None
    edges = spark.createDataFrame(pyarrow.table(task.graph.columns(), names=["src", "dst"]))
    vertices = edges.selectExpr("src as id").union(edges.selectExpr("dst as id")).distinct()
    began = time.perf_counter()
    size = GraphFrame(vertices, edges).connectedComponents().count()
    return Answer(time.perf_counter() - began, size)
