"""Bringing the sinks to the store's version, from whatever version each of them holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from upshot.core.errors import DataError
from upshot.database.changes import Changes
from upshot.database.database import Database
from upshot.pipeline.record import history
from upshot.pipeline.sinks.sink import Sink
from upshot.pipeline.sinks.standing import Standing, read_standings, write_standings
from upshot.pipeline.steps import Step, reached


class Publication:
    """The sinks of a pipeline and the file that remembers how far they are. Nobody else writes them while it runs, so
    each is asked once which version it holds."""

    def __init__(self, sinks: Sequence[Sink], file: Path) -> None:
        self._sinks, self._file = sinks, file
        self._standings = {place: known for place, known in read_standings(file).items() if place in self._places()}
        self._asked: set[str] = set()

    def _places(self) -> set[str]:
        return {sink.place for sink in self._sinks}

    def catch_up(self, database: Database) -> None:
        """Makes every sink hold the database's version. Doing it twice is doing it once."""
        version = database.version
        for sink in self._sinks:
            standing = self._standing(sink)
            if standing.held < 0 or standing.seen != version:
                reached(Step.PUBLISH)
                self._standings[sink.place] = Standing(_brought(sink, standing, database), version)
        write_standings(self._file, self._standings)

    def _standing(self, sink: Sink) -> Standing:
        """How far the sink is, in its own words the first time."""
        known = self._standings.get(sink.place)
        if sink.place in self._asked:
            assert known is not None
            return known
        held = sink.held()
        if known is None:
            if held is not None:
                raise _stranger(sink, held)
            # Remembered before it is started: what is there afterwards is then known to be ours.
            known = self._standings[sink.place] = Standing(-1, -1)
            write_standings(self._file, self._standings)
        self._asked.add(sink.place)
        if held is None:
            return Standing(-1, -1)
        return known if known.held == held else Standing(held, held)


def _brought(sink: Sink, standing: Standing, database: Database) -> int:
    """Takes the sink to the database's version; the version it then holds."""
    held, version = standing.held, database.version
    if held < 0:
        sink.start(database.rows(sink.view), version)
        return version
    if held > version:
        raise _ahead(sink, held, version)
    if not sink.whole:
        for held, changes in _missing(sink.view, standing.seen, database):
            sink.apply(changes, held)
        return held
    newest = max((number for number, _ in _missing(sink.view, standing.seen, database)), default=None)
    if newest is None:
        return held
    # The pipeline is the only writer of its store: its rows now are those of that version.
    sink.replace(database.rows(sink.view), newest)
    return newest


def _missing(view: str, since: int, database: Database) -> Iterable[tuple[int, Changes]]:
    if since >= database.version:
        return
    for version, changes in history(database, since):
        if view in changes:
            yield version, changes[view]


def _stranger(sink: Sink, held: int) -> DataError:
    return DataError(
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
