"""The programs of B12 have the same rows by every contender."""

from __future__ import annotations

import pytest

from bench.contenders import clingo, duckdb, programs
from bench.programs import WORKLOADS
from bench.tasks import Task


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_contender_finds_the_same_number_of_rows(name: str) -> None:
    task = Task("program", None, {"program": name, "size": 320, "changes": 2})
    right = clingo.run(task).size
    assert right > 100
    assert programs.run(task).size == right
    answer = duckdb.run(task)
    assert answer.missing or answer.size == right
