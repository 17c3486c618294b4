"""Rows in files, frames and tables of other libraries.

Parquet, CSV, Delta, Soufflé files, Arrow tables, pandas and Spark frames in; rows of relations out, and back. Read
`input_rows`, `arrow_tables`, `table_files`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_modules

if TYPE_CHECKING:
    from upshot.database.files import register, spark_frames, table_files
else:
    __getattr__ = lazy_modules(__name__)

__all__ = ["register", "spark_frames", "table_files"]
