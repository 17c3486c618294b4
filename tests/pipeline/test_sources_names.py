"""Files and folders of any name, and the journal that remembers them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.followers import EDGE, Follower, lines
from upshot.core.errors import DataError
from upshot.core.types import NUMBER
from upshot.engine.spark.storage.pieces import FilePiece
from upshot.pipeline.sources.reading import lines as text_lines
from upshot.pipeline.sources.reading.journal import SourceJournal
from upshot.spark.workspace import StoredRows

ODD = ("a1", "a[1]", "a[", "a]", "a{1,b}", "a{", "a}", "a,b", "a*", "a?", "a\\", "a\\1", "a^", "a[!b]", "a %5B+#")
FOLDERS = ("plain", "f[1]", "f1", "f{1,2}", "f*", "f\\?")


def change(x: int, y: int) -> str:
    return lines({"x": x, "y": y, "_change": 1})


@pytest.mark.parametrize("small", [True, False])
def test_names_of_change_files_are_no_patterns(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    if not small:
        monkeypatch.setattr(text_lines, "SMALL_FILE", 0)
    wanted = set()
    for x, folder in enumerate(FOLDERS):
        (tmp_path / "in[1]" / folder).mkdir(parents=True)
        for y, name in enumerate(ODD):
            wanted.add((x, y))
            text = change(x, y) + ("nonsense\n" if (folder, name) == ("f[1]", "a[1]") else "")
            (tmp_path / "in[1]" / folder / f"{name}.ndjson").write_text(text)
    step = Follower(spark, tmp_path / "staging[1]", EDGE, "changes", tmp_path / "in[1]").step()
    assert step is not None
    assert step.inserted == wanted
    assert list(step.reasons) == ["f[1]/a[1].ndjson:2"]


@pytest.mark.parametrize("format", ["parquet", "csv", "changes"])
def test_names_of_tables_are_no_patterns(spark: Any, tmp_path: Path, format: str) -> None:
    (tmp_path / "t{1}" / "f[1]").mkdir(parents=True)
    for x, name in enumerate(ODD):
        file = tmp_path / "t{1}" / "f[1]" / f"{name}.{'csv' if format == 'csv' else 'parquet'}"
        if format == "csv":
            file.write_text(f"x,y\n{x},1\n")
        else:
            columns = {"x": [x], "y": [1], **({"_change": [1]} if format == "changes" else {})}
            pq.write_table(pa.table(columns), file)
    follower = Follower(spark, tmp_path / "staging*", EDGE, format, tmp_path / "t{1}")
    follower.step()
    assert follower.rows == {(x, 1) for x in range(len(ODD))}


def test_rows_of_the_engine_are_found_in_folders_of_any_name(spark: Any, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a1", "a[1]", "a*")]
    for number, path in enumerate(paths):
        path.mkdir()
        pq.write_table(pa.table({"c0": [number]}), path / "p.parquet")
    stored = [StoredRows(path.as_uri(), ((path / "p.parquet").as_uri(),), 1) for path in paths]
    rows = FilePiece(stored, [NUMBER]).frame(spark).collect()
    assert sorted(row.c0 for row in rows) == [0, 1, 2]


def test_a_delta_table_may_have_any_name(spark: Any, support: str, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "t{1}*?"
    feed = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(path, pa.table({"x": [1], "y": [1]}), configuration=feed)
    follower = Follower(spark, tmp_path / "staging[1]", EDGE, "delta", path, support=support)
    follower.step()
    deltalake.write_deltalake(path, pa.table({"x": [2], "y": [2]}), mode="append")
    follower.step()
    assert follower.rows == {(1, 1), (2, 2)}


def test_a_delta_table_that_makes_deltalake_panic_is_an_error_of_ours(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "t[1]" / "_delta_log").mkdir(parents=True)
    (tmp_path / "t[1]" / "_delta_log" / f"{0:020}.json").write_text("{}")
    with pytest.raises(DataError) as found:
        Follower(spark, tmp_path / "staging", EDGE, "delta", tmp_path / "t[1]").look()
    assert found.value.code == "unreadable-source"


def test_a_name_that_is_not_utf8_is_refused(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / os.fsdecode(b"a\xff.ndjson")).write_text(change(1, 1))
    with pytest.raises(DataError, match=r"the name of a file is not UTF-8: `a\\xff\.ndjson`"):
        Follower(spark, tmp_path / "staging", EDGE, "changes", folder).look()


# ---- the journal --------------------------------------------------------------------------------------


def test_a_journal_keeps_names_with_any_line_break_in_them(tmp_path: Path) -> None:
    names = ["a\u2028b", "a\u0085b", "a\nb", "a\rb", "a\x0bb", "ü"]
    journal = SourceJournal(tmp_path / "j.ndjson")
    journal.append({"name": name} for name in names)
    again = SourceJournal(tmp_path / "j.ndjson")
    assert [entry["name"] for entry in again.entries] == names
    again.cut(2)
    again.append([{"name": "c"}])
    again = SourceJournal(tmp_path / "j.ndjson")
    assert [entry["name"] for entry in again.entries] == [*names[:2], "c"]


def test_opening_a_journal_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "j.ndjson"
    SourceJournal(file).append([{"name": "a"}])
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"name":"half')  # another process is writing, or died
    journal = SourceJournal(file)
    assert len(journal.entries) == 1
    assert file.read_bytes() == whole + b'{"name":"half'
    journal.append([{"name": "b"}])
    assert [entry["name"] for entry in SourceJournal(file).entries] == ["a", "b"]


@pytest.mark.parametrize("line", [b"nonsense\n", b"\xff\n", b"[]\n", b"{}\n"])
def test_a_damaged_journal_is_a_torn_state(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "j.ndjson").write_bytes(line)
    with pytest.raises(DataError) as found:
        SourceJournal(tmp_path / "j.ndjson")
    assert found.value.code == "state-mismatch"
