"""A built-in has the same value on Spark as everywhere else: all of them in one program."""

from __future__ import annotations

import pytest

from tests.properties.engines import Make
from tests.values.edges import EDGES, comparable, packed, uses

pytestmark = pytest.mark.slow


def test_every_function_and_aggregate_has_the_values_of_the_oracle_on_spark(on_spark: Make) -> None:
    case = packed()
    with on_spark() as db:
        db.define(case.text)
        with db.transaction() as tx:
            for name, rows in case.rows.items():
                tx.insert(name, rows)
        for view, expected in case.expected.items():
            found = {(*row[:-1], comparable(row[-1])) for row in db.rows(view)}
            assert (found - expected, expected - found) == (set(), set()), view


def test_null_among_the_arguments_makes_the_value_null_on_spark(on_spark: Make) -> None:
    # One use of each function: NULL is looked at before the function is.
    some = list({use.name: use for use in uses()}.values())
    with on_spark() as db:
        db.define("".join(use.program(nullable=True) for use in some))
        with db.transaction() as tx:
            for use in some:
                row = [EDGES[type][1] for type in use.types]
                rows = [[None if at == place else each for at, each in enumerate(row)] for place in range(len(row))]
                tx.insert(f"r{use.number}", [(n, *each) for n, each in enumerate(rows)])
        for use in some:
            assert set(db.rows(f"h{use.number}")) == {(n, None) for n in range(len(use.types))}, use.term
