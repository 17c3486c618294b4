"""Apply a micro-batch of a stream as one transaction, once: the commit stores the number of the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from upshot.core.errors import DataError, UsageError
from upshot.core.schema import Schema
from upshot.database.changes import ChangeSet
from upshot.database.durable.journal import meta_text
from upshot.database.files.arrow_tables import is_spark_frame
from upshot.database.files.spark_frames import aligned_columns, spark_errors
from upshot.database.state import DatabaseState
from upshot.database.transaction import Transaction

if TYPE_CHECKING:
    import pyarrow as pa

_FEW = 100_000
"""Batches of at most this many rows pass through the driver; larger ones stay on the engine."""
_CHANGE, _OP, _FEED = "_change", "op", "_change_type"
_OPERATIONS = ("insert", "delete", "update", "upsert")
_FEED_COLUMNS = (_FEED, "_commit_version", "_commit_timestamp")


@dataclass(frozen=True, slots=True)
class Batch:
    """`frame` has changes of `relation`; `number` counts the batches of `stream`."""

    frame: Any
    number: int
    relation: str
    stream: str


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """`version` is the version with the batch. A repeated batch is not `applied` and has no changes."""

    version: int
    applied: bool
    changes: ChangeSet | None = None


def apply_batch(state: DatabaseState, batch: Batch) -> AppliedBatch:
    """Apply the batch unless it is the last one of its stream."""
    schema = state.base(batch.relation)
    _refuse_wrong(batch)
    with state.batches.guard:
        last = state.batches.last(batch.stream, _stored(state))
        if last == batch.number:
            return AppliedBatch(state.visible_version, False)
        if last is not None and batch.number < last:
            raise _older(batch, last)
        transaction = Transaction(state, meta_text({"stream": batch.stream, "batch": batch.number}))
        net = _net(batch.frame, schema)
        net.persist()
        try:
            with transaction:
                _stage(transaction, net, schema)
        finally:
            net.unpersist()
        state.batches.applied(batch.stream, batch.number)
    return AppliedBatch(transaction.version, True, transaction.changes)


def _stored(state: DatabaseState) -> Callable[[str], int | None]:
    return (lambda stream: None) if state.journal is None else state.journal.store.log.last_batch


def _refuse_wrong(batch: Batch) -> None:
    if not is_spark_frame(batch.frame):
        raise UsageError(
            f"`apply_batch` needs a Spark DataFrame, not {type(batch.frame).__name__}",
            code="wrong-argument",
            help="use `with db.transaction() as tx` for other tables",
        )
    if not isinstance(batch.number, int) or isinstance(batch.number, bool) or batch.number < 0:
        raise UsageError(
            f"invalid `batch_id` {batch.number!r}",
            code="wrong-argument",
            help="pass the id from `foreachBatch`, a non-negative integer",
        )


def _older(batch: Batch, last: int) -> DataError:
    return DataError(
        f"batch {batch.number} of the stream `{batch.stream}` comes after batch {last}",
        code="batch-out-of-order",
        help="if the checkpoint of the stream was removed, name the new stream with `stream`",
    )


def _net(frame: Any, schema: Schema) -> Any:
    """The columns c0 … cn and the net operation of each row, that of its last statement; without an order, deletions
    come first."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional package

    from upshot.spark.net_effect import net_effect  # noqa: PLC0415 - imports pyspark
    from upshot.spark.types import column_names  # noqa: PLC0415

    op, order, marks = _operation(frame, schema)
    values = aligned_columns(frame, schema, [name for name in frame.columns if name not in marks])
    named = [value.alias(name) for value, name in zip(values or [F.lit(True)], column_names(len(values)), strict=True)]
    statements = frame.select(*named, op.alias("op"), order.alias("at"), (op != "delete").cast("int").alias("part"))
    return net_effect(statements, schema, ("at", "part"))


def _operation(frame: Any, schema: Schema) -> tuple[Any, Any, tuple[str, ...]]:
    """The operation of each row, its order, and the columns that these come from. A row with an unknown operation fails
    the job."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional package

    own = {column.name for column in schema.columns}
    extra = [name for name in frame.columns if name not in own]
    default = "upsert" if schema.keys else "insert"
    none = F.lit(0)
    if _FEED in extra:
        kinds = F.col(_FEED)
        inserts, deletes = kinds.isin("insert", "update_postimage"), kinds.isin("delete", "update_preimage")
        op = F.when(inserts, F.lit("insert")).when(deletes, F.lit("delete")).otherwise(_refused(_FEED, kinds))
        return op, F.col("_commit_version"), tuple(name for name in _FEED_COLUMNS if name in extra)
    if _CHANGE in extra:
        change = F.col(_CHANGE).cast("string")
        op = F.when(change == "1", F.lit("insert")).when(change == "-1", F.lit("delete"))
        return op.otherwise(_refused(_CHANGE, change)), none, (_CHANGE,)
    if _OP in extra:
        named = F.col(_OP)
        if not schema.keys:
            words = f"`op` of `{schema.name}`, which has no key,"
            op = F.when(named.isin("insert", "delete"), named).otherwise(_refused(words, named))
        else:
            known = F.when(named.isin("update", "upsert"), F.lit("upsert")).when(named.isin(*_OPERATIONS), named)
            op = known.otherwise(_refused("`op`", named))
        return op, none, (_OP,)
    return F.lit(default), none, ()


def _refused(column: str, value: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional package

    found = F.coalesce(value.cast("string"), F.lit("NULL"))
    return F.raise_error(F.concat(F.lit(f"{column} cannot be "), found)).cast("string")


def _stage(transaction: Transaction, net: Any, schema: Schema) -> None:
    """Stage few rows through the driver in one job; leave many with Spark."""
    from upshot.spark.net_effect import CLASS  # noqa: PLC0415 - imports pyspark
    from upshot.spark.types import column_names, table_from_spark  # noqa: PLC0415

    statements: Mapping[str, Callable[[str, Any], None]] = {
        "delete": transaction.delete,
        "insert": transaction.insert,
        "upsert": transaction.upsert,
    }
    with spark_errors():
        table: pa.Table = net.limit(_FEW + 1).toArrow()
    own = [column.name for column in schema.columns] or column_names(0)
    for kind, stage in statements.items():
        if table.num_rows > _FEW:
            stage(schema.name, net.where(net[CLASS] == kind).drop(CLASS).toDF(*own))
        elif len(part := _part(table, kind)):
            stage(schema.name, table_from_spark(part, schema))


def _part(table: pa.Table, kind: str) -> pa.Table:
    import pyarrow.compute as pc  # noqa: PLC0415 - imports slowly

    from upshot.spark.net_effect import CLASS  # noqa: PLC0415 - imports pyspark

    return table.filter(pc.equal(table[CLASS], kind)).drop_columns([CLASS])
