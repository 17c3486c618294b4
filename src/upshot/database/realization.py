"""A realization: base changes that satisfy a request, with all their effects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from upshot.core.fact_text import fact
from upshot.core.json_values import to_json, type_to_json
from upshot.core.rows import one_nan
from upshot.core.schema import Role, Schema
from upshot.database.queries.what_if import WhatIf
from upshot.revise.placeholders import Formula, Placeholder
from upshot.revise.request import Key, Request, Row
from upshot.syntax.ast import Constant
from upshot.syntax.printing import print_term


@dataclass(frozen=True, slots=True)
class Realization:
    """`insert` and `delete` are rows by base relation, in which a `Placeholder` is a fresh value; all fresh values that
    satisfy `conditions` are valid. `effects` was computed with the placeholders' witnesses: the change of every
    relation, violations of constraints that only warn, and rules that fire. `named` is a row of it for any values."""

    insert: Mapping[str, tuple[Row, ...]]
    delete: Mapping[str, tuple[Row, ...]]
    effects: WhatIf
    cost: float
    conditions: tuple[str, ...] = ()
    placeholders: tuple[Placeholder, ...] = ()
    request: Request = field(default_factory=lambda: Request(frozenset(), frozenset()))
    schemas: Mapping[str, Schema] = field(default_factory=dict, repr=False)
    version: int = 0
    rows: Mapping[Key, Row] = field(default_factory=dict, repr=False)
    """The rows of `effects` that depend on placeholders, with placeholders and formulas."""
    by_trial: frozenset[str] = frozenset()
    """The relations whose changes can differ for other values of the placeholders."""

    @property
    def size(self) -> int:
        """The number of base rows it changes."""
        return sum(map(len, (*self.insert.values(), *self.delete.values())))

    @property
    def side_effects(self) -> int:
        """The number of changed rows of views that were not requested."""
        return sum(1 for _, _, _, asked in self.view_changes() if not asked)

    def view_changes(self) -> Iterator[tuple[str, str, Row, bool]]:
        """The changes of views: sign, view, row, and whether it is in the request."""
        for name, change in self.effects.items():
            if self.schemas[name].role is not Role.BASE:
                for row in change.deleted.sorted():
                    yield "-", name, row, (name, one_nan(row)) in self.request.delete
                for row in change.inserted.sorted():
                    yield "+", name, row, (name, one_nan(row)) in self.request.insert

    def made_by_rules(self) -> Iterator[tuple[str, str, Row]]:
        """The further changes of base relations by active rules: sign, relation, row."""
        for name, change in self.effects.items() if self.effects.firings else ():
            if self.schemas[name].role is Role.BASE:
                own = set(self.insert.get(name, ())), set(self.delete.get(name, ()))
                yield from (("-", name, row) for row in change.deleted.sorted() if one_nan(row) not in own[1])
                coming = map(one_nan, change.inserted.sorted())
                yield from (("+", name, row) for row in coming if self.named(name, row) not in own[0])

    def lines(self) -> list[str]:
        """The base changes in the syntax of facts, each with its sign."""
        gone = [f"-{self.fact(name, row)}" for name, rows in self.delete.items() for row in rows]
        return gone + [f"+{self.fact(name, row)}" for name, rows in self.insert.items() for row in rows]

    def text(self, most: int | None = None) -> str:
        """The base changes, one a line; placeholders, effects and violations are comments. `most` bounds the numbers of
        requested rows of views and of other rows."""
        lines = self.lines()
        lines += [f"// {each.name}: a fresh {each.type}" for each in self.placeholders]
        lines += [f"// where {condition}" for condition in self.conditions]
        lines += self._view_lines(most)
        if others := sorted(self.by_trial - {*self.effects}):
            lines.append(f"// possibly: rows of {', '.join(others)}, for values other than {self._tried_in_words()}")
        lines += [f"// rules: {sign}{self.fact(name, row)}" for sign, name, row in self.made_by_rules()]
        for name, witnesses in self.effects.violations.items():
            lines += [f"// warns: {self.fact(name, row)}" for row in witnesses]
        for firing in self.effects.firings:
            lines.append(f"// firing: {firing.rule}")
        return "\n".join(lines) or "// nothing to do: already true"

    def _view_lines(self, most: int | None) -> Iterator[str]:
        left_out = {True: 0, False: 0}
        shown = {True: 0, False: 0}
        for sign, name, row, asked in self.view_changes():
            if shown[asked] == most:
                left_out[asked] += 1
                continue
            shown[asked] += 1
            tried = f" for {self._tried_in_words()}" if name in self.by_trial and not asked else ""
            yield f"// {'goal: ' if asked else 'also: '}{sign}{self.fact(name, row)}{tried}"
        for asked, count in left_out.items():
            if count:
                words = ("goal" if asked else "side effect") + "s" * (count > 1)
                yield f"// … and {count:,} more {words}; `--format json` lists all"

    @property
    def tried(self) -> dict[str, Any]:
        """The values of the placeholders with which `effects` was computed."""
        return {each.name: each.witness for each in self.placeholders}

    def _tried_in_words(self) -> str:
        return ", ".join(f"{e.name} = {print_term(Constant(e.witness, e.type))}" for e in self.placeholders)

    def json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.as_dict(), ensure_ascii=False)

    def as_dict(self, shows: Callable[[str], bool] = lambda name: True) -> dict[str, Any]:
        """The realization as a JSON object, with the relations and rules for which `shows` is true. In rows a
        placeholder is `{"placeholder": "?1"}` and a formula `{"formula": "?1 - 19"}`."""

        def json_rows(name: str, rows: Iterable[Row]) -> list[list[Any]]:
            return [[_json_value(value) for value in self.named(name, row)] for row in rows]

        changes, violations = self.effects.items(), self.effects.violations.items()
        by_trial = sorted(filter(shows, self.by_trial))
        tried = {name: to_json(value) for name, value in self.tried.items()}
        return {
            "insert": {name: json_rows(name, rows) for name, rows in self.insert.items()},
            "delete": {name: json_rows(name, rows) for name, rows in self.delete.items()},
            "cost": self.cost,
            "side_effects": sum(1 for _, name, _, asked in self.view_changes() if not asked and shows(name)),
            "placeholders": {each.name: type_to_json(each.type) for each in self.placeholders},
            "conditions": list(self.conditions),
            "changes": {
                name: {
                    "insert": json_rows(name, change.inserted.sorted()),
                    "delete": json_rows(name, change.deleted.sorted()),
                }
                for name, change in changes
                if shows(name)
            },
            "violations": {name: json_rows(name, rows) for name, rows in violations if shows(name)},
            "firings": [
                {"rule": each.rule, "rows": [[to_json(value) for value in row] for row in each.rows.sorted()]}
                for each in self.effects.firings
                if shows(each.rule)
            ],
            **({"by_trial": {"relations": by_trial, "values": tried}} if by_trial else {}),
        }

    def filled(self, values: Mapping[str, Any]) -> tuple[dict[str, list[Row]], dict[str, list[Row]]]:
        """The inserted and deleted rows with these values for the placeholders."""

        def row_of(row: Row) -> Row:
            return tuple(values[value.name] if isinstance(value, Placeholder) else value for value in row)

        insert = {name: [row_of(row) for row in rows] for name, rows in self.insert.items()}
        return insert, {name: list(rows) for name, rows in self.delete.items()}

    def named(self, name: str, row: Row) -> Row:
        """A row of `effects` for any fresh values: with placeholders, and formulas of them. A requested row is the same
        for all values."""
        return row if (name, one_nan(row)) in self.request.insert else self.rows.get((name, row), row)

    def fact(self, name: str, row: Row) -> str:
        """A row in the syntax of facts, with placeholders and formulas."""
        shown = self.named(name, row)
        if not any(isinstance(value, Placeholder | Formula) for value in shown):
            return fact(self.schemas[name], row)
        parts = [
            value.name if isinstance(value, Placeholder | Formula) else _constant(self.schemas[name], place, value)
            for place, value in enumerate(shown)
        ]
        return f"{name}({', '.join(parts)})"

    def __str__(self) -> str:
        return self.text()


def _constant(schema: Schema, place: int, value: Any) -> str:
    """A value in the syntax of programs."""
    return fact(Schema("", (schema.columns[place],)), (value,))[1:-1]


def _json_value(value: Any) -> Any:
    match value:
        case Placeholder():
            return {"placeholder": value.name}
        case Formula():
            return {"formula": value.name}
        case _:
            return to_json(value)
