"""Rows that every worker needs, as files: written once by the driver, memory-mapped by the workers.

What travels in a task's closure is sent to every task and unpickled by it; a mapped file is read once per machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc

IN_CLOSURE = 256 * 1024
"""Up to this many bytes a table travels with the task."""


@dataclass(frozen=True, slots=True)
class SharedTable:
    """An Arrow table, here or in a file."""

    table: pa.Table | None = None
    path: Path | None = None

    def read(self) -> pa.Table:
        """The rows; those of a file stay in the file until somebody looks."""
        if self.path is None:
            return self.table
        with pa.memory_map(str(self.path)) as source:
            return ipc.open_file(source).read_all()


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Rows of a frame, in Parquet folders and in a table. `names` are the columns' names in the files if they are not
    c0 … cn."""

    folders: tuple[Path, ...] = ()
    names: tuple[str, ...] | None = None
    table: SharedTable | None = None


NO_ROWS = SharedRows()


def shared_table(table: pa.Table, path: Path) -> SharedTable:
    """The table, written to `path` if it is too large to travel with the tasks."""
    if table.nbytes <= IN_CLOSURE:
        return SharedTable(table)
    path.parent.mkdir(parents=True, exist_ok=True)
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    return SharedTable(path=path)
