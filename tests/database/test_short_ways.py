"""Opening a database, running a small program and committing a row stay short: by modules loaded and calls made."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import upshot

PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl to_three(x: number)
edge(1, 2). edge(2, 3).
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
to_three(X) :- path(X, 3).
.output path
.output to_three
"""
HEAVY = ("numba", "pyarrow", "pyspark", "sqlglot", "pandas", "sqlite3")
ASIDE = (
    *("upshot.active.run", "upshot.pipeline", "upshot.reasons", "upshot.revise", "upshot.service", "upshot.store"),
    *("upshot.spark.location", "upshot.sql.program", "upshot.engine.local.queries.on_demand"),
)


def modules_of(code: str, *arguments: str) -> set[str]:
    """The modules that a new process has loaded when the code has run."""
    code += "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def ours(modules: set[str]) -> list[str]:
    return sorted(each for each in modules if each.startswith("upshot"))


def test_opening_a_database_in_memory_loads_neither_engine_nor_checker() -> None:
    loaded = modules_of("import upshot\nupshot.connect()")
    assert loaded.isdisjoint(("numpy", *HEAVY, *ASIDE, "upshot.check.program", "upshot.engine.local.engine"))
    assert len(ours(loaded)) <= 60, ours(loaded)


def test_running_three_rules_loads_only_what_they_need(tmp_path: Path) -> None:
    (tmp_path / "three.dl").write_text(PROGRAM)
    run = "import sys\nfrom upshot.cli.app import main\nassert main(sys.argv[1:]) == 0"
    loaded = modules_of(run, "run", str(tmp_path / "three.dl"), "-D", "-")
    assert loaded.isdisjoint((*HEAVY, *ASIDE))
    assert len(ours(loaded)) <= 280, ours(loaded)


def test_help_loads_no_part_of_the_database() -> None:
    loaded = modules_of("import sys\nfrom upshot.cli.app import main\nmain(['--help'])")
    assert loaded.isdisjoint(("numpy", "pydantic", *HEAVY, *ASIDE, "upshot.database.database"))
    assert len(ours(loaded)) <= 30, ours(loaded)


def calls_of(deed: Callable[[], None]) -> Counter[str]:
    """The Python functions that are called, by file."""
    found: Counter[str] = Counter()

    def follow(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found[frame.f_code.co_filename.replace("\\", "/")] += 1

    sys.setprofile(follow)
    try:
        deed()
    finally:
        sys.setprofile(None)
    return found


@pytest.fixture
def db() -> upshot.Database:
    made = upshot.connect()
    made.define(PROGRAM)
    for y in (10, 11):
        insert(made, 9, y)
    return made


def insert(db: upshot.Database, x: int, y: int) -> None:
    with db.transaction() as tx:
        tx.insert("edge", [(x, y)])


def test_a_transaction_without_a_statement_takes_few_calls(db: upshot.Database) -> None:
    def nothing() -> None:
        with db.transaction():
            pass

    nothing()
    assert calls_of(nothing).total() <= 95


def test_one_inserted_row_takes_few_calls_and_no_machinery_of_rules(db: upshot.Database) -> None:
    calls = calls_of(lambda: insert(db, 20, 21))
    outside = sum(count for file, count in calls.items() if "/engine/local/kernel/" not in file)
    assert calls.total() <= 550
    assert outside <= 390
    assert not [file for file in calls if "/active/" in file or "/reasons/" in file or "/store/" in file]


def test_a_view_more_that_reports_a_change_takes_few_calls() -> None:
    def calls_with(count: int) -> int:
        made = upshot.connect()
        views = (f".decl v{i}(x: number, y: number)\nv{i}(X, Y) :- e(X, Y), X > {i % 3}.\n" for i in range(count))
        made.define(".decl e(x: number, y: number)\n" + "".join(views))

        def change(row: tuple[int, int]) -> None:
            with made.transaction() as tx:
                tx.insert("e", [row])
            assert len(tx.changes) == count + 1

        def calls(y: int) -> int:
            found = calls_of(lambda: change((5, y)))
            return sum(number for file, number in found.items() if "/engine/local/kernel/" not in file)

        return min(calls(y) for y in range(20))

    assert calls_with(60) - calls_with(20) <= 40 * 53
