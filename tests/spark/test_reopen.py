"""On Spark too a change is taken up again, and queries are answered in the state it has reached.

Random programs, one for each way to keep views, are packed into one and go through their transactions in step: a
propagation takes a second whatever its size.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.engine.reopening import cut, expected_answer, open_answer, stage
from tests.engine.test_reopen import ABOUT_PICKED, GRAPH, KEPT, PICKED, QUESTIONS
from tests.properties.cases import Base, Case, Change, Transaction
from tests.properties.exactness import Views, checked, difference, expect, keyed, oracle
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, is_slice, is_soak, seed_of
from tests.properties.strategies import view_options
from tests.spark.engine_driver import IN_FILES, SparkDriver
from tests.spark.packing import prefixed
from upshot.core.rows import Rows
from upshot.engine.spark.storage.pieces import SMALL
from upshot.syntax import parse, print_program

WAYS = (
    "maintenance", "counting", "production", "rod", "rod materialized=true", "differencing", "recompute", "bf",
)  # fmt: skip


class Member:
    """A case in a pack: its relations have a prefix there."""

    def __init__(self, number: int, way: str, case: Case) -> None:
        self.prefix, self.way, self.case = f"p{number}_", way, case
        self.random = random.Random(case.seed)
        self.base: Base = {name: frozenset() for name in case.base}
        self.now = self.base

    @property
    def text(self) -> str:
        options = view_options(checked(self.case.text()), self.way)
        return print_program(prefixed(parse(self.case.text(options)), self.prefix))

    def views(self, base: Base) -> Views:
        found = oracle(self.case, base)
        assert found is not None
        return found

    def stage(self, it: SparkDriver, part: Transaction) -> None:
        named = tuple(Change(each.sign, self.prefix + each.relation, each.row) for each in part)
        state = {self.prefix + name: rows for name, rows in self.now.items()}
        changed = stage(it, named, state, self.random)
        self.now = {name.removeprefix(self.prefix): rows for name, rows in changed.items()}

    def check(self, found: dict[str, tuple[Rows, Rows]], when: str) -> None:
        before = self.views(self.base)
        nothing: tuple[Any, Any] = ((), ())
        told = {v: tuple(map(keyed, found.get(self.prefix + v, nothing))) for v in before}
        expect(f"{self.way}, seed {self.case.seed}, {when}", told, difference(before, self.views(self.now)))


@pytest.mark.parametrize(
    ("small", "ways", "last"),
    [
        (SMALL, WAYS, 2 if is_slice() else 3),
        pytest.param(IN_FILES, ("maintenance", "rod materialized=true"), 1, marks=pytest.mark.deep),
    ],
)
def test_changes_since_the_beginning_equal_the_oracles(
    spark: Any, small: int, ways: tuple[str, ...], last: int
) -> None:
    features = Features(views=3, rows=6, transactions=3)
    for number in range(case_count(4000)):
        members = [
            Member(i, way, random_case(seed_of(f"reopen on spark {small} {way}", number), features))
            for i, way in enumerate(ways)
        ]
        with SparkDriver(spark, "".join(each.text for each in members), small=small) as it:
            for each in members:
                rows = tuple(Change("+", name, row) for name, rows in each.case.base.items() for row in rows)
                each.stage(it, rows)
            for step in range(last + 1):
                found = it.engine.propagate()
                for each in members:
                    each.check(found, f"step {step}")
                    each.base = each.now = each.now if step != 2 else each.base
                (it.engine.rollback if step == 2 else it.engine.accept)()
                if step < last:
                    follow(it, members, step)


def follow(it: SparkDriver, members: list[Member], number: int) -> None:
    """The parts of a transaction of every member, all but the last propagation."""
    changes = [(*each.case.transactions, (), (), ())[number] for each in members]
    parts = [[*cut(mine, each.random), (), ()] for mine, each in zip(changes, members, strict=True)]
    for step in range(3):
        if step:
            found = it.engine.propagate()
            for each in members:
                each.check(found, f"transaction {number}, up to part {step}")
            it.engine.reopen()
        for each, mine in zip(members, parts, strict=True):
            each.stage(it, mine[step])


BY_ROUNDS = pytest.param(
    "all on demand", 0, marks=pytest.mark.skipif(not is_soak(), reason="by rounds of joins it takes minutes: make soak")
)


@pytest.mark.parametrize(("kept", "driver"), [("stored", 0), ("all on demand", None), BY_ROUNDS])
def test_open_queries_are_answered_as_by_the_oracle(spark: Any, kept: str, driver: int | None) -> None:
    text = GRAPH + KEPT[kept]
    with SparkDriver(spark, text, driver=driver) as it:
        edges, names = {(1, 2), (2, 3), (5, 5)}, {(1, "one"), (2, None), (4, "four")}
        it.change(insert={"edge": list(edges), "name": list(names)})
        it.engine.insert("edge", [(3, 1)])
        it.engine.propagate()
        it.engine.reopen()
        it.engine.delete("edge", [(5, 5)])
        it.engine.replace("name", [(1, "x"), (7, "one"), (2, None)])
        it.engine.propagate()
        base: dict[str, set[Any]] = {"edge": {(1, 2), (2, 3), (3, 1)}, "name": {(1, "x"), (7, "one"), (2, None)}}
        # By rounds a query takes a dozen jobs, so only one is asked.
        by_rounds = kept != "stored" and driver == 0
        for question in QUESTIONS if not by_rounds else ():
            assert open_answer(it, text, question) == expected_answer(text, question, base), question
        given = {"g": [(1, "one"), (3, None)]}
        for question in ABOUT_PICKED if not by_rounds else ABOUT_PICKED[-1:]:
            wanted = expected_answer(text, PICKED + question, base, given)
            assert open_answer(it, text, PICKED + question, given) == wanted, question
        assert it.query("edge(X, Y)") == edges
        it.engine.rollback()
        assert it.insert("edge", (2, 9))["path"] == ({(2, 9), (1, 9)}, set())
