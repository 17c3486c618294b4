"""The proof that driver and executors share a location, by one small job, before anything depends on it."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from upshot.core.errors import EngineError, Error
from upshot.spark.catalog_workspace import workspace_at
from upshot.spark.failures import translated
from upshot.spark.location import SETTING, exact_path, local_path, location_of, runs_here, uri_of
from upshot.spark.session import is_connect
from upshot.spark.workspace import StoredRows, Workspace

_PROBES = 4
"""Files of a proof; several, so that more than one executor takes part."""

_HIDDEN = ".upshot-probe"
"""The folder of the files of a proof; readers of tables ignore names that begin with a dot."""

_proven: set[tuple[str, str]] = set()
"""Applications and locations with a proof."""


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
    """Raise unless driver and executors read each other's files at the location, and the executors' Python can run
    Upshot. Executors on this machine share its disk, so that nothing must be proven."""
    if runs_here(session) and local_path(workspace.location) is not None:
        return
    _prove_once(session, workspace, workspace.location)


def refuse_unshared_folder(session: Any, folder: Path) -> None:
    """As `refuse_unshared_location`, for a folder of this machine that Spark writes to, as on a disk that every machine
    of the cluster mounts. The folder is left as it was, also if it does not exist."""
    if runs_here(session):
        return
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    hidden = folder / _HIDDEN
    workspace = Workspace(hidden, session)
    try:
        _prove_once(session, workspace, uri_of(folder))
    finally:
        workspace.remove()
        shutil.rmtree(hidden, ignore_errors=True)
        for path in made:
            with suppress(OSError):  # another process has put a file there
                path.rmdir()


def refuse_unshared_file(session: Any, file: Path) -> None:
    """Raise unless executors read a file of this machine."""
    key = (_application(session), uri_of(file.parent))
    if runs_here(session) or key in _proven:
        return
    reader = session.read.format("binaryFile").option("ignoreMissingFiles", "false")
    try:
        # The executor that reads a file returns its length.
        reader.load(exact_path(file)).select("length").collect()
    except Exception as error:
        if file.exists():
            raise not_shared(uri_of(file), f"executors cannot read it: {translated(error).message}") from error
    _proven.add(key)


def _prove_once(session: Any, workspace: Workspace, location: str) -> None:
    key = (_application(session), location)
    if key not in _proven:
        _prove(session, workspace, location)
        _proven.add(key)


def refuse_unfit_workers(session: Any) -> None:
    """Raise if the Python workers cannot run Upshot."""
    try:
        session.range(1).mapInArrow(_imported, "id long").collect()
    except Exception as error:
        raise translated(error) from error


def _imported(batches: Iterator[Any]) -> Iterator[Any]:
    # By name: this package lies below the one that workers need.
    importlib.import_module("upshot.engine.spark.recursion.shard")
    yield from batches


def _application(session: Any) -> str:
    """The id of the Spark application of the session. The server of a Connect session may be one of several on its
    host, or a restarted one."""
    if not is_connect(session):
        return str(session.sparkContext.applicationId)
    return str(session.conf.get("spark.app.id", None) or session.session_id)


def _prove(session: Any, workspace: Workspace, location: str) -> None:
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
            raise not_shared(location, f"executors cannot read or write there: {cause.message}") from error
        if echo.rows != _PROBES:
            raise not_shared(location, "the driver does not see files written by executors")
        found = [row["id"] for table in workspace.tables(echo.files, ["id"]) for row in table.to_pylist()]
        if sorted(found) != numbers:
            raise not_shared(location, "the driver reads different rows than executors have written")
    except Error as error:
        if error.code in ("location-not-shared", "worker-environment"):
            raise
        raise not_shared(location, error.message) from error
    finally:
        workspace.drop(each.folder for each in written)


def not_shared(location: str, reason: str) -> EngineError:
    """The error for a location that driver and executors do not share."""
    return EngineError(
        f"the driver and the executors do not share the location `{location}`: {reason}",
        code="location-not-shared",
        help="use storage that all machines of the cluster can access, such as `s3a://bucket/folder`, in `location` or "
        f"in the setting `{SETTING}`",
    )
