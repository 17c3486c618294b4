"""One part of a recursion whose parts exchange rows, in a Python worker of Spark.

A part computes, round after round, what follows from the rows that came to it. Heads that it needs itself drive its
next round; for others they are written to files, one for each part that needs them. When it has nothing to go on from,
it waits for what the others have for it, until nobody has any: all steps are one job.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from upshot.core.errors import LimitError
from upshot.core.types import Kind, Type
from upshot.engine.limits import BudgetExceeded
from upshot.engine.local.codec import null_code
from upshot.engine.spark.exchange_plan import ExchangePlan
from upshot.engine.spark.meeting import LOST, PATIENCE, Ended, Meeting, Sent
from upshot.engine.spark.part_work import counters
from upshot.engine.spark.shard import Codes, Shard, kept_shard
from upshot.engine.spark.shard_files import GAVE_UP, LISTED, PartFiles, instead
from upshot.engine.spark.shard_plan import SharedRelation
from upshot.engine.spark.shared_file import SharedRows
from upshot.engine.spark.slots import Slots
from upshot.engine.work import ViewWork
from upshot.spark.failures import CarriedError
from upshot.spark.types import rows_for_spark

Files = Mapping[int, Sequence[Path]]
"""Files with rows, by the part that needs them."""

_AT_ONCE = 1 << 20
"""Rows that are handed out at a time."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Held:
    """The rows of a view before the first round: those of its files, then without and with others, in turn, of which a
    part takes what it needs."""

    files: Files
    changes: tuple[tuple[bool, SharedRows], ...] = ()


# ---- handing out ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScatterTask:
    """Hands rows to the parts that need them: sets of rows of the `views`, each to files in a folder of its own."""

    plan: ExchangePlan
    views: tuple[str, ...]
    folders: tuple[Path, ...]

    @property
    def given(self) -> Slots:
        return Slots(tuple(map(self.plan.shard.types, self.views)))

    def files(self) -> PartFiles:
        types = [self.plan.shard.types(view) for view in self.views]
        return PartFiles(list(self.folders) * self.plan.count, types * self.plan.count)

    def meaning(self, member: int) -> tuple[int, int]:
        """The part, and which of the sets."""
        return divmod(member, len(self.views))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files, shard = self.files(), Shard(self.plan.shard)
        try:
            for table in _joined(batches):
                # Codes live as long as this table: no engine knows them.
                with shard.holding():
                    self._scatter(shard, table, files)
            yield files.listed()
        finally:
            files.close()
            shard.close()

    def _scatter(self, shard: Shard, table: pa.Table, files: PartFiles) -> None:
        sets = shard.coded(self.views, self.given.split(table))
        for number, (view, codes) in enumerate(zip(self.views, sets, strict=True)):
            for part, rows in needed(self.plan, shard, view, codes):
                shard.write(view, rows, files, part * len(self.views) + number)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= _AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if any(batch.num_rows for batch in waiting):
        yield pa.Table.from_batches(waiting)


# ---- a part -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartTask:
    """Runs the rounds of a part, and exchanges rows with the other parts in between, until none has any. What the part
    owns of what came into each view is written to the view's folder."""

    plan: ExchangePlan
    shared: Mapping[str, SharedRelation]
    owned: tuple[Path, ...]
    meeting: Path
    seeds: Mapping[str, Files]
    held: Mapping[str, Held]
    patience: float = PATIENCE

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._listed(number)

    def _listed(self, number: int) -> list[pa.RecordBatch]:
        """The list of the files, and the rounds that it took."""
        files = PartFiles(self.owned, [self.plan.shard.types(view) for view in self.plan.views])
        meeting = Meeting(self.meeting, number, self.plan.count, self.patience)
        try:
            meeting.join()
            work = ViewWork(rounds=self._run(number, meeting, files))
            return [files.listed(), *rows_for_spark(counters(work), LISTED).to_batches()]
        except Ended as end:
            return [instead(end.reason)]
        except BudgetExceeded:
            meeting.end(GAVE_UP)
            return [instead(GAVE_UP)]
        except CarriedError as error:
            meeting.end(LOST, str(error))
            raise
        except BaseException:
            meeting.end(LOST)
            raise
        finally:
            files.close()

    def _run(self, number: int, meeting: Meeting, files: PartFiles) -> int:
        with kept_shard(self.plan.shard, self.shared) as shard:
            shard.adopt({})
            try:
                part = _Part(self.plan, shard, number, self.meeting)
                for view, held in self.held.items():
                    shard.hold(view, part.held(view, held))
                fresh = {view: part.read(view, seeds.get(number, ())) for view, seeds in self.seeds.items()}
                for _ in range(self.plan.shard.limits.max_rounds):
                    part.rounds(fresh)
                    part.write_owned(files, least=_AT_ONCE)
                    inbox = meeting.exchanged(part.sent())
                    if inbox is None:
                        part.write_owned(files)
                        return part.took
                    fresh = part.received(inbox)
                raise part.too_many_rounds()
            finally:
                shard.forget()


class _Part:
    """What a part does with its engine."""

    def __init__(self, plan: ExchangePlan, shard: Shard, number: int, crossing: Path) -> None:
        self._plan, self._shard, self._number, self._crossing = plan, shard, number, crossing
        self._sent: dict[tuple[int, str], list[Codes]] = {}
        self._owned: dict[str, list[Codes]] = {view: [] for view in plan.views}
        self.took = 0
        """Rounds so far that something new drove."""

    def held(self, view: str, held: Held) -> Iterator[tuple[bool, Codes]]:
        for path in held.files.get(self._number, ()):
            yield from ((True, codes) for codes in self._shard.coded_file(view, path))
        for insert, rows in held.changes:
            for codes in self._shard.coded_rows(view, rows):
                yield insert, self._own(view, codes)

    def read(self, view: str, paths: Iterable[Path]) -> list[Codes]:
        return [codes for path in paths for codes in self._shard.coded_file(view, path)]

    def received(self, inbox: Iterable[Sent]) -> dict[str, list[Codes]]:
        found: dict[str, list[Codes]] = {view: [] for view in self._plan.views}
        for _, number, name in inbox:
            view = self._plan.views[number]
            found[view] += self.read(view, [self._crossing / name])
        return found

    def rounds(self, fresh: Mapping[str, Iterable[Codes]]) -> None:
        """Until no head that the part needs is new."""
        for _ in range(self._plan.shard.limits.max_rounds):
            found = self._shard.advance(fresh, self._plan.known, self._plan.driving, self._plan.heads)
            own = {}
            for view, (came, heads) in found.items():
                self._owned[view].append(came[_hashed(self._plan, self._shard, view, came, 0) == self._number])
                own[view] = self._send(view, heads)
            self.took += any(len(came) for came, _ in found.values())
            if not any(map(len, own.values())):
                return
            fresh = {view: [codes] for view, codes in own.items()}
        raise self.too_many_rounds()

    def write_owned(self, files: PartFiles, least: int = 1) -> None:
        """Write what the part has come to own, if it is not too little to be a group of rows."""
        for number, (view, rows) in enumerate(self._owned.items()):
            if sum(map(len, rows)) >= least:
                self._shard.write(view, np.concatenate(rows), files, number)
                rows.clear()

    def sent(self) -> list[Sent]:
        """Write what is for others; the list of it."""
        views = self._plan.views
        types = [self._plan.shard.types(view) for view in views]
        files = PartFiles([self._crossing] * (len(views) * self._plan.count), types * self._plan.count)
        try:
            for (part, view), rows in self._sent.items():
                self._shard.write(view, np.concatenate(rows), files, part * len(views) + views.index(view))
        finally:
            files.close()
        self._sent.clear()
        return [(*divmod(member, len(views)), name) for member, (name, _) in files.written.items()]

    def _send(self, view: str, codes: Codes) -> Codes:
        """Note the rows for others; what comes back the part needs itself."""
        own = codes[:0]
        for part, rows in needed(self._plan, self._shard, view, codes):
            if part == self._number:
                own = rows
            else:
                self._sent.setdefault((part, view), []).append(rows)
        return own

    def _own(self, view: str, codes: Codes) -> Codes:
        return next((rows for part, rows in needed(self._plan, self._shard, view, codes, self._number)), codes[:0])

    def too_many_rounds(self) -> LimitError:
        limit = self._plan.shard.limits.max_rounds
        sizes = {view: self._shard.size(known) for view, known in self._plan.known.items()}
        view = max(sizes, key=lambda name: sizes[name])
        return LimitError(
            f"`{view}` was still growing after {limit} rounds, with {sizes[view]} rows",
            code="recursion-limit", help="bound the recursion in the rules, or raise `max_rounds` if it is finite",
        )  # fmt: skip


# ---- which part needs a row -------------------------------------------------------------------------------------


def needed(
    plan: ExchangePlan, shard: Shard, view: str, codes: Codes, only: int | None = None
) -> Iterator[tuple[int, Codes]]:
    """The rows that each part needs, of parts that need any; `only`: of this one."""
    if not len(codes):
        return
    places = plan.places[view]
    if None in places:
        yield from ((part, codes) for part in range(plan.count) if only is None or part == only)
        return
    hashed = [_hashed(plan, shard, view, codes, place) for place in range(len(places))]
    for part in np.unique(np.concatenate(hashed)).tolist() if only is None else [only]:
        rows = codes[np.logical_or.reduce([each == part for each in hashed])]
        if len(rows):
            yield part, rows


def _hashed(plan: ExchangePlan, shard: Shard, view: str, codes: Codes, place: int) -> NDArray[np.int64]:
    """The part that a place tells, of each row: the same in every worker, so text counts as what it says, not as its
    code."""
    columns, types = plan.places[view][place], plan.shard.types(view)
    assert columns is not None, "a place that is every part tells none"
    mixed = np.zeros(len(codes), np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            mixed = (mixed ^ _stable(shard, types[column], codes[:, column])) * _MULTIPLIER
            mixed ^= mixed >> np.uint64(32)
    return (mixed % np.uint64(plan.count)).astype(np.int64)


def _stable(shard: Shard, type: Type, codes: NDArray[np.int64]) -> NDArray[np.uint64]:
    if type.kind is not Kind.SYMBOL:
        return codes.view(np.uint64)
    texts, places = np.unique(codes, return_inverse=True)
    missing = null_code(type) if type.nullable else None
    sums = [0 if code == missing else zlib.crc32(shard.text(code).encode()) for code in texts.tolist()]
    return np.array(sums, np.uint64)[places]
