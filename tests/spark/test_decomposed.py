"""Recursion on Spark, in the driver and in parts: loads and changes of random components, as the oracle has them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.driver import plain
from tests.properties.cases import Case, after
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, is_soak, seed_of
from tests.rewrites.pairs import random_states
from tests.rewrites.test_linearize import DECLARATIONS, REWRITTEN
from tests.spark.parts import State, everything
from upshot.check import check
from upshot.core.errors import DataError, LimitError, OverflowError_, ProgramError
from upshot.core.schema import Schema
from upshot.engine.limits import Limits
from upshot.engine.work import ViewWork
from upshot.plan import ComponentPlan, ProgramPlan, compile_program
from upshot.plan.pivot import decomposition
from upshot.syntax import parse

pytest.importorskip("pyspark")

from upshot.engine.spark.recursion.recursion import Recursion
from upshot.engine.spark.storage.driver_copy import DriverMemory
from upshot.engine.spark.storage.pieces import SMALL, Contents, FilePiece, LocalPiece, Piece, nothing
from upshot.engine.spark.storage.requests import FrameRequest, Jobs
from upshot.engine.spark.storage.table import FrameTable
from upshot.spark.preflight import shared_workspace
from upshot.spark.session import private_session
from upshot.spark.types import rows_for_spark, rows_from_spark

FOCUSES = [
    Features(recursion=1, nonlinear=0.4, mutual=0.3, aggregates=0, arithmetic=0.1, constants=0.02, views=2),
    Features(recursion=1, nonlinear=0.2, mutual=0.4, nullable=0.5, aggregates=0, constants=0.02, views=2),
    Features(recursion=1, exotic=0.5, nullable=0.3, aggregates=0, columns=(2, 2, 3), views=2),
]
PACK = 8 if is_soak() else 5
"""Components of one random draw."""

IN_DRIVER = 64 << 20
"""Bytes with which the driver holds everything."""


class Lab:
    """A private session with a workspace and the jobs that run there."""

    def __init__(self, spark: Any) -> None:
        self.session = private_session(spark)
        self.workspace = shared_workspace(spark)
        self.answers = Jobs(self.session, self.workspace)
        # For a few rows Spark's own compiler takes longer than it saves.
        self.answers.compile(False)

    def component(
        self, plan: ProgramPlan, component: ComponentPlan, *, max_rounds: int = 1_000_000, driver: int = 0,
        small: int = SMALL, **options: int,
    ) -> Recursion:  # fmt: skip
        jobs = Jobs(self.session, self.workspace, small=small)
        return Recursion(component, plan.normal, jobs, Limits(max_rounds=max_rounds), DriverMemory(driver), **options)

    def only(self, text: str, rows: dict[str, Any], **options: int) -> tuple[Recursion, dict[str, FrameTable]]:
        """The one recursive component of a program, with what it reads."""
        plan = compile_program(check(parse(text)))
        (component,) = [each for each in plan.components if each.recursive]
        schemas = plan.normal.schemas
        tables = {n: self.table(schemas[n], rows.get(n, set()), in_files=False) for n in schemas}
        return self.component(plan, component, **options), tables

    def table(self, schema: Schema, rows: Any, *, in_files: bool) -> FrameTable:
        table = FrameTable(schema, self.session)
        piece: Piece = LocalPiece(rows_for_spark(rows, schema.types), schema.types)
        if in_files and rows:
            piece = self.answers.written(FrameRequest(piece.frame(self.session), schema.types, stays_in_files=True))
        table.settle(Contents.of(piece), piece, nothing(schema.types))
        table.accept()
        return table

    def rows(self, piece: Piece) -> set[Any]:
        table = piece.table if isinstance(piece, LocalPiece) else piece.frame(self.session).toArrow()
        rows = rows_from_spark(table, piece.types)
        assert len(plain(rows)) == len(rows) == piece.count
        return plain(rows)


@pytest.fixture(scope="module")
def lab(spark: Any) -> Iterator[Lab]:
    lab = Lab(spark)
    yield lab
    lab.workspace.remove()


class Followed:
    """One component of a case, with its tables and what they should hold after every transaction."""

    def __init__(
        self, lab: Lab, plan: ProgramPlan, component: ComponentPlan, states: list[State], text: str, driver: int
    ) -> None:
        self.states, self.text = states, text
        self.decomposed = lab.component(plan, component, driver=driver)
        schemas = plan.normal.schemas
        self.reads = sorted(component.reads)
        self.views = component.views
        self.tables = {
            name: lab.table(schemas[name], states[0][name] if name in component.reads else set(), in_files=number == 0)
            for number, name in enumerate((*self.reads, *self.views))
        }

    def check_load(self, lab: Lab, pieces: dict[str, Piece]) -> None:
        for view, piece in pieces.items():
            assert lab.rows(piece) == self.states[0][view], f"{self.text}\n{self.decomposed.describe(self.tables)}"
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
            told = f"{self.text}\n{self.decomposed.describe(self.tables)}"
            assert made == (new[view] - old[view], old[view] - new[view]), told
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
            yield Followed(lab, plan, component, states, case.text(), IN_DRIVER)
            if decomposition(component, plan.normal).program is not None:
                yield Followed(lab, plan, component, states, case.text(), 0)


@pytest.mark.parametrize("focus", range(len(FOCUSES)))
def test_random_components_load_and_change_as_the_oracle_says(lab: Lab, focus: int) -> None:
    numbers = itertools.count()
    for _ in range(case_count(2_000)):
        components: list[Followed] = []
        while len(components) < PACK:
            case = random_case(seed_of(f"decomposed/{focus}", next(numbers)), FOCUSES[focus])
            with contextlib.suppress(ProgramError, DataError):
                components += _followed(lab, case)
        assert follow(lab, components) >= 2


def test_non_linear_closures_load_and_change_as_the_oracle_says(lab: Lab) -> None:
    components = []
    for number, rules in enumerate(REWRITTEN.values()):
        program = check(parse(DECLARATIONS + rules))
        plan = compile_program(program)
        (component,) = [each for each in plan.components if each.recursive]
        bases = random_states(plan.normal, seed_of("decomposed/closures", number), 3)
        states = [{n: plain(rows) for n, rows in everything(program, base).items()} for base in bases]
        components += [Followed(lab, plan, component, states, rules, driver) for driver in (0, IN_DRIVER)]
    assert follow(lab, components) == 2 * len(REWRITTEN)


def follow(lab: Lab, components: list[Followed]) -> int:
    """Load all, then two transactions; how many of them the last one could reach."""
    for each in components:
        found = each.decomposed.load(each.tables, ViewWork())
        assert found is not None
        each.check_load(lab, found)
    due: list[Followed] = []
    for number in range(2):
        due = [each for each in components if number + 1 < len(each.states)]
        for each in due:
            each.stage(number)
            if number and each.decomposed.fits_driver(each.tables):
                # An attempt that is not accepted leaves no trace.
                lab.answers.run(each.decomposed.maintain(each.tables, ViewWork()))
            changed = lab.answers.run(each.decomposed.maintain(each.tables, ViewWork()))
            assert changed is not None
            each.check_change(lab, number, changed)
    for each in components:
        each.decomposed.release()
    return len(due)


CLOSURE = """
.decl e(x: number, y: number)
.decl p(x: number, y: number)
p(X, Y) :- e(X, Y).
"""
DENSE = {(x, y) for x in range(40) for y in range(40) if x != y}


@pytest.mark.parametrize("driver", [0, IN_DRIVER], ids=["in parts", "in the driver"])
def test_a_non_linear_closure_with_many_rows_goes_to_files_and_changes_there(lab: Lab, driver: int) -> None:
    text = CLOSURE + "p(X, Z) :- p(X, Y), p(Y, Z)."
    # Non-linear, 70 steps took 8 rounds: the linear program is not held to that.
    chain = {(x, x + 1) for x in range(70)}
    decomposed, tables = lab.only(text, {"e": chain}, small=100, max_rounds=8, driver=driver)
    rows = decomposed.load(tables, ViewWork())
    assert rows is not None
    assert isinstance(rows["p"], FilePiece)
    assert lab.rows(rows["p"]) == {(x, y) for x in range(71) for y in range(x + 1, 71)}
    tables["p"].settle(Contents.of(rows["p"]), rows["p"], nothing(rows["p"].types))
    tables["p"].accept()
    went = LocalPiece.of([(40, 41)], tables["e"].types)
    came = LocalPiece.of([(70, 0)], tables["e"].types)
    tables["e"].settle(tables["e"].committed.changed(went, came), came, went)
    changes = lab.answers.run(decomposed.maintain(tables, ViewWork()))
    assert changes is not None
    inserted, deleted = changes["p"]
    assert lab.rows(deleted) == {(x, y) for x in range(41) for y in range(41, 71)}
    assert lab.rows(inserted) == {(x, y) for x in range(41, 71) for y in range(41)}
    decomposed.release()


def test_what_outgrows_the_driver_or_a_worker_is_left_to_rounds_and_explain_says_so(lab: Lab) -> None:
    text = CLOSURE + "p(X, Z) :- p(X, Y), e(Y, Z)."
    recursion, tables = lab.only(text, {"e": DENSE}, driver=100_000, most_held=50_000)
    assert "load and change in the driver" in recursion.describe(tables)
    assert recursion.load(tables, ViewWork()) is None
    told = recursion.describe(tables)
    assert "not in the driver: the driver may hold 97.7 KiB, which was not enough" in told
    assert "its rows need more memory than a worker may take" in told
    recursion, tables = lab.only(text, {"e": DENSE}, most_shared=1_000)
    assert recursion.load(tables, ViewWork()) is None
    told = recursion.describe(tables)
    assert "not in the driver: the driver is to hold nothing" in told
    assert "what is shared needs 24.4 KiB, more than 1000 bytes" in told
    recursion, tables = lab.only(CLOSURE + "p(X, Y) :- e(A, X), p(A, B), e(B, Y).", {"e": DENSE})
    assert recursion.load(tables, ViewWork()) is None
    assert "load and change by rounds of joins on Spark" in recursion.describe(tables)


def test_what_neither_state_holds_is_no_error(lab: Lab) -> None:
    """Before, 1 reaches 5; after, 5 leads to a division by zero: but 1 does not reach it any more."""
    text = CLOSURE + "p(X, Z) :- p(X, Y), e(Y, W), Z = 100 / W."
    decomposed, tables = lab.only(
        text, {"e": {(1, 5), (2, 6), (6, 50)}, "p": {(1, 5), (2, 6), (6, 50), (2, 2), (2, 16)}}
    )
    went, came = (LocalPiece.of([row], tables["e"].types) for row in ((1, 5), (5, 0)))
    tables["e"].settle(tables["e"].committed.changed(went, came), came, went)
    changes = lab.answers.run(decomposed.maintain(tables, ViewWork()))
    assert changes is not None
    assert [lab.rows(piece) for piece in changes["p"]] == [{(5, 0)}, {(1, 5)}]
    tables["e"].settle(tables["e"].committed.changed(nothing(came.types), came), came, nothing(came.types))
    with pytest.raises(DataError) as caught:
        lab.answers.run(decomposed.maintain(tables, ViewWork()))
    assert caught.value.code == "division-by-zero"


def test_errors_of_a_worker_are_those_of_the_local_engine(lab: Lab) -> None:
    text = CLOSURE + "p(X, Z) :- p(X, Y), Z = Y * 4611686018427387904, e(X, _)."
    decomposed, tables = lab.only(text, {"e": {(1, 1)}})
    with pytest.raises(OverflowError_) as caught:
        decomposed.load(tables, ViewWork())
    assert caught.value.code == "overflow"
    assert caught.value.span is not None
    assert caught.value.span.text.startswith("p(X, Z)")
    decomposed, tables = lab.only(CLOSURE + "p(X, Z) :- p(X, Y), Z = Y + 1, e(X, _).", {"e": {(1, 1)}}, max_rounds=20)
    with pytest.raises(LimitError) as limit:
        decomposed.load(tables, ViewWork())
    assert limit.value.code == "recursion-limit"
