"""A restored engine holds what was saved and goes on as if it had never stopped."""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.engine.driver import Driver, plan_of
from tests.properties.cases import Case, after
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from upshot.core.arrow_schema import arrow_schema
from upshot.core.errors import DataError
from upshot.core.rows import Rows
from upshot.core.schema import Role
from upshot.engine.local import LocalEngine
from upshot.engine.saved import Saved

CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
"""


def restored(text: str, saved: Mapping[str, Saved]) -> Driver:
    driver = Driver.__new__(Driver)
    driver.plan = plan_of(text)
    driver.engine = LocalEngine()
    driver.engine.restore(driver.plan, saved)
    return driver


def saved_relation(driver: Driver, name: str, folder: Path, rng: random.Random) -> Saved:
    """The relation as a folder, or as a folder of other rows and the changes from those to what is there now."""
    schema = driver.plan.normal.schemas[name]
    rows = list(driver.engine.rows(name))
    if schema.arity == 0 or rng.random() < 0.4:
        return Saved(folder, driver.engine.save(name, folder))
    here = [row for row in rows if rng.random() < 0.6]
    late = [row for row in rows if row not in here]
    # The first change takes out what the folder had too many, and something the second brings back.
    gone = [row for row in here if rng.random() < 0.3]
    folder.mkdir()
    pq.write_table(Rows.of(schema, here).to_arrow(), folder / "some.parquet")
    nothing = arrow_schema(schema).empty_table()
    change = folder.with_suffix(".change")
    change.mkdir()
    pq.write_table(Rows.of(schema, [*late, *gone]).to_arrow(), change / "part.parquet")
    return Saved(folder, len(here), ((nothing, Rows.of(schema, gone).to_arrow()), (change, nothing)))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_restored_engine_reports_and_holds_what_the_one_that_went_on_does(part: int, tmp_path: Path) -> None:
    focuses = [Features(), Features(recursion=1, nullable=0.4), Features(exotic=0.6, strings=0.3, nullable=0.3)]
    count = case_count(20, least=10)
    for number in range(count):
        case = random_case(seed_of("restore", number * 4 + part), focuses[number % len(focuses)])
        _follow(case, random.Random(case.seed), tmp_path / str(number))


def _follow(case: Case, rng: random.Random, folder: Path) -> None:
    folder.mkdir()
    before = Driver(case.text())
    before.change(insert={name: list(rows) for name, rows in case.base.items()})
    names = [name for name in before.plan.normal.schemas if before.engine.size(name) or rng.random() < 0.9]
    forgotten = rng.choice(names) if rng.random() < 0.3 else None
    wanted = [n for n in names if n != forgotten or before.plan.normal.schemas[n].role is Role.BASE]
    saved = {n: saved_relation(before, n, folder / f"r{i}", rng) for i, n in enumerate(wanted)}
    again = restored(case.text(), saved)
    assert again.state() == before.state(), case.text()
    state = case.base
    for transaction in case.transactions:
        then, state = state, after(state, transaction)
        changes = {n: (list(state[n] - then[n]), list(then[n] - state[n])) for n in state}
        arguments = {
            "insert": {n: came for n, (came, _) in changes.items() if came},
            "delete": {n: went for n, (_, went) in changes.items() if went},
        }
        deltas = again.change(**arguments)
        assert before.change(**arguments) == deltas, case.text()
        again.assert_exact()


def test_saved_views_are_adopted_and_counted_ones_computed(tmp_path: Path) -> None:
    text = CLOSURE + ".decl far(x: number)\nfar(Y) :- path(_, Y).\n"
    driver = Driver(text)
    driver.insert("edge", (1, 2), (2, 3))
    saved = {
        name: Saved(tmp_path / name, driver.engine.save(name, tmp_path / name)) for name in driver.plan.normal.schemas
    }
    again = restored(text, saved)
    assert list(again.work.views) == ["far"]
    assert again.delete("edge", (1, 2)) == driver.delete("edge", (1, 2))
    again.assert_exact()


def test_a_view_above_one_that_was_not_saved_is_computed(tmp_path: Path) -> None:
    text = CLOSURE + ".decl two(x: number, y: number)\ntwo(X, Y) :- path(X, Y).\ntwo(X, Z) :- two(X, Y), path(Y, Z).\n"
    wrong = pa.table({"x": [7], "y": [7]})
    edges = pa.table({"x": [1, 2], "y": [2, 3]})
    nothing = edges.slice(0, 0)
    again = restored(text, {"edge": Saved(changes=((edges, nothing),)), "two": Saved(changes=((wrong, nothing),))})
    assert again.rows("two") == {(1, 2), (2, 3), (1, 3)}


def test_rows_that_spark_wrote_come_back_with_our_types(tmp_path: Path) -> None:
    """Unsigned numbers travel as decimals, timestamps as INT96 of nanoseconds without a zone."""
    time = datetime.datetime(2300, 1, 31, 10, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "n": pa.array([2**64 - 1], pa.decimal128(20, 0)),
            "t": pa.array([time.replace(tzinfo=None)], pa.timestamp("us")),
        }
    )
    tmp_path.joinpath("rows").mkdir()
    pq.write_table(table, tmp_path / "rows" / "part.parquet", use_deprecated_int96_timestamps=True)
    again = restored(".decl r(n: unsigned, t: timestamp)", {"r": Saved(tmp_path / "rows", 1)})
    assert again.rows("r") == {(2**64 - 1, time)}


@pytest.mark.parametrize("damage", ["no folder", "no such column", "not Parquet", "a NULL"])
def test_rows_that_cannot_be_read_are_an_error_that_names_relation_and_folder(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "edges"
    if damage != "no folder":
        folder.mkdir()
    if damage == "no such column":
        pq.write_table(pa.table({"x": [1], "z": [2]}), folder / "part.parquet")
    if damage == "not Parquet":
        (folder / "part.parquet").write_text("PAR1 or not")
    if damage == "a NULL":
        pq.write_table(pa.table({"x": [1], "y": pa.array([None], pa.int64())}), folder / "part.parquet")
    with pytest.raises(DataError, match="edge") as caught:
        restored(CLOSURE, {"edge": Saved(folder, 1)})
    assert caught.value.code == "saved-rows-unreadable"
    assert str(folder) in caught.value.message
