"""The worked examples of view updating on the command line: what `update` finds, and what `rewrite` prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Ended
from tests.revise.goldens import GOLDENS, Golden, name

Run = Callable[..., Ended]


def update(upshot: Run, golden: Golden, folder: Path, *options: object) -> Ended:
    file = folder / "golden.dl"
    file.write_text(golden.text)
    frozen = [word for each in golden.frozen for word in ("--frozen", each)]
    return upshot("update", file, *golden.request, *frozen, "--new-values", golden.new_values, *options)


@pytest.mark.parametrize("golden", GOLDENS, ids=name)
def test_update_finds_the_realizations_of_each_worked_example(upshot: Run, golden: Golden, tmp_path: Path) -> None:
    ended = update(upshot, golden, tmp_path)
    found: list[list[str]] = []
    for line in ended.out.splitlines():
        if line.startswith(f"// {len(found) + 1}. "):
            found.append([])
        elif not line.startswith("//"):
            found[-1].append(line)
    assert golden.agrees(found)
    if golden.ways:
        assert (ended.code, ended.out.splitlines()[-1]) == (0, f"// {golden.reason}")
    else:
        assert (ended.code, ended.out) == (1, "")
        assert f"error[no-realization]: {golden.reason}\n" in ended.err


@pytest.mark.parametrize("golden", GOLDENS, ids=name)
def test_the_same_as_data(upshot: Run, golden: Golden, tmp_path: Path) -> None:
    *ways, end = map(json.loads, update(upshot, golden, tmp_path, "--format", "json").out.splitlines())
    assert golden.agrees([*_changes(each, "insert", "+"), *_changes(each, "delete", "-")] for each in ways)
    assert tuple(end.pop("unbounded", ())) == golden.unbounded
    assert end == {"status": golden.status, "reason": golden.reason, "found": len(golden.ways)}


def _changes(way: dict[str, dict[str, list[list[object]]]], part: str, sign: str) -> list[str]:
    return [
        f"{sign}{relation}({', '.join(v['placeholder'] if isinstance(v, dict) else json.dumps(v) for v in row)})"
        for relation, rows in way[part].items()
        for row in rows
    ]


@pytest.mark.parametrize("golden", GOLDENS, ids=name)
def test_rewrite_prints_the_rules_of_each_worked_example(upshot: Run, golden: Golden, tmp_path: Path) -> None:
    file = tmp_path / "golden.dl"
    file.write_text(golden.text)
    assert upshot("rewrite", file, "--strategy", "view-update").out == golden.rules
    told = json.loads(upshot("rewrite", file, "--strategy", "view-update", "--format", "json").out)
    assert (told["strategy"], told["view"], told["text"]) == ("view-update", None, golden.rules)
    assert all(f"{' & '.join(rule['body'])} → {rule['head']}." in golden.rules for rule in told["rules"])
