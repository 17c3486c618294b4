"""Views that know how often each row is derived: what comes and goes is added to what there was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from upshot.core.rows import Row
from upshot.core.types import NUMBER
from upshot.engine.spark.frames.one_task import in_one_part
from upshot.engine.spark.frames.set_frames import within
from upshot.engine.spark.storage.contents import Contents
from upshot.engine.spark.storage.pieces import LocalPiece, Piece, in_driver, united
from upshot.engine.spark.storage.requests import BRANCHES, FrameRequest, Steps
from upshot.engine.spark.storage.table import FrameTable, settle_whole
from upshot.engine.work import ViewWork
from upshot.spark.types import column_names


def count(
    table: FrameTable, derived: Sequence[DataFrame], session: SparkSession, work: ViewWork, *, afresh: bool, large: bool
) -> Steps[None]:
    """Settle a counted table: `derived` are the derivations that come and go, or all there are if it is computed
    `afresh`; a last column says how often each comes (1) or goes (-1)."""
    work.rounds += 1
    counting = _Counting(table, session)
    if afresh:
        yield from counting.load(derived, large=large)
    elif derived:
        yield from counting.change(derived, large=large)
    work.inserted += table.inserted.count
    work.deleted += table.deleted.count
    work.derived += counting.derived


class _Counting:
    def __init__(self, table: FrameTable, session: SparkSession) -> None:
        self._table, self._session = table, session
        self._names = column_names(len(table.types))
        self._number = f"c{len(self._names)}"
        """The column that holds the number of derivations."""
        self.derived = 0

    def load(self, derived: Sequence[DataFrame], *, large: bool) -> Steps[None]:
        """All rows with their counts."""
        types = self._table.stored_types
        contents = Contents(types)
        if derived:
            if large or len(derived) > BRANCHES:
                (piece,) = yield [FrameRequest(self._totals(derived), types, large=True)]
            else:
                (piece,) = yield [FrameRequest(self._totals(derived), types, branches=len(derived))]
            contents = Contents.of(piece)
        self.derived = contents.count
        yield from settle_whole(self._table, contents, self._session)

    def change(self, derived: Sequence[DataFrame], *, large: bool) -> Steps[None]:
        types, old = self._table.stored_types, self._table.committed
        if large:
            yield from self._change_files(self._totals(derived))
            return
        asks = []
        looks_up = not old.is_local
        room = BRANCHES // 2 if looks_up else BRANCHES
        for first in range(0, len(derived), room):
            some = derived[first : first + room]
            totals = self._totals(some)
            asks.append(FrameRequest(totals, types, branches=len(some)))
            if looks_up:
                keys = totals.select(*self._names)
                asks.append(FrameRequest(old.hits(self._session, keys, self._table.types), types, branches=len(some)))
        answers = yield asks
        totals = answers[::2] if looks_up else answers
        hits = answers[1::2] if looks_up else []
        if all(isinstance(piece, LocalPiece) for piece in answers):
            self._change_here(totals, hits)
            return
        files = united([piece.frame(self._session) for piece in totals if piece.count])
        yield from self._change_files(self._added(files))

    def _totals(self, derived: Sequence[DataFrame]) -> DataFrame:
        """Each row once, with the derivations it gains or loses; those with as many gains as losses do not matter."""
        return self._added(united(derived))

    def _added(self, frame: DataFrame) -> DataFrame:
        total = F.sum(self._number).alias(self._number)
        return in_one_part(frame).groupBy(*self._names).agg(total).filter(F.col(self._number) != 0)

    # ---- in the driver -----------------------------------------------------------------------------------------

    def _change_here(self, totals: Sequence[Piece], hits: Sequence[Piece]) -> None:
        old = self._table.committed
        gained: Counter[Row] = Counter()
        for piece in totals:
            for row in in_driver(piece).rows:
                gained[row[:-1]] += row[-1]
        known = {row[:-1]: row[-1] for piece in hits for row in in_driver(piece).rows if row not in old.gone.places}
        known |= {row[:-1]: row[-1] for row in old.numbered().values() if row[:-1] in gained}
        gone: list[Row] = []
        come: list[Row] = []
        for row, gain in gained.items():
            if not gain:
                continue
            before = known.get(row, 0)
            after = before + gain
            assert after >= 0, f"`{self._table.schema.name}` would have a row with {after} derivations"
            gone += [(*row, before)] if before else []
            come += [(*row, after)] if after else []
        self.derived = len(gained)
        self._settle(gone, come)

    def _settle(self, gone: list[Row], come: list[Row]) -> None:
        table, stored = self._table, self._table.stored_types
        contents = table.committed.changed(LocalPiece.of(gone, stored), LocalPiece.of(come, stored))
        were, are = {row[:-1] for row in gone}, {row[:-1] for row in come}
        width = len(table.types)
        came = LocalPiece.of([row[:width] for row in come if row[:-1] not in were], table.types)
        went = LocalPiece.of([row[:width] for row in gone if row[:-1] not in are], table.types)
        table.settle(contents, came, went)

    # ---- in files ----------------------------------------------------------------------------------------------

    def _change_files(self, totals: DataFrame) -> Steps[None]:
        """Rows with the counts before and after, written once; what comes and goes is read from there."""
        table, old = self._table, self._table.committed
        stored, session = table.stored_types, self._session
        gains = totals.withColumn("before", F.lit(0).cast("long"))
        frames = [gains]
        if old.count:
            keys = totals.select(*self._names)
            were = within(old.frame(session), keys, table.types, small=False)
            none = F.lit(0).cast("long")
            frames.append(were.select(*self._names, none.alias(self._number), F.col(self._number).alias("before")))
        both = (
            united(frames)
            .groupBy(*self._names)
            .agg(F.sum(self._number).alias("gain"), F.sum("before").alias(self._number))
            .filter(F.col("gain") != 0)
        )
        after = f"c{len(self._names) + 1}"
        both = both.select(*self._names, self._number, (F.col(self._number) + F.col("gain")).alias(after))
        (merged,) = yield [FrameRequest(both, (*stored, NUMBER), large=True)]
        self.derived = merged.count
        if isinstance(merged, LocalPiece):
            gone = [row[:-1] for row in merged.rows if row[-2]]
            come = [(*row[:-2], row[-1]) for row in merged.rows if row[-1]]
            self._settle(gone, come)
            return
        rows = merged.frame(session)
        before, now = F.col(self._number), F.col(after)
        gone_rows, come_rows = rows.filter(before > 0), rows.filter(now > 0)
        gone_piece, come_piece, came, went = yield [
            FrameRequest(gone_rows.select(*self._names, before), stored, large=True),
            FrameRequest(come_rows.select(*self._names, now.alias(self._number)), stored, large=True),
            FrameRequest(come_rows.filter(before == 0).select(*self._names), table.types, large=True),
            FrameRequest(gone_rows.filter(now == 0).select(*self._names), table.types, large=True),
        ]
        table.settle(old.changed(gone_piece, come_piece), came, went)
