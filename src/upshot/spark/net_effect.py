"""The net effect of ordered statements: for each row, and each key, the last statement counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from upshot.core.schema import Schema
from upshot.spark.types import column_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLASS = "_class"
"""The column with the kind of each row: insert, delete, upsert (replaces the row with the same first key) or remove
(deletes the row with this key; the other columns are NULL)."""


def net_effect(statements: DataFrame, schema: Schema, order: Sequence[str], *, few: bool = False) -> DataFrame:
    """c0 … cn and `_class`, each row once; `op` and the columns of `order` come in. `few`: one task takes them all, and
    nothing is shuffled.

    A row both inserted and deleted at the same place in the order cancels out: a transaction has no order inside.
    An upsert or a removal determines the row of its key, so that earlier statements on the key are dropped; for a key
    without one, the earlier row is not known here, and each row keeps its own statement.
    """
    rows = column_names(schema.arity)
    statements = statements.select(*rows, "op", F.struct(*order).alias("at"))
    if not schema.keys:
        last = _last_statements(_together(statements, rows, few=few), rows)
        return last.select(*rows, F.when(F.col("present"), F.lit("insert")).otherwise(F.lit("delete")).alias(CLASS))
    key = [rows[position] for position in schema.keys[0]]
    same_key = Window.partitionBy(*key)
    settling = F.max(F.when(F.col("op").isin("upsert", "remove"), F.col("at"))).over(same_key)
    statements = _together(statements, key, few=few).withColumn("settled", settling)
    statements = statements.where(F.col("settled").isNull() | (F.col("at") >= F.col("settled")))
    last = _last_statements(statements, rows, F.first(F.col("settled").isNotNull()).alias("settled"))
    return _by_key(last, rows, key)


def _together(statements: DataFrame, columns: list[str], *, few: bool) -> DataFrame:
    """Rows that agree on the columns in one partition; a few rows, all in one."""
    return statements.coalesce(1) if few else statements.repartition(*[F.col(name) for name in columns])


def _last_statements(statements: DataFrame, rows: list[str], *more: Column) -> DataFrame:
    """For each row whether it is present after its last statement."""
    comes = F.col("op").isin("insert", "upsert")
    at_once = statements.groupBy(*rows, "at").agg(F.max(comes).alias("comes"), F.min(comes).alias("stays"), *more)
    effective = at_once.where(F.col("comes") == F.col("stays"))
    settled = [F.first(F.col("settled")).alias("settled")] if more else []
    return effective.groupBy(*rows).agg(F.max_by("comes", "at").alias("present"), *settled)


def _by_key(last: DataFrame, rows: list[str], key: list[str]) -> DataFrame:
    same_key = Window.partitionBy(*key)
    last = last.withColumn("many", F.sum(F.col("present").cast("int")).over(same_key))
    settled, present, many = F.col("settled"), F.col("present"), F.col("many")
    kind = (
        F.when(~settled, F.when(present, F.lit("insert")).otherwise(F.lit("delete")))
        # Two rows for one key: both are kept, so that the key constraint refuses them.
        .when(present & (many > 1), F.lit("insert"))
        .when(present, F.lit("upsert"))
        .when(many == 0, F.lit("remove"))
    )
    kinds = last.withColumn(CLASS, kind).where(F.col(CLASS).isNotNull()).select(*rows, CLASS)
    blank = [
        F.when(F.col(CLASS) != "remove", F.col(name)).alias(name) if name not in key else F.col(name) for name in rows
    ]
    return kinds.select(*blank, CLASS).dropDuplicates()
