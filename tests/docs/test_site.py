"""The documentation builds as a site without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT


@pytest.mark.slow
def test_the_site_builds_strictly_and_can_be_searched(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ("index.html", "tutorial.html", "repository/ARCHITECTURE.html", "reference/language.html"):
        assert (tmp_path / page).exists()
    assert "rederived" in (tmp_path / "search" / "search_index.json").read_text(encoding="utf-8")
