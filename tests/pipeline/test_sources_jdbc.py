"""Tables of PostgreSQL: whole snapshots, and rows that are only added."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.followers import EDGE, EVERY, Follower
from tests.pipeline.postgres import PASSWORD, USER, Cluster
from upshot.core.errors import DataError, EngineError, UsageError

Make = Callable[..., Follower]


@pytest.fixture
def follow(spark: Any, database: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setenv("UPSHOT_TEST_PASSWORD", PASSWORD)

    def make(schema: Any = EDGE, **more: Any) -> Follower:
        options = {"url": database.url, "user": USER, "password_env": "UPSHOT_TEST_PASSWORD", **more}
        return Follower(spark, tmp_path / "staging", schema, "jdbc", **options)

    return make


def test_a_table_is_followed_from_snapshot_to_snapshot(database: Cluster, follow: Make) -> None:
    database.run('drop table if exists "Edge\'s"', 'create table "Edge\'s" (x bigint, y int)')
    database.run('insert into "Edge\'s" values (1, 2), (2, 3), (null, 4)')
    follower = follow(table="public.Edge's")
    planned = follower.look()
    database.run('update "Edge\'s" set y = 9 where x = 1')
    follower.reopen()
    step = follower.read(planned)
    assert step.replaced == {(1, 2), (2, 3)}
    assert step.bad == [('{"x":null,"y":4}', "NULL in column `x`, which is not nullable", "edge")]
    follower.take(planned, step)
    follower.step()
    assert follower.rows == {(1, 9), (2, 3)}
    assert follower.step() is None
    parts = follow(query='select x, y from "Edge\'s" where x is not null;', partition_column="x", partitions=2)
    assert parts.read(parts.look()).replaced == {(1, 9), (2, 3)}


def test_types_of_the_database_arrive_exactly(database: Cluster, follow: Make) -> None:
    database.run(
        "drop table if exists kinds",
        "create table kinds (i smallint, u numeric(20, 0), f real, s varchar(9), b boolean, d date, t timestamp, "
        "p numeric(12, 4))",
        "insert into kinds values (-1, 18446744073709551614, 0.5, 'ü', true, '0001-01-01', "
        "'2026-07-01 10:00:00.000001', 1.5), (0, 18446744073709551616, 'NaN', '', false, null, null, 1.005)",
    )
    moment = dt.datetime(2026, 7, 1, 10, 0, 0, 1, dt.UTC)
    step = follow(EVERY, table="kinds").step()
    assert step is not None
    assert step.replaced == {(-1, 2**64 - 2, 0.5, "ü", True, dt.date(1, 1, 1), moment, Decimal("1.50"))}
    ((_, reason, _),) = step.bad
    assert "column `u`: 18446744073709551616 is not" in reason
    assert "column `p`: 1.0050 is not a decimal(10,2)" in reason


def test_rows_that_are_only_added_are_read_once(database: Cluster, follow: Make) -> None:
    database.run("drop table if exists log", "create table log (x bigint, y bigint)")
    follower = follow(table="log", watermark="x")
    assert follower.source.check(follower.spark, None) == ("no rows yet",)
    follower.step()
    database.run("insert into log select n, n * n from generate_series(1, 3) n")
    planned = follower.look()
    database.run("insert into log values (10, 100)")
    database.run("update log set y = 0 where x = 2")
    follower.reopen()
    step = follower.read(planned)
    assert step.inserted == {(1, 1), (2, 4), (3, 9)}
    follower.take(planned, step)
    step = follower.step()
    assert step is not None
    assert step.inserted == {(10, 100)}
    assert follower.step() is None
    database.run("delete from log where x > 2")
    with pytest.raises(DataError, match="decreased from 10 to 2"):
        follower.look()
    database.run("insert into log values (null, 1)")
    with pytest.raises(DataError, match="is NULL in some rows"):
        follower.look()


def test_added_rows_of_a_refused_batch_are_copied_again_once_corrected(database: Cluster, follow: Make) -> None:
    database.run("drop table if exists log", "create table log (x bigint, y bigint)", "insert into log values (1, 1)")
    follower = follow(table="log", watermark="x")
    follower.step()
    database.run("insert into log values (2, null), (3, 3)")
    assert len(follower.read(follower.look()).bad) == 1  # and the batch is refused
    database.run("update log set y = 2 where x = 2")
    follower.reopen()
    step = follower.step()
    assert step is not None
    assert (step.inserted, step.bad) == ({(2, 2), (3, 3)}, [])
    assert follower.step() is None


def test_a_copy_of_added_rows_that_lost_a_file_is_a_torn_state(database: Cluster, follow: Make, tmp_path: Path) -> None:
    database.run("drop table if exists log", "create table log (x bigint, y bigint)", "insert into log values (1, 1)")
    follower = follow(table="log", watermark="x")
    end = follower.look()
    min((tmp_path / "staging").glob("*/*.parquet")).unlink()
    with pytest.raises(DataError, match="is not as it was written") as found:
        follower.read(end)
    assert found.value.code == "state-mismatch"


def test_what_keeps_the_database_from_answering_is_told_without_the_password(
    follow: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EngineError, match=r"relation .*no_such_table.* does not exist") as found:
        follow(table="no_such_table").look()
    assert not found.value.retryable
    with pytest.raises(EngineError, match="refused") as found:
        follow(table="log", url="jdbc:postgresql://127.0.0.1:1/postgres").look()
    assert found.value.retryable
    monkeypatch.setenv("UPSHOT_TEST_PASSWORD", "wrong password")
    with pytest.raises(EngineError, match="password authentication failed") as found:
        follow(table="log").look()
    assert "wrong password" not in str(found.value)
    monkeypatch.delenv("UPSHOT_TEST_PASSWORD")
    with pytest.raises(UsageError, match="is not set"):
        follow(table="log").look()
