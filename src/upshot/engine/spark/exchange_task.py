"""One part of a recursion whose parts exchange rows, in a Python worker of Spark.

A part computes, round after round, what follows from the rows that it owns. Heads that it owns drive its next round;
heads of others are written to files, one for each owner, and are what the owners start with in the next step. A worker
keeps the rows of a part from step to step; where another worker gets the part, it reads them from the files that the
steps before have written.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from upshot.core.errors import LimitError
from upshot.core.types import Kind, Type
from upshot.engine.local.codec import null_code
from upshot.engine.spark.exchange_plan import ExchangePlan
from upshot.engine.spark.shard import Codes, Shard, kept_shard, received
from upshot.engine.spark.shard_files import PartFiles, listing
from upshot.engine.spark.shard_plan import SharedRelation
from upshot.engine.spark.slots import Slots

PART = "part"
"""The column that tells a task which part it runs."""

Files = Mapping[str, Sequence[Path]]
"""Files with rows, by view."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Outbox:
    """Where rows go: those that a part has come to own, and those for others. The sets that `PartFiles` knows by
    number are all of both, for each part and view."""

    plan: ExchangePlan
    owned: tuple[Path, ...]
    """A folder for each view."""
    crossing: Path
    """Of this step only."""

    def files(self) -> PartFiles:
        views, count = self.plan.views, self.plan.count
        types = [self.plan.shard.types(view) for view in views]
        return PartFiles([*self.owned * count, *[self.crossing] * (len(views) * count)], types * (2 * count))

    def member(self, part: int, view: str, *, crosses: bool) -> int:
        views = self.plan.views
        return (part + self.plan.count * crosses) * len(views) + views.index(view)

    def meaning(self, member: int) -> tuple[int, str, bool]:
        """The part, the view, and whether the rows cross."""
        group, view = divmod(member, len(self.plan.views))
        crosses, part = divmod(group, self.plan.count)
        return part, self.plan.views[view], bool(crosses)


@dataclass(frozen=True, slots=True)
class ScatterTask:
    """Hands the first rows of the views to the parts that own them."""

    plan: ExchangePlan
    shared: Mapping[str, SharedRelation]
    outbox: Outbox
    given: Slots

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = received(batches)
        if rows is not None:
            yield listing(self.outbox.files(), partial(self._scatter, rows))

    def _scatter(self, rows: pa.Table, files: PartFiles) -> None:
        with kept_shard(self.plan.shard, self.shared) as shard:
            part = _Part(self.plan, shard)
            for view, codes in zip(self.plan.views, shard.coded(self.plan.views, self.given.split(rows)), strict=True):
                part.send(view, codes)
            part.write(self.outbox, files)


@dataclass(frozen=True, slots=True)
class StepTask:
    """Runs the rounds of a part until it has nothing to go on from. `load` tells one load from another."""

    load: str
    plan: ExchangePlan
    shared: Mapping[str, SharedRelation]
    outbox: Outbox
    step: int
    inbox: Mapping[int, Files]
    """What others have found for each part in the step before."""
    since: Mapping[int, int]
    """The step in which each part last had something to do."""
    held: Mapping[int, Files]
    """What each part has come to own by then."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                if number in self.inbox:
                    yield listing(self.outbox.files(), partial(self._run, number))

    def _run(self, number: int, files: PartFiles) -> None:
        with kept_shard(self.plan.shard, self.shared, f"{self.load}, part {number}") as shard:
            part = _Part(self.plan, shard, number)
            part.resume(self.since.get(number, 0), self.held.get(number, {}))
            part.rounds(self.inbox[number])
            part.write(self.outbox, files)
            shard.step = self.step


class _Part:
    """What a part does with its engine in one task; without a number it owns nothing."""

    def __init__(self, plan: ExchangePlan, shard: Shard, number: int = -1) -> None:
        self._plan, self._shard, self._number = plan, shard, number
        self._sent: dict[tuple[int, str], list[Codes]] = {}
        self._owned: dict[str, list[Codes]] = {view: [] for view in plan.views}

    def resume(self, since: int, held: Files) -> None:
        """Bring the engine to where the part stood when it last had something to do."""
        if not self._shard.step or self._shard.step != since:
            self._shard.forget()
            self._shard.adopt(self._read(held))

    def rounds(self, inbox: Files) -> None:
        """Until no head that the part owns is new."""
        fresh: Mapping[str, Iterable[Codes]] = self._read(inbox)
        limit = self._plan.shard.limits.max_rounds
        for _ in range(limit):
            found = self._shard.advance(fresh, self._plan.heads)
            own = {}
            for view, (came, heads) in found.items():
                self._owned[view].append(came)
                own[view] = self.send(view, heads)
            if not any(map(len, own.values())):
                return
            fresh = {view: [codes] for view, codes in own.items()}
        view = max(self._plan.views, key=lambda name: self._shard.size(name))
        raise LimitError(
            f"`{view}` was still growing after {limit} rounds, with {self._shard.size(view)} rows",
            code="recursion-limit", help="bound the recursion in the rules, or raise `max_rounds` if it is finite",
        )  # fmt: skip

    def send(self, view: str, codes: Codes) -> Codes:
        """Note the rows for their owners; what comes back is the part's own."""
        owners = self._owners(view, codes)
        for owner in np.unique(owners):
            if owner != self._number:
                self._sent.setdefault((int(owner), view), []).append(codes[owners == owner])
        own: Codes = codes[owners == self._number]
        return own

    def write(self, outbox: Outbox, files: PartFiles) -> None:
        for (owner, view), rows in self._sent.items():
            self._shard.write(view, np.concatenate(rows), files, outbox.member(owner, view, crosses=True))
        for view, rows in self._owned.items():
            if rows:
                self._shard.write(view, np.concatenate(rows), files, outbox.member(self._number, view, crosses=False))

    def _read(self, files: Files) -> dict[str, list[Codes]]:
        return {
            view: list(chain(*(self._shard.coded_file(view, path) for path in paths))) for view, paths in files.items()
        }

    def _owners(self, view: str, codes: Codes) -> NDArray[np.int64]:
        """The part of each row: the same in every worker, so text counts as what it says, not as its code."""
        mixed = np.zeros(len(codes), np.uint64)
        types = self._plan.shard.types(view)
        with np.errstate(over="ignore"):
            for column in self._plan.keys[view]:
                mixed = (mixed ^ self._stable(types[column], codes[:, column])) * _MULTIPLIER
                mixed ^= mixed >> np.uint64(32)
        return (mixed % np.uint64(self._plan.count)).astype(np.int64)

    def _stable(self, type: Type, codes: NDArray[np.int64]) -> NDArray[np.uint64]:
        if type.kind is not Kind.SYMBOL:
            return codes.view(np.uint64)
        texts, places = np.unique(codes, return_inverse=True)
        missing = null_code(type) if type.nullable else None
        sums = [0 if code == missing else zlib.crc32(self._shard.text(code).encode()) for code in texts.tolist()]
        return np.array(sums, np.uint64)[places]
