"""A workspace of managed tables: Spark's catalog makes and removes the files.

For locations that are schemas of a catalog (`schema:main.upshot`), and for clients of Spark Connect, which reach no
storage themselves: a new schema is made at the URI, and dropped at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from upshot.core.errors import EngineError
from upshot.spark.failures import missing_file, translated
from upshot.spark.location import LocalFiles, child, exact_path, has_scheme, local_path, spark_path, uri_of
from upshot.spark.session import is_connect
from upshot.spark.workspace import StoredRows, Workspace, is_alive, owner_record, rows_in

SCHEME = "schema:"
"""The prefix of a location that names a schema."""

_PREFIX = "upshot_work_"


class CatalogWorkspace(Workspace):
    """Each set of rows is a table, and its folder is the folder of the table."""

    def _open_at(self, location: str) -> None:
        """Make the schema, or use the named one."""
        own = f"{_PREFIX}{os.getpid()}_{next(self._next)}_{os.urandom(4).hex()}"
        with _reported(location):
            if location.startswith(SCHEME):
                self._schema, self._owns, self._label = location.removeprefix(SCHEME), False, f"{own}_"
            else:
                self._remove_leftovers()
                self._schema, self._owns, self._label = own, True, ""
                place = child(location, own).replace("'", "\\'")
                self._session.sql(f"CREATE SCHEMA {own} COMMENT '{_owner()}' LOCATION '{place}'")
            self.uri = uri_of(self._session.catalog.getDatabase(self._schema).locationUri)

    def _remove_leftovers(self) -> None:
        """Drop the schemas whose owners are dead, or have not signed for days."""
        for found in self._session.catalog.listDatabases(f"{_PREFIX}*"):
            with contextlib.suppress(Exception):  # another process drops it, or it is not ours
                if not is_alive(json.loads(found.description)):
                    self._session.sql(f"DROP SCHEMA IF EXISTS {found.name} CASCADE")

    def sign(self) -> None:
        if self._owns:
            self._session.sql(f"COMMENT ON SCHEMA {self._schema} IS '{_owner()}'")

    # ---- folders -------------------------------------------------------------------------------------------------

    def new(self, label: str = "rows", *, apart: bool = False) -> str:
        name = f"{self._label}{label}_{next(self._next)}"
        (self._apart if apart else self._made).add(name)
        return child(self.uri, name)

    def _table(self, folder: str) -> str:
        return f"{self._schema}.{folder.rpartition('/')[2]}"

    def keep_only(self, folders: Collection[str]) -> None:
        kept = {self._name(folder) for folder in folders}
        self.drop(child(self.uri, name) for name in self._made - kept)

    def drop(self, folders: Iterable[str]) -> None:
        """Drop tables; a folder inside one is dropped with it."""
        for folder in folders:
            name = self._name(folder)
            if name is not None and child(self.uri, name) == folder:
                with _reported(folder):
                    self._session.sql(f"DROP TABLE IF EXISTS {self._table(folder)}")
                self._made.discard(name)
                self._apart.discard(name)

    def bytes(self) -> int:
        reader = self._session.read.format("binaryFile").option("recursiveFileLookup", "true")
        with _reported(self.uri):
            return int(reader.load(spark_path(self.uri)).selectExpr("coalesce(sum(length), 0)").collect()[0][0])

    def remove(self) -> None:
        self._forget()
        with contextlib.suppress(Exception):  # the server, or the session, may be gone already
            if self._owns:
                self._session.sql(f"DROP SCHEMA IF EXISTS {self._schema} CASCADE")
            else:
                self.drop([child(self.uri, name) for name in self._made | self._apart])

    # ---- files ---------------------------------------------------------------------------------------------------

    def write(self, frame: Any, label: str = "rows", *, apart: bool = False) -> StoredRows:
        folder = self.new(label, apart=apart)
        frame.write.format("parquet").saveAsTable(self._table(folder))
        return self.stored(folder)

    def write_sets(self, frame: Any, by: str, label: str = "rows") -> dict[int, StoredRows]:
        folder = self.new(label)
        frame.write.format("parquet").partitionBy(by).saveAsTable(self._table(folder))
        sets: dict[int, dict[str, int]] = {}
        for file, rows in self._counts(self._session.table(self._table(folder))).items():
            found = re.search(rf"/{by}=(\d+)/", file)
            if found is not None:
                sets.setdefault(int(found[1]), {})[file] = rows
        return {
            number: StoredRows(f"{folder}/{by}={number}", tuple(files), sum(files.values()))
            for number, files in sets.items()
        }

    def stored(self, folder: str) -> StoredRows:
        files = self._counts(self._session.table(self._table(folder)))
        return StoredRows(folder, tuple(files), sum(files.values()))

    def _counts(self, frame: Any) -> dict[str, int]:
        """The files of a frame that have rows, and their numbers of rows, by one job."""
        with _reported(self.uri):
            found = frame.groupBy("_metadata.file_path").count().collect()
        return {uri_of(row[0]): int(row[1]) for row in found}

    def put(self, tables: Iterable[pa.Table], schema: pa.Schema, label: str = "given") -> StoredRows:
        table = pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
        with _reported(self.uri):
            return self.write(self._session.createDataFrame(table), label)

    def is_near(self, files: Collection[str]) -> bool:
        return False

    def counts(self, files: Collection[str]) -> list[int]:
        paths = [exact_path(uri) for uri in files]
        with _reported(self.uri):
            found = self._counts(self._session.read.parquet(*paths)) if paths else {}
        # Only files with rows are in it.
        if gone := [uri for uri in files if uri not in found]:
            raise missing_file(gone[0])
        return [found[uri] for uri in files]

    def tables(self, files: Iterable[str], names: Collection[str], rows: int = 1 << 20) -> Iterator[pa.Table]:
        """All rows at once, by a job."""
        paths = [exact_path(uri) for uri in files]
        if paths:
            with _reported(self.uri):
                yield self._session.read.parquet(*paths).select(*names).toArrow()

    def write_to(self, frame: Any, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        pq.write_table(frame.toArrow(), folder / "part-0.parquet")

    def adopted(self, folder: str | Path) -> StoredRows:
        path = local_path(os.fspath(folder))
        if path is not None:
            table = pq.read_table(path)
            return self.put([table], table.schema, "adopted")
        uri = uri_of(folder)
        files = self._counts(self._session.read.parquet(exact_path(uri)))
        return StoredRows(uri, tuple(files), sum(files.values()))

    def counted(self, folder: str | Path) -> int:
        if not has_scheme(folder):
            return rows_in(LocalFiles(), uri_of(folder))
        with _reported(str(folder)):
            return int(self._session.read.parquet(exact_path(folder)).count())


def _owner() -> str:
    """The record of this process, as the comment of its schema."""
    return json.dumps(owner_record()).replace("'", "")


@contextlib.contextmanager
def _reported(location: str) -> Iterator[None]:
    """Raise errors of Spark as errors that name the location."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        found = translated(error)
        if found.code == "lost-rows":
            raise found from error
        raise EngineError(
            f"location `{location}` cannot be used: {found.message}",
            code="location-unusable",
            help="name one where the session may make tables, in `location` or the setting `upshot.location`",
        ) from error


def workspace_at(location: str, session: Any) -> Workspace:
    """A new workspace at a location, of the kind that the session and the location need."""
    if location.startswith(SCHEME) or (is_connect(session) and local_path(location) is None):
        return CatalogWorkspace(location, session)
    return Workspace(location, session)
