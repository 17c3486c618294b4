"""A Spark engine with a program, changed one transaction at a time, and the oracle for the same program."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.driver import Deltas, Driver, plan_of
from upshot.engine.limits import Limits

pytest.importorskip("pyspark")

from upshot.engine.spark.engine import SparkEngine
from upshot.engine.spark.recursion.parts import MOST_SHARED
from upshot.engine.spark.storage.pieces import SMALL

IN_FILES = 2
"""With so few rows allowed in the driver, everything of interest goes through files."""


class SparkDriver(Driver):
    engine: SparkEngine  # type: ignore[assignment]

    def __init__(
        self, session: Any, text: str, *, small: int = SMALL, max_rounds: int = 1_000_000, location: str | None = None,
        most_shared: int = MOST_SHARED, driver: int | None = None,
    ) -> None:  # fmt: skip
        """With `driver=0` the driver holds no relation, with `most_shared=0` no worker does either."""
        self.engine = SparkEngine(
            session, limits=Limits(max_rounds=max_rounds), location=location, small=small, most_shared=most_shared,
            driver=driver if most_shared else 0,
        )  # fmt: skip
        self.plan = plan_of(text)
        self.install(text)

    def replace(self, name: str, *rows: Any) -> Deltas:
        self.engine.replace(name, list(rows))
        return self.commit()

    def __enter__(self) -> SparkDriver:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()
