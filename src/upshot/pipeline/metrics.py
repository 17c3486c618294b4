"""The metrics of a batch: its changes and its cost, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from upshot.core.errors import EngineError, system_reason
from upshot.spark.lake_path import AnyPath, LakePath


@dataclass(frozen=True, slots=True)
class SourceMetrics:
    rows: int
    """rows read that fit: inserted, deleted, upserted, or the whole relation"""
    bad: int = 0


@dataclass(frozen=True, slots=True)
class ViewMetrics:
    inserted: int
    deleted: int


@dataclass(frozen=True, slots=True)
class RuleMetrics:
    firings: int
    rows: int
    """instances that it fired for"""


@dataclass(frozen=True, slots=True)
class BatchMetrics:
    pipeline: str
    batch: int
    version: int
    time: str
    """when the batch was done, ISO 8601 in UTC"""
    sources: Mapping[str, SourceMetrics] = field(default_factory=dict)
    views: Mapping[str, ViewMetrics] = field(default_factory=dict)
    """views and constraints that changed"""
    rules: Mapping[str, RuleMetrics] = field(default_factory=dict)
    """active rules that fired"""
    pending: int = 0
    """pending tasks of rules, of this batch and of earlier ones"""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """by step"""
    jobs: int = 0
    """Spark jobs"""
    engine: str = ""
    """where the change was propagated: local or spark"""
    replayed: bool = False
    """the batch was recorded by an earlier run; only sinks had to catch up"""
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(source.rows for source in self.sources.values())

    @property
    def bad(self) -> int:
        return sum(source.bad for source in self.sources.values())

    @property
    def changed(self) -> int:
        return sum(view.inserted + view.deleted for view in self.views.values())

    def as_dict(self) -> dict[str, Any]:
        fields = asdict(self)
        fields["seconds"] = {step: round(taken, 4) for step, taken in self.seconds.items()}
        return fields

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), ensure_ascii=False)


def append_metrics(file: AnyPath, metrics: BatchMetrics) -> None:
    """Append a line to the file; on a lake, where files cannot grow, write a file in the folder."""
    if isinstance(file, LakePath):
        (file / f"batch={metrics.batch:08}.json").write_bytes(metrics.as_json().encode() + b"\n")
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "a", encoding="utf-8") as stream:
            stream.write(metrics.as_json() + "\n")
    except OSError as error:
        reason = system_reason(error)
        raise EngineError(
            f"the metrics of batch {metrics.batch} cannot be written to `{file}`: {reason}",
            code="metrics-failed",
            help="the batch is recorded and its sinks hold it; check that the file is writable, then run again",
        ) from error


# ---- Spark jobs ---------------------------------------------------------------------------------------------------

_GROUP = "spark.jobGroup.id"


class JobCounter:
    """Counts the jobs of the stream's thread, which form a group, since the start. Spark forgets old jobs; they stay
    counted."""

    def __init__(self, session: Any) -> None:
        self._context = session.sparkContext
        self._newest, self._total = -1, 0

    def __call__(self) -> int:
        group = self._context.getLocalProperty(_GROUP)
        found = [job for job in self._context.statusTracker().getJobIdsForGroup(group) if job > self._newest]
        self._newest = max(found, default=self._newest)
        self._total += len(found)
        return self._total
