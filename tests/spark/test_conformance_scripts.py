"""Every script of `tests/scripts` on Spark, with every strategy; those that end in no error are packed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.properties.engines import Make, using
from tests.properties.settings import is_soak
from tests.properties.strategies import STRATEGIES, view_options
from tests.scripts.script_file import read_script
from tests.scripts.test_scripts import SCRIPTS, Engine, run
from tests.spark.packing import Part, failures
from upshot.check import check
from upshot.syntax import parse

pytestmark = pytest.mark.slow
"""Every commit is a handful of Spark jobs."""


def fails_somewhere(path: Path) -> bool:
    return any(line.startswith("error:") for step in read_script(path).steps for line in step.expected)


def play(path: Path, strategy: str) -> None:
    script = read_script(path)
    run(Engine(script.program, strategy), script)


def parts(strategy: str) -> dict[str, Part]:
    """The scripts that this strategy can maintain a view of."""
    chosen = [path for path in SCRIPTS if not fails_somewhere(path)]
    able = [path for path in chosen if view_options(check(parse(read_script(path).program)), strategy)]
    return {f"{path.stem}, {strategy}": partial(play, path, strategy) for path in able}


def in_turn() -> dict[str, Part]:
    """Every script once, the strategies in turn."""
    every = {strategy: parts(strategy) for strategy in STRATEGIES}
    chosen: dict[str, Part] = {}
    for number, path in enumerate(SCRIPTS):
        able = [strategy for strategy in STRATEGIES if f"{path.stem}, {strategy}" in every[strategy]]
        if able:
            strategy = able[number % len(able)]
            chosen[f"{path.stem}, {strategy}"] = every[strategy][f"{path.stem}, {strategy}"]
    return chosen


@pytest.mark.parametrize("strategy", STRATEGIES if is_soak() else ["in turn"])
def test_every_script_prints_on_spark_what_it_says(on_spark: Make, strategy: str) -> None:
    """`make soak` runs every script with every strategy."""
    found = failures(on_spark, parts(strategy) if strategy in STRATEGIES else in_turn())
    assert not found, "\n\n".join(f"{name}\n{words}" for name, words in found.items())


@pytest.mark.parametrize("path", [path for path in SCRIPTS if fails_somewhere(path)], ids=lambda path: path.stem)
def test_a_script_with_errors_prints_the_same_errors_on_spark(on_spark: Make, path: Path) -> None:
    with using(on_spark):
        play(path, "maintenance")
