"""A whole table as the contents of a base relation: from a frame, or from Parquet and CSV files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upshot.core.errors import DataError, UsageError
from upshot.core.types import Type
from upshot.database.arrow_tables import aligned, as_arrow, column_type, how_to_rename, is_table
from upshot.database.changes import Commit
from upshot.database.commit import commit
from upshot.database.compile import compile_items
from upshot.database.redefine import redefine
from upshot.database.state import State
from upshot.syntax.ast import Attribute, Declaration, TypeName

if TYPE_CHECKING:
    import pyarrow as pa

IDENTIFIER = re.compile(r"[A-Za-z_?][A-Za-z0-9_?]*\Z")


def register(state: State, name: str, table: Any) -> Commit:
    """Replaces the rows of `name` by the table, as one transaction. A relation nobody declared is declared from the
    table: its column names, the closest types, nullable where the table holds NULL."""
    if name in state.schemas:
        target = state.base(name)
        given = aligned(as_arrow(read_table(table), target), target)
        with state.writing("register a table") as engine:
            try:
                engine.replace(target.name, given)
            except BaseException:
                engine.rollback()
                raise
            return commit(state)
    given = as_arrow(read_table(table))
    declaration = declared(name, given)
    with state.writing("register a table"):
        compiled = compile_items((declaration,), state.compiled)
        rows = aligned(given, compiled.schema(name))
        return redefine(state, compiled, lambda engine: engine.replace(name, rows))


def declared(name: str, table: pa.Table) -> Declaration:
    """The declaration of a relation that holds this table."""
    if not IDENTIFIER.match(name):
        message = f"`{name}` cannot be the name of a relation"
        raise DataError(message, code="not-a-name", help=f"use letters, digits and `_`, as in `{_names([name])[0]}`")
    wrong = [word for word in table.column_names if not IDENTIFIER.match(word)]
    if wrong:
        words = ", ".join(f"`{word}`" for word in wrong)
        message = f"{words} cannot be {'the name of a column' if len(wrong) == 1 else 'names of columns'}"
        raise DataError(message, code="not-a-name", help=how_to_rename(_names(table.column_names)))
    attributes = []
    for field, column in zip(table.schema, table.columns, strict=True):
        attributes.append(Attribute(field.name, _type_name(column_type(field, nullable=column.null_count > 0))))
    return Declaration(name, tuple(attributes))


def _names(words: list[str]) -> list[str]:
    """Names like these words that a program can use, no two alike."""
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


# ---- files --------------------------------------------------------------------------------------------


def read_table(table: Any) -> Any:
    """The table itself, or what the path holds: Parquet or CSV, one file or a folder of them."""
    if type(table).__module__.partition(".")[0] == "pyspark":
        message = "Spark DataFrames are not available yet"
        raise UsageError(message, code="not-yet", help="register `frame.toArrow()`, or a Parquet path")
    if isinstance(table, (str, os.PathLike)):
        return _read_files(Path(table))
    if not is_table(table):
        raise UsageError(
            f"cannot register a {type(table).__name__}",
            code="wrong-argument",
            help="pass a pandas, Arrow or Polars table, or a Parquet or CSV path; rows go through `tx.insert`",
        )
    return table


def _read_files(path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.dataset as ds

    if not path.exists():
        raise UsageError(f"there is no file or folder `{path}`", code="no-such-file", help="check the path")
    if (path / "_delta_log").is_dir():
        message = f"`{path}` is a Delta table; reading Delta is not available yet"
        raise UsageError(message, code="not-yet", help="export it as Parquet")
    try:
        return ds.dataset(path, format=_format_of(path)).to_table()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        message = f"`{path}` cannot be read: {str(error).splitlines()[0]}"
        raise DataError(message, code="unreadable-file", help="check that all files are whole and alike") from None


def _format_of(path: Path) -> str:
    names = [each.name for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path.name]
    visible = [name for name in names if not name.startswith((".", "_"))]
    formats = {"parquet" if name.endswith((".parquet", ".pq")) else "csv" if ".csv" in name else "" for name in visible}
    if len(formats) == 1 and "" not in formats:
        return formats.pop()
    found = "no Parquet or CSV files" if not visible else f"`{sorted(visible)[0]}`" if "" in formats else "both formats"
    message = f"`{path}` holds {found}; Parquet or CSV was expected"
    raise UsageError(message, code="unknown-format", help="name the files *.parquet or *.csv")
