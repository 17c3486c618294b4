"""Bring the sinks to the store's version, each from its own version."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from upshot.core.errors import DataError, UsageError
from upshot.core.span import Span
from upshot.database.changes import Changes
from upshot.database.database import Database
from upshot.pipeline.config.toml_places import placed
from upshot.pipeline.lock import unusable_state, writing
from upshot.pipeline.sinks.folders import write_json
from upshot.pipeline.sinks.sink import Sink
from upshot.pipeline.steps import Step, reached, tried
from upshot.spark.lake_path import AnyPath

_SIDE_BY_SIDE = 4
"""Sinks that are written at the same time: most of the time is spent waiting for Spark or for the storage."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The version of a sink, as the state records it. `held` is the version that the sink reported, -1 before it was
    started; `seen` is the version of the store up to which the sink is complete: versions that do not change the view
    are not stored in a sink."""

    held: int
    seen: int

    @property
    def is_announced(self) -> bool:
        """Test whether the start of the sink was announced and its result is unknown."""
        return self.held < 0


ANNOUNCED = Standing(-1, -1)


def read_standings(file: AnyPath) -> dict[str, Standing]:
    """The recorded versions by place of the sink; empty for a new state."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return {place: Standing(int(found["held"]), int(found["seen"])) for place, found in content.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise unusable_state(file.parent, error) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise DataError(
            f"`{file}`, which records the versions of the sinks, is damaged",
            code="state-mismatch",
            help="restore the whole state from a backup, or remove it and the sinks to start over",
        ) from None


def write_standings(file: AnyPath, standings: dict[str, Standing]) -> None:
    with writing(file.parent):
        write_json(file, {place: asdict(standing) for place, standing in standings.items()})


class Publication:
    """The sinks of a pipeline and the file with their versions. No other process writes them meanwhile, so the version
    of each sink is read once, and again after a failed write."""

    def __init__(
        self,
        sinks: Sequence[Sink],
        file: AnyPath,
        spans: Mapping[str, Span | None] | None = None,
        session: Any = None,
    ) -> None:
        """`spans` are the places of the sinks in the pipeline file, by view; `session` runs their jobs."""
        self._sinks, self._file, self._spans, self._session = sinks, file, spans or {}, session
        self._guard = threading.Lock()
        # Records of sinks that are not in the pipeline's file stay: such a sink may be added again.
        self._standings = read_standings(file)
        self._looked_up: set[str] = set()
        self._kept_for: dict[str, int] = {}

    def catch_up(self, database: Database) -> None:
        """Bring every sink to the database's version. Idempotent."""
        tables = [sink for sink in self._sinks if sink.is_table]
        bring = partial(self._bring_one, database)
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            under_way = [pool.submit(self._inheriting(bring), sink) for sink in tables]
        failed = [error for each in under_way if (error := each.exception()) is not None]
        if failed:
            raise failed[0]
        # Lines on a terminal are printed in the order of the file.
        for sink in self._sinks:
            if not sink.is_table:
                bring(sink)
        self._write_standings()
        self._keep_changes(database)

    def _inheriting(self, work: Any) -> Any:
        """The work, whose jobs then belong to the group of the batch."""
        if self._session is None:
            return work
        from pyspark.util import inheritable_thread_target  # noqa: PLC0415 - an optional package

        return inheritable_thread_target(self._session)(work)

    def _bring_one(self, database: Database, sink: Sink) -> None:
        with placed(self._spans.get(sink.view)):
            tried(sink.place, lambda: self._bring(sink, database))

    def _write_standings(self) -> None:
        with self._guard:
            write_standings(self._file, self._standings)

    def _keep_changes(self, database: Database) -> None:
        """Make the store keep the changes that sinks lack, also for sinks that are removed from the file later: by a
        cursor for each sink that needs the versions in between."""
        seen = {f"sink: {sink.place}": self._standings[sink.place].seen for sink in self._sinks if not sink.whole}
        if seen != self._kept_for:
            database.cursors.set_all(seen, lazy=True)
            self._kept_for = seen

    def _bring(self, sink: Sink, database: Database) -> None:
        standing, version = self._standing(sink), database.version
        if standing.is_announced or standing.seen != version:
            reached(Step.PUBLISH)
            # A failed write may have completed: the version of the sink is read again.
            self._looked_up.discard(sink.place)
            self._standings[sink.place] = Standing(_brought(sink, standing, database), version)
            self._looked_up.add(sink.place)

    def _standing(self, sink: Sink) -> Standing:
        """The version of the sink, read from the sink itself the first time."""
        known = self._standings.get(sink.place)
        if sink.place in self._looked_up:
            assert known is not None
            return known
        held = held_version(sink, known)
        if held is None:
            # Recorded before the start: so its files are known to be ours.
            found = ANNOUNCED
        elif known is None:
            raise _of_another_state(sink, held)
        else:
            found = known if known.held == held else Standing(held, held)
        if found != known:
            self._standings[sink.place] = found
            self._write_standings()
        self._looked_up.add(sink.place)
        return found


def held_version(sink: Sink, known: Standing | None) -> int | None:
    """The version that the sink itself reports; None if it must be started."""
    return sink.stored_version(announced=known is not None and known.is_announced)


def _brought(sink: Sink, standing: Standing, database: Database) -> int:
    """Bring the sink to the database's version; returns the sink's version."""
    held, version = standing.held, database.version
    if standing.is_announced:
        sink.start(database.rows(sink.view), version)
        return version
    if held > version:
        raise _ahead(sink, held, version)
    if not sink.whole:
        if not _is_kept(standing.seen, database):
            raise _too_far_behind(sink, standing.seen)
        for number, changes in _missing(sink.view, standing.seen, database):
            if changes is None:
                raise _view_was_dropped(sink, number)
            sink.apply(changes, number)
            held = number
        return held
    newest = _newest(sink.view, standing.seen, database)
    if newest is None:
        return held
    # The pipeline is the only writer of its store: its rows now are those of that version.
    sink.replace(database.rows(sink.view), newest)
    return newest


def _newest(view: str, since: int, database: Database) -> int | None:
    """The last version that changed the view; the last of all if some after `since` are not kept."""
    if not _is_kept(since, database):
        return database.version
    return max((number for number, _ in _missing(view, since, database)), default=None)


def _is_kept(since: int, database: Database) -> bool:
    """Test whether the store still has every version after this one."""
    if since >= database.version:
        return True
    try:
        database.history(since)
    except UsageError as error:
        if error.code != "history-not-kept":
            raise
        return False
    return True


def _missing(view: str, since: int, database: Database) -> Iterable[tuple[int, Changes | None]]:
    """The changes of the versions after `since`; None for one whose program had no such view. The rows of a dropped
    view are deleted without a change, and when it is defined again all its rows are inserted."""
    if since >= database.version:
        return
    for commit in database.history(since):
        try:
            found = commit.changes[view]
        except UsageError:
            yield commit.version, None
            continue
        if found:
            yield commit.version, found


def _of_another_state(sink: Sink, held: int) -> DataError:
    return DataError(
        f"{sink.place} has version {held} of another state",
        code="state-mismatch",
        help="if you removed the state to start over, remove the sink too; otherwise use another path",
    )


def _view_was_dropped(sink: Sink, version: int) -> DataError:
    return DataError(
        f"{sink.place} was not part of the pipeline when the program had no view `{sink.view}`, in version {version}",
        code="state-mismatch",
        help="remove the sink to rewrite it, or use another path",
    )


def _too_far_behind(sink: Sink, seen: int) -> DataError:
    return DataError(
        f"{sink.place} is too far behind: the store no longer has the changes after version {seen}",
        code="history-not-kept",
        help="remove the sink to rewrite it, or use another path",
    )


def _ahead(sink: Sink, held: int, version: int) -> DataError:
    return DataError(
        f"{sink.place} holds version {held}, the store is only at {version}",
        code="state-mismatch",
        help="the state is older than the sink: restore the newer state, or remove the sink to have it written again",
    )
