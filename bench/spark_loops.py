"""Recursion on DataFrames without Upshot: tuned semi-naive loops, and Spark's recursive CTE, which fails.

The loops keep to what is known to be fast: adaptive execution off, the edges broadcast, everything derived so far
partitioned by the whole row so that the set difference needs no shuffle of the large side, the lineage cut each round.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.spark_session import PARTITIONS

Step = Callable[[Any], Any]
FOLD = 10
"""Rounds after which the derived pieces are merged: Spark needs seconds to plan a union of a hundred."""


@dataclass(frozen=True, slots=True)
class Loop:
    """`size` is None if the time limit was reached before the fixpoint; `frame` has the rows found."""

    seconds: float
    rounds: int
    size: int | None
    frame: Any


def closure_loop(edges: Any, cap: float) -> Loop:
    """Linear closure, columns `a` and `b`."""
    from pyspark.sql import functions as F  # noqa: PLC0415  (optional package)

    known = F.broadcast(edges.select(edges.a.alias("m"), edges.b.alias("n")))

    def step(delta: Any) -> Any:
        return delta.join(known, delta.b == known.m).select("a", F.col("n").alias("b"))

    return _fixpoint(edges.select("a", "b"), step, cap)


def same_generation_loop(edges: Any, cap: float) -> Loop:
    """Same generation, columns `a` and `b`."""
    from pyspark.sql import functions as F  # noqa: PLC0415  (optional package)

    left = F.broadcast(edges.select(edges.a.alias("p"), edges.b.alias("x")))
    right = F.broadcast(edges.select(edges.a.alias("q"), edges.b.alias("y")))
    siblings = left.join(right, F.col("p") == F.col("q")).where("x != y")

    def step(delta: Any) -> Any:
        joined = delta.join(left, delta.a == left.p).join(right, delta.b == right.q)
        return joined.select(F.col("x").alias("a"), F.col("y").alias("b"))

    return _fixpoint(siblings.select(F.col("x").alias("a"), F.col("y").alias("b")), step, cap)


def _fixpoint(start: Any, step: Step, cap: float) -> Loop:
    began = time.perf_counter()
    delta, size = _settled(start.distinct())
    pieces, rounds = [delta], 0
    while True:
        rounds += 1
        known = pieces[0]
        for piece in pieces[1:]:
            known = known.unionAll(piece)
        found = step(delta).repartition(PARTITIONS, "a", "b").distinct()
        delta, new = _settled(found.join(known, ["a", "b"], "left_anti"))
        if not new:
            return Loop(time.perf_counter() - began, rounds, size, known)
        size += new
        pieces.append(delta)
        if time.perf_counter() - began > cap:
            return Loop(time.perf_counter() - began, rounds, None, known)
        if len(pieces) > FOLD:
            pieces = [_settled(known.unionAll(delta))[0]]


def _settled(frame: Any) -> tuple[Any, int]:
    """The frame, computed, partitioned by row and without lineage; and its size."""
    cut = frame.repartition(PARTITIONS, "a", "b").localCheckpoint()
    return cut, cut.count()


# ---- everything over again --------------------------------------------------------------------------


def recomputed_parts(frames: Mapping[str, Any], cap: float) -> tuple[float, dict[str, int]]:
    """The views of `bench.parts` computed from their base tables, counted: seconds and sizes."""
    began = time.perf_counter()
    stock = frames["quantity"].join(frames["threshold"].withColumnRenamed("n", "least"), "item")
    low = stock.where("n < least").select("item").localCheckpoint()
    needs = closure_loop(frames["requires"].toDF("a", "b"), cap)
    if needs.size is None:
        raise TimeoutError(f"the closure was not complete after {cap:.0f} s")
    at_risk = needs.frame.join(low.withColumnRenamed("item", "b"), "b", "left_semi").select("a").distinct()
    sizes = {"low": low.count(), "needs": needs.size, "at_risk": at_risk.count()}
    return time.perf_counter() - began, sizes


# ---- recursive common table expressions ---------------------------------------------------------------

CTE = """
with recursive closure(a, b) as (
  select a, b from edge
  {union}
  select edge.a, closure.b from edge join closure on edge.b = closure.a)
select count(*) from {counted}"""


def recursive_cte(spark: Any, edges: Any) -> Iterator[tuple[str, str]]:
    """The results of Spark for the closure as a recursive CTE: with UNION, as needed, and UNION ALL, as supported."""
    edges.createOrReplaceTempView("edge")
    for union, counted in (("union", "closure"), ("union all", "(select distinct * from closure)")):
        try:
            (row,) = spark.sql(CTE.format(union=union, counted=counted)).collect()
        except Exception as error:  # noqa: BLE001 - the error is the answer
            said = re.search(r"\[[A-Z_]+\][^.]*", str(error))
            yield union.upper(), said[0] if said else type(error).__name__
        else:
            yield union.upper(), f"{row[0]:,} tuples"
