"""Read saved rows into tables and write them. Importing this module imports pyarrow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from upshot.core.arrow_schema import arrow_schema, arrow_type
from upshot.core.errors import DataError
from upshot.core.schema import Role, Schema
from upshot.core.types import Kind
from upshot.engine.local.storage.arrow_codec import decode_table, encode_table
from upshot.engine.local.storage.codec import Codec, Misfit, null_code
from upshot.engine.local.storage.storage import Table
from upshot.engine.saved import Saved
from upshot.plan.program_plan import ProgramPlan
from upshot.strategies.strategy import Stores

Codes = NDArray[np.int64]

_BATCH = 1 << 20
"""Rows that are read or written in one step."""

# Spark writes timestamps as INT96 by default; nanoseconds would limit them to the year 2262.
_PARQUET = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))


def adopted_views(plan: ProgramPlan, saved: Mapping[str, Saved], kept: Collection[str] = ()) -> set[str]:
    """The views whose saved rows are used without recomputation.

    The rows of a component are trusted if all its views are saved, or kept by the engine, and all relations that it
    reads are base relations or trusted. Views whose strategy stores more than rows are recomputed nevertheless, since
    counts and running totals are not saved.
    """
    trusted = {name for name, schema in plan.normal.schemas.items() if schema.role is Role.BASE}
    adopted: set[str] = set()
    for component in plan.components:
        if component.views[0] in plan.on_demand.strategies:
            trusted.update(component.views)
            adopted.update(plan.on_demand.kept.intersection(component.views) & saved.keys())
        elif all(view in saved or view in kept for view in component.views) and component.reads <= trusted:
            trusted.update(component.views)
            if component.strategy.stores is Stores.ROWS and all(view in saved for view in component.views):
                adopted.update(component.views)
    return adopted


def restore_rows(table: Table, codec: Codec, schema: Schema, saved: Saved) -> None:
    """Fill an empty table with the saved rows, and accept them."""
    table.reserve(saved.rows)
    if saved.folder is not None:
        for codes in read_rows(codec, schema, saved.folder):
            table.stage(codes, insert=True)
    for inserted, deleted in saved.changes:
        for rows, insert in ((deleted, False), (inserted, True)):
            for codes in read_rows(codec, schema, rows):
                table.stage(codes, insert=insert)
    table.settle()
    table.accept()


def save_rows(folder: Path, codec: Codec, schema: Schema, codes: Codes) -> None:
    """Write the rows as one Parquet file in the folder. A relation without columns gets a column of true values."""
    folder.mkdir(parents=True, exist_ok=True)
    target = arrow_schema(schema) if schema.arity else pa.schema([pa.field("c0", pa.bool_(), nullable=False)])
    if _is_too_long(schema, codes):
        schema = schema.widest()
        target = arrow_schema(schema)
    with pq.ParquetWriter(folder / "part-0.parquet", target) as writer:
        for start in range(0, len(codes), _BATCH):
            part = codes[start : start + _BATCH]
            if schema.arity:
                writer.write_table(decode_table(codec, schema, part))
            else:
                writer.write_table(pa.table([pa.array([True] * len(part))], schema=target))


def _is_too_long(schema: Schema, codes: Codes) -> bool:
    """Test whether a decimal has more digits than its column declares, as an earlier version allowed."""
    for place, column in enumerate(schema.columns):
        if column.type.kind is Kind.DECIMAL and not column.type.is_wide and len(codes):
            bound, found = 10**column.type.precision, codes[:, place]
            found = found[found != null_code(column.type)] if column.type.nullable else found
            if len(found) and (found.max() >= bound or found.min() <= -bound):
                return True
    return False


def read_rows(
    codec: Codec, schema: Schema, rows: pa.Table | Path, names: Sequence[str] | None = None
) -> Iterator[Codes]:
    """The rows of a table or of a Parquet folder, in batches; `names` are the column names in the folder's files, if
    they differ from those of the relation."""
    batches = iter([rows]) if isinstance(rows, pa.Table) else _batches(schema, rows, names)
    for table in batches:
        if schema.arity == 0:
            yield np.empty((min(table.num_rows, 1), 0), np.int64)
            continue
        try:
            # An earlier version may have stored more digits than a column declares.
            yield encode_table(codec, schema.widest(), natural_table(schema, table))
        except (Misfit, pa.ArrowInvalid) as error:
            raise _unreadable(schema, rows, str(error)) from None


def _batches(schema: Schema, folder: Path, given: Sequence[str] | None) -> Iterator[pa.Table]:
    names = list(given)[: schema.arity] if given is not None else [column.name for column in schema.columns]
    try:
        files = ds.dataset(folder, format=_PARQUET)
        missing = [name for name in names if name not in files.schema.names]
        if missing:
            raise _unreadable(schema, folder, f"there is no column `{missing[0]}`")
        columns = names or files.schema.names[:1]
        for batch in files.to_batches(columns=columns, batch_size=_BATCH):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(schema, folder, str(error)) from None


def natural_table(schema: Schema, table: pa.Table) -> pa.Table:
    """The table with restored types that Parquet or Spark does not have: unsigned numbers stored as decimals,
    timestamps without their zone."""
    columns = []
    for position, column in enumerate(schema.columns):
        values = table.column(position)
        if column.type.kind is Kind.UNSIGNED and pa.types.is_decimal(values.type):
            values = values.cast(arrow_type(column.type))
        elif column.type.kind is Kind.TIMESTAMP and pa.types.is_timestamp(values.type) and values.type.tz is None:
            values = values.cast(pa.timestamp("us")).cast(arrow_type(column.type))
        columns.append(values)
    return pa.table(columns, names=[column.name for column in schema.columns])


def _unreadable(schema: Schema, rows: pa.Table | Path, why: str) -> DataError:
    place = f" in `{rows}`" if isinstance(rows, Path) else ""
    return DataError(
        f"cannot read the saved rows of `{schema.name}`{place}: {why}", code="saved-rows-unreadable",
        help="restore the directory from a backup, or reload the base relations",
    )  # fmt: skip
