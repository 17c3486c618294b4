"""Pathway, differential dataflow in Rust: the closure as `pw.iterate`, edges through a Python connector.

It runs from its own environment, since it pins packages that Upshot also uses, in other versions. One transaction is
one commit of the connector. `on_time_end` is called only for times at which something came out, and many an edge is
redundant, so the edges themselves go out beside the closure.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pathway

from bench import memory
from bench.edge_changes import EdgeChange, edge_changes
from bench.tasks import Answer, Task


class Edge(pathway.Schema):  # type: ignore[misc]
    a: int = pathway.column_definition(primary_key=True)
    b: int = pathway.column_definition(primary_key=True)


def run(task: Task) -> Answer:
    if task.kind != "changes" or task.graph is None or task.graph.form != "integer":
        return Answer(missing="not asked")
    logging.disable(logging.WARNING)
    subject = _Edges(task.graph.edges().tolist(), edge_changes(task.graph, task.options["edges"]))
    edge = pathway.io.python.read(subject, schema=Edge, autocommit_duration_ms=None)
    closure = pathway.iterate(_step, closure=pathway.iterate_universe(edge.select(edge.a, edge.b)), edge=edge).closure
    out = pathway.Table.concat_reindex(
        closure.select(closure.a, closure.b, view=True), edge.select(edge.a, edge.b, view=False)
    )
    pathway.io.subscribe(out, subject.on_change, on_time_end=subject.on_time_end)
    pathway.run(monitoring_level=pathway.MonitoringLevel.NONE)
    return subject.answer


def _step(closure: Any, edge: Any) -> dict[str, Any]:
    longer = closure.join(edge, closure.b == edge.a).select(a=pathway.left.a, b=pathway.right.b)
    every = pathway.Table.concat_reindex(edge.select(edge.a, edge.b), longer)
    return {"closure": every.groupby(every.a, every.b).reduce(every.a, every.b)}


class _Edges(pathway.io.python.ConnectorSubject):  # type: ignore[misc]
    """Feeds the graph and then the changes, each after the answer to the one before it; then all deletions at once,
    one commit each, which shows the throughput without the way there and back."""

    def __init__(self, edges: list[tuple[int, int]], changes: list[EdgeChange]) -> None:
        super().__init__()
        self.edges, self.changes = edges, changes
        self.answer = Answer()
        self.size, self.ended = 0, 0
        self.progress = threading.Condition()

    def on_change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if row["view"]:
            self.size += 1 if is_addition else -1

    def on_time_end(self, time: int) -> None:
        with self.progress:
            self.ended += 1
            self.progress.notify_all()

    def run(self) -> None:
        before = memory.reset_peak()
        seconds = self._commit([("+", a, b) for a, b in self.edges])
        self.answer = Answer(seconds, self.size, memory.peak() - before, memory.peak())
        times: dict[str, list[float]] = {"delete": [], "insert": []}
        for change in self.changes:
            full = self.size
            times["delete"].append(self._commit([("-", *change.row)]))
            if full - self.size != change.lost:
                raise AssertionError(f"edge {change.row}: {full - self.size} lost, {change.lost} expected")
            times["insert"].append(self._commit([("+", *change.row)]))
            if self.size != full:
                raise AssertionError(f"edge {change.row}: {self.size} tuples after its return, {full} expected")
        self.answer.times = times
        self.answer.figures["pipelined delete"] = self._pipelined()

    def _commit(self, events: list[tuple[str, int, int]]) -> float:
        target = self.ended + 1
        began = time.perf_counter()
        for sign, a, b in events:
            if sign == "+":
                self.next(a=a, b=b)
            else:
                self.delete(a=a, b=b)
        self.commit()
        self._wait_for(target)
        return time.perf_counter() - began

    def _pipelined(self) -> float:
        target = self.ended + len(self.changes)
        began = time.perf_counter()
        for change in self.changes:
            self.delete(a=change.row[0], b=change.row[1])
            self.commit()
        self._wait_for(target)
        return (time.perf_counter() - began) / len(self.changes)

    def _wait_for(self, target: int) -> None:
        with self.progress:
            if not self.progress.wait_for(lambda: self.ended >= target, timeout=600):
                raise TimeoutError("Pathway did not answer within ten minutes")
