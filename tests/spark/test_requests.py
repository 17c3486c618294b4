"""Requests: many small sets of rows in one job, large ones as files, and a count that is checked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.engine.driver import plain
from tests.spark.conftest import Place
from upshot.core.errors import EngineError
from upshot.core.row_order import RowOrder
from upshot.core.schema import Column, Schema
from upshot.core.types import BOOLEAN, DATE, FLOAT, NUMBER, SYMBOL, TIMESTAMP, UNSIGNED, Kind, Type

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from upshot.engine.spark.storage.pieces import Contents, FilePiece, LocalPiece
from upshot.engine.spark.storage.requests import FrameRequest, Jobs
from upshot.engine.spark.storage.spark_rows import RowSources, SparkRows
from upshot.engine.spark.storage.statements import sifted
from upshot.spark.location import child, files_of
from upshot.spark.preflight import shared_workspace
from upshot.spark.session import is_connect, private_session
from upshot.spark.types import rows_for_spark
from upshot.spark.workspace import StoredRows, Workspace

DECIMAL = Type(Kind.DECIMAL, precision=10, scale=2)
WIDE = (NUMBER, UNSIGNED, FLOAT.optional(), SYMBOL.optional(), BOOLEAN, DATE, TIMESTAMP, DECIMAL)
NOW = dt.datetime(1801, 2, 3, 4, 5, 6, 789012, tzinfo=dt.UTC)
ROWS = [
    (-(2**63), 2**64 - 1, float("nan"), "grüße \N{OWL}", True, dt.date(1, 1, 1), NOW, Decimal("-1.50")),
    (0, 0, None, None, False, dt.date(9999, 12, 31), NOW.replace(year=9999), Decimal("0.00")),
    (1, 5, float("inf"), "", False, dt.date(1969, 12, 31), NOW, Decimal("99999999.99")),
]


@pytest.fixture(scope="module")
def answers(spark: Any) -> Iterator[Jobs]:
    workspace = shared_workspace(spark)
    yield Jobs(private_session(spark), workspace, small=100)
    workspace.remove()


def local(rows: Any, types: Any) -> LocalPiece:
    return LocalPiece.of(list(rows), types)


def read(piece: Any, answers: Jobs) -> set[Any]:
    if isinstance(piece, LocalPiece):
        return plain(piece.rows)
    (collected,) = Jobs(answers.session, answers.workspace).answer(
        [FrameRequest(piece.frame(answers.session), piece.types)]
    )
    assert isinstance(collected, LocalPiece)
    return plain(collected.rows)


def test_small_sets_of_all_types_come_in_one_job_and_large_ones_in_files(answers: Jobs) -> None:
    many = [(i, str(i)) for i in range(500)]
    given = [
        local(ROWS, WIDE), local([()], ()), local([(1, "a"), (2, "b")], (NUMBER, SYMBOL)), local([], (FLOAT,)),
        local(many, (NUMBER, SYMBOL)),
    ]  # fmt: skip
    wanted = [FrameRequest(piece.frame(answers.session), piece.types) for piece in given]
    before = answers.jobs
    few = answers.answer(wanted[:4])
    assert answers.jobs == before + 1
    assert [read(piece, answers) for piece in few] == [plain(piece.rows) for piece in given[:4]]
    found = answers.answer([wanted[0], wanted[4], FrameRequest(wanted[0].frame, WIDE, large=True)])
    assert isinstance(found[1], FilePiece)
    assert (found[1].count, read(found[1], answers)) == (500, plain(many))
    assert isinstance(found[2], LocalPiece)
    assert read(found[2], answers) == read(found[0], answers) == plain(ROWS)


def test_rows_of_the_driver_become_files_without_a_job(answers: Jobs) -> None:
    before = answers.jobs
    stored, none = answers.answer([local(ROWS, WIDE), local([], (FLOAT,))])
    assert answers.jobs == before
    assert isinstance(stored, FilePiece)
    assert (stored.count, none.count) == (len(ROWS), 0)
    assert read(stored, answers) == plain(ROWS)


def test_no_row_is_lost_behind_an_empty_chunk(answers: Jobs) -> None:
    """Spark stops reading an Arrow table at its first empty chunk."""
    one = rows_for_spark([(1,)], (NUMBER,))
    piece = LocalPiece(pa.concat_tables([one, one.slice(1), rows_for_spark([(2,)], (NUMBER,))]), (NUMBER,))
    (found,) = answers.answer([FrameRequest(piece.frame(answers.session), (NUMBER,))])
    assert read(found, answers) == {(1,), (2,)}


def test_rows_that_are_missing_from_the_files_are_noticed(answers: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = local([(i,) for i in range(10)], (NUMBER,)).frame(answers.session)
    monkeypatch.setattr(Workspace, "stored", lambda _, folder: StoredRows(folder, (), 9))
    with pytest.raises(EngineError, match="wrote 10 rows and 9 are stored") as caught:
        answers.answer([FrameRequest(frame, (NUMBER,), large=True)])
    assert caught.value.code == "lost-rows"
    assert caught.value.retryable


def test_a_file_that_is_gone_is_an_error_and_never_an_empty_set(answers: Jobs) -> None:
    rows = local([(i,) for i in range(500)], (NUMBER,))
    for use in ("frame made before", "frame made after", "read by the driver"):
        (piece,) = answers.answer([FrameRequest(rows.frame(answers.session), (NUMBER,), large=True)])
        assert isinstance(piece, FilePiece)
        frame = piece.frame(answers.session) if use == "frame made before" else None
        files_of(answers.session, piece.files[0]).delete(piece.files[0])

        def looked_at(gone: FilePiece = piece, frame: Any = frame, use: str = use) -> object:
            if use == "read by the driver":
                return answers.read(gone)
            return answers.answer([FrameRequest(frame or gone.frame(answers.session), (NUMBER,), here=True)])

        with pytest.raises(EngineError) as caught:
            looked_at()
        assert (caught.value.code, caught.value.retryable) == ("lost-rows", True), use
        assert piece.files[0].rpartition("/")[2] in caught.value.message, use


def test_every_read_compares_the_number_of_rows_with_the_one_that_is_known(
    answers: Jobs, spark: Any, place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file that somebody replaced by one with fewer rows: Spark reads it without complaint."""
    rows = local([(i,) for i in range(500)], (NUMBER,))
    (piece,) = answers.answer([FrameRequest(rows.frame(answers.session), (NUMBER,), large=True)])
    assert isinstance(piece, FilePiece)
    few = answers.workspace.put([rows.table.slice(0, 20)], rows.table.schema)
    replaced = FilePiece([StoredRows(few.folder, few.files, piece.count)], piece.types)
    lender = RowSources(spark, answers.session, answers.workspace)
    source = SparkRows(Schema("r", (Column("x", NUMBER),)), replaced, lender)
    reads: dict[str, Callable[[], object]] = {
        "by the driver": lambda: answers.read(replaced),
        "as tuples": source.tuples,
        "as a table": source.arrow,
        "some of them": lambda: source.some(100),
        "a page": lambda: source.page(RowOrder((0,), (False,)), None, 100),
        "into a folder": lambda: source.parquet(tmp_path / "rows"),
        "into a URI": lambda: source.parquet(child(place.uri, "rows")),
    }
    for name, read in reads.items():
        with pytest.raises(EngineError) as caught:
            read()
        assert caught.value.code == "lost-rows", name
    monkeypatch.setattr(Workspace, "is_near", lambda workspace, files: False)
    with pytest.raises(EngineError, match="wrote 500 rows and 20 are stored"):
        answers.read(replaced)


def test_contents_follow_a_set_through_any_changes(answers: Jobs) -> None:
    """Rows with NULL and NaN, in the driver and in files, taken out and put back."""
    types = (NUMBER.optional(), FLOAT)
    every = local([(x, y) for x in (None, 1, 2) for y in (float("nan"), 0.0, 1.5, 2.5)], types).rows
    contents, model = Contents(types), set[Any]()
    turns = [
        ([], every[:6], True), (every[:2], every[6:8], False), ([], every[:1], False), (every[2:5], every[8:11], True),
        (every[8:9], every[2:3], False), (every[:1], every[1:2], False),
    ]  # fmt: skip
    for number, (went, came, in_files) in enumerate(turns):
        pieces = [local(went, types), local(came, types)]
        if in_files:
            asked = [FrameRequest(p.frame(answers.session), types, stays_in_files=True) for p in pieces if p.count]
            written = answers.answer(asked)
            pieces = [written.pop(0) if p.count else p for p in pieces]  # type: ignore[misc]
        contents = contents.changed(*pieces)
        model = (model - set(went)) | set(came)
        found, inside, outside = (
            answers.answer([FrameRequest(contents.frame(answers.session), types)]),
            *(
                answers.run(sifted(local(every, types), contents, answers.session, present=present))
                for present in (True, False)
            ),
        )
        assert contents.count == len(model)
        assert read(found[0], answers) == plain(model), number
        assert (read(inside, answers), read(outside, answers)) == (plain(model), plain(set(every) - model)), number


def test_settings_of_the_private_session_do_not_reach_the_users(spark: Any, tmp_path: Path) -> None:
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    private = private_session(spark)
    assert private.conf.get("spark.sql.session.timeZone") == "UTC"
    Jobs(private, Workspace(tmp_path)).compile(False)
    assert {name: spark.conf.get(name, None) for name in SETTINGS} == before


def test_classes_of_java_are_remembered_for_the_users_session_too_which_finds_the_same(spark: Any) -> None:
    if is_connect(spark):
        pytest.skip("Spark Connect has no Java")
    private = private_session(spark)
    assert private.sparkContext._jvm is spark.sparkContext._jvm
    known = vars(spark.sparkContext._jvm)
    assert known["functions"]._fqn == "org.apache.spark.sql.functions"
    assert [row[0] for row in spark.range(2).selectExpr("id").select(F.upper(F.lit("a"))).collect()] == ["A", "A"]


SETTINGS = (
    "spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions", "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled", "spark.sql.parquet.outputTimestampType", "spark.sql.files.minPartitionNum",
    "spark.sql.codegen.wholeStage", "spark.sql.leafNodeDefaultParallelism", "spark.sql.constraintPropagation.enabled",
)  # fmt: skip
