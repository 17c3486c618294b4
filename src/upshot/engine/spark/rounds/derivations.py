"""From the heads that rules derive to the change of a view: as a set, with counts, or by groups.

Few rows are collected together with the rows of the files that they match, and compared in the driver: so the cost
follows the change, in one job. Many are compared where they are, and only the result is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from upshot.check.program import Clause
from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.core.types import NUMBER
from upshot.engine.spark.frames.aggregates import group_values, groups
from upshot.engine.spark.frames.joins import in_one_part, within, without
from upshot.engine.spark.storage.pieces import Contents, LocalPiece, Piece, Types, in_driver, nothing, united
from upshot.engine.spark.storage.requests import BRANCHES, FrameRequest, Steps, in_step
from upshot.engine.spark.storage.table import FrameTable, differences, settle_whole
from upshot.engine.work import ViewWork
from upshot.plan.rule_plan import State
from upshot.spark.types import column_names
from upshot.syntax.ast import Atom

# ---- sets ------------------------------------------------------------------------------------------------------


def new_rows(
    derived: Mapping[str, Sequence[DataFrame]], known: Mapping[str, Contents], session: SparkSession, work: ViewWork, *,
    present: bool = False, large: bool,
) -> Steps[dict[str, Piece]]:  # fmt: skip
    """The new rows of a round, by relation: of the heads of its rules those that are, or are not, `present` in the
    known rows. `large`: many heads are expected."""
    sifting = [
        _new_rows(frames, known[name], session, work, present=present, large=large) for name, frames in derived.items()
    ]
    return dict(zip(derived, (yield from in_step(sifting)), strict=True))


def _new_rows(
    frames: Sequence[DataFrame], known: Contents, session: SparkSession, work: ViewWork, *, present: bool, large: bool
) -> Steps[Piece]:
    if present and not known.count:
        return nothing(known.types)

    def combine(some: Sequence[DataFrame]) -> DataFrame:
        return in_one_part(united(some)) if known.is_local else united(some).distinct()

    heads: Sequence[Piece] = ()
    hits: Sequence[Piece] = ()
    if not large:
        heads, hits = yield from _with_hits(frames, combine, known, known.types, session, repeats=True)
    if heads and all(piece.is_local for piece in (*heads, *hits)):
        rows = in_driver(heads[0])
        if len(heads) > 1:
            rows = LocalPiece.of(dict.fromkeys(row for piece in heads for row in in_driver(piece).rows), rows.types)
        found: Piece = known.sift(rows, hits, present=present)
        work.derived += rows.count
        work.filtered += rows.count - found.count
        return found
    derived = [piece.frame(session) for piece in heads if piece.count] or frames
    whole = united(derived)
    if large or len(derived) > 1:
        whole = in_one_part(whole).distinct()
    if known.count:
        sift = within if present else without
        whole = sift(whole, known.frame(session), known.types, small=known.is_local)
    (found,) = yield [FrameRequest(whole, known.types, large=True)]
    count = sum(piece.count for piece in heads) if heads else found.count
    work.derived += count
    work.filtered += count - found.count
    return found


def _with_hits(
    derived: Sequence[DataFrame], combine: Callable[[Sequence[DataFrame]], DataFrame], known: Contents, types: Types,
    session: SparkSession, *, repeats: bool,
) -> Steps[tuple[Sequence[Piece], Sequence[Piece]]]:  # fmt: skip
    """Few derived rows, and the known rows in files that agree with one of them in the columns of these types; in
    several jobs if there are many rules. `repeats`: the combined rows may repeat if nothing is looked up for them."""
    looks_up = not known.is_local
    room = BRANCHES // 2 if looks_up else BRANCHES
    requests = []
    for first in range(0, len(derived), room):
        some = derived[first : first + room]
        rows = combine(some)
        requests.append(FrameRequest(rows, known.types, repeats=repeats and not looks_up, branches=len(some)))
        if looks_up:
            hits = known.hits(session, rows.select(*column_names(len(types))), types)
            requests.append(FrameRequest(hits, known.types, branches=len(some)))
    answers = yield requests
    return (answers[::2], answers[1::2]) if looks_up else (answers, [])


# ---- counts ----------------------------------------------------------------------------------------------------


def count(
    table: FrameTable, derived: Sequence[DataFrame], session: SparkSession, work: ViewWork, *, afresh: bool, large: bool
) -> Steps[None]:
    """Settle a counted table: `derived` are the gained and lost derivations, or all there are if it is computed
    `afresh`; a last column has 1 for each gained and -1 for each lost derivation."""
    work.rounds += 1
    if afresh:
        yield from _count_all(table, derived, session, work, large=large)
    elif derived and large:
        yield from _count_files(table, _totals(table, derived), session, work)
    elif derived:
        old = table.committed
        totals, hits = yield from _with_hits(
            derived, lambda some: _totals(table, some), old, table.types, session, repeats=False
        )
        if all(piece.is_local for piece in (*totals, *hits)):
            _count_here(table, totals, hits, work)
        else:
            files = [piece.frame(session) for piece in totals if piece.count]
            yield from _count_files(table, _totals(table, files), session, work)
    work.inserted += table.inserted.count
    work.deleted += table.deleted.count


def _totals(table: FrameTable, derived: Sequence[DataFrame]) -> DataFrame:
    """Each row once, with the number of derivations it gains; without rows that gain as many as they lose."""
    *names, number = column_names(len(table.stored_types))
    total = F.sum(number).alias(number)
    return in_one_part(united(derived)).groupBy(*names).agg(total).filter(F.col(number) != 0)


def _count_all(
    table: FrameTable, derived: Sequence[DataFrame], session: SparkSession, work: ViewWork, *, large: bool
) -> Steps[None]:
    contents = Contents(table.stored_types)
    if derived:
        totals, large = _totals(table, derived), large or len(derived) > BRANCHES
        (piece,) = yield [FrameRequest(totals, table.stored_types, large=large, branches=len(derived))]
        contents = Contents.of(piece)
    work.derived += contents.count
    yield from settle_whole(table, contents, session)


def _count_here(table: FrameTable, totals: Sequence[Piece], hits: Sequence[Piece], work: ViewWork) -> None:
    """Settle the table in the driver; `hits` are the stored rows of the totals."""
    old = table.committed
    gains: Counter[Row] = Counter()
    for row in (row for piece in totals for row in in_driver(piece).rows):
        gains[row[:-1]] += row[-1]
    removed = old.removed.places
    before = {row[:-1]: row[-1] for piece in hits for row in in_driver(piece).rows if row not in removed}
    before |= {row[:-1]: row[-1] for row in old.added.rows if row[:-1] in gains}
    work.derived += len(gains)
    _settle_counts(table, [(row, before.get(row, 0), before.get(row, 0) + gain) for row, gain in gains.items() if gain])


def _settle_counts(table: FrameTable, counts: Sequence[tuple[Row, int, int]]) -> None:
    """Settle the table: rows with their numbers of derivations before and after."""
    for _, _, after in counts:
        assert after >= 0, f"`{table.schema.name}` would have a row with {after} derivations"
    stored, width = table.stored_types, len(table.types)
    deleted = LocalPiece.of([(*row, before) for row, before, _ in counts if before], stored)
    inserted = LocalPiece.of([(*row, after) for row, _, after in counts if after], stored)
    new = LocalPiece.of([row[:width] for row, before, _ in counts if not before], table.types)
    gone = LocalPiece.of([row[:width] for row, _, after in counts if not after], table.types)
    table.settle(table.committed.changed(deleted, inserted), new, gone)


def _count_files(table: FrameTable, totals: DataFrame, session: SparkSession, work: ViewWork) -> Steps[None]:
    """Settle the table on Spark: rows with the numbers of derivations before and after are written once."""
    old, stored = table.committed, table.stored_types
    *names, number = column_names(len(stored))
    none, after = F.lit(0).cast("long"), f"c{len(stored)}"
    frames = [totals.withColumn("before", none)]
    if old.count:
        were = within(old.frame(session), totals.select(*names), table.types, small=False)
        frames.append(were.select(*names, none.alias(number), F.col(number).alias("before")))
    both = united(frames).groupBy(*names).agg(F.sum(number).alias("gain"), F.sum("before").alias(number))
    both = both.filter(F.col("gain") != 0)
    both = both.select(*names, number, (F.col(number) + F.col("gain")).alias(after))
    (merged,) = yield [FrameRequest(both, (*stored, NUMBER), large=True)]
    work.derived += merged.count
    if isinstance(merged, LocalPiece):
        _settle_counts(table, [(row[:-2], row[-2], row[-1]) for row in merged.rows])
        return
    before, now, rows = F.col(number), F.col(after), merged.frame(session)
    deleted, inserted, new, gone = yield [
        FrameRequest(rows.filter(before > 0).select(*names, before), stored, large=True),
        FrameRequest(rows.filter(now > 0).select(*names, now.alias(number)), stored, large=True),
        FrameRequest(rows.filter((now > 0) & (before == 0)).select(*names), table.types, large=True),
        FrameRequest(rows.filter((now == 0) & (before > 0)).select(*names), table.types, large=True),
    ]
    table.settle(old.changed(deleted, inserted), new, gone)


# ---- groups ----------------------------------------------------------------------------------------------------


def grouped(
    clause: Clause, tables: Mapping[str, FrameTable], schemas: Mapping[str, Schema], session: SparkSession,
    work: ViewWork, afresh: bool,
) -> Steps[None]:  # fmt: skip
    """Settle the view of the aggregate clause `agg(G…, V) :- aux(G…, _…), V = f T : { aux(G…, L…) }.` from the groups
    that a change touches, or `afresh`."""
    first = clause.body[0]
    assert isinstance(first, Atom)
    view, rows = tables[clause.head.relation], tables[first.relation]
    work.rounds += 1
    if afresh:
        values = group_values(clause, schemas, rows.frame(State.NEW))
        (piece,) = yield [FrameRequest(values, view.types, large=rows.new.count > view.small)]
        work.derived += piece.count
        yield from settle_whole(view, Contents.of(piece), session)
    else:
        yield from _regroup(clause, schemas, view, rows, session)
        work.derived += view.changed
    work.inserted += view.inserted.count
    work.deleted += view.deleted.count


def _regroup(
    clause: Clause, schemas: Mapping[str, Schema], view: FrameTable, rows: FrameTable, session: SparkSession
) -> Steps[None]:
    """Settle the view from the new values of the groups that gained or lost a row, and the old ones."""
    width = len(view.types) - 1
    kinds = view.types[:width]
    small = rows.inserted.is_local and rows.deleted.is_local
    new, old = rows.frame(State.NEW), view.frame(State.OLD)
    here: set[Row] = set()
    if small:
        here = {row[:width] for piece in (rows.inserted, rows.deleted) for row in in_driver(piece).rows}
    if width:
        changed = [piece.frame(session) for piece in (rows.inserted, rows.deleted) if piece.count]
        touched = LocalPiece.of(here, kinds).frame(session) if small else groups(united(changed), width)
        new, old = within(new, touched, kinds, small=small), within(old, touched, kinds, small=small)
    requests = [FrameRequest(group_values(clause, schemas, new), view.types, large=not small)]
    if small and view.committed.is_local:
        (after,) = yield requests
        before: Piece = view.committed.added.where(lambda row: row[:width] in here)
    else:
        after, before = yield [*requests, FrameRequest(old, view.types, large=not small)]
    view.settle_change(*(yield from differences(Contents.of(before), Contents.of(after), session)))
