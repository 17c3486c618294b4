"""`upshot run` computes what the outputs ask for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Ended
from tests.plan.test_goals import SAME_GENERATION


@pytest.mark.parametrize("pragma", ["", '.pragma "magic-transform" "*"'])
def test_a_run_gives_the_same_rows_either_way(pragma: str, tmp_path: Path, upshot: Callable[..., Ended]) -> None:
    nodes = 63
    facts = "".join(f"{node}\t{node // 2}\n" for node in range(2, nodes + 1))
    (tmp_path / "parent.facts").write_text(facts)
    (tmp_path / "sg.dl").write_text(SAME_GENERATION + pragma)
    result = upshot("run", tmp_path / "sg.dl", "-F", tmp_path, "-D", "-")
    assert result.code == 0, result.err
    assert result.err == ""
    rows = [int(line) for line in result.out.splitlines() if line.isdigit()]
    assert rows == list(range(16, 32))
