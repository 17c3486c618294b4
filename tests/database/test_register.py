from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import upshot


def test_a_table_becomes_the_contents_as_one_transaction(paths: upshot.Database) -> None:
    paths.register("edge", pd.DataFrame({"x": [1, 2], "y": [2, 3]}))
    done = paths.register("edge", pl.DataFrame({"x": [2, 3], "y": [3, 4]}))
    assert done.changes["edge"].inserted == {(3, 4)}
    assert done.changes["edge"].deleted == {(1, 2)}
    assert done.changes["path"].inserted == {(3, 4), (2, 4)}
    assert done.version == paths.version
    paths.verify()


def test_an_undeclared_relation_is_declared_from_the_table(db: upshot.Database) -> None:
    frame = pl.DataFrame({"id": [1, 2], "name": ["a", None], "score": [0.5, 1.5], "ok": [True, False]})
    done = db.register("person", frame)
    assert str(db.schemas["person"]) == "person(id: number, name: symbol?, score: float, ok: boolean)"
    assert done.changes["person"].inserted == {(1, "a", 0.5, True), (2, None, 1.5, False)}
    db.define(".decl good(n: symbol)  good(N) :- person(_, N, _, true), !is_null(N).")
    assert db.rows("good") == {("a",)}
    db.register("person", frame.head(1))
    assert len(db.rows("person")) == 1


def test_arrow_types_map_to_the_closest_types(db: upshot.Database) -> None:
    table = pa.table(
        {
            "a": pa.array([1], pa.uint8()),
            "b": pa.array([2**64 - 1], pa.uint64()),
            "c": pa.array(["x"]).dictionary_encode(),
            "d": pa.array([0], pa.date32()),
            "e": pa.array([0], pa.timestamp("ms")),
            "f": pa.array(["1.50"]).cast(pa.decimal128(9, 2)),
            "g": pa.array([None], pa.null()),
            "h": pa.array([1.5], pa.float32()),
        }
    )
    db.register("t", table)
    kinds = [str(column.type) for column in db.schemas["t"].columns]
    assert kinds == ["number", "unsigned", "symbol", "date", "timestamp", "decimal(9,2)", "symbol?", "float"]
    assert len(db.rows("t")) == 1


def test_types_that_no_column_holds_are_refused(db: upshot.Database) -> None:
    with pytest.raises(upshot.DataError) as error:
        db.register("t", pa.table({"a": [[1, 2]]}))
    assert error.value.code == "unsupported-type"
    with pytest.raises(upshot.DataError) as error:
        db.register("t", pa.table({"two words": [1]}))
    assert error.value.code == "not-a-name"
    with pytest.raises(upshot.DataError) as error:
        db.register("my table", pa.table({"x": [1]}))
    assert error.value.code == "not-a-name"
    assert "`my_table`" in error.value.help
    assert len(db.schemas) == 0


def test_columns_that_cannot_be_names_come_with_the_call_that_renames_them(db: upshot.Database) -> None:
    table = pa.table({"my col": [1], "my_col": [2], "2nd": [3], "ok": [4]})
    with pytest.raises(upshot.DataError) as error:
        db.register("t", table)
    assert error.value.message == "`my col`, `2nd` cannot be names of columns"
    assert 'table.rename_columns(["my_col_", "my_col", "_2nd", "ok"])' in error.value.help
    db.register("t", table.rename_columns(["my_col_", "my_col", "_2nd", "ok"]))
    assert db.rows("t") == {(1, 2, 3, 4)}


def test_a_table_with_other_column_names_comes_with_the_call_that_renames_them(db: upshot.Database) -> None:
    db.define(".decl t(x: number, my_col: number, z: number)")
    table = pa.table({"z": [3], "my col": [2], "first": [1]})
    with pytest.raises(upshot.DataError) as error:
        db.register("t", table)
    assert error.value.code == "unknown-column"
    assert error.value.message == "the table for `t` has `my col`, `first` where the relation has `x`, `my_col`"
    assert 'table.rename_columns(["z", "my_col", "x"])' in error.value.help
    db.register("t", table.rename_columns(["z", "my_col", "x"]))
    assert db.rows("t") == {(1, 2, 3)}
    frame = table.to_pandas()
    frame.columns = ["z", "my_col", "x"]
    assert len(db.register("t", frame).changes) == 0


def test_parquet_and_csv_files_and_folders(db: upshot.Database, tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2], "y": ["a", "b"]})
    pq.write_table(table, tmp_path / "one.parquet")
    pa_csv.write_csv(table, tmp_path / "one.csv")
    folder = tmp_path / "many"
    folder.mkdir()
    pq.write_table(table.slice(0, 1), folder / "0.parquet")
    pq.write_table(table.slice(1, 1), folder / "1.parquet")
    (folder / "_SUCCESS").write_text("")
    for path in (tmp_path / "one.parquet", str(tmp_path / "one.csv"), folder):
        done = db.register("t", path)
        assert db.rows("t") == {(1, "a"), (2, "b")}
    assert len(done.changes) == 0


def test_paths_that_cannot_be_read_are_named(db: upshot.Database, tmp_path: Path) -> None:
    with pytest.raises(upshot.UsageError) as error:
        db.register("t", tmp_path / "missing.parquet")
    assert error.value.code == "no-such-file"
    (tmp_path / "broken.parquet").write_bytes(b"not parquet")
    with pytest.raises(upshot.DataError) as data_error:
        db.register("t", tmp_path / "broken.parquet")
    assert data_error.value.code == "unreadable-file"
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(upshot.UsageError) as error:
        db.register("t", tmp_path / "notes.txt")
    assert error.value.code == "unknown-format"
    (tmp_path / "lake" / "_delta_log").mkdir(parents=True)
    with pytest.raises(upshot.DataError) as data_error:
        db.register("t", tmp_path / "lake")
    assert data_error.value.code == "unreadable-file"
    with pytest.raises(upshot.UsageError) as error:
        db.register("t", "s3://bucket/table")
    assert error.value.code == "no-session"


def test_registering_is_atomic(stock: upshot.Database) -> None:
    stock.register("quantity", pd.DataFrame({"item": ["a"], "n": [1]}))
    for bad in ({"item": ["b", "c"], "n": [2, -1]}, {"item": ["b", "b"], "n": [2, 3]}, {"item": [None], "n": [2]}):
        with pytest.raises(upshot.Error):
            stock.register("quantity", pd.DataFrame(bad))
        assert stock.rows("quantity") == {("a", 1)}
    stock.register("quantity", pd.DataFrame({"item": ["z"], "n": [9]}))
    assert stock.rows("quantity") == {("z", 9)}


def test_only_tables_and_base_relations_can_be_registered(paths: upshot.Database) -> None:
    with pytest.raises(upshot.UsageError) as error:
        paths.register("edge", [(1, 2)])
    assert error.value.code == "wrong-argument"
    with pytest.raises(upshot.DataError) as data_error:
        paths.register("path", pd.DataFrame({"x": [1], "y": [2]}))
    assert data_error.value.code == "not-a-base-relation"
