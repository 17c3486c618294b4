"""why and why-not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Ended

Run = Callable[..., Ended]

PROGRAM = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
edge(1, 2). edge(2, 3). edge(1, 3).
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
"""


def written(folder: Path) -> Path:
    path = folder / "routes.dl"
    path.write_text(PROGRAM)
    return path


def test_why_prints_the_smallest_derivation(upshot: Run, tmp_path: Path) -> None:
    ended = upshot("why", written(tmp_path), "closure(1, 3)")
    assert ended.code == 0
    assert ended.out.splitlines()[1:] == ["└─ edge(1, 3)  base fact"]


def test_why_all_prints_each_and_json_is_one_object_a_line(upshot: Run, tmp_path: Path) -> None:
    ended = upshot("why", written(tmp_path), "closure(1, 3).", "--all", "--format", "json")
    assert [len(json.loads(line)["premises"]) for line in ended.out.splitlines()] == [1, 2]
    ended = upshot("why", written(tmp_path), "closure(1, 3)", "--limit", "1")
    assert "\n\n" not in ended.out


def test_why_draws_one_derivation(upshot: Run, tmp_path: Path) -> None:
    picture = tmp_path / "why.svg"
    ended = upshot("why", written(tmp_path), "closure(1, 3)", "--svg", picture)
    assert (ended.code, ended.out) == (0, "")
    assert picture.read_text().startswith("<svg")
    ended = upshot("why", written(tmp_path), "closure(1, 3)", "--svg", "-", "--all")
    assert (ended.code, "options-conflict" in ended.err) == (2, True)


def test_why_not_prints_what_is_missing(upshot: Run, tmp_path: Path) -> None:
    ended = upshot("why-not", written(tmp_path), "closure(3, 1)")
    assert ended.code == 0
    assert "✗ edge(3, 1)" in ended.out
    ended = upshot("why-not", written(tmp_path), "closure(3, 1)", "--format", "json")
    assert json.loads(ended.out)["failing"] == 1
    ended = upshot("why-not", written(tmp_path), "closure(3, 1)", "--svg", "-")
    assert ended.out.startswith("<svg")


def test_what_is_no_row_of_the_program_ends_with_a_reason(upshot: Run, tmp_path: Path) -> None:
    file = written(tmp_path)
    for command, row, slug in [
        ("why", "closure(3, 1)", "row-not-there"),
        ("why-not", "closure(1, 3)", "row-is-there"),
        ("why", "closure(1, X)", "not-a-fact"),
        ("why", "closure(1, 2), edge(1, 2)", "not-a-fact"),
        ("why", "closure(1)", "wrong-arity"),
        ("why", 'closure("a", 1)', "wrong-type"),
    ]:
        ended = upshot(command, file, row)
        assert (ended.code, slug in ended.err) == (1, True), ended.err
    ended = upshot("why", file, "closur(1, 2)")
    assert (ended.code, "unknown-relation" in ended.err) == (2, True)
