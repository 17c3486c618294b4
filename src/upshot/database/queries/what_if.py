"""Compute the effects of a transaction without committing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from upshot.core.errors import DataError, UsageError
from upshot.core.rows import row_set
from upshot.database.changes import ChangeSet, reported
from upshot.database.commit import begin_rules
from upshot.database.constraints import findings_of
from upshot.database.files.arrow_tables import tuples_of
from upshot.database.files.input_rows import input_rows

if TYPE_CHECKING:
    from upshot.active.firing import Firing
    from upshot.core.rows import Rows
    from upshot.core.schema import Schema
    from upshot.database.constraints import Violations
    from upshot.database.engines import Deltas, Engine
    from upshot.database.state import DatabaseState
    from upshot.engine.work import Work

RowsByName = Mapping[str, Any]


class WhatIf(ChangeSet):
    """The changes of a transaction, with those of the rules it fires, and its violations. `firings` are those rules;
    their tasks after a commit do not run. `violations` has witnesses by constraint, whatever its policy, and rows that
    share a key by relation."""

    def __init__(
        self,
        schemas: Mapping[str, Schema],
        deltas: Mapping[str, tuple[Rows, Rows]],
        *,
        violations: Violations,
        stats: Work,
        firings: tuple[Firing, ...] = (),
    ) -> None:
        super().__init__(schemas, deltas)
        self.violations = dict(violations)
        self.stats = stats
        self.firings = firings

    def __repr__(self) -> str:
        violated = ", ".join(f"{name} {len(rows)}" for name, rows in self.violations.items())
        fired = ", ".join(f"{each.rule} {len(each.rows)}" for each in self.firings)
        more = f"; would violate: {violated}" * bool(violated) + f"; would fire: {fired}" * bool(fired)
        return f"{super().__repr__()[:-1]}{more}>"


def what_if(
    state: DatabaseState, insert: RowsByName, delete: RowsByName, examine: Callable[[Deltas], None] | None = None
) -> WhatIf:
    """The effects of these insertions and deletions; the state stays as it is. `examine` is called while they are
    staged.

    The two sets have no order: a row in both counts in neither.
    """
    deletions, insertions = _statements(state, delete), _statements(state, insert)
    for name in deletions.keys() & insertions.keys():
        try:
            deleted, inserted = row_set(deletions[name]), row_set(insertions[name])
        except TypeError as error:
            raise DataError(
                f"a row for `{name}` has a value that no column can store: {error}",
                code="wrong-type",
                help="use numbers, text, dates and similar values",
            ) from None
        deletions[name], insertions[name] = list(deleted - inserted), list(inserted - deleted)
    with state.writing("try a transaction") as engine:
        try:
            _stage(engine, deletions, insertions)
            run = begin_rules(state)
            deltas = state.propagate() if run is None else run.finish()
            if examine is not None:
                examine(deltas)
            findings = findings_of(engine, state.compiled, deltas)
            answer = WhatIf(
                state.schemas,
                reported(state.compiled.plan, deltas),
                violations={**findings.keys, **findings.constraints},
                stats=engine.work if run is None else run.work(),
                firings=() if run is None else tuple(run.firings),
            )
        finally:
            engine.rollback()
    return answer


def _statements(state: DatabaseState, rows_by_name: Any) -> dict[str, list[tuple[Any, ...]]]:
    if not isinstance(rows_by_name, Mapping):
        message = f"rows must be a dict by relation, not a {type(rows_by_name).__name__}"
        raise UsageError(message, code="wrong-argument", help='as in {"edge": [(1, 2)]}')
    statements = {}
    for name, rows in rows_by_name.items():
        target = state.base(name)
        found = input_rows(target, rows)
        statements[target.name] = found if isinstance(found, list) else tuples_of(found)
    return statements


def _stage(engine: Engine, deletions: RowsByName, insertions: RowsByName) -> None:
    for name, rows in deletions.items():
        engine.delete(name, rows)
    for name, rows in insertions.items():
        engine.insert(name, rows)
