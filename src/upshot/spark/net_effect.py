"""Ordered statements about rows, as what they come to: for each row, and each key, the last word counts."""

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
"""The column that says what becomes of a row: insert, delete, upsert (in place of the row with the same first key) or
remove (the row with this key goes; the other columns are NULL)."""


def net_effect(said: DataFrame, schema: Schema, order: Sequence[str], *, few: bool = False) -> DataFrame:
    """c0 … cn and `_class`, each row once; `op` and the columns of `order` come in. `few`: one task takes them all, and
    nothing is shuffled.

    A row both inserted and deleted at the same place in the order cancels out: a transaction has no order inside.
    An upsert or a removal settles what its key holds, whatever was said before; without one, what the key held before
    the batch is not known here, and rows are told one by one.
    """
    rows = column_names(schema.arity)
    said = said.select(*rows, "op", F.struct(*order).alias("at"))
    if not schema.keys:
        last = _last_words(_together(said, rows, few=few), rows)
        return last.select(*rows, F.when(F.col("present"), F.lit("insert")).otherwise(F.lit("delete")).alias(CLASS))
    key = [rows[position] for position in schema.keys[0]]
    same_key = Window.partitionBy(*key)
    settling = F.max(F.when(F.col("op").isin("upsert", "remove"), F.col("at"))).over(same_key)
    said = _together(said, key, few=few).withColumn("settled", settling)
    said = said.where(F.col("settled").isNull() | (F.col("at") >= F.col("settled")))
    last = _last_words(said, rows, F.first(F.col("settled").isNotNull()).alias("settled"))
    return _by_key(last, rows, key)


def _together(said: DataFrame, columns: list[str], *, few: bool) -> DataFrame:
    """Rows that agree on the columns in one partition; a few rows, all in one."""
    return said.coalesce(1) if few else said.repartition(*[F.col(name) for name in columns])


def _last_words(said: DataFrame, rows: list[str], *more: Column) -> DataFrame:
    """For each row whether it is there after the last thing said about it."""
    comes = F.col("op").isin("insert", "upsert")
    at_once = said.groupBy(*rows, "at").agg(F.max(comes).alias("comes"), F.min(comes).alias("stays"), *more)
    spoken = at_once.where(F.col("comes") == F.col("stays"))
    settled = [F.first(F.col("settled")).alias("settled")] if more else []
    return spoken.groupBy(*rows).agg(F.max_by("comes", "at").alias("present"), *settled)


def _by_key(last: DataFrame, rows: list[str], key: list[str]) -> DataFrame:
    same_key = Window.partitionBy(*key)
    last = last.withColumn("many", F.sum(F.col("present").cast("int")).over(same_key))
    settled, present, many = F.col("settled"), F.col("present"), F.col("many")
    kind = (
        F.when(~settled, F.when(present, F.lit("insert")).otherwise(F.lit("delete")))
        # Two rows for one key: both are handed on, so that the relation's key refuses them.
        .when(present & (many > 1), F.lit("insert"))
        .when(present, F.lit("upsert"))
        .when(many == 0, F.lit("remove"))
    )
    told = last.withColumn(CLASS, kind).where(F.col(CLASS).isNotNull()).select(*rows, CLASS)
    blank = [
        F.when(F.col(CLASS) != "remove", F.col(name)).alias(name) if name not in key else F.col(name) for name in rows
    ]
    return told.select(*blank, CLASS).dropDuplicates()
