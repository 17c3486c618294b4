"""Bringing the sinks to the store's version, from whatever version each of them holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from upshot.core.errors import DataError
from upshot.database.changes import Changes
from upshot.database.database import Database
from upshot.pipeline.record import history
from upshot.pipeline.sinks.sink import Sink
from upshot.pipeline.sinks.standing import Standing, read_standings, write_standings
from upshot.pipeline.steps import Step, reached


@dataclass(frozen=True, slots=True)
class Publication:
    """The sinks of a pipeline and the file that remembers how far they are."""

    sinks: Sequence[Sink]
    file: Path

    def catch_up(self, database: Database, told: Callable[[Sink], None] = lambda sink: None) -> None:
        """Makes every sink hold the database's version. Doing it twice is doing it once."""
        version = database.version
        before = read_standings(self.file)
        standings = {place: standing for place, standing in before.items() if place in self._places()}
        for sink in self.sinks:
            standing = standings.get(sink.place)
            if standing is not None and standing.seen == version and standing.held == sink.held():
                continue
            if standing is None:
                _refuse_stranger(sink)
                # Remembered before it is started: what is there afterwards is then known to be ours.
                standings[sink.place] = standing = Standing(-1, -1)
                write_standings(self.file, standings)
            told(sink)
            reached(Step.PUBLISH)
            _bring(sink, standing, database)
            standings[sink.place] = Standing(_held(sink), version)
        if standings != before:
            write_standings(self.file, standings)

    def _places(self) -> set[str]:
        return {sink.place for sink in self.sinks}


def _bring(sink: Sink, standing: Standing, database: Database) -> None:
    held, version = sink.held(), database.version
    if held is None:
        sink.start(database.rows(sink.view), version)
        return
    if held > version:
        raise _ahead(sink, held, version)
    since = standing.seen if standing.held == held else held
    missing = _missing(sink.view, since, database)
    if not sink.whole:
        for number, changes in missing:
            sink.apply(changes, number)
    else:
        newest = max((number for number, _ in missing), default=None)
        if newest is not None:
            # The pipeline is the only writer of its store: its rows now are those of that version.
            sink.replace(database.rows(sink.view), newest)


def _missing(view: str, since: int, database: Database) -> Iterable[tuple[int, Changes]]:
    if since >= database.version:
        return
    for version, changes in history(database, since):
        if view in changes:
            yield version, changes[view]


def _held(sink: Sink) -> int:
    held = sink.held()
    return -1 if held is None else held


def _refuse_stranger(sink: Sink) -> None:
    held = sink.held()
    if held is not None:
        raise DataError(
            f"{sink.place} holds version {held} of a state that is not this one",
            code="state-mismatch",
            help="if the state was removed to start over, remove the sink as well; otherwise name another path",
        )


def _ahead(sink: Sink, held: int, version: int) -> DataError:
    return DataError(
        f"{sink.place} holds version {held}, the store is only at {version}",
        code="state-mismatch",
        help="the state is older than the sink: restore the newer state, or remove the sink to have it written again",
    )
