"""What is wrong with a source is said in a sentence, and what was put right is read anew."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.followers import EDGE, Follower, lines
from upshot.core.errors import DataError, EngineError
from upshot.core.field_text import Unreadable, reader_of
from upshot.core.schema import Column, Schema
from upshot.core.types import NUMBER, SYMBOL, TIMESTAMP
from upshot.pipeline.batch.positions import Position
from upshot.pipeline.sources import advanced, file_tables
from upshot.pipeline.sources.file_tables import FileTable
from upshot.pipeline.sources.reading.listing import FoundFile

WHEN = Schema("happened", (Column("n", NUMBER), Column("t", TIMESTAMP)))


def table(folder: Path, **files: str) -> Path:
    """A folder of CSV files."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


# ---- folders that are something else ------------------------------------------------------------------


@pytest.mark.parametrize("format", ["parquet", "csv", "changes"])
@pytest.mark.parametrize(
    ("log", "below"), [("_delta_log", ""), ("t/_delta_log", ""), ("_delta_log", "p=1"), ("_spark_metadata", "")]
)
def test_files_that_only_a_log_tells_apart_are_refused(
    spark: Any, tmp_path: Path, format: str, log: str, below: str
) -> None:
    (tmp_path / "t" / below).mkdir(parents=True)
    (tmp_path / "t" / log).mkdir(parents=True)
    with pytest.raises(DataError) as found:
        Follower(spark, tmp_path / "staging", EDGE, format, tmp_path / "t" / below).look()
    assert found.value.code == "source-format"
    assert ('format = "delta"' if "delta" in log else "foreachBatch") in found.value.help


# ---- timestamps ---------------------------------------------------------------------------------------

DAYS = ("2026-01-31", "20260131", "2026-W05-6", "2026-02-30", "0001-01-01", "9999-12-31", "26-01-31")
TIMES = (
    *("", "T10", "T10:00", "T1000", "T10:00:00", "T100000", " 10:00:00", "x10:00", "T24:00", "T10:60", "T10:0"),
    *("T10:00:00.5", "T10:00:00,123456", "T10:00:00.123456000", "T10:00:00.12", "T10:00:00.", "T10:00.5"),
)
ZONES = ("", "Z", "z", "+02", "+02:00", "+0200", "-05:30", "+02:00:01", "+24:00", "+2", " UTC")


def test_timestamps_in_csv_files_are_spelled_as_in_fact_files(spark: Any, tmp_path: Path) -> None:
    texts = [day + time + zone for day, time, zone in product(DAYS, TIMES, ZONES)]
    texts += [" 2026-01-31 10:00:00+02 ", "now", "", "2026-01-31 10:00:00.1+02"]
    read = reader_of(TIMESTAMP)
    wanted, unfit = set(), 0
    for number, text in enumerate(texts):
        try:
            wanted.add((number, read(text)))
        except Unreadable:
            unfit += 1
    rows = "".join(f'{number},"{text}"\n' for number, text in enumerate(texts))
    step = Follower(spark, tmp_path / "staging", WHEN, "csv", table(tmp_path / "t", a=f"n,t\n{rows}")).step()
    assert step is not None
    assert step.replaced == wanted
    assert len(step.bad) == unfit
    two = dt.datetime(2026, 1, 31, 8, tzinfo=dt.UTC)
    for text in ("2026-01-31T10:00:00+02", "2026-01-31 10:00+02:00", "2026-01-31 10:00+02"):
        assert read(text) == two


def test_a_timestamp_that_is_finer_than_a_microsecond_does_not_fit(spark: Any, tmp_path: Path) -> None:
    folder = table(tmp_path / "t", a="n,t\n1,2026-01-31T10:00:00.1234567+02\n")
    step = Follower(spark, tmp_path / "staging", WHEN, "csv", folder).step()
    assert step is not None
    assert (step.replaced, len(step.bad)) == (set(), 1)


# ---- what changes while it is copied ------------------------------------------------------------------


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Lets something happen after the files were listed, before their rows are read, each time."""

    def arrange(happens: Callable[[], Any]) -> None:
        rows = FileTable.rows

        def slow_rows(self: FileTable, spark: Any) -> Any:
            found = rows(self, spark)
            happens()
            return found

        monkeypatch.setattr(FileTable, "rows", slow_rows)

    return arrange


def looked(follower: Follower) -> Position:
    """As a run looks: all sources at one moment."""
    known = {} if follower.position is None else {"edge": follower.position}
    return advanced({"edge": follower.source}, follower.spark, known)["edge"]


def test_files_that_change_while_they_are_copied_are_copied_again(
    spark: Any, tmp_path: Path, meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    folder = table(tmp_path / "t", a="x,y\n1,1\n")
    follower = Follower(spark, tmp_path / "staging", EDGE, "csv", folder)
    late = [lambda: table(folder, b="x,y\n2,2\n")]
    meanwhile(lambda: late and late.pop()())
    assert follower.read(looked(follower)).replaced == {(1, 1), (2, 2)}


def test_a_file_that_goes_while_it_is_copied_is_a_change(
    spark: Any, tmp_path: Path, meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    folder = table(tmp_path / "t", a="x,y\n1,1\n", b="x,y\n2,2\n")
    follower = Follower(spark, tmp_path / "staging", EDGE, "csv", folder)
    meanwhile(lambda: (folder / "b.csv").unlink(missing_ok=True))
    assert follower.read(looked(follower)).replaced == {(1, 1)}


def test_a_file_that_goes_before_it_is_looked_into_is_passed_over(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = table(tmp_path / "t", a="x,y\n1,1\n", b="x,y\n2,2\n")
    follower = Follower(spark, tmp_path / "staging", EDGE, "csv", folder)
    fingerprint = file_tables.fingerprint

    def slow_fingerprint(file: FoundFile) -> str:
        (folder / "b.csv").unlink(missing_ok=True)
        return fingerprint(file)

    monkeypatch.setattr(file_tables, "fingerprint", slow_fingerprint)
    assert follower.read(looked(follower)).replaced == {(1, 1)}


def test_files_that_never_rest_are_busy_and_a_job_at_work_is_waited_for(
    spark: Any, tmp_path: Path, meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    folder = table(tmp_path / "t", a="x,y\n1,1\n")
    follower = Follower(spark, tmp_path / "staging", EDGE, "csv", folder)
    first = looked(follower)
    follower.take(first, follower.read(first))
    table(folder, a="x,y\n2,2\n")
    meanwhile(lambda: (folder / "_temporary").mkdir(exist_ok=True))
    assert looked(follower) == follower.position
    (folder / "_temporary").rmdir()
    meanwhile(lambda: (folder / "_temporary").rmdir() or (folder / "a.csv").open("a").write("3,3\n"))
    with pytest.raises(EngineError) as found:
        looked(follower)
    assert found.value.code == "source-busy"


# ---- what was refused and put right -------------------------------------------------------------------


def test_corrected_options_and_columns_make_a_new_copy(spark: Any, tmp_path: Path) -> None:
    folder = table(tmp_path / "t", a="x,y\n1,-\n2,2\n")
    follower = Follower(spark, tmp_path / "staging", EDGE, "csv", folder)
    assert len(follower.read(looked(follower)).bad) == 1  # and the batch is refused
    follower.config.options["null"] = "-"
    follower.schema = Schema("edge", (Column("x", NUMBER), Column("y", NUMBER.optional())))
    follower.reopen()
    step = follower.step()
    assert step is not None
    assert (step.replaced, step.bad) == ({(1, None), (2, 2)}, [])
    follower.reopen()
    assert follower.step() is None
    follower.config.options["null"] = "2"
    follower.reopen()
    step = follower.step()
    assert step is not None
    assert len(step.bad) == 2


@pytest.mark.parametrize("on_missing", ["ignore", "fail"])
def test_a_refused_change_file_can_be_removed(spark: Any, tmp_path: Path, on_missing: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.ndjson").write_text(lines({"x": 1, "y": 1, "_change": 1}))
    follower = Follower(spark, tmp_path / "staging", EDGE, "changes", folder, on_missing=on_missing)
    follower.step()
    (folder / "2.ndjson").write_text("nonsense\n")
    follower.read(follower.look())  # and the batch is refused
    (folder / "2.ndjson").unlink()
    (folder / "3.ndjson").write_text(lines({"x": 3, "y": 3, "_change": 1}))
    follower.reopen()
    step = follower.step()
    assert step is not None
    assert (step.inserted, step.bad) == ({(3, 3)}, [])


def test_a_dry_run_compares_only_what_was_consumed_and_writes_nothing(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.ndjson").write_text(lines({"x": 1, "y": 1, "_change": 1}))
    follower = Follower(spark, tmp_path / "staging", EDGE, "changes", folder)
    follower.step()
    (folder / "2.ndjson").write_text("nonsense\n")
    follower.read(follower.look())
    (folder / "2.ndjson").write_text(lines({"x": 2, "y": 2, "_change": 1}))
    journal = tmp_path / "staging" / "files.ndjson"
    with journal.open("ab") as stream:
        stream.write(b'{"name":"ha')
    before = journal.read_bytes()
    follower.reopen()
    (note,) = follower.source.check(spark, follower.position)
    assert note == f"2 change files in `{folder}`, 1 of them new"
    assert journal.read_bytes() == before
    (folder / "1.ndjson").write_text("x\n")
    with pytest.raises(DataError, match="was rewritten"):
        follower.source.check(spark, follower.position)


@pytest.mark.parametrize("content", [None, "", "[]", '{"content"'])
def test_a_staged_copy_without_its_content_is_a_torn_state(spark: Any, tmp_path: Path, content: str | None) -> None:
    follower = Follower(spark, tmp_path / "staging", EDGE, "csv", table(tmp_path / "t", a="x,y\n1,1\n"))
    follower.look()
    (file,) = (tmp_path / "staging").glob("*/_content.json")
    file.unlink() if content is None else file.write_text(content)
    follower.reopen()
    with pytest.raises(DataError) as found:
        follower.look()
    assert found.value.code == "state-mismatch"


@pytest.mark.parametrize("cut", [False, True], ids=["gone", "another"])
def test_a_staged_copy_that_lost_a_file_is_a_torn_state_and_not_fewer_rows(
    spark: Any, tmp_path: Path, cut: bool
) -> None:
    """A rule of a bucket that deletes old objects, or somebody who cleans up."""
    follower = Follower(spark, tmp_path / "staging", EDGE, "csv", table(tmp_path / "t", a="x,y\n1,1\n", b="x,y\n2,2\n"))
    end = follower.look()
    file = min((tmp_path / "staging").glob("*/*.parquet"))
    file.write_bytes(file.read_bytes() + b" ") if cut else file.unlink()
    with pytest.raises(DataError, match="is not as it was written") as found:
        follower.read(end)
    assert found.value.code == "state-mismatch"


# ---- ordinary bad input -------------------------------------------------------------------------------


def test_nanoseconds_in_parquet_files_are_refused_with_a_cure(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    frame = pd.DataFrame({"n": [1], "t": pd.to_datetime(["2026-01-31"]).astype("datetime64[ns]")})
    frame.to_parquet(tmp_path / "t" / "a.parquet")
    follower = Follower(spark, tmp_path / "staging", WHEN, "parquet", tmp_path / "t")
    with pytest.raises(DataError, match=r"column `t` of .* has nanosecond timestamps") as found:
        follower.look()
    assert "coerce_timestamps" in found.value.help
    frame.to_parquet(tmp_path / "t" / "a.parquet", coerce_timestamps="us")
    follower.step()
    assert follower.rows == {(1, dt.datetime(2026, 1, 31, tzinfo=dt.UTC))}
    # The nanoseconds of old are read by Spark.
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "t" / "a.parquet", use_deprecated_int96_timestamps=True)
    follower.step()
    assert follower.rows == {(1, dt.datetime(2026, 1, 31, tzinfo=dt.UTC))}


@pytest.mark.parametrize("header", ["x,y,x", "x,,y,", "x,y,_corrupt"])
def test_a_name_that_heads_two_columns_is_refused(spark: Any, tmp_path: Path, header: str) -> None:
    folder = table(tmp_path / "t", a=f"{header}\n1,2,3,4\n")
    with pytest.raises(DataError, match=r"names `.*` twice") as found:
        Follower(spark, tmp_path / "staging", EDGE, "csv", folder, extra_columns="ignore").look()
    assert found.value.code == "source-columns"


def test_a_table_with_a_map_is_refused_or_read_without_it(spark: Any, tmp_path: Path) -> None:
    spark.sql("select 1L as x, 2L as y, map('a', 1) as m").createOrReplaceTempView("edges_with_a_map")
    with pytest.raises(DataError, match="has `m`, which"):
        Follower(spark, tmp_path / "staging", EDGE, "table", table="edges_with_a_map").look()
    named = Schema("edge", (Column("x", NUMBER), Column("y", NUMBER), Column("m", SYMBOL)))
    with pytest.raises(DataError, match=r"column `m` of .* is map<string,int>"):
        Follower(spark, tmp_path / "staging", named, "table", table="edges_with_a_map").look()
    more = {"table": "edges_with_a_map", "extra_columns": "ignore"}
    follower = Follower(spark, tmp_path / "staging", EDGE, "table", **more)
    follower.step()
    assert follower.rows == {(1, 2)}


@pytest.mark.parametrize("path", ["a:b.csv", "x" * 300])
def test_what_spark_or_the_system_refuse_is_an_error_of_ours(spark: Any, tmp_path: Path, path: str) -> None:
    table(tmp_path, **{"a:b": "x,y\n1,1\n"})
    with pytest.raises(DataError, match="the source of `edge` cannot be read") as found:
        Follower(spark, tmp_path / "staging", EDGE, "csv", tmp_path / path).look()
    assert found.value.code == "unreadable-source"
    assert found.value.help
