"""Every `*.script` beside this file, on the oracle and on the engine with every strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

import upshot
from tests.properties.engines import connect
from tests.properties.strategies import STRATEGIES, view_options
from tests.scripts.script_file import Change, Row, Script, changes_of, read_script, show_change, show_row
from upshot.check import check, check_query
from upshot.core.schema import Schema
from upshot.engine.naive import derive, evaluate
from upshot.syntax import parse, parse_query

SCRIPTS = sorted(Path(__file__).parent.glob("*.script"))


class Runner(Protocol):
    schemas: Mapping[str, Schema]

    def transaction(self, changes: list[Change]) -> list[str]: ...

    def query(self, text: str) -> list[str]: ...


class Oracle:
    """Recomputes everything after every transaction, and subtracts."""

    def __init__(self, text: str) -> None:
        checked = check(parse(text))
        self.program, self.schemas = replace(checked, facts={}), checked.schemas
        self.base: dict[str, set[Row]] = {name: set(rows) for name, rows in checked.facts.items()}
        self.views = evaluate(self.program, self.base)

    def transaction(self, changes: list[Change]) -> list[str]:
        base = {name: set(rows) for name, rows in self.base.items()}
        for sign, name, row in changes:
            rows = base.setdefault(name, set())
            (rows.add if sign == "+" else rows.discard)(row)
        old, new = self.views, evaluate(self.program, base)
        self.base, self.views = base, new
        came = [show_change("+", view, row) for view in new for row in new[view] - old[view]]
        return came + [show_change("-", view, row) for view in new for row in old[view] - new[view]]

    def query(self, text: str) -> list[str]:
        _, clauses = check_query(parse_query(text), self.schemas, {})
        relations: dict[str, set[Row]] = {name: set() for name in self.schemas}
        relations |= self.base | self.views
        return [show_row(row) for row in {row for clause in clauses for row in derive(clause, relations)}]


class Engine:
    """A database whose views are maintained by one strategy."""

    def __init__(self, text: str, strategy: str) -> None:
        checked = check(parse(text))
        self.schemas = checked.schemas
        self.views = [view for component in checked.strata for view in component]
        self.db = connect()
        self.db.define("\n".join([text, *view_options(checked, strategy)]))

    def transaction(self, changes: list[Change]) -> list[str]:
        with self.db.transaction() as tx:
            for sign, name, row in changes:
                (tx.insert if sign == "+" else tx.delete)(name, [row])
        self.db.verify()
        lines: list[str] = []
        for view in self.views:
            lines += [show_change("+", view, row) for row in tx.changes[view].inserted]
            lines += [show_change("-", view, row) for row in tx.changes[view].deleted]
        return lines

    def query(self, text: str) -> list[str]:
        return [show_row(row) for row in self.db.query(text)]


def run(runner: Runner, script: Script) -> None:
    for step in script.steps:
        try:
            if step.command.startswith("?"):
                printed = runner.query(step.command[1:])
            else:
                printed = runner.transaction(changes_of(step.command, runner.schemas))
        except upshot.Error as error:
            printed = [f"error: {error.code}"]
        assert sorted(printed) == sorted(step.expected), f"after `{step.command}`"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_oracle_prints_what_the_script_says(path: Path) -> None:
    script = read_script(path)
    run(Oracle(script.program), script)


def combinations() -> list[Any]:
    return [pytest.param(path, each, id=f"{path.stem}-{each}") for path in SCRIPTS for each in STRATEGIES]


@pytest.mark.parametrize(("path", "strategy"), combinations())
def test_the_engine_prints_what_the_script_says(path: Path, strategy: str) -> None:
    script = read_script(path)
    if strategy == "counting" and not view_options(check(parse(script.program)), strategy):
        pytest.skip("every view of this script is recursive: there is nothing to count")
    run(Engine(script.program, strategy), script)
