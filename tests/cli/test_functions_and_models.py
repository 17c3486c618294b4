"""Functions of a file, perfect models, and the printed rules of best values, on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Ended

Run = Callable[..., Ended]

PROGRAM = """
.functor double(x: number): number
.decl n(x: number)
.decl d(x: number, y: number)
n(2).
d(X, @double(X)) :- n(X).
.output d
"""
DIST = """
.decl e(x: symbol, y: symbol, w: number)
.decl d(x: symbol, c: min number)
d("a", 0).
d(Y, C + W) :- d(X, C), e(X, Y, W).
"""


def test_a_file_of_functions_serves_the_calls_of_rules(upshot: Run, tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(PROGRAM)
    (tmp_path / "f.py").write_text("def double(x):\n    return 2 * x\n")
    ended = upshot("run", tmp_path / "p.dl", "-D", "-", "--functions", tmp_path / "f.py")
    assert ended.code == 0
    assert "2\t4" in ended.out
    ended = upshot("run", tmp_path / "p.dl", "-D", "-")
    assert ended.code == 1
    assert "function-missing" in ended.err
    assert "`--functions`" in ended.err
    assert "db." not in ended.err


def test_a_query_calls_the_functions_and_folds_of_a_file(upshot: Run, tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(PROGRAM + ".functor total(x: number): number fold\nn(3).\n")
    (tmp_path / "f.py").write_text(
        "from upshot import Fold\ntotal = Fold(0, lambda state, x: state + x)\ndef double(x):\n    return 2 * x\n"
    )
    text = "S = @total @double(X) : { n(X) }"
    ended = upshot("query", tmp_path / "p.dl", text, "--functions", tmp_path / "f.py")
    assert (ended.code, ended.out) == (0, "10\n")


def test_models_prints_them_and_what_they_have_in_common(upshot: Run, tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(
        ".decl r(x: number)\n.decl s(x: number)\n.decl t(x: number)\nr(1).\ns(X) | t(X) :- r(X).\n"
    )
    ended = upshot("models", tmp_path / "p.dl")
    assert ended.code == 0
    assert sorted(line.partition(": ")[2] for line in ended.out.splitlines()[:2]) == ["s(1)", "t(1)"]
    found = json.loads(upshot("models", tmp_path / "p.dl", "--format", "json").out)
    assert found["complete"]
    assert len(found["models"]) == 2


def test_the_rules_that_keep_best_values_are_a_program(upshot: Run, tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(DIST)
    printed = upshot("rewrite", tmp_path / "p.dl", "--strategy", "maintenance").out
    assert ".decl d_new(x: symbol, c: min number)" in printed
    (tmp_path / "rules.dl").write_text(printed)
    assert upshot("check", tmp_path / "rules.dl").code == 0
