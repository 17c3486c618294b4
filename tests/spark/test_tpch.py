"""Queries of TPC-H as views on Spark, through refreshes."""

from __future__ import annotations

from typing import Any

import pytest

import upshot
from bench.tpch import queries
from tests.sql.test_tpch import DuckJudge, follow

SOME = ("q3", "q4", "q6", "q14")
"""Groups, top-k, EXISTS, CASE and a quotient of decimals: every commit of Spark takes seconds."""


@pytest.mark.slow
def test_some_queries_follow_refreshes_as_duckdb_answers(spark: Any) -> None:
    with upshot.connect(spark=spark, engine="spark") as db:
        follow(db, DuckJudge(), {name: queries()[name] for name in SOME}, 0.0005, 3, refreshes=2)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(4))
def test_all_queries_follow_refreshes_as_duckdb_answers(spark: Any, part: int) -> None:
    chosen = dict(list(queries().items())[part::4])
    with upshot.connect(spark=spark, engine="spark") as db:
        follow(db, DuckJudge(), chosen, 0.001, 3, refreshes=2)
