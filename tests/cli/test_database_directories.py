"""`upshot init`, `upshot query`, and the commands that open a database directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Ended

Run = Callable[..., Ended]
Write = Callable[[str, str | bytes], Path]

PROGRAM = """.decl e(x: number, y: number)
.decl p(x: number, y: number)
p(X, Y) :- e(X, Y).
p(X, Z) :- p(X, Y), e(Y, Z).
e(1, 2). e(2, 3).
.output p
"""


def test_a_query_of_a_file_prints_its_answers(upshot: Run, write: Write) -> None:
    file = write("p.dl", PROGRAM)
    assert upshot("query", file, "p($x, Y)", "-p", "x=1").out == "2\n3\n"
    assert upshot("query", file, "select x, y from p where x = :x order by y desc", "-p", "x=1").out == "1\t3\n1\t2\n"
    assert upshot("query", file, "p(1, 3)").out == "true\n"
    assert upshot("query", file, "p(3, 1)").out == "false\n"
    ended = upshot("query", file, "p(1, Y)", "--format", "json")
    assert json.loads(ended.out) == {"columns": ["Y"], "rows": [[2], [3]]}


def test_a_directory_stands_for_a_program_and_its_rows(upshot: Run, write: Write, tmp_path: Path) -> None:
    store = tmp_path / "db"
    assert upshot("init", store, "--program", write("p.dl", PROGRAM)).code == 0
    changes = write("changes", '{"insert": {"e": [[3, 4]]}}\n')
    printed = json.loads(upshot("watch", store, "--changes", changes).out)
    assert printed["changes"]["p"]["insert"] == [[1, 4], [2, 4], [3, 4]]
    assert upshot("query", store, "p(1, Y)").out == "2\n3\n4\n"
    assert upshot("query", store, "p(1, Y)", "--at", "1").out == "2\n3\n"
    assert upshot("run", store, "-D", "-").out.count("\t") == 6
    assert "maintenance" in upshot("explain", store).out
    assert upshot("init", store).code == 2
    assert upshot("query", store, "p(1, Y)", "-F", tmp_path).code == 2


def test_wrong_queries_say_what_is_wrong(upshot: Run, write: Write, tmp_path: Path) -> None:
    file = write("p.dl", PROGRAM)
    assert "missing-parameter" in upshot("query", file, "p($x, Y)").err
    assert "wrong-argument" in upshot("query", file, "p($x, Y)", "-p", "x").err
    assert "unknown-relation" in upshot("query", file, "q(X)").err
    broken = write("broken.dl", "p(X) :- q(X).")
    assert upshot("init", tmp_path / "new", "--program", broken).code == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["run", "watch", "explain", "verify", "query", "repl"])
def test_help_mentions_database_directories(upshot: Run, name: str) -> None:
    words = " ".join(upshot(name, "--help").out.replace("│", " ").split())
    assert "database directory" in words
