"""Folders of change files: what their lines say, in which order, and what happens when they are not what they were."""

from __future__ import annotations

import datetime as dt
import gzip
import os
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.followers import EDGE, EVERY, STOCK, Follower, lines
from upshot.core.errors import DataError
from upshot.core.schema import Column, Schema
from upshot.core.types import SYMBOL
from upshot.pipeline.sources import advanced, change_files
from upshot.pipeline.sources.reading import lines as text_lines
from upshot.pipeline.sources.reading import listing
from upshot.pipeline.sources.reading.envelopes import LineReader


def said(schema: Schema, *contents: Any, **more: Any) -> list[tuple[str, Any]]:
    """The statements of lines, or their reasons."""
    reader = LineReader(schema, **more)
    found = [statement for line in lines(*contents).splitlines() for statement in reader.statements(line)]
    return [(s.op, s.values) if not s.reason else ("", s.reason) for s in found]


# ---- what a line says -------------------------------------------------------------------------------


def test_a_transaction_of_watch_is_read_as_watch_reads_it() -> None:
    line = {"insert": {"edge": [[1, 2], {"y": 4, "x": 3}], "node": [[1]]}, "delete": {"edge": [[5, 6]]}}
    assert said(EDGE, line, others=frozenset({"node"})) == [
        ("insert", (1, 2)),
        ("insert", (3, 4)),
        ("delete", (5, 6)),
    ]
    assert said(EDGE, line)[2] == ("", "rows of `node`, which does not have this source")
    assert said(EDGE, {}) == []


def test_a_row_says_in_a_column_what_happened_to_it() -> None:
    assert said(EDGE, {"x": 1, "y": 2, "_change": 1}, {"x": 1, "y": 2, "_change": -1, "_version": 4}) == [
        ("insert", (1, 2)),
        ("delete", (1, 2)),
    ]
    assert said(STOCK, {"item": "a", "n": 1, "op": "update"}, {"item": "a", "op": "delete"}) == [
        ("upsert", ("a", 1, None)),
        ("remove", ("a", None, None)),
    ]
    named_op = Schema("r", (Column("op", SYMBOL),))
    assert said(named_op, {"op": "sum", "_change": 1}) == [("insert", ("sum",))]


def test_an_envelope_of_debezium_is_read_with_and_without_a_key() -> None:
    create = {"op": "c", "before": None, "after": {"x": 1, "y": 2}, "source": {"lsn": 7}, "ts_ms": 1}
    update = {"schema": {}, "payload": {"op": "u", "before": {"x": 1, "y": 2}, "after": {"x": 1, "y": 3}}}
    delete = {"op": "d", "before": {"x": 1, "y": 3}, "after": None}
    assert said(EDGE, create, update, delete, "null", {"payload": None}) == [
        ("insert", (1, 2)),
        ("delete", (1, 2)),
        ("insert", (1, 3)),
        ("delete", (1, 3)),
    ]
    keyed = {"op": "u", "before": None, "after": {"item": "a", "n": 2, "note": None}}
    moved = {"op": "u", "before": {"item": "a", "n": 2}, "after": {"item": "b", "n": 2}}
    # By default the database sends the key alone, with the other columns empty.
    gone = {"op": "d", "before": {"item": "b", "n": None}, "after": None}
    assert said(STOCK, keyed, moved, gone) == [
        ("upsert", ("a", 2, None)),
        ("remove", ("a", None, None)),
        ("upsert", ("b", 2, None)),
        ("remove", ("b", None, None)),
    ]
    half = {"op": "u", "before": {"item": "a", "n": 1}, "after": {"item": "b", "n": "many"}}
    assert said(STOCK, half) == [("", 'column `n`: "many" is not a number')]


MISFITS = [
    ("nonsense", "invalid JSON: expecting value at column 1"),
    ('{"x": 1} {"x": 2}', "invalid JSON: extra data at column 10"),
    ('{"x": NaN, "y": 1, "_change": 1}', '`NaN` is not JSON: write it as text, "NaN"'),
    ("[1, 2]", "not a JSON object"),
    ('{"x": 1, "x": 2, "_change": 1}', "duplicate key `x`"),
    ('{"x": 1, "y": 2}', "the row has neither `_change` nor `op`"),
    ('{"x": 1, "y": 2, "_change": 2}', "`_change` must be 1 or -1"),
    ('{"x": 1, "y": 2, "op": "put"}', "`op` must be one of insert, delete, update, upsert"),
    (
        '{"x": 1, "y": 2, "op": "update"}',
        "`edge` has no key to update by: delete the old row and insert the new one",
    ),
    ('{"x": 1, "_change": 1}', "column `y` is missing"),
    ('{"x": 1, "y": 2, "z": 3, "_change": 1}', "unknown column `z` in `edge(x: number, y: number)`"),
    ('{"x": null, "y": 2, "_change": 1}', "column `x`: NULL in a column that is not nullable"),
    ('{"x": "1", "y": 2, "_change": 1}', 'column `x`: "1" is not a number'),
    ('{"x": 1.0, "y": 2, "_change": 1}', "column `x`: 1.0 is not a number"),
    ('{"x": true, "y": 2, "_change": 1}', "column `x`: true is not a number"),
    (
        '{"x": 9223372036854775808, "y": 2, "_change": 1}',
        "column `x`: 9223372036854775808 is outside the range of number",
    ),
    ('{"insert": {"edge": {"x": 1}}}', "`insert` of `edge` must be a list of rows"),
    ('{"insert": [[1, 2]]}', "`insert` must be an object that maps relations to rows"),
    ('{"delete": {"edge": [[1]]}}', "the row has 1 values, `edge(x: number, y: number)` has 2"),
    (
        '{"op": "u", "before": null, "after": {"x": 1, "y": 2}}',
        "the operation `u` has no `before`, and `edge` has no key",
    ),
    ('{"op": "t", "before": null, "after": null}', "the operation `t` cannot be applied to a row"),
]


@pytest.mark.parametrize(("line", "reason"), MISFITS, ids=[reason for _, reason in MISFITS])
def test_a_line_that_does_not_fit_is_told_why(line: str, reason: str) -> None:
    assert said(EDGE, line) == [("", reason)]


def test_values_that_would_lose_something_do_not_fit() -> None:
    def reason(**values: Any) -> str:
        ((op, found),) = said(EVERY, {"s": "", **values, "_change": 1})
        return str(found) if not op else ""

    assert reason(i=-(2**63)) == "column `i`: -9223372036854775808 is the one value that a nullable number cannot store"
    assert (
        reason(u=2**64 - 1) == "column `u`: 18446744073709551615 is the one value that a nullable unsigned cannot store"
    )
    assert reason(u=2**64 - 2) == reason(f="-Infinity") == reason(p="12345678.90") == ""
    assert reason(u=-1) == "column `u`: -1 is outside the range of unsigned"
    assert reason(p="1.005") == 'column `p`: "1.005" is not a decimal(10,2)'
    assert reason(p=123456789) == 'column `p`: "123456789" is not a decimal(10,2)'
    assert reason(d="2026-02-30") == 'column `d`: "2026-02-30" is not a date such as 2026-01-31'
    assert reason(t="2026-01-31T10:00:00.1234567Z").endswith("has more than microsecond precision")
    assert reason(t=17) == "column `t`: 17 is not a timestamp"
    assert reason(s="\ud800") == "column `s`: text with half of a surrogate pair"


# ---- folders ----------------------------------------------------------------------------------------


def test_changes_apply_in_the_order_of_names_and_lines(spark: Any, tmp_path: Path) -> None:
    """Every form, text and Parquet, compressed or not, in one batch; names of all kinds."""
    inputs = tmp_path / "in ü+%20"
    (inputs / "later").mkdir(parents=True)
    (inputs / "1.ndjson").write_text(
        lines(
            {"insert": {"edge": [[1, 1], [2, 2], [9, 9]]}}, {"insert": {"edge": [[9, 9]]}, "delete": {"edge": [[9, 9]]}}
        )
    )
    rows = pa.table(
        {"y": pa.array([1, 3, 3], pa.int32()), "x": [1, 3, 3], "_change": [-1, 1, -1], "_version": [1, 3, 2]}
    )
    pq.write_table(rows, inputs / "2 b.parquet")
    with gzip.open(inputs / "3.jsonl.gz", "wt") as stream:
        stream.write("\ufeff" + lines({"x": 2, "y": 2, "op": "delete"}, "", {"x": 2, "y": 2, "op": "insert"}))
    (inputs / "later" / "4.json").write_text(lines({"op": "d", "before": {"x": 7, "y": 7}}).replace("\n", "\r\n"))
    for ignored in ("_draft.ndjson", ".5.ndjson.crc", "5.ndjson.tmp"):
        (inputs / ignored).write_text("nonsense")
    follower = Follower(spark, tmp_path / "staging", EDGE, "changes", inputs)
    step = follower.step()
    assert step is not None
    # (9, 9) cancels out in its last transaction, so the one before counts.
    assert step.inserted == {(2, 2), (9, 9), (3, 3)}
    assert step.deleted == {(1, 1), (7, 7)}
    assert step.bad == []
    assert follower.step() is None


def test_types_arrive_exactly_and_bad_rows_keep_their_text_and_place(spark: Any, tmp_path: Path) -> None:
    good = {
        "i": -(2**63) + 1,
        "u": 2**64 - 2,
        "f": -0.0,
        "s": "ü\u2028",
        "b": False,
        "d": "0001-01-01",
        "t": "2026-01-31T10:00:00.000001+05:30",
        "p": 12345678.9,
        "_change": 1,
    }
    inputs = tmp_path / "in"
    inputs.mkdir()
    rows = [good, {"s": "", "f": "NaN", "_change": 1}, '{"s": "é', {"s": 1, "i": "x", "_change": 1}]
    (inputs / "a.ndjson").write_bytes(lines(*rows).encode() + b'{"s": "\xff", "_change": 1}\n' + lines(good).encode())
    step = Follower(spark, tmp_path / "staging", EVERY, "changes", inputs).step()
    assert step is not None
    moment = dt.datetime(2026, 1, 31, 4, 30, 0, 1, dt.UTC)
    exact = (good["i"], good["u"], 0.0, "ü\u2028", False, dt.date(1, 1, 1), moment, Decimal("12345678.90"))
    (other,) = [row for row in step.inserted if row[3] == ""]
    assert step.inserted - {other} == {exact}
    assert str(next(row for row in step.inserted if row != other)[2]) == "0.0"
    assert other[2] != other[2]
    assert step.reasons == {
        "a.ndjson:3": "invalid JSON: unterminated string starting at at column 7",
        "a.ndjson:4": 'column `i`: "x" is not a number',
        "a.ndjson:5": "byte 8 of the line is not UTF-8",
    }
    assert [row for row, _, _ in step.bad] == [
        '{"s": "é',
        '{"s": "\ufffd", "_change": 1}',
        '{"s": 1, "i": "x", "_change": 1}',
    ]


def test_updates_by_key_settle_what_the_key_holds(spark: Any, tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    (inputs / "1.ndjson").write_text(
        lines(
            {"insert": {"stock": [["a", 1, None], ["b", 1, None], ["c", 1, None]]}},
            {"item": "d", "n": 1, "op": "update"},
            {"item": "d", "n": 2, "op": "update"},
            {"item": "e", "n": 1, "op": "upsert"},
            {"item": "e", "op": "delete"},
            {"item": "f", "n": 1, "op": "update"},
            {"item": "f", "n": 1, "note": None, "op": "delete"},
            {"item": "g", "op": "delete"},
            {"item": "g", "n": 5, "op": "insert"},
        )
    )
    follower = Follower(spark, tmp_path / "staging", STOCK, "changes", inputs)
    step = follower.step()
    assert step is not None
    assert step.inserted == {("a", 1, None), ("b", 1, None), ("c", 1, None)}
    assert step.upserted == {("d", 2, None), ("g", 5, None)}
    assert step.removed == {("e",), ("f",)}
    assert step.deleted == set()
    (inputs / "2.ndjson").write_text(
        lines(
            {"item": "a", "op": "delete"},
            {"op": "u", "before": {"item": "b", "n": 1}, "after": {"item": "z", "n": 1}},
            {"item": "c", "n": 1, "note": None, "_change": -1},
            {"item": "c", "n": 2, "note": "new", "_change": 1},
        )
    )
    follower.step()
    assert follower.rows == {("d", 2, None), ("g", 5, None), ("z", 1, None), ("c", 2, "new")}


def test_a_batch_is_replayed_exactly_after_a_restart(spark: Any, tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    follower = Follower(spark, tmp_path / "staging", EDGE, "changes", inputs)
    assert follower.step() is not None  # an empty folder is a place to start from
    (inputs / "2.ndjson").write_text(lines({"x": 1, "y": 1, "_change": 1}))
    planned = follower.look()
    first = follower.read(planned)
    # The process dies here, while it was writing its journal; the next one also finds what came meanwhile.
    with open(tmp_path / "staging" / "files.ndjson", "a") as journal:
        journal.write('{"name": "3.nd')
    (inputs / "1.ndjson").write_text(lines({"x": 1, "y": 1, "_change": -1}))
    follower.reopen()
    newer = follower.look()
    assert newer != planned
    assert follower.read(planned) == first
    follower.take(planned, first)
    late = follower.step()
    assert late is not None
    assert late.deleted == {(1, 1)}
    assert late.notes == ("`1.ndjson` is late: `2.ndjson` was already read for `edge`",)


def test_a_consumed_file_that_is_gone_or_rewritten_is_an_error(spark: Any, tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    file = inputs / "1.ndjson"
    file.write_text(lines({"x": 1, "y": 1, "_change": 1}))
    follower = Follower(spark, tmp_path / "staging", EDGE, "changes", inputs)
    follower.step()
    content = file.read_bytes()
    os.utime(file)
    assert follower.step() is None  # touched, not changed
    file.write_bytes(content.replace(b"1", b"2"))
    with pytest.raises(DataError, match=r"`1.ndjson` in .* was rewritten") as found:
        follower.look()
    assert found.value.code == "source-rewritten"
    file.unlink()
    with pytest.raises(DataError, match="is missing now") as found:
        follower.look()
    assert (found.value.code, "on_missing" in found.value.help) == ("source-missing", True)
    follower.config.options["on_missing"] = "ignore"
    follower.reopen()
    assert follower.step() is None


def test_a_planned_file_that_goes_is_never_an_empty_batch(spark: Any, tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    follower = Follower(spark, tmp_path / "staging", EDGE, "changes", inputs, on_missing="ignore")
    (inputs / "1.ndjson").write_text(lines({"x": 1, "y": 1, "_change": 1}))
    planned = follower.look()
    (inputs / "1.ndjson").unlink()
    with pytest.raises(DataError, match="removed before it was read"):
        follower.read(planned)


def test_what_is_no_change_file_or_lacks_its_columns_is_refused(spark: Any, tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    follower = Follower(spark, tmp_path / "staging", EDGE, "changes", inputs)
    (inputs / "notes.txt").write_text("")
    with pytest.raises(DataError, match="is not a change file"):
        follower.look()
    (inputs / "notes.txt").unlink()
    pq.write_table(pa.table({"x": [1], "y": ["a"], "_change": [1]}), inputs / "1.parquet")
    with pytest.raises(DataError, match=r"column `y` of `1\.parquet` is string, in `edge` it is number"):
        follower.read(follower.look())
    follower = Follower(spark, tmp_path / "nowhere", EDGE, "changes", tmp_path / "none")
    with pytest.raises(DataError, match="does not exist"):
        follower.look()


def test_a_state_that_was_tampered_with_is_refused(spark: Any, tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    (inputs / "1.ndjson").write_text(lines({"x": 1, "y": 1, "_change": 1}))
    follower = Follower(spark, tmp_path / "staging", EDGE, "changes", inputs)
    follower.step()
    journal = tmp_path / "staging" / "files.ndjson"
    text = journal.read_text()
    journal.write_text(text.replace("1.ndjson", "0.ndjson"))
    with pytest.raises(DataError, match="was changed by hand"):
        follower.reopen()
    journal.write_text("")
    follower.reopen()
    with pytest.raises(DataError, match="does not match the checkpoint"):
        follower.look()


def test_large_files_are_read_in_blocks_and_say_the_same(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Random changes in files of which some count as large, against the same changes applied one by one."""
    monkeypatch.setattr(text_lines, "SMALL_FILE", 4_000)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "3000")
    spark.conf.set("spark.sql.files.openCostInBytes", "100")
    draw = random.Random(seed)
    inputs = tmp_path / "in"
    inputs.mkdir()
    rows: set[tuple[int, int]] = set()
    bad = set()
    follower = Follower(spark, tmp_path / "staging", EDGE, "changes", inputs)
    try:
        for batch in range(2):
            for part in range(3):
                written = []
                for number in range(1, draw.choice([40, 600])):
                    x, y, change = draw.randrange(12), draw.randrange(12), draw.choice([1, -1])
                    if draw.random() < 0.02:
                        written.append("nonsense" if draw.random() < 0.5 else "")
                        bad |= {f"{batch}-{part}.ndjson:{number}"} if written[-1] else set()
                        continue
                    written.append(lines({"x": x, "y": y, "_change": change}).strip())
                    (rows.add if change == 1 else rows.discard)((x, y))
                (inputs / f"{batch}-{part}.ndjson").write_text(lines(*written))
            step = follower.step()
            assert step is not None
            assert follower.rows == rows
            assert set(step.reasons) == {place for place in bad if place.startswith(f"{batch}-")}
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
        spark.conf.unset("spark.sql.files.openCostInBytes")


def test_the_fingerprint_says_what_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SMALL_FILE", 200_000)
    (tmp_path / "small").write_bytes(b"a" * 200_000)
    (tmp_path / "large").write_bytes(b"a" * 200_001)
    large, small = listing.files_of(tmp_path, "r")
    assert (listing.fingerprint(small)[:4], listing.fingerprint(large)[:5]) == ("all:", "ends:")
    assert change_files._entry(large)["size"] == 200_001


def test_sources_that_share_a_folder_take_the_same_files(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    node = Schema("node", EDGE.columns[:1])
    one, two = ({"insert": {"edge": [[n, n]], "node": [[n]]}} for n in (1, 2))
    (inputs / "1.ndjson").write_text(lines(one))
    followers = {
        schema.name: Follower(spark, tmp_path / schema.name, schema, "changes", inputs, others=("edge", "node"))
        for schema in (EDGE, node)
    }
    second = followers["node"].source
    latest = second.latest

    def disturbed(*arguments: Any) -> Any:
        """A file comes after the first source has looked, before the second does."""
        (inputs / "2.ndjson").write_text(lines(two))
        return latest(*arguments)

    monkeypatch.setattr(second, "latest", disturbed)
    positions = advanced({name: follower.source for name, follower in followers.items()}, spark, {})
    assert followers["edge"].read(positions["edge"]).inserted == {(1, 1)}
    assert followers["node"].read(positions["node"]).inserted == {(1,)}
