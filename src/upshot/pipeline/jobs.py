"""Count the Spark jobs of a stream's batches."""

from __future__ import annotations

from typing import Any

_GROUP = "spark.jobGroup.id"


class JobCounter:
    """Called on the stream's own thread, whose jobs form a group: how many there were in all, so far. Spark forgets old
    jobs; those counted once stay counted."""

    def __init__(self, session: Any) -> None:
        self._context = session.sparkContext
        self._newest, self._total = -1, 0

    def __call__(self) -> int:
        group = self._context.getLocalProperty(_GROUP)
        found = [job for job in self._context.statusTracker().getJobIdsForGroup(group) if job > self._newest]
        self._newest = max(found, default=self._newest)
        self._total += len(found)
        return self._total
