"""Through Spark Connect: no JVM in reach, the same answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.missing import missing_for_spark
from tests.spark.connect_slice import SHARE


@pytest.mark.slow
def test_scripts_and_random_cases_agree_through_spark_connect(root: Path) -> None:
    missing = missing_for_spark()
    if missing:
        pytest.skip(missing)
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_slice"], cwd=root, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["session"].startswith("pyspark.sql.connect")
    assert told["ran"] == sum(SHARE)
    assert not told["failed"], "\n\n".join(f"{name}\n{words}" for name, words in told["failed"].items())
