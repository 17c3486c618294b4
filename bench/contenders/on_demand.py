"""Upshot by a named strategy, most of them without a stored view: one-row changes, timed and checked one by one.

Times are processor time: a change is the work of one thread that waits for nothing, and what else runs on the machine
is left out.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow

import upshot
from bench.contenders.upshot import PAIR, warm_up
from bench.edge_changes import edge_changes
from bench.integrity import constraints, program
from bench.modules import Modules, policy
from bench.tasks import Answer, Task

STORED = ("auto", "maintenance", "counting", "recompute", "production")
"""Strategies that store rows; no other strategy may store one."""

WARMING = 2
"""Changes before the measured ones, which compile rules and allocate tables."""
SCANNED = 2
"""Changes that find the most expensive constraints."""
DEAREST = 3
"""The number of these, by time and by look-ups, that are measured separately."""


def run(task: Task) -> Answer:
    warm_up()
    match task.kind:
        case "edges":
            return _edges(task)
        case "modules":
            return _modules(task)
        case "integrity":
            return _integrity(task)
    raise ValueError(f"no such task: {task.kind}")


class _Timed:
    """Sequential transactions of one row. Their changes are stored as text for comparison."""

    def __init__(self, text: str, tables: Sequence[dict[str, Any]], strategy: str, watched: Sequence[str]) -> None:
        self.db = upshot.connect()
        self._strategy, self._watched = strategy, watched
        # Whoever defines unstored views over large tables, or loads these under them, is told all their rows: a system
        # at a time is followed as any other change.
        self.db.define(text)
        for parts in [tables] if strategy in STORED else [[part] for part in tables]:
            with self.db.transaction() as tx:
                for name, table in (pair for part in parts for pair in part.items()):
                    tx.insert(name, table)
        self.times: dict[str, list[float]] = {"delete": [], "insert": []}
        self.work = {"probed": 0, "asked": 0, "answered": 0}
        self.said: list[str] = []

    def change(self, kind: str, relation: str, row: tuple[Any, ...]) -> dict[str, tuple[Any, Any]]:
        """The inserted and deleted rows of each watched view that changed."""
        began = time.process_time()
        with self.db.transaction() as tx:
            (tx.insert if kind == "insert" else tx.delete)(relation, [row])
        found = {
            name: (list(tx.changes[name].inserted), list(tx.changes[name].deleted))
            for name in self._watched
            if name in tx.changes
        }
        self.times[kind].append(time.process_time() - began)
        if self._strategy not in STORED and tx.stats.stored:
            raise AssertionError(f"{tx.stats.stored} view tuples are stored by {self._strategy}")
        for counter in self.work:
            self.work[counter] += getattr(tx.stats, counter)
        self.said += [f"{kind} {row} {name} {sorted(p)} {sorted(m)}" for name, (p, m) in sorted(found.items())]
        return found

    def forget(self) -> None:
        """The first changes compile rules and allocate tables; they are timed separately."""
        self.times = {"delete": [], "insert": []}
        self.work = dict.fromkeys(self.work, 0)
        self.said.clear()

    def figures(self) -> dict[str, float]:
        count = len(self.times["delete"]) + len(self.times["insert"])
        return {name: total / count for name, total in self.work.items()}


def _edges(task: Task) -> Answer:
    """An edge of a `blocks` graph is deleted and inserted; `size` counts the changed closure tuples."""
    assert task.graph is not None
    strategy = task.options["strategy"]
    text = PAIR.format(type="number") + f".view closure strategy={strategy} {policy(strategy)}\n"
    table = pyarrow.table(task.graph.columns(), names=["a", "b"])
    timed = _Timed(text, _in_pieces(table, 100), strategy, ["closure"])
    changes = edge_changes(task.graph, task.options["edges"])
    answer = Answer()
    for number, change in enumerate([*changes[:WARMING], *changes]):
        for kind in ("delete", "insert"):
            plus, minus = timed.change(kind, "edge", change.row).get("closure", ([], []))
            right, wrong = (minus, plus) if kind == "delete" else (plus, minus)
            if (len(right), len(wrong)) != (change.lost, 0):
                raise AssertionError(f"edge {change.row}: {len(right)} and {len(wrong)}, {change.lost} and 0 expected")
            answer.size += change.lost if number >= WARMING else 0
        if number < WARMING:
            answer.figures.setdefault("first", statistics.mean(timed.times["delete"] + timed.times["insert"]))
            timed.forget()
    answer.times = timed.times
    answer.figures.update(timed.figures())
    return answer


def _in_pieces(table: Any, most: int) -> list[dict[str, Any]]:
    """The edges sorted by block in pieces, so that most blocks are in one piece; a small graph is one piece."""
    pieces = max(1, min(most, table.num_rows // 6000))
    ordered = table.sort_by("a")
    rows = -(-table.num_rows // pieces)
    return [{"edge": ordered.slice(rows * i, rows)} for i in range(pieces)]


def _modules(task: Task) -> Answer:
    """A new import is inserted and deleted; the changed rows are compared with those of a direct search."""
    modules = Modules(task.options["copies"])
    strategy, view = task.options["strategy"], task.options["view"]
    timed = _Timed(modules.program(view, strategy), modules.arrow(), strategy, [view])
    before = modules.expected(view)
    links = modules.links(task.options["links"], direct=view == "with_prefix")
    answer = Answer()
    for number, link in enumerate([*links[:WARMING], *links]):
        expected = modules.expected(view, link)
        _compare(timed.change("insert", "import", link).get(view, ([], [])), (expected - before, before - expected))
        _compare(timed.change("delete", "import", link).get(view, ([], [])), (before - expected, expected - before))
        if number < WARMING:
            answer.figures.setdefault("first", statistics.mean(timed.times["delete"] + timed.times["insert"]))
            timed.forget()
        else:
            answer.size += len(expected - before)
    answer.times.update(timed.times)
    answer.figures.update(timed.figures())
    answer.times["asked again"] = [_asked_again(timed, view, before) for _ in range(5)]
    return answer


def _asked_again(timed: _Timed, view: str, expected: set[tuple[str, ...]]) -> float:
    """Seconds to have all rows of the view."""
    began = time.process_time()
    rows = list(timed.db.rows(view))
    seconds = time.process_time() - began
    _compare((rows, ()), (expected, ()))
    return seconds


def _compare(found: tuple[Iterable[Any], Iterable[Any]], expected: tuple[Iterable[Any], Iterable[Any]]) -> None:
    for mine, right in zip(found, expected, strict=True):
        if sorted(mine) != sorted(right):
            raise AssertionError(f"{sorted(mine)[:5]}… instead of {sorted(right)[:5]}…")


def _integrity(task: Task) -> Answer:
    """All constraints together, and the most expensive ones separately; `notes` has a digest of all changes."""
    modules = Modules(task.options["copies"])
    strategy, tables = task.options["strategy"], modules.arrow()
    links = modules.links(task.options["links"])
    names = list(constraints())
    together = _Timed(program(names, strategy), tables, strategy, names)
    _follow(together, links)
    said = "\n".join(together.said)
    answer = Answer(times=dict(together.times), size=len(together.said), figures=together.figures())
    answer.notes["digest"] = hashlib.sha256(said.encode()).hexdigest()
    dearest = task.options.get("dearest") or _dearest(names, tables, strategy, links[:SCANNED])
    answer.notes["dearest"] = " ".join(dearest)
    for name in dearest:
        alone = _Timed(program([name], strategy), tables, strategy, [name])
        _follow(alone, links)
        answer.times.update({f"{kind} {name}": times for kind, times in alone.times.items()})
    return answer


def _dearest(
    names: Sequence[str], tables: Sequence[dict[str, Any]], strategy: str, links: Sequence[tuple[str, str]]
) -> list[str]:
    times, work = {}, {}
    for name in names:
        alone = _Timed(program([name], strategy), tables, strategy, [name])
        _follow(alone, links)
        times[name] = statistics.median(alone.times["insert"] + alone.times["delete"])
        work[name] = alone.work["probed"]
        alone.db.close()
    ranked = (sorted(names, key=lambda name: -cost[name])[:DEAREST] for cost in (times, work))
    return list(dict.fromkeys(name for best in ranked for name in best))


def _follow(timed: _Timed, links: Sequence[tuple[str, str]]) -> None:
    for number, link in enumerate([*links[:WARMING], *links]):
        for kind in ("insert", "delete"):
            timed.change(kind, "import", link)
        if number < WARMING:
            timed.forget()
