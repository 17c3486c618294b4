"""A relation as a store keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Saved:
    """The rows of a Parquet folder, then changes in order, each what came and what went: an Arrow table, or the path of
    a Parquet folder if it is large. `rows` counts the folder's rows."""

    folder: Path | None = None
    rows: int = 0
    changes: tuple[tuple[pa.Table | Path, pa.Table | Path], ...] = ()
