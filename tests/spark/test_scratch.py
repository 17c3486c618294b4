"""Scratch folders: found by their owner only, gone when the owner is."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from upshot.engine.spark.storage.scratch import Scratch

from upshot.core.errors import EngineError


def owned(root: Path, name: str, **owner: Any) -> Path:
    folder = root / f"upshot-scratch-{name}"
    (folder / "rows-0").mkdir(parents=True)
    (folder / "owner.json").write_text(json.dumps({"host": socket.gethostname(), "started": None, **owner}))
    return folder


def test_what_a_killed_process_left_is_removed_at_the_next_start_and_nothing_else(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = owned(tmp_path, "dead", pid=ended.pid)
    reused = owned(tmp_path, "reused", pid=os.getpid(), started="1")
    alive = owned(tmp_path, "alive", pid=os.getpid())
    elsewhere = owned(tmp_path, "elsewhere", pid=ended.pid, host="another.example")
    unfinished = tmp_path / "upshot-scratch-unfinished"
    unfinished.mkdir()
    mine = tmp_path / "mine"
    mine.mkdir()
    scratch = Scratch(tmp_path)
    assert not dead.exists()
    assert not reused.exists() or not Path("/proc/self/stat").exists()
    assert all(folder.exists() for folder in (alive, elsewhere, unfinished, mine, scratch.path))
    scratch.remove()
    assert not scratch.path.exists()


def test_only_what_is_named_is_kept(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    kept, gone, file = scratch.folder(), scratch.folder(), scratch.new("shared")
    for path in (kept / "a", gone / "a", file):
        path.write_bytes(b"12345")
    assert scratch.bytes() == 15
    scratch.keep_only([kept, tmp_path / "other"])
    assert (kept.exists(), gone.exists(), file.exists(), scratch.bytes()) == (True, False, False, 5)
    scratch.remove()


def test_a_folder_is_gone_when_the_process_ends_without_closing(tmp_path: Path) -> None:
    program = f"from upshot.engine.spark.storage.scratch import Scratch; Scratch({str(tmp_path)!r}).folder()"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_cannot_be_used_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError) as caught:
        Scratch(tmp_path / "file" / "folder")
    assert caught.value.code == "scratch-unusable"
