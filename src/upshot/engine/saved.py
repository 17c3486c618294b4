"""A relation in a store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Saved:
    """The rows of a Parquet folder, then changes in order: inserted and deleted rows, each as an Arrow table or, if
    they are many, the path of a Parquet folder. `rows` is the number of rows in the folder."""

    folder: Path | None = None
    rows: int = 0
    changes: tuple[tuple[pa.Table | Path, pa.Table | Path], ...] = ()
