"""Rows of this process as DataFrames of a user's session: many of them by way of a file at the location.

Rows that become part of a plan are copied with every plan that is made of it, and read by one task: above a few
thousand a file that Spark reads is faster by far. Spark Connect sends them to the server, once, at any size: this
process may share no storage with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from upshot.spark.location import exact_path, location_of
from upshot.spark.preflight import shared_workspace
from upshot.spark.session import is_connect
from upshot.spark.workspace import Workspace

if TYPE_CHECKING:
    import pyarrow as pa

MOST_IN_PLAN = 5_000
"""The most rows that become part of a plan."""

_workspaces: dict[str, Workspace] = {}
"""The workspaces of this process, by location; their files stay until it ends."""


def lent_frame(session: Any, table: pa.Table, location: str | None = None) -> Any:
    """The rows of a table, of types that Parquet and Spark have in common, as a DataFrame of the session.

    The file that it reads stays until the process ends.
    """
    if table.num_rows <= MOST_IN_PLAN or is_connect(session):
        return session.createDataFrame(table)
    where = location_of(session, location)
    workspace = _workspaces.get(where)
    if workspace is None:
        workspace = _workspaces[where] = shared_workspace(session, where)
    stored = workspace.put([table], table.schema, "lent")
    reader = session.read.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
    return reader.parquet(*(exact_path(file) for file in stored.files))
