"""A pipeline of which nothing is on this machine but its file and its program: sources, sinks and state are in an
object store."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import upshot
from tests.cluster.object_store import ObjectStore
from tests.pipeline.lake import PIPELINE, Lake
from upshot.spark.lake_path import LakePath, located


def remote_pipeline(uri: str, store: ObjectStore) -> str:
    text = PIPELINE.replace('state = "state"', f'state = "{uri}/state"').replace(
        'path = "edges"', f'path = "{uri}/edges"'
    )
    text = text.replace('"out/', f'"{uri}/out/').replace('delta = "deltalake"\n', "")
    settings = "".join(f'"fs.s3a.{name}" = "{value}"\n' for name, value in store.options.items())
    return f"{text}\n[pipeline.spark]\n{settings}"


@dataclass
class RemoteLake(Lake):
    """`uri` holds everything. What is asked for is fetched first, into `root`, where nothing of it was before."""

    uri: str = ""
    _sent: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        # An empty folder does not exist in an object store.
        (self.lake / "edges" / "_begun").write_bytes(b"")

    @property
    def lake(self) -> LakePath:
        found = located(self.uri, self.spark)
        assert isinstance(found, LakePath)
        return found

    def change(self, *args: Any, **given: Any) -> None:
        super().change(*args, **given)
        for file in sorted((self.root / "edges").iterdir())[self._sent :]:
            (self.lake / "edges" / file.name).write_bytes(file.read_bytes())
            self._sent += 1

    def fetch(self) -> None:
        for name in ("out", "state"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        _fetch(self.lake / "out", self.root / "out")
        _fetch(self.lake / "state" / "quarantine", self.state / "quarantine")

    def store(self) -> Any:
        with upshot.connect(f"{self.uri}/state/store", spark=self.spark, engine="local") as database:
            database.verify()
            commits = [
                (past.version, {n: (c.inserted.sorted(), c.deleted.sorted()) for n, c in past.changes.items()})
                for past in database.history(0)
            ]
            return commits, {name: database.rows(name).sorted() for name in database.schemas}

    def everything(self) -> dict[str, Any]:
        self.fetch()
        return super().everything()


def _fetch(folder: LakePath, target: Path) -> None:
    for entry in folder.entries():
        if entry.is_folder:
            _fetch(folder / entry.name, target / entry.name)
        else:
            target.mkdir(parents=True, exist_ok=True)
            folder.files.download(entry.uri, target / entry.name)
