"""`upshot run` computes what the outputs ask for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import upshot as package
from tests.cli.conftest import Ended
from tests.plan.test_goals import SAME_GENERATION, unstored


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


def test_a_run_by_magic_sets_probes_for_the_rows_asked_for_only() -> None:
    text = SAME_GENERATION + '.pragma "magic-transform" "*"\n'
    db = package.connect()
    db.define(text + "".join(f".view {view} materialized=false events=none\n" for view in unstored(text)))
    depth = 10
    with db.transaction() as tx:
        tx.insert("parent", [(node, node // 2) for node in range(2, 1 << depth)])
    assert tx.stats.derived == 0
    assert len(db.query("answer(Y)")) == 16
    # The whole of same generation is 349,524 rows.
    assert db._state.engine.query_work.derived < 200


def test_a_definition_with_facts_computes_no_view_without_subscribers() -> None:
    text = SAME_GENERATION + '.pragma "magic-transform" "*"\n'
    facts = "".join(f"parent({node}, {node // 2}).\n" for node in range(2, 1 << 8))
    db = package.connect()
    db.define(text + facts + "".join(f".view {view} materialized=false events=none\n" for view in unstored(text)))
    assert db._state.engine.work.derived == 0
    assert len(db.query("answer(Y)")) == 16
    assert db._state.engine.query_work.derived < 200


def test_explain_lists_the_views_that_a_run_does_not_store(tmp_path: Path, upshot: Callable[..., Ended]) -> None:
    (tmp_path / "sg.dl").write_text(SAME_GENERATION)
    told = upshot("explain", tmp_path / "sg.dl")
    assert "`upshot run` does not store unused: no output depends on it" in told.out
    assert "`upshot run` does not store sg: it is used only with constants" in told.out
    data = json.loads(upshot("explain", tmp_path / "sg.dl", "--view", "sg", "--format", "json").out)
    assert list(data["run"]) == ["sg"]


def test_explain_does_not_store_what_a_run_does_not_store(tmp_path: Path, upshot: Callable[..., Ended]) -> None:
    (tmp_path / "parent.facts").write_text("".join(f"{node}\t{node // 2}\n" for node in range(2, 64)))
    (tmp_path / "sg.dl").write_text(SAME_GENERATION)
    told = upshot("explain", tmp_path / "sg.dl", "-F", tmp_path, "--full")
    assert "sg(x: number, y: number): recursive view, not stored" in told.out
