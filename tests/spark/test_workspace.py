"""Workspaces: found by their owner only, gone when the owner is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import upshot.spark.workspace
from upshot.core.errors import EngineError
from upshot.spark.workspace import Workspace, this_machine


def owned(root: Path, name: str, **owner: Any) -> Path:
    folder = root / f"upshot-work-{name}"
    (folder / "rows-0").mkdir(parents=True)
    (folder / "owner.json").write_text(
        json.dumps({"host": this_machine(), "started": None, "alive": time.time(), **owner})
    )
    return folder


def test_what_a_killed_process_left_is_removed_at_the_next_start_and_nothing_else(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = owned(tmp_path, "dead", pid=ended.pid)
    reused = owned(tmp_path, "reused", pid=os.getpid(), started="1")
    alive = owned(tmp_path, "alive", pid=os.getpid())
    elsewhere = owned(tmp_path, "elsewhere", pid=ended.pid, host="another.example")
    silent = owned(tmp_path, "silent", pid=ended.pid, host="another.example", alive=time.time() - 30 * 86_400)
    unfinished = tmp_path / "upshot-work-unfinished"
    unfinished.mkdir()
    mine = tmp_path / "mine"
    mine.mkdir()
    workspace = Workspace(tmp_path)
    assert workspace.path is not None
    assert not dead.exists()
    assert not silent.exists(), "nobody has heard of its owner for a month"
    assert not reused.exists() or not Path("/proc/self/stat").exists()
    assert all(folder.exists() for folder in (alive, elsewhere, unfinished, mine, workspace.path))
    workspace.remove()
    assert not workspace.path.exists()


def test_a_process_of_a_container_with_the_same_name_may_be_alive(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    other = owned(tmp_path, "other", pid=ended.pid, host=f"{this_machine()} pid:[1]")
    Workspace(tmp_path).remove()
    assert other.exists()


def test_who_waits_for_long_signs_and_a_commit_does_not(tmp_path: Path) -> None:
    """Another machine would otherwise take the folder of a database that is only read for abandoned."""
    program = f"""
import time, upshot.spark.workspace as workspaces
workspaces._HEARTBEAT = 0.02
record = workspaces.owner_record
workspaces.owner_record = lambda: {{**record(), "host": "another.example", "alive": time.time() - 30 * 86_400 * first}}
first = 1
workspace = workspaces.Workspace({str(tmp_path)!r})
signed = workspace.path / "owner.json"
old, first = signed.read_text(), 0
until = time.time() + 30
while signed.read_text() == old and time.time() < until:
    time.sleep(0.02)
workspaces.Workspace({str(tmp_path)!r})
assert workspace.path.exists()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    workspace = Workspace(tmp_path)
    assert workspace.path is not None
    (workspace.path / "owner.json").unlink()
    workspace.keep_only([])
    assert list(workspace.path.iterdir()) == []
    workspace.remove()


def test_only_what_is_named_is_kept(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    schema = pa.schema([pa.field("c0", pa.int64())])
    kept, gone, inside = (workspace.put([pa.table([[1, 2]], schema=schema)], schema) for _ in range(3))
    assert (kept.rows, next(workspace.tables(kept.files, ["c0"])).num_rows) == (2, 2)
    size = workspace.bytes() // 3
    workspace.keep_only([kept.folder, f"{inside.folder}/c0=1", tmp_path.as_uri()])
    assert workspace.bytes() == 2 * size
    with pytest.raises(EngineError, match="is gone") as caught:
        list(workspace.tables(gone.files, ["c0"]))
    assert caught.value.code == "lost-rows"
    workspace.drop([kept.folder, tmp_path.as_uri()])
    assert workspace.bytes() == size
    assert tmp_path.exists(), "a folder of somebody else stays"
    workspace.remove()


def test_a_folder_is_gone_when_the_process_ends_without_closing(tmp_path: Path) -> None:
    program = f"from upshot.spark.workspace import Workspace; Workspace({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_cannot_be_used_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError) as caught:
        Workspace(tmp_path / "file" / "folder")
    assert caught.value.code == "location-unusable"


def test_files_of_this_machine_are_copied_whole_for_executors_that_do_not_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single file, files in folders below, and files without rows."""
    monkeypatch.setattr(upshot.spark.workspace, "shares_disk", lambda session: False)
    table, folder = pa.table({"x": [1, 2]}), tmp_path / "here"
    (folder / "below").mkdir(parents=True)
    (folder / "_SUCCESS").touch()
    empty = tmp_path / "empty.parquet"
    for rows, path in ((table, folder / "one.parquet"), (table, folder / "below" / "two.pq"), (table.slice(2), empty)):
        pq.write_table(rows, path)
    workspace = Workspace(tmp_path / "there", object())
    found = [workspace.adopted(path) for path in (folder, folder / "one.parquet", empty)]
    assert [(len(each.files), each.rows) for each in found] == [(2, 4), (1, 2), (1, 0)]
    assert all(file.startswith(workspace.uri) for each in found for file in each.files)
    workspace.remove()
