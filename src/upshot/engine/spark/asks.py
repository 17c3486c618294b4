"""What a round asks of Spark: many small sets of rows in one job, large ones as files, all with their counts."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from upshot.core.errors import EngineError
from upshot.engine.spark.pieces import SMALL, FilePiece, LocalPiece, Piece, Types, united
from upshot.engine.spark.rule_frames import hubs_split
from upshot.engine.spark.scratch import Scratch
from upshot.engine.spark.slots import Slots
from upshot.spark.failures import translated
from upshot.spark.types import arrow_schema_for_spark, column_names

BRANCHES = 16
"""So many rules go into one job: planning more of them takes longer than a second job."""

_WITHIN_PARTITION = (1 << 33) - 1
"""The part of Spark's increasing ids that counts the rows of a partition."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A frame whose rows are wanted, each once. `repeats`: it may have a row several times, which the driver sorts out
    faster than a shuffle as long as they are few. `large`: more rows than the driver holds are expected, and the answer
    goes to files; `stays_in_files`: also if there are few. `here`: it comes to the driver whatever its size, which is
    bounded by something that is there already. `branches`: how many rules it joins."""

    frame: DataFrame
    types: Types
    large: bool = False
    stays_in_files: bool = False
    here: bool = False
    repeats: bool = False
    branches: int = 1


T = TypeVar("T")
Steps = Generator[list[Ask], list[Piece], T]
"""A computation in rounds: it yields what it asks, and is sent the answers in the same order."""


class Answers:
    """Runs asks as Spark jobs, as few as possible."""

    def __init__(self, session: SparkSession, scratch: Scratch, *, small: int = SMALL) -> None:
        self.session, self.small = session, small
        self._scratch = scratch
        self.jobs = 0
        """Actions so far."""
        self._compiles = True

    def compile(self, wanted: bool) -> None:
        """Whether Spark compiles what it runs: for rows that are all in the driver that takes longer than it saves."""
        if wanted != self._compiles:
            self.session.conf.set("spark.sql.codegen.wholeStage", str(wanted).lower())
            self.session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if wanted else "NO_CODEGEN")
            self._compiles = wanted

    def answer(self, asks: Sequence[Ask]) -> list[Piece]:
        """The rows asked for, in the order of the asks: in the driver if they are few, else in files."""
        found: dict[int, Piece] = {}
        try:
            for batch in _batches(asks):
                found.update(self._collected(asks, batch))
            for number, ask in enumerate(asks):
                if number not in found:
                    found[number] = self.written(ask)
        except EngineError:
            raise
        except Exception as error:
            raise translated(error) from error
        return [found[number] for number in range(len(asks))]

    def run(self, steps: Steps[T]) -> T:
        """A computation of its own, to its end."""
        (result,) = self.run_all([steps])
        return result

    def run_all(self, computations: Sequence[Steps[T]]) -> list[T]:
        """Computations that have nothing to do with each other, to their ends: each round of all of them is one job,
        where it is small."""
        results: dict[int, T] = {}
        waiting: dict[int, list[Ask]] = {}
        answers: dict[int, list[Piece] | None] = dict.fromkeys(range(len(computations)))
        while answers:
            for number, given in answers.items():
                steps = computations[number]
                try:
                    waiting[number] = next(steps) if given is None else steps.send(given)
                except StopIteration as end:
                    results[number] = end.value
            found = iter(self.answer([ask for asks in waiting.values() for ask in asks]))
            answers = {number: [next(found) for _ in asks] for number, asks in waiting.items()}
            waiting = {}
        return [results[number] for number in range(len(computations))]

    # ---- small -----------------------------------------------------------------------------------------------

    def _collected(self, asks: Sequence[Ask], batch: Sequence[int]) -> dict[int, Piece]:
        """The answers of one job; those with too many rows are missing."""
        slots = Slots(tuple(asks[number].types for number in batch))
        frames = [slots.frame(place, self._bounded(asks[number])) for place, number in enumerate(batch)]
        table = united(frames).toArrow()
        self.jobs += 1
        found: dict[int, Piece] = {}
        for number, rows in zip(batch, slots.split(table), strict=True):
            if rows.num_rows <= self.small or asks[number].here:
                found[number] = local_piece(rows, asks[number].types)
        return found

    def _bounded(self, ask: Ask) -> DataFrame:
        """The frame, of which every partition stops by itself soon after there are too many rows: a limit of them all
        would be a shuffle to one task."""
        if ask.here:
            return ask.frame
        return ask.frame.filter(f"(monotonically_increasing_id() & {_WITHIN_PARTITION}) <= {self.small}")

    # ---- large -----------------------------------------------------------------------------------------------

    def written(self, ask: Ask) -> Piece:
        """The rows of one ask, by way of files; the count is taken while they are written and compared with what the
        files say."""
        path = self._scratch.new()
        names = column_names(len(ask.types))
        observation = Observation()
        rows = ask.frame.select(*names)
        rows = rows.distinct() if ask.repeats else rows
        counted = rows.observe(observation, F.count(F.lit(1)).alias("rows"))
        with hubs_split(self.session) if ask.large else nullcontext():
            counted.write.parquet(str(path))
        self.jobs += 1
        count = int(observation.get["rows"])
        if stored := rows_in(path) - count:
            raise lost_rows(count, count + stored)
        if count > self.small or ask.stays_in_files:
            return FilePiece((path,), count, ask.types)
        piece = local_piece(read_rows(path, ask.types), ask.types)
        FilePiece((path,), count, ask.types).drop()
        return piece


def _batches(asks: Sequence[Ask]) -> list[list[int]]:
    """The small asks by job."""
    batches: list[list[int]] = []
    room = 0
    for number, ask in enumerate(asks):
        if ask.large or ask.stays_in_files:
            continue
        if not batches or ask.branches > room:
            batches.append([])
            room = BRANCHES
        batches[-1].append(number)
        room -= ask.branches
    return batches


def local_piece(table: pa.Table, types: Types) -> LocalPiece:
    """Rows that Spark gave, each once."""
    target = arrow_schema_for_spark(types)
    if table.schema != target:
        table = pa.table([c.cast(f.type) for c, f in zip(table.columns, target, strict=True)], schema=target)
    piece = LocalPiece(table, types)
    if len(piece.places) == table.num_rows:
        return piece
    return LocalPiece.of(piece.places, types)


def rows_in(path: Path) -> int:
    """The rows of a Parquet folder, by the files' own account."""
    return sum(int(pq.read_metadata(file).num_rows) for file in _files(path))


def read_rows(path: Path, types: Types) -> pa.Table:
    """The rows of a small Parquet folder of a frame, without a job."""
    names = column_names(len(types))
    tables = [pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read(columns=names) for file in _files(path)]
    target = arrow_schema_for_spark(types)
    cast = [
        pa.table([t.column(n).cast(f.type) for n, f in zip(names, target, strict=True)], schema=target) for t in tables
    ]
    return pa.concat_tables(cast) if cast else target.empty_table()


def _files(path: Path) -> list[Path]:
    return [file for file in path.iterdir() if re.fullmatch(r"part-.*\.parquet", file.name)]


def lost_rows(written: int, stored: int) -> EngineError:
    error = EngineError(
        f"Spark wrote {written} rows and {stored} are stored",
        code="lost-rows",
        help="nothing was applied; check that every node sees the scratch folder, which `upshot.scratch` names",
    )
    error.retryable = True
    return error
