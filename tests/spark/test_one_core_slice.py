"""A session with one core, one shuffle partition and little memory: the same answers, also where joins find none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.missing import missing_for_spark
from tests.spark.one_core_slice import SHARE


@pytest.mark.slow
def test_random_cases_and_histories_agree_on_one_core(root: Path) -> None:
    missing = missing_for_spark()
    if missing:
        pytest.skip(missing)
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.one_core_slice"], cwd=root, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["cores"], told["ran"]) == (1, 2 * SHARE)
    assert not told["failed"], "\n\n".join(f"{name}\n{words}" for name, words in told["failed"].items())
    assert "joins shuffle: Spark ran out of memory" in told["logged"]
