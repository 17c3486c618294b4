"""An engine for tests made of the oracle: every propagation evaluates the whole program."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from upshot.check.program import CheckedProgram, Clause
from upshot.core.errors import DataError
from upshot.core.rows import Rows
from upshot.core.schema import Role, Schema
from upshot.core.types import Kind
from upshot.engine.naive import evaluate
from upshot.engine.work import Work
from upshot.plan import ProgramPlan

PYTHON = {Kind.NUMBER: int, Kind.UNSIGNED: int, Kind.FLOAT: (int, float), Kind.SYMBOL: str, Kind.BOOLEAN: bool}


class NaiveEngine:
    def __init__(self) -> None:
        self.plan: Any = None
        self.base: dict[str, set[Any]] = {}
        self.views: dict[str, set[Any]] = {}
        self.work = Work()
        self._reset()

    def _reset(self) -> None:
        self.new_plan, self.new_base = self.plan, {name: set(rows) for name, rows in self.base.items()}
        self.new_views = self.views

    def install(self, plan: ProgramPlan, recompute: Collection[str] = frozenset()) -> None:
        old = self.plan.source.schemas if self.plan else {}
        self.new_plan = plan
        kept = {}
        for name, schema in plan.source.schemas.items():
            if schema.role is Role.BASE:
                same = name in old and old[name].columns == schema.columns
                kept[name] = set(self._stored(name)) if same else set()
        self.new_base = kept

    def _stored(self, name: str) -> set[Any]:
        return self.base[name] if name in self.base else self.views.get(name, set())

    def _checked(self, name: str, rows: Any) -> list[Any]:
        if not isinstance(rows, list):
            rows = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        schema = self.new_plan.source.schemas[name]
        for number, row in enumerate(rows, 1):
            for value, column in zip(row, schema.columns, strict=True):
                if value is None and not column.type.nullable:
                    raise DataError(f"row {number} of `{name}`: NULL", code="null-in-required-column")
                expected = PYTHON.get(column.type.kind, object)
                if value is not None and (not isinstance(value, expected) or isinstance(value, bool) is not (expected is bool)):
                    raise DataError(f"row {number} of `{name}`, column `{column.name}`: {value!r}", code="wrong-type")
        return rows

    def insert(self, name: str, rows: Any) -> None:
        self.new_base[name] |= set(self._checked(name, rows))

    def delete(self, name: str, rows: Any) -> None:
        self.new_base[name] -= set(self._checked(name, rows))

    def upsert(self, name: str, rows: Any) -> None:
        rows = self._checked(name, rows)
        key = self.new_plan.source.schemas[name].keys[0]
        for row in rows:
            gone = {old for old in self.new_base[name] if all(old[i] == row[i] for i in key)}
            self.new_base[name] = (self.new_base[name] - gone) | {row}

    def replace(self, name: str, rows: Any) -> None:
        self.new_base[name] = set(self._checked(name, rows))

    def propagate(self) -> dict[str, tuple[Rows, Rows]]:
        source = self.new_plan.source
        bare = CheckedProgram(source.schemas, source.clauses, {}, source.strata)
        self.new_views = evaluate(bare, self.new_base)
        old_schemas = self.plan.source.schemas if self.plan else {}
        deltas = {}
        for name, schema in source.schemas.items():
            same = name in old_schemas and old_schemas[name].columns == schema.columns
            before = self._stored(name) if same else set()
            after = self.new_base[name] if name in self.new_base else self.new_views[name]
            if before != after:
                deltas[name] = (Rows.of(schema, list(after - before)), Rows.of(schema, list(before - after)))
        self.work = Work()
        return deltas

    def key_conflicts(self, name: str) -> list[tuple[Any, Any]]:
        schema = self.new_plan.source.schemas[name]
        rows = sorted(self.new_base.get(name) or self.new_views.get(name, ()))
        return [
            (left, right)
            for key in schema.keys
            for left in rows
            for right in rows
            if left < right and all(left[i] == right[i] for i in key)
        ]

    def accept(self) -> None:
        self.plan, self.base, self.views = self.new_plan, self.new_base, self.new_views
        self._reset()

    def rollback(self) -> None:
        self._reset()

    def rows(self, name: str) -> Rows:
        return Rows.of(self.plan.source.schemas[name], list(self._stored(name)))

    def size(self, name: str) -> int:
        return len(self._stored(name))

    def contains(self, name: str, row: Any) -> bool:
        return row in self._stored(name)

    def query(self, schema: Schema, clauses: Sequence[Clause]) -> Rows:
        source = self.plan.source
        made = {clause.head.relation: schema for clause in clauses}
        strata = (*source.strata, *((name,) for name in made))
        program = CheckedProgram({**source.schemas, **made}, (*source.clauses, *clauses), {}, strata)
        return Rows.of(schema, list(evaluate(program, self.base)[schema.name]))

    def describe(self, view: str) -> str:
        return f"evaluate {view}"
