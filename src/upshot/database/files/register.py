"""Register a table, from a frame or Parquet, CSV and Delta files, as the contents of a base relation."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from upshot.core.errors import DataError, UsageError
from upshot.core.types import Type
from upshot.database.changes import Commit
from upshot.database.commit import begin_rules, commit_transaction
from upshot.database.engines import Engine
from upshot.database.files.arrow_tables import as_arrow, column_type, how_to_rename, is_path, is_spark_frame, is_table
from upshot.database.files.input_rows import input_table
from upshot.database.files.spark_frames import frame_columns, holds_null, spark_column_type
from upshot.database.files.table_files import read_files
from upshot.database.program.compile import compile_items
from upshot.database.program.redefine import redefine
from upshot.database.state import DatabaseState
from upshot.syntax.ast import Attribute, Declaration, TypeName

IDENTIFIER = re.compile(r"[A-Za-z_?][A-Za-z0-9_?]*\Z")


def register(state: DatabaseState, name: str, table: Any) -> Commit:
    """Replace the rows of `name` by the table, as one transaction. A new relation is declared from the table: its
    column names, the closest types, nullable where the table has NULL."""
    found = read_table(table, state.engine)
    if name in state.schemas:
        target = state.base(name)
        rows = input_table(target, found, state.engine)
        with state.writing("register a table") as engine:
            try:
                engine.replace(target.name, rows)
            except BaseException:
                engine.rollback()
                raise
            return commit_transaction(state, begin_rules(state))
    if not is_spark_frame(found):
        found = as_arrow(found)
    declaration = declared(name, _columns(found))
    with state.writing("register a table"):
        compiled = compile_items((declaration,), state.compiled)
        rows = input_table(compiled.schema(name), found, state.engine)
        return redefine(state, compiled, lambda engine: engine.replace(name, rows))


def _columns(table: Any) -> list[tuple[str, Callable[[], Type]]]:
    """The columns of an Arrow table or a DataFrame with their types, each computed on use: an invalid name is reported
    before an unsupported type."""
    if is_spark_frame(table):
        null = holds_null(table)
        return [
            (name, partial(spark_column_type, name, spark, nullable=name in null))
            for name, spark in frame_columns(table)
        ]
    return [
        (field.name, partial(column_type, field, nullable=column.null_count > 0))
        for field, column in zip(table.schema, table.columns, strict=True)
    ]


def declared(name: str, columns: list[tuple[str, Callable[[], Type]]]) -> Declaration:
    if not IDENTIFIER.match(name):
        message = f"`{name}` is not a valid relation name"
        raise DataError(message, code="not-a-name", help=f"use letters, digits and `_`, as in `{_names([name])[0]}`")
    names = [column for column, _ in columns]
    wrong = [word for word in names if not IDENTIFIER.match(word)]
    if wrong:
        words = ", ".join(f"`{word}`" for word in wrong)
        message = f"{words} cannot be {'the name of a column' if len(wrong) == 1 else 'names of columns'}"
        raise DataError(message, code="not-a-name", help=how_to_rename(_names(names)))
    return Declaration(name, tuple(Attribute(column, _type_name(type())) for column, type in columns))


def _names(words: list[str]) -> list[str]:
    """Distinct valid names similar to these words."""
    names: list[str] = []
    for word in words:
        name = word if IDENTIFIER.match(word) else re.sub(r"[^A-Za-z0-9_]+", "_", word) or "_"
        name = name if IDENTIFIER.match(name) else f"_{name}"
        while name in names or (name != word and name in words):
            name += "_"
        names.append(name)
    return names


def _type_name(type: Type) -> TypeName:
    arguments = (type.precision, type.scale) if type.precision else ()
    return TypeName(type.kind.value, arguments, type.nullable)


def read_table(table: Any, engine: Engine) -> Any:
    """The table itself, or the table in the files of a path."""
    if is_path(table) or isinstance(table, str):
        return read_files(table, engine)
    if is_table(table) or is_spark_frame(table):
        return table
    hint = "pass a pandas, Arrow, Polars or Spark table, or a Parquet, CSV or Delta path; use `tx.insert` for rows"
    if type(table).__module__.startswith("pyspark.pandas"):
        hint = "pass `frame.to_spark()`"
    raise UsageError(f"cannot register a {type(table).__name__}", code="wrong-argument", help=hint)
