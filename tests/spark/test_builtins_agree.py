"""A built-in has the same value on Spark as everywhere else: all of them in one program."""

from __future__ import annotations

from typing import Any

import pytest

from tests.properties.engines import Make
from tests.values.edges import EDGES, folds, uses
from tests.values.test_builtins_agree import comparable
from upshot.core.errors import DataError

pytestmark = pytest.mark.slow


def test_every_function_and_aggregate_has_the_values_of_the_oracle_on_spark(on_spark: Make) -> None:
    known: dict[str, list[tuple[Any, Any]]] = {f"h{use.number}": list(use.expected().items()) for use in uses()} | {
        f"f{fold.number}": list(fold.expected().items()) for fold in folds()
    }
    with on_spark() as db:
        db.define("".join(each.program() for each in (*uses(), *folds())))
        with db.transaction() as tx:
            for use in uses():
                cases = enumerate(known[f"h{use.number}"])
                tx.insert(f"r{use.number}", [(n, *row) for n, (row, v) in cases if not isinstance(v, DataError)])
            for fold in folds():
                groups = [(g, *each) for g, each in enumerate(known[f"f{fold.number}"])]
                rows = [(g, i, v) for g, group, known_ in groups for i, v in enumerate(group)
                        if not isinstance(known_, DataError)]  # fmt: skip
                tx.insert(f"g{fold.number}", rows)
        wrong = {}
        for view, cases in known.items():
            expected = {n: comparable(value) for n, (_, value) in enumerate(cases) if not isinstance(value, DataError)}
            found = {n: comparable(value) for n, value in db.rows(view)}
            if found != expected:
                wrong[view] = {n: (found.get(n), expected.get(n)) for n in found | expected
                               if found.get(n) != expected.get(n)}  # fmt: skip
        names = {f"h{use.number}": (use.term, use.types) for use in uses()}
        names |= {f"f{fold.number}": (fold.name, (fold.type,)) for fold in folds()}
        assert {names[view]: list(each.items())[:3] for view, each in wrong.items()} == {}


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
