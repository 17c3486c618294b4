"""Each sink holds what the store holds, however often it is told and wherever it was interrupted."""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import upshot
from upshot.core.rows import Rows
from upshot.core.schema import Column, Schema
from upshot.core.types import BOOLEAN, DATE, FLOAT, NUMBER, SYMBOL, TIMESTAMP, UNSIGNED, Kind, Type
from upshot.database.changes import Changes
from upshot.engine.spark.storage.pieces import LocalPiece
from upshot.pipeline.sinks import delta_spark, tables
from upshot.pipeline.sinks.catch_up import Publication, read_standings
from upshot.pipeline.sinks.console import Console
from upshot.pipeline.sinks.delta import DeltaLog, DeltaView, DeltaWriter, delta_writer
from upshot.pipeline.sinks.delta_native import NativeDelta
from upshot.pipeline.sinks.delta_spark import SparkDelta
from upshot.pipeline.sinks.failures import sink_failed
from upshot.pipeline.sinks.parquet import ParquetLog, ParquetSnapshots
from upshot.pipeline.sinks.sink import refuse_schema
from upshot.spark import delta
from upshot.store import encoding
from upshot.store.encoding import FolderSide, encode_folder, stored_rows
from upshot.store.folders import sync_files

PAIR = Schema("path", (Column("x", NUMBER), Column("y", SYMBOL.optional())))
EVERYTHING = Schema(
    "things",
    (
        Column("n", NUMBER.optional()),
        Column("u", UNSIGNED),
        Column("f", FLOAT),
        Column("s", SYMBOL.optional()),
        Column("b", BOOLEAN),
        Column("d", DATE),
        Column("t", TIMESTAMP.optional()),
        Column("m", Type(Kind.DECIMAL, precision=10, scale=2)),
    ),
)
MOMENT = dt.datetime(2026, 1, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
ROWS = [
    (1, 2**64 - 1, math.nan, "né", True, dt.date(1, 1, 1), MOMENT, Decimal("-12345678.90")),
    (None, 0, 0.0, None, False, dt.date(9999, 12, 31), None, Decimal("0.00")),
    (-(2**62), 1, -math.inf, "", True, dt.date(2026, 1, 31), MOMENT, Decimal("0.01")),
]


def rows(schema: Schema, *tuples: tuple[Any, ...]) -> Rows:
    return Rows.of(schema, list(tuples))


def changes(schema: Schema, inserted: list[Any], deleted: list[Any]) -> Changes:
    return Changes(Rows.of(schema, inserted), Rows.of(schema, deleted))


@pytest.fixture
def writer(support: str, spark: Any) -> DeltaWriter:
    """Delta tables from the driver, and through Spark."""
    return SparkDelta(spark) if support == "spark" else NativeDelta()


def delta_rows(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    from deltalake import DeltaTable  # noqa: PLC0415 - an optional package

    table = DeltaTable(path).to_pyarrow_table()
    return [tuple(row[c] for c in columns or table.column_names) for row in table.to_pylist()]


def log_rows(path: Path) -> list[tuple[Any, ...]]:
    table = pq.read_table(path, columns=["x", "y", "_change", "_version"])
    return sorted(tuple(row.values()) for row in table.to_pylist())


# ---- delta ------------------------------------------------------------------------------------------------


def test_a_delta_table_follows_exact_changes(writer: DeltaWriter, tmp_path: Path) -> None:
    path = tmp_path / "path"
    sink = DeltaView("path", str(path), writer, "p")
    assert sink.stored_version() is None
    sink.start(rows(PAIR, (1, "a"), (2, None), (2, "b")), 3)
    assert sink.stored_version() == 3
    sink.apply(changes(PAIR, [(3, "c")], [(2, None)]), 5)
    assert set(delta_rows(path)) == {(1, "a"), (2, "b"), (3, "c")}
    assert sink.stored_version() == 5


def test_a_version_handed_over_twice_is_taken_once(writer: DeltaWriter, tmp_path: Path) -> None:
    view = DeltaView("path", str(tmp_path / "view"), writer, "p")
    log = DeltaLog("path", str(tmp_path / "log"), writer, "p")
    change = changes(PAIR, [(1, "a")], [])
    for sink in (view, log):
        sink.start(rows(PAIR), 1)
        sink.apply(change, 2)
        sink.apply(change, 2)
        sink.apply(changes(PAIR, [], [(1, "a")]), 2)
    assert delta_rows(tmp_path / "view") == [(1, "a")]
    assert delta_rows(tmp_path / "log") == [(1, "a", 1, 2)]


def test_a_delta_log_says_what_came_and_went_in_which_version(writer: DeltaWriter, tmp_path: Path) -> None:
    sink = DeltaLog("path", str(tmp_path / "log"), writer, "p")
    sink.start(rows(PAIR, (1, "a")), 1)
    sink.apply(changes(PAIR, [(2, "b")], [(1, "a")]), 2)
    assert sorted(delta_rows(tmp_path / "log", "x", "y", "_change", "_version")) == [
        (1, "a", -1, 2),
        (1, "a", 1, 1),
        (2, "b", 1, 2),
    ]


def test_every_type_comes_back_from_delta_as_it_went(writer: DeltaWriter, tmp_path: Path) -> None:
    path = tmp_path / "things"
    sink = DeltaView("things", str(path), writer, "p")
    sink.start(rows(EVERYTHING, *ROWS[:2]), 1)
    refuse_schema(sink, EVERYTHING)
    sink.apply(changes(EVERYTHING, [ROWS[2]], [ROWS[1]]), 2)
    assert Rows.of(EVERYTHING, delta_rows(path)) == [ROWS[0], ROWS[2]]
    # NaN and NULL are found again, to be deleted.
    sink.apply(changes(EVERYTHING, [], [ROWS[0], ROWS[2]]), 3)
    assert delta_rows(path) == []


def test_a_table_of_somebody_else_is_never_touched(writer: DeltaWriter, tmp_path: Path) -> None:
    other = DeltaView("path", str(tmp_path / "path"), writer, "other")
    other.start(rows(PAIR, (1, "a")), 7)
    with pytest.raises(upshot.UsageError) as refused:
        DeltaView("path", str(tmp_path / "path"), writer, "p").stored_version()
    assert refused.value.code == "sink-occupied"
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "notes.txt").write_text("mine")
    with pytest.raises(upshot.UsageError, match="did not write"):
        DeltaView("path", str(tmp_path / "files"), writer, "p").stored_version()


def test_other_columns_are_refused_with_the_difference(writer: DeltaWriter, tmp_path: Path) -> None:
    sink = DeltaView("path", str(tmp_path / "path"), writer, "p")
    sink.start(rows(PAIR, (1, "a")), 1)
    refuse_schema(sink, PAIR)
    wider = Schema("path", (Column("x", SYMBOL), Column("z", NUMBER)))
    with pytest.raises(upshot.DataError) as refused:
        refuse_schema(sink, wider)
    assert refused.value.code == "schema-change"
    assert "`z` is new; `y` is missing; `x` was number and is now symbol" in refused.value.message


def test_what_a_start_that_died_left_of_a_delta_table_is_removed(writer: DeltaWriter, tmp_path: Path) -> None:
    path = tmp_path / "path"
    (path / "_delta_log").mkdir(parents=True)
    (path / "_delta_log" / "_commit_5f.json.tmp").write_text("half")
    pq.write_table(tables.table_of(rows(PAIR, (9, "z"))), path / "part-00000-5f-c000.snappy.parquet")
    sink = DeltaView("path", str(path), writer, "p")
    with pytest.raises(upshot.UsageError, match="did not write"):
        sink.stored_version()
    assert sink.stored_version(announced=True) is None
    sink.start(rows(PAIR, (1, "a")), 1)
    assert (sink.stored_version(), delta_rows(path), len(list(path.glob("*.parquet")))) == (1, [(1, "a")], 1)


def test_a_start_that_died_is_no_reason_to_remove_what_is_not_ours(writer: DeltaWriter, tmp_path: Path) -> None:
    DeltaView("path", str(tmp_path / "theirs"), writer, "other").start(rows(PAIR, (1, "a")), 7)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "notes.txt").write_text("mine")
    with pytest.raises(upshot.UsageError, match="did not write"):
        DeltaView("path", str(tmp_path / "theirs"), writer, "p").stored_version(announced=True)
    with pytest.raises(upshot.UsageError, match="did not write"):
        DeltaView("path", str(tmp_path / "files"), writer, "p").start(rows(PAIR), 1)
    assert (tmp_path / "files" / "notes.txt").exists()


def test_a_delta_table_that_cannot_be_written_may_be_tried_again(writer: DeltaWriter, tmp_path: Path) -> None:
    log = DeltaLog("path", str(tmp_path / "log"), writer, "p")
    log.start(rows(PAIR), 1)
    other = changes(Schema("path", (Column("z", DATE),)), [(dt.date(2026, 1, 31),)], [])
    for write in (
        lambda: writer.append(str(tmp_path / "log"), "p", 2, other),
        lambda: writer.merge(str(tmp_path / "log"), "p", 2, other),
    ):
        with pytest.raises(upshot.EngineError) as failed:
            write()
        assert (failed.value.code, failed.value.retryable) == ("sink-failed", True)
        assert f"cannot write the delta table `{tmp_path / 'log'}`" in failed.value.message


# ---- parquet ----------------------------------------------------------------------------------------------


def test_a_parquet_log_has_one_folder_a_version(tmp_path: Path) -> None:
    sink = ParquetLog("path", tmp_path, None)
    sink.start(rows(PAIR), 1)
    assert (sink.stored_version(), log_rows(tmp_path)) == (1, [])
    sink.apply(changes(PAIR, [(1, "a")], []), 2)
    sink.apply(changes(PAIR, [(2, "b")], [(1, "a")]), 12)
    sink.apply(changes(PAIR, [(9, "z")], []), 12)
    assert [folder.name for folder in sorted(tmp_path.iterdir())] == [f"upshot_version={v:06}" for v in (1, 2, 12)]
    assert log_rows(tmp_path) == [(1, "a", -1, 12), (1, "a", 1, 2), (2, "b", 1, 12)]
    refuse_schema(sink, PAIR)


def test_parquet_snapshots_are_whole_and_the_pointer_comes_last(tmp_path: Path) -> None:
    sink = ParquetSnapshots("things", tmp_path, None, keep=1)
    sink.start(rows(EVERYTHING), 1)
    for version, taken in ((2, ROWS[:1]), (5, ROWS), (6, ROWS[1:])):
        sink.replace(rows(EVERYTHING, *taken), version)
    refuse_schema(sink, EVERYTHING)
    pointer = json.loads((tmp_path / "current.json").read_text())
    assert pointer == {"view": "things", "version": 6, "folder": "v000006", "rows": 2}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["current.json", "v000005", "v000006"]
    found = pq.read_table(tmp_path / "v000005").to_pylist()
    assert Rows.of(EVERYTHING, [tuple(row.values()) for row in found]) == ROWS


def test_a_snapshot_without_its_folder_is_damage_and_a_stray_file_is_not_ours(tmp_path: Path) -> None:
    sink = ParquetSnapshots("path", tmp_path / "s", None)
    sink.start(rows(PAIR), 1)
    (tmp_path / "s" / "v000001").rename(tmp_path / "elsewhere")
    with pytest.raises(upshot.DataError) as damage:
        sink.stored_version()
    assert damage.value.code == "damaged-sink"
    with pytest.raises(upshot.UsageError) as refused:
        ParquetLog("path", tmp_path, None).stored_version()
    assert refused.value.code == "sink-occupied"


def test_rows_that_are_many_and_on_spark_leave_without_being_collected(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OnSpark:
        """What an engine on Spark hands out; collecting it is the mistake."""

        def __len__(self) -> int:
            return 3

        def tuples(self) -> list[Any]:
            raise AssertionError("collected")

        arrow = tuples

        def frame(self, session: Any = None) -> Any:
            return spark.createDataFrame([(1, "a"), (2, "b"), (3, None)], "x long, y string")

    monkeypatch.setattr(tables, "FEW", 2)
    many = Rows(PAIR, OnSpark())  # type: ignore[arg-type]
    log, snapshots = ParquetLog("path", tmp_path / "log", spark), ParquetSnapshots("path", tmp_path / "s", spark)
    log.start(many, 1)
    log.apply(Changes(rows(PAIR, (4, "d")), many), 2)
    snapshots.start(many, 1)
    assert log_rows(tmp_path / "log")[:3] == [(1, "a", -1, 2), (1, "a", 1, 1), (2, "b", -1, 2)]
    assert pq.read_table(tmp_path / "s" / "v000001").num_rows == 3
    refuse_schema(log, PAIR)
    refuse_schema(snapshots, PAIR)


class Fewer:
    """Rows on Spark whose frame has one row less than there are: its files were replaced, or written elsewhere."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __len__(self) -> int:
        return 4

    def tuples(self) -> list[Any]:
        raise AssertionError("collected")

    arrow = tuples

    def frame(self, session: Any = None) -> Any:
        return self._spark.createDataFrame([(1, "a"), (2, "b"), (3, None)], "x long, y string")


@pytest.mark.parametrize("kind", ["snapshots", "log", "delta view", "delta log", "delta merge"])
def test_a_write_by_spark_that_loses_rows_is_an_error(
    spark: Any, support: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if support != "spark":
        pytest.skip("deltalake is in the driver")
    for module in (tables, delta_spark):
        monkeypatch.setattr(module, "FEW", 2)
    fewer = Rows(PAIR, Fewer(spark))  # type: ignore[arg-type]
    sink: Any = {
        "snapshots": lambda: ParquetSnapshots("path", tmp_path / "s", spark),
        "log": lambda: ParquetLog("path", tmp_path / "s", spark),
        "delta log": lambda: DeltaLog("path", str(tmp_path / "s"), SparkDelta(spark), "p"),
    }.get(kind, lambda: DeltaView("path", str(tmp_path / "s"), SparkDelta(spark), "p"))()
    if kind == "delta merge":
        sink.start(rows(PAIR, (9, "z")), 1)
    with pytest.raises(upshot.EngineError, match=r"has 3 rows, and 4 were written") as lost:
        sink.apply(Changes(fewer, rows(PAIR)), 2) if kind == "delta merge" else sink.start(fewer, 1)
    assert lost.value.code == "lost-rows"
    if not kind.startswith("delta"):
        assert sink.stored_version() is None, "nothing is in place"


@pytest.mark.parametrize("written_by", ["arrow", "spark"])
def test_many_rows_of_the_store_leave_without_being_collected(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written_by: str
) -> None:
    folder = tmp_path / "store" / "came"
    if written_by == "arrow":
        rows(EVERYTHING, *ROWS).to_parquet(folder)
    else:
        # As the engine on Spark has them, and with the timestamps of a session that was told nothing.
        frame = LocalPiece.of(ROWS, EVERYTHING.types).frame(spark).toDF(*(column.name for column in EVERYTHING.columns))
        spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
        frame.write.parquet(str(folder))
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    side = encode_folder(FolderSide("came", sync_files(folder)))
    renamed = replace(EVERYTHING, columns=(Column("number", NUMBER.optional()), *EVERYTHING.columns[1:]))
    stored = stored_rows(renamed, len(ROWS), side, tmp_path / "store")
    monkeypatch.setattr(tables, "FEW", 2)
    monkeypatch.setattr(encoding, "read_folder", lambda *_: pytest.fail("collected"))
    log, snapshots = ParquetLog("things", tmp_path / "log", spark), ParquetSnapshots("things", tmp_path / "s", spark)
    log.apply(Changes(stored, rows(renamed, ROWS[0])), 2)
    snapshots.start(stored, 2)
    refuse_schema(log, renamed)
    refuse_schema(snapshots, renamed)
    found = pq.read_table(tmp_path / "log" / "upshot_version=000002").to_pylist()
    assert Rows.of(renamed, [tuple(row.values())[:-2] for row in found if row["_change"] == 1]) == ROWS
    assert [row["number"] for row in found if row["_change"] == -1] == [1]
    found = pq.read_table(tmp_path / "s" / "v000002").to_pylist()
    assert Rows.of(renamed, [tuple(row.values()) for row in found]) == ROWS


def test_many_rows_of_a_first_load_reach_delta_through_spark(
    spark: Any, support: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if support != "spark":
        pytest.skip("deltalake is in the driver")
    for module, name in ((tables, "FEW"), (encoding, "FEW_ROWS")):
        monkeypatch.setattr(module, name, 2)
    monkeypatch.setattr(encoding, "read_folder", lambda *_: pytest.fail("collected"))
    writer = SparkDelta(spark)
    sinks = [
        DeltaView("things", str(tmp_path / "v"), writer, "p"),
        DeltaLog("things", str(tmp_path / "l"), writer, "p"),
    ]
    with upshot.connect(tmp_path / "store") as database:
        database.define(
            ".decl things(n: number?, u: unsigned, f: float, s: symbol?, b: boolean, d: date, t: timestamp?, "
            "m: decimal(10,2))\n"
        )
        publication = Publication(sinks, tmp_path / "sinks.json")
        publication.catch_up(database)
        with database.transaction() as tx:
            tx.insert("things", ROWS)
        publication.catch_up(database)
        schema = database.schemas["things"]
    for sink in sinks:
        refuse_schema(sink, schema)
    assert Rows.of(schema, delta_rows(tmp_path / "v")) == ROWS
    assert Rows.of(schema, delta_rows(tmp_path / "l", *(column.name for column in schema.columns))) == ROWS


# ---- bringing sinks up to date -----------------------------------------------------------------------------


class Unlucky(ParquetLog):
    """Fails twice, before it has written and after."""

    def __init__(self, path: Path) -> None:
        super().__init__("path", path, None)
        self.failures = 0

    def _write(self, changes: Changes, version: int) -> None:
        self.failures += 1
        if self.failures == 1:
            raise sink_failed(self.place, "somebody else wrote")
        super()._write(changes, version)
        if self.failures == 2:
            raise sink_failed(self.place, "no answer")


def test_a_sink_that_failed_is_tried_again_and_takes_the_version_once(tmp_path: Path) -> None:
    sink = Unlucky(tmp_path / "log")
    with upshot.connect(tmp_path / "store") as database:
        database.define(".decl path(x: number, y: symbol?)\n")
        publication = Publication([sink], tmp_path / "sinks.json")
        publication.catch_up(database)
        assert (sink.failures, sink.stored_version()) == (2, 1)
        sink.failures = 0
        with database.transaction() as tx:
            tx.insert("path", [(1, "a")])
        publication.catch_up(database)
    assert sink.failures == 2
    assert log_rows(tmp_path / "log") == [(1, "a", 1, 2)]


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"a": {"held": 1}}', '{"a": {"held": "x", "seen": 1}}'])
def test_a_damaged_file_of_standings_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "sinks.json").write_text(text)
    with pytest.raises(upshot.DataError) as damage:
        read_standings(tmp_path / "sinks.json")
    assert damage.value.code == "state-mismatch"
    assert "sinks.json" in damage.value.message


# ---- what no sink takes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns", [(), (Column("_change", NUMBER),), (Column("x", NUMBER), Column("X", NUMBER))], ids=str
)
def test_columns_that_tables_cannot_have_are_refused(tmp_path: Path, columns: tuple[Column, ...]) -> None:
    with pytest.raises(upshot.UsageError) as refused:
        refuse_schema(ParquetLog("v", tmp_path, None), Schema("v", columns))
    assert refused.value.code == "sink-columns"


def test_the_console_tells_each_version_once() -> None:
    told: list[tuple[str, int, Changes]] = []
    console = Console("path", 3, lambda *what: told.append(what))
    change = changes(PAIR, [(1, "a")], [])
    for version in (3, 4, 4):
        console.apply(change, version)
    assert told == [("path", 4, change)]


def test_a_delta_sink_without_a_package_that_writes_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(delta_writer(None, tmp_path / "t", "auto"), NativeDelta)
    monkeypatch.setattr(delta, "has_deltalake", lambda: False)
    with pytest.raises(upshot.UsageError) as refused:
        delta_writer(None, tmp_path / "t", "auto")
    assert refused.value.code == "missing-spark-package"
    assert "pip install deltalake" in refused.value.help
