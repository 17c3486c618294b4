"""Decomposed recursion on Spark: loads and changes of many random components at once, each round one job for all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.driver import plain
from tests.properties.cases import Case, after
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.spark.parts import State, everything
from upshot.check import check
from upshot.core.errors import DataError, ProgramError
from upshot.core.schema import Schema
from upshot.engine.limits import Limits
from upshot.plan import ComponentPlan, compile_program
from upshot.plan.pivot import Parts
from upshot.syntax import parse

pytest.importorskip("pyspark")

from upshot.engine.spark.asks import Answers, Steps
from upshot.engine.spark.contents import Contents
from upshot.engine.spark.decomposed import Decomposed
from upshot.engine.spark.pieces import LocalPiece, Piece, nothing
from upshot.engine.spark.scratch import Scratch
from upshot.engine.spark.session import private_session
from upshot.engine.spark.spark_types import rows_for_spark, rows_from_spark
from upshot.engine.spark.tables import Table
from upshot.engine.spark.waves import Task, run_together

FOCUSES = [
    Features(recursion=1, nonlinear=0.4, mutual=0.3, aggregates=0, arithmetic=0.1, constants=0.02, views=2),
    Features(recursion=1, nonlinear=0.2, mutual=0.4, nullable=0.5, aggregates=0, constants=0.02, views=2),
    Features(recursion=1, exotic=0.5, nullable=0.3, aggregates=0, columns=(2, 2, 3), views=2),
]


class Lab:
    """A private session with a scratch folder and the jobs that run there."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.session = private_session(spark)
        self.scratch = Scratch(folder)
        self.answers = Answers(self.session, self.scratch)

    def component(self, plan: Any, component: ComponentPlan, **options: Any) -> Decomposed:
        limits = Limits(**{k: v for k, v in options.items() if k == "max_rounds"})
        rest = {k: v for k, v in options.items() if k != "max_rounds"}
        return Decomposed(component, plan.normal, self.session, self.scratch, limits, **rest)

    def table(self, schema: Schema, rows: Any, *, in_files: bool) -> Table:
        table = Table(schema, self.session)
        piece: Piece = LocalPiece(rows_for_spark(rows, schema.types), schema.types)
        if in_files and rows:
            from upshot.engine.spark.asks import Ask  # noqa: PLC0415

            piece = self.answers.written(Ask(piece.frame(self.session), schema.types, stays_in_files=True))
        table.settle(Contents.of(piece), piece, nothing(schema.types))
        table.accept()
        return table

    def rows(self, piece: Piece) -> set[Any]:
        table = piece.table if isinstance(piece, LocalPiece) else piece.frame(self.session).toArrow()
        rows = rows_from_spark(table, piece.types)
        assert len(plain(rows)) == len(rows) == piece.count
        return plain(rows)

    def together(self, steps: dict[str, Steps[Any]]) -> dict[str, Any]:
        """What all of them come to, in as few jobs as they share."""
        found: dict[str, Any] = {}

        def keeping(name: str, some: Steps[Any]) -> Steps[None]:
            found[name] = yield from some

        tasks = [Task(name, lambda n=name, s=some: keeping(n, s)) for name, some in steps.items()]  # type: ignore[misc]
        run_together(tasks, self.answers, lambda name, jobs: None)
        return found


@pytest.fixture(scope="module")
def lab(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(spark, tmp_path_factory.mktemp("scratch"))
    yield lab
    lab.scratch.remove()


class Followed:
    """One component of a case, with its tables and what they should hold after every transaction."""

    def __init__(self, lab: Lab, plan: Any, component: ComponentPlan, states: list[State], text: str) -> None:
        self.states, self.text = states, text
        self.decomposed = lab.component(plan, component)
        schemas = plan.normal.schemas
        self.reads = sorted(component.reads)
        self.views = component.views
        self.tables = {
            name: lab.table(schemas[name], states[0][name] if name in component.reads else set(), in_files=number == 0)
            for number, name in enumerate((*self.reads, *self.views))
        }

    def check_load(self, lab: Lab, pieces: dict[str, Piece]) -> None:
        for view, piece in pieces.items():
            assert lab.rows(piece) == self.states[0][view], f"{self.text}\n{self.decomposed.found}"
            self.tables[view].settle(Contents.of(piece), piece, nothing(piece.types))
            self.tables[view].accept()

    def stage(self, number: int) -> None:
        """Settle what the component reads as the transaction leaves it."""
        old, new = self.states[number : number + 2]
        for name in self.reads:
            table = self.tables[name]
            came = LocalPiece(rows_for_spark(new[name] - old[name], table.types), table.types)
            went = LocalPiece(rows_for_spark(old[name] - new[name], table.types), table.types)
            table.settle(table.committed.changed(went, came), came, went)

    def check_change(self, lab: Lab, number: int, changes: dict[str, tuple[Piece, Piece]]) -> None:
        old, new = self.states[number : number + 2]
        for view, (came, went) in changes.items():
            made = lab.rows(came), lab.rows(went)
            assert made == (new[view] - old[view], old[view] - new[view]), f"{self.text}\n{self.decomposed.found}"
            self.tables[view].settle(self.tables[view].committed.changed(went, came), came, went)
        for table in self.tables.values():
            table.accept()


def _followed(lab: Lab, case: Case) -> Iterator[Followed]:
    program = check(parse(case.text()))
    plan = compile_program(program)
    states = [{n: plain(rows) for n, rows in everything(program, case.base).items()}]
    base = case.base
    for transaction in case.transactions:
        base = after(base, transaction)
        states.append({n: plain(rows) for n, rows in everything(program, base).items()})
    for component in plan.components:
        if component.recursive:
            made = Followed(lab, plan, component, states, case.text())
            if made.decomposed.found.parts is not Parts.NONE:
                yield made


@pytest.mark.parametrize("focus", range(len(FOCUSES)))
def test_random_components_load_and_change_as_the_oracle_says(lab: Lab, focus: int) -> None:
    components: list[Followed] = []
    for number in itertools.count():
        try:
            components += _followed(lab, random_case(seed_of(f"decomposed/{focus}", number), FOCUSES[focus]))
        except (ProgramError, DataError):
            continue
        if len(components) >= case_count(36) // 3:
            break
    loaded = lab.together({str(i): each.decomposed.load(each.tables) for i, each in enumerate(components)})
    for i, each in enumerate(components):
        each.check_load(lab, loaded[str(i)])
    for number in range(3):
        due = {
            str(i): each
            for i, each in enumerate(components)
            if number + 1 < len(each.states) and each.decomposed.maintains(each.tables)
        }
        for each in due.values():
            each.stage(number)
        changed = lab.together({name: each.decomposed.maintain(each.tables) for name, each in due.items()})
        for name, each in due.items():
            each.check_change(lab, number, changed[name])
    assert len(due) >= 2
    for each in components:
        each.decomposed.release()
