"""A disk that is really full, or cannot be written: a small tmpfs in a mount namespace of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.properties.settings import case_count, seed_of
from tests.store import full_disk

NAMESPACE = ("unshare", "--map-root-user", "--mount")


def _missing() -> str:
    """Why a disk of a test's own cannot be mounted here; empty if it can."""
    if shutil.which("unshare") is None:
        return "needs unshare (Debian: util-linux)"
    tried = subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "this system allows no mount namespaces"


@pytest.mark.skipif(bool(_missing()), reason=_missing())
def test_a_full_disk_loses_nothing_that_was_acknowledged_and_room_made_is_room_used(tmp_path: Path) -> None:
    seed, steps = seed_of("full disk", 0), case_count(5, least=40)
    command = [*NAMESPACE, sys.executable, full_disk.__file__, str(tmp_path), str(seed), str(steps)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (seed, ended.stderr[-4_000:])
    seen = json.loads(ended.stdout)
    assert seen["read-only: store-failed"] == 1
    assert {"small done", "small failed", "large failed"} <= seen.keys(), seen
