"""The demos run to the end, on data that is the same each time."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable

import pytest

from tests.cli.conftest import Ended
from upshot.cli.commands.demo import STORIES
from upshot.cli.demo.dependencies import dependencies, registry
from upshot.cli.demo.inventory import inventory
from upshot.cli.demo.permissions import permissions
from upshot.cli.demo.run import run_demo
from upshot.cli.demo.story import Story
from upshot.cli.demo.trains import trains
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import Format

Run = Callable[..., Ended]


def test_the_registry_is_the_same_every_time_and_looks_real() -> None:
    made = registry()
    assert made == registry()
    assert made != registry(seed=2)
    assert len(made.packages) == len(set(made.packages)) == 4000
    assert all(re.fullmatch(r"[a-z]+-[a-z]+@\d+\.\d+\.\d+", package) for package in made.packages)
    position = {package: number for number, package in enumerate(made.packages)}
    assert all(position[lower] < position[upper] for upper, lower in made.depends)
    fan_in = sorted(
        (sum(lower == package for _, lower in made.depends) for package in made.packages[:20]), reverse=True
    )
    assert fan_in[0] > 100


def test_the_stories_are_listed(upshot: Run) -> None:
    ended = upshot("demo", "--list")
    assert ended.code == 0
    assert [line.split()[0] for line in ended.out.splitlines()] == [
        "permissions",
        "dependencies",
        "trains",
        "inventory",
    ]
    names = [json.loads(line)["name"] for line in upshot("demo", "--list", "--format", "json").out.splitlines()]
    assert names == [story.name for story in STORIES]


@pytest.mark.parametrize(
    "story",
    [permissions(people=200, documents=3), dependencies(size=1000), trains(), inventory()],
    ids=lambda story: story.name,
)
def test_a_story_is_told_to_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, story: Story
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run_demo(Terminal(), story)
    out, err = capsys.readouterr()
    assert err == ""
    assert "Running on the local engine" in out
    assert out.count("to maintain all views") == len(story.steps)
    assert all(step.title in out for step in story.steps)
    assert "Verified row by row" in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_story_of_the_warehouse_tells_when_its_rules_fire(capsys: pytest.CaptureFixture[str]) -> None:
    run_demo(Terminal(), inventory())
    fired = [line for line in capsys.readouterr().out.splitlines() if line.startswith("rule ")]
    assert fired == [
        "rule reorder fired: item1, 4861",
        "rule delivered fired: item1, 4861",
        "rule reorder fired: item2, 6500",
    ]


def test_where_spark_cannot_run_the_demo_says_so_and_runs_here(upshot: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setenv("COLUMNS", "200")
    ended = upshot("demo", "inventory")
    assert ended.code == 0, ended.err
    assert "Running on the local engine, in this process." in ended.out
    assert "Spark is not used: " in ended.out
    assert "`pyspark` is not installed" in ended.out


def test_the_changes_of_a_story_can_be_data(upshot: Run) -> None:
    ended = upshot("demo", "inventory", "--engine", "local", "--format", "json")
    steps = [json.loads(line) for line in ended.out.splitlines()]
    assert [step["changes"].get("low") for step in steps] == [
        None,
        {"insert": [["item1"]], "delete": []},
        None,
        None,
        {"insert": [], "delete": [["item1"]]},
        {"insert": [["item2"]], "delete": []},
    ]
    assert all(step["maintained"] > 0 and step["recomputed"] > 0 for step in steps)


def test_the_permissions_demo_explains_an_access_and_revokes_it(capsys: pytest.CaptureFixture[str]) -> None:
    run_demo(Terminal(Format.JSON), permissions(people=200, documents=3))
    told = [json.loads(line)["changes"] for line in capsys.readouterr().out.splitlines()]
    joined, revoked, second, closed, moved, folder, nightly = told
    leak = [["kim.external", "finance/budgets/salaries"]]
    assert joined["leak"] == {"insert": leak, "delete": []}
    assert revoked["leak"] == {"insert": [], "delete": leak}
    assert revoked["access"] == {"insert": [], "delete": joined["access"]["insert"]}
    twice = second["access"]["insert"][0][0]
    assert closed["access"]["delete"]
    assert twice not in {person for person, _ in closed["access"]["delete"]}
    assert moved["access"]["insert"]
    assert not moved["access"]["delete"]
    assert all(change["insert"] or change["delete"] for step in (moved, folder, nightly) for change in step.values())


@pytest.mark.slow
def test_the_steps_of_the_dependencies_demo_do_what_their_words_say(upshot: Run) -> None:
    ended = upshot("demo", "dependencies", "--engine", "local", "--format", "json")
    assert ended.code == 0, ended.err
    told = [json.loads(line)["changes"] for line in ended.out.splitlines()]
    published, upgraded, second_path, patched, deployed, cycle, broken, nightly = told
    assert len(dependencies().steps) == len(told)
    assert len(published["exposed"]["insert"]) > 10
    assert published.keys() == {"exposed", "exposed_service", "exposed_count", "safe"}
    assert len(upgraded["exposed"]["delete"]) == 1
    assert second_path == {}
    assert {row[0] for row in patched["safe"]["insert"]} <= {row[0] for row in published["safe"]["delete"]}
    assert deployed["exposed"]["insert"][0][0] == "forecast-service"
    assert cycle["cycle"]["insert"] == broken["cycle"]["delete"]
    assert cycle["depends_on"]["insert"] == broken["depends_on"]["delete"]
    assert nightly["depends_on"]["insert"]
    assert nightly["depends_on"]["delete"]
