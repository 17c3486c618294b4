"""A local engine with a program, changed one transaction at a time, and the oracle for the same program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from upshot.check import check, check_query
from upshot.check.program import CheckedProgram
from upshot.core.rows import Rows
from upshot.engine.limits import Limits
from upshot.engine.local import LocalEngine
from upshot.engine.naive import evaluate
from upshot.engine.naive_values import canonical
from upshot.engine.work import Work
from upshot.plan import ProgramPlan, compile_program
from upshot.syntax import parse, parse_query

Row = tuple[Any, ...]
Delta = tuple[set[Row], set[Row]]
Deltas = dict[str, Delta]


def plan_of(text: str) -> ProgramPlan:
    return compile_program(check(parse(text)))


def plain(rows: Iterable[Row]) -> set[Row]:
    """The rows as a set in which NaN is NaN and 0.0 is -0.0."""
    return {tuple(map(canonical, row)) for row in rows}


class Driver:
    """Every change is one transaction: staged, propagated, accepted."""

    def __init__(self, text: str, *, max_rounds: int = 1_000_000) -> None:
        self.engine = LocalEngine(limits=Limits(max_rounds=max_rounds))
        self.plan = plan_of(text)
        self.install(text)

    @property
    def checked(self) -> CheckedProgram:
        return self.plan.source

    @property
    def work(self) -> Work:
        return self.engine.work

    def install(self, text: str, recompute: Iterable[str] = ()) -> Deltas:
        plan = plan_of(text)
        self.engine.install(plan, frozenset(recompute))
        self.plan = plan
        return self.commit()

    def insert(self, name: str, *rows: Row) -> Deltas:
        self.engine.insert(name, list(rows))
        return self.commit()

    def delete(self, name: str, *rows: Row) -> Deltas:
        self.engine.delete(name, list(rows))
        return self.commit()

    def upsert(self, name: str, *rows: Row) -> Deltas:
        self.engine.upsert(name, list(rows))
        return self.commit()

    def change(self, *, insert: Mapping[str, Any] | None = None, delete: Mapping[str, Any] | None = None) -> Deltas:
        for name, rows in (delete or {}).items():
            self.engine.delete(name, rows)
        for name, rows in (insert or {}).items():
            self.engine.insert(name, rows)
        return self.commit()

    def commit(self) -> Deltas:
        deltas = self.engine.propagate()
        self.engine.accept()
        return {name: (plain(came), plain(went)) for name, (came, went) in deltas.items()}

    def rows(self, name: str) -> set[Row]:
        return plain(self.engine.rows(name))

    def query(self, text: str, **parameters: Any) -> Rows:
        return self.engine.query(*check_query(parse_query(text), self.checked.schemas, parameters))

    def state(self) -> dict[str, set[Row]]:
        """All relations, generated ones included."""
        return {name: self.rows(name) for name in self.plan.normal.schemas}

    def expected(self) -> dict[str, set[Row]]:
        """What the oracle derives for the views the user wrote from the base rows there are."""
        views = [view for component in self.checked.strata for view in component]
        base = {name: self.rows(name) for name in self.checked.schemas if name not in views}
        return {view: plain(rows) for view, rows in evaluate(self.checked, base).items()}

    def assert_exact(self) -> None:
        for view, rows in self.expected().items():
            assert self.rows(view) == rows, view
