"""A proof, before anything depends on it, that driver and executors share the location. It costs one small job."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from upshot.core.errors import EngineError, Error
from upshot.spark.catalog_workspace import workspace_at
from upshot.spark.failures import translated
from upshot.spark.location import SETTING, exact_path, local_path, location_of, runs_here
from upshot.spark.session import is_connect
from upshot.spark.workspace import StoredRows, Workspace

_PROBES = 4
"""Files that go there and back; several, so that more than one executor has a part in it."""

_proven: set[tuple[str, str]] = set()
"""Applications and locations that were found to be fit."""


def shared_workspace(session: Any, location: str | os.PathLike[str] | None = None) -> Workspace:
    """A new workspace at a location that driver and executors share; without a location, at that of the session."""
    workspace = workspace_at(location_of(session, location), session)
    try:
        refuse_unshared_location(session, workspace)
    except BaseException:
        workspace.remove()
        raise
    return workspace


def refuse_unshared_location(session: Any, workspace: Workspace) -> None:
    """Raise unless executors read what the driver writes at the location, the driver reads what executors write there,
    and their Python can run Upshot. Executors on this machine share its disk, so that nothing is left to prove."""
    if runs_here(session) and local_path(workspace.location) is not None:
        return
    key = (_application(session), workspace.location)
    if key not in _proven:
        _prove(session, workspace)
        _proven.add(key)


def refuse_unfit_workers(session: Any) -> None:
    """Raise if the Python workers cannot run Upshot."""
    try:
        session.range(1).mapInArrow(_imported, "id long").collect()
    except Exception as error:
        raise translated(error) from error


def _imported(batches: Iterator[Any]) -> Iterator[Any]:
    # By name: this package lies below the one that workers need.
    importlib.import_module("upshot.engine.spark.decomposed.shard")
    yield from batches


def _application(session: Any) -> str:
    return str(session.client.host if is_connect(session) else session.sparkContext.applicationId)


def _prove(session: Any, workspace: Workspace) -> None:
    numbers = list(range(_PROBES))
    written: list[StoredRows] = []
    try:
        schema = pa.schema([pa.field("id", pa.int64())])
        for number in numbers:
            written.append(workspace.put([pa.table([[number]], schema=schema)], schema, "probe"))
        try:
            files = [exact_path(file) for each in written for file in each.files]
            frame = session.read.option("ignoreMissingFiles", "false").schema("id long").parquet(*files)
            echo = workspace.write(frame.repartition(_PROBES).mapInArrow(_imported, "id long"), "probe")
            written.append(echo)
        except Exception as error:
            cause = translated(error)
            if cause.code == "worker-environment":
                raise cause from error
            raise not_shared(workspace.location, f"executors cannot read or write there: {cause.message}") from error
        if echo.rows != _PROBES:
            raise not_shared(workspace.location, "the driver does not see files written by executors")
        found = [row["id"] for table in workspace.tables(echo.files, ["id"]) for row in table.to_pylist()]
        if sorted(found) != numbers:
            raise not_shared(workspace.location, "the driver reads different rows than executors have written")
    except Error as error:
        if error.code in ("location-not-shared", "worker-environment"):
            raise
        raise not_shared(workspace.location, error.message) from error
    finally:
        workspace.drop(each.folder for each in written)


def not_shared(location: str, reason: str) -> EngineError:
    """The error for a location that is of no use to the cluster."""
    return EngineError(
        f"the driver and the executors do not share the location `{location}`: {reason}",
        code="location-not-shared",
        help="use storage that all machines of the cluster can access, such as `s3a://bucket/folder`, in `location` or "
        f"in the setting `{SETTING}`",
    )
