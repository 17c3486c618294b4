"""What PySpark asks Java for by name is asked once, and a column is then one call."""

from __future__ import annotations

from typing import Any

import pytest

import upshot
from upshot.spark.session import without_call_sites


def test_a_column_is_one_call_to_java(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as F  # noqa: PLC0415  (optional package)

    with upshot.connect(spark=spark, engine="spark"):
        F.col("x")
        client = type(spark.sparkContext._gateway._gateway_client)
        asked: list[str] = []
        send = client.send_command

        def noted(self: Any, command: str, *rest: Any, **given: Any) -> Any:
            asked.append(command.split("\n")[0])
            return send(self, command, *rest, **given)

        with monkeypatch.context() as patched, without_call_sites():
            patched.setattr(client, "send_command", noted)
            made = F.col("y")
    # `m` releases what is no longer held, whenever that is noticed.
    assert [kind for kind in asked if kind != "m"] == ["c"]
    assert str(made) == "Column<'y'>"
