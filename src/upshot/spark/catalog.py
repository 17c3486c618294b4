"""The locations and formats of tables in Spark's catalog."""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException

from upshot.spark.location import uri_of

_GONE = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE")


def quoted_name(table: str) -> str:
    """
    >>> quoted_name("main.sales.order")
    '`main`.`sales`.`order`'
    """
    return ".".join("`" + part.strip("`").replace("`", "``") + "`" for part in table.split("."))


def table_format(session: Any, table: str) -> str | None:
    """The provider of a table, such as delta, parquet, iceberg or view; None if there is no such table."""
    try:
        rows = session.sql(f"describe table extended {quoted_name(table)}").collect()
    except AnalysisException as error:
        if error.getCondition() in _GONE:
            return None
        raise
    described = {row["col_name"]: row["data_type"] for row in rows}
    return str(described.get("Provider") or ("view" if described.get("Type") == "VIEW" else "")).lower()


def delta_location(session: Any, table: str) -> str | None:
    """The URI of a Delta table of the catalog; None if it is of another format, or there is none."""
    if table_format(session, table) != "delta":
        return None
    row = session.sql(f"describe detail {quoted_name(table)}").select("location").first()
    location = str(row["location"])
    # Delta returns a local path unescaped, not as a URI.
    return uri_of(location.removeprefix("file:")) if location.startswith("file:") else location
