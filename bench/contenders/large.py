"""Upshot on Spark over tables far larger than memory would hold as Python objects: time, memory and disk."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import upshot
from bench import graphs, spark_session
from bench.process_tree import resident_bytes
from bench.tasks import Answer, Task

JOIN = """
.decl orders(id: number, customer: number)
.decl customer(id: number, region: number)
.decl placed(id: number, region: number)
placed(O, R) :- orders(O, C), customer(C, R).
"""
CLOSURE = """
.decl edge(a: number, b: number)
.decl closure(a: number, b: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
"""
ORDERS_A_CUSTOMER = 100
CHANGED = 1000
"""Rows of a change, and of the view that it changes."""
SIDE = 14
"""The closure is that of grids of 15 by 15 points side by side: 420 edges and 14,175 pairs each."""
ROWS_A_PART = 2_000_000


def run(task: Task) -> Answer:
    """`size` is that of the view after the load; the size of every change is compared, too."""
    cannot = spark_session.missing()
    if cannot is not None:
        return cannot
    rows = task.options["rows"]
    parts = str(max(2, rows // ROWS_A_PART))
    with tempfile.TemporaryDirectory(prefix="upshot-bench-", dir=task.options.get("folder")) as folder:
        settings = {
            "spark.local.dir": f"{folder}/local",
            "upshot.location": f"{folder}/lake",
            "upshot.partitions": parts,
            "spark.sql.shuffle.partitions": parts,
            "spark.default.parallelism": parts,
        }
        spark = spark_session.session(**settings)
        work = {"large_join": _join, "large_closure": _closure}[task.kind]
        with watched(Path(folder)) as usage:
            answer = work(spark, folder, rows)
        answer.peak = usage.memory
        answer.figures["disk peak"] = float(usage.disk)
        spark.stop()
    return answer


def _join(spark: Any, folder: str, rows: int) -> Answer:
    """Orders and their customers; a thousand orders are inserted, then ten customers with all orders deleted."""
    from pyspark.sql import functions as F  # noqa: PLC0415  (optional package)

    customers = max(100, rows // ORDERS_A_CUSTOMER)
    orders = spark.range(rows).select("id", (F.col("id") % customers).alias("customer"))
    known = spark.range(customers).select("id", (F.col("id") % 50).alias("region"))
    new = [(rows + n, n % customers) for n in range(CHANGED)]
    gone = [(n, n % 50) for n in range(CHANGED * customers // rows)]
    lost = sum(1 for _, customer in new if customer < len(gone)) + len(gone) * rows // customers
    answer = Answer()
    with _database(spark, JOIN) as db:
        with _timed(answer, "load"), db.transaction() as tx:
            tx.insert("orders", orders)
            tx.insert("customer", known)
        answer.size = len(tx.changes["placed"].inserted)
        with _timed(answer, "insert"), db.transaction() as tx:
            tx.insert("orders", new)
        _same(len(tx.changes["placed"].inserted), CHANGED)
        with _timed(answer, "delete"), db.transaction() as tx:
            tx.delete("customer", gone)
        _same(len(tx.changes["placed"].deleted), lost)
        _read_back(answer, db, "placed", rows + CHANGED - lost)
    with _timed(answer, "recompute"):
        joined = orders.join(known.withColumnRenamed("id", "customer"), "customer").select("id", "region")
        joined.write.parquet(f"{folder}/recomputed")
    return _finished(answer)


def _closure(spark: Any, _: str, rows: int) -> Answer:
    """Grids side by side; a thousand edges, as many of each grid, the last ones first, are deleted and inserted
    again."""
    from pyspark.sql import functions as F  # noqa: PLC0415  (optional package)

    grid = [(int(a), int(b)) for a, b in graphs.grid(SIDE)]
    size = graphs.grid_closure_size(SIDE)
    blocks = max(1, rows // size)
    one = spark.createDataFrame(grid, "a long, b long")
    shift = F.col("id") * (SIDE + 1) ** 2
    edges = (
        spark.range(blocks).crossJoin(F.broadcast(one)).select((shift + one.a).alias("a"), (shift + one.b).alias("b"))
    )
    points = (SIDE + 1) ** 2
    changed = min(CHANGED, blocks * len(grid))
    batch = [
        (a + n % blocks * points, b + n % blocks * points) for n in range(changed) for a, b in [grid[-1 - n // blocks]]
    ]
    each, more = divmod(changed, blocks)
    lost = more * _lost_in_one(grid, each + 1) + (blocks - more) * _lost_in_one(grid, each)
    answer = Answer()
    with _database(spark, CLOSURE) as db:
        with _timed(answer, "load"), db.transaction() as tx:
            tx.insert("edge", edges)
        answer.size = len(tx.changes["closure"].inserted)
        for kind in ("delete", "insert"):
            with _timed(answer, kind), db.transaction() as tx:
                getattr(tx, kind)("edge", batch)
            found = tx.changes["closure"]
            _same(len(found.deleted if kind == "delete" else found.inserted), lost)
        _read_back(answer, db, "closure", blocks * size)
    with _timed(answer, "recompute"), _database(spark, CLOSURE) as db, db.transaction() as tx:
        tx.insert("edge", edges)
    return _finished(answer)


def _lost_in_one(grid: list[tuple[int, int]], count: int) -> int:
    """The number of pairs that the closure of one grid loses with its last edges, by the local engine."""
    if not count:
        return 0
    with upshot.connect() as db:
        db.define(CLOSURE)
        with db.transaction() as tx:
            tx.insert("edge", grid)
        with db.transaction() as tx:
            tx.delete("edge", grid[len(grid) - count :])
        return len(tx.changes["closure"].deleted)


@contextmanager
def _database(spark: Any, text: str) -> Iterator[Any]:
    with upshot.connect(spark=spark, engine="spark") as db:
        db.define(text)
        yield db


def _read_back(answer: Answer, db: Any, view: str, size: int) -> None:
    with _timed(answer, "count"):
        _same(db.rows(view).to_spark().count(), size)


def _finished(answer: Answer) -> Answer:
    answer.seconds = answer.times["load"][0]
    return answer


@contextmanager
def _timed(answer: Answer, what: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    answer.times.setdefault(what, []).append(time.perf_counter() - began)


def _same(found: int, size: int) -> None:
    if found != size:
        raise AssertionError(f"{found:,} rows, exactly {size:,} expected")


# ---- memory and disk --------------------------------------------------------------------------------


class Usage:
    """The peaks: resident bytes of this process and its descendants, bytes of the files in a folder."""

    def __init__(self) -> None:
        self.memory = self.disk = 0


@contextmanager
def watched(folder: Path, *, every: float = 1.0) -> Iterator[Usage]:
    usage, ended = Usage(), threading.Event()

    def look() -> None:
        while True:
            usage.memory = max(usage.memory, resident_bytes())
            usage.disk = max(usage.disk, _bytes_below(folder))
            if ended.wait(every):
                return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield usage
    finally:
        ended.set()
        thread.join()


def _bytes_below(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except OSError:
                continue  # deleted meanwhile
    return total
