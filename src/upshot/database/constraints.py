"""Keys and `.deny` constraints: find the violations of a change, apply their policies, word their messages.

`findings_of` finds the violations of a change. A commit calls it once, after views and rules (`check` in
`commit.commit_transaction`); a definition tests the rows under the new program (`program/redefine.py`). In a group
(`group.py`) each transaction is checked on its own.

To defer a constraint to the end of a group (a batch of transactions), change two places. In `check` in `commit.py`,
while `state.open_group` is set, add the witnesses of the deferred constraint to it (`PendingGroup` in `group.py`)
instead of rejecting them. In `Group._finish`, treat the group as `failed` if `engine.contains` still finds one of
them: a later transaction of the group may have deleted it. Raise the error after `_undo`, so that the journal drops
the group first. If the constraint is to say itself that it is deferred, add an option in `check/program.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.errors import ConstraintError
from upshot.core.fact_text import fact
from upshot.core.rows import Rows

if TYPE_CHECKING:
    from upshot.core.schema import Schema
    from upshot.database.engines import Deltas, Engine
    from upshot.database.program.compile import Compiled

Row = tuple[Any, ...]
Violations = Mapping[str, Sequence[Row]]

SHOWN = 10
"""The most witnesses that a message lists; the error itself has all."""


@dataclass(frozen=True, slots=True)
class ConstraintFindings:
    """Rows that share a key, by relation, and witnesses by constraint: inserted ones, deleted ones (`repaired`), and
    those that a definition keeps although the constraint rejects (`kept`)."""

    keys: Violations = field(default_factory=dict)
    constraints: Violations = field(default_factory=dict)
    repaired: Violations = field(default_factory=dict)
    kept: Violations = field(default_factory=dict)

    def rejecting(self, compiled: Compiled) -> Violations:
        return {n: rows for n, rows in self.constraints.items() if rows and _policy(compiled, n) == "reject"}

    def warning(self, compiled: Compiled) -> Violations:
        return {n: rows for n, rows in self.constraints.items() if rows and _policy(compiled, n) == "warn"}


NOTHING_FOUND = ConstraintFindings()


def findings_of(
    engine: Engine,
    compiled: Compiled,
    deltas: Deltas,
    *,
    rekeyed: Mapping[str, Iterable[Row]] | None = None,
    witnesses: Mapping[str, Sequence[Row]] | None = None,
) -> ConstraintFindings:
    """The findings of a change. `rekeyed` has all rows of relations with a new key, `witnesses` all rows of new
    constraints."""
    return ConstraintFindings(
        key_violations(engine, compiled, deltas, rekeyed),
        {**added_violations(compiled, deltas), **(witnesses or {})},
        repaired_violations(compiled, deltas),
    )


def added_violations(compiled: Compiled, deltas: Deltas) -> dict[str, list[Row]]:
    touched = compiled.checked.constraints.keys() & deltas.keys()
    if not touched:
        return {}
    return {name: deltas[name][0].sorted() for name in sorted(touched) if len(deltas[name][0])}


def repaired_violations(compiled: Compiled, deltas: Deltas) -> dict[str, list[Row]]:
    """The deleted witnesses of constraints that report deletions."""
    constraints = compiled.checked.constraints.keys() & deltas.keys()
    if not constraints:
        return {}
    touched = [name for name in constraints if "minus" in compiled.plan.reported(name)]
    return {name: deltas[name][1].sorted() for name in sorted(touched) if len(deltas[name][1])}


def grandfathered(findings: ConstraintFindings, compiled: Compiled, stated: Collection[str]) -> ConstraintFindings:
    """The findings of a definition without the violations that it keeps, of constraints that it states."""
    kept = {
        name: rows
        for name, rows in findings.rejecting(compiled).items()
        if name in stated and compiled.checked.constraints[name].existing == "keep"
    }
    rest = {name: rows for name, rows in findings.constraints.items() if name not in kept}
    return replace(findings, constraints=rest, kept=kept)


def key_violations(
    engine: Engine, compiled: Compiled, deltas: Deltas, whole: Mapping[str, Iterable[Row]] | None = None
) -> dict[str, list[Row]]:
    """Rows that share a key after the change. The engine reads the changed keys only; `whole` has all rows of relations
    whose key is new."""
    found: dict[str, list[Row]] = {}
    for name, rows in (whole or {}).items():
        if pairs := _sharing_a_key(compiled.checked.schemas[name], rows):
            found[name] = pairs
    for name in deltas:
        schema = compiled.checked.schemas.get(name)
        if schema is not None and schema.keys and name not in (whole or {}):
            conflicts = engine.key_conflicts(name)
            if conflicts:
                found[name] = _in_order(schema, {row for pair in conflicts for row in pair})
    return found


def _sharing_a_key(schema: Schema, rows: Iterable[Row]) -> list[Row]:
    groups: dict[tuple[tuple[int, ...], Row], list[Row]] = defaultdict(list)
    for row in rows:
        for key in schema.keys:
            groups[key, tuple(row[position] for position in key)].append(row)
    return _in_order(schema, {row for group in groups.values() if len(group) > 1 for row in group})


def _in_order(schema: Schema, rows: Iterable[Row]) -> list[Row]:
    return Rows.of(schema, list(rows)).sorted()


# ---- words ------------------------------------------------------------------------------------------


def rejected_transaction(findings: ConstraintFindings, compiled: Compiled) -> ConstraintError | None:
    """The error that ends the transaction, if there is one."""
    if findings.keys:
        hint = "nothing was committed; a key occurs only once; `upsert` replaces the old row"
        return _key_error(findings.keys, compiled, hint)
    rejecting = findings.rejecting(compiled)
    if not rejecting:
        return None
    message = f"the transaction violates {_described(rejecting, compiled)}"
    hint = (
        "nothing was committed; `db.repairs` or `upshot repairs` finds a repair; "
        "`on_violation=warn` makes the constraint a warning"
    )
    return _violation_error(message, rejecting, compiled, hint)


def rejected_definition(findings: ConstraintFindings, compiled: Compiled) -> ConstraintError | None:
    """The error that refuses a definition that the data violates, if it does."""
    if findings.keys:
        hint = "nothing was changed; fix the data first; `determines` can keep existing violations, a key cannot"
        return _key_error(findings.keys, compiled, hint)
    rejecting = findings.rejecting(compiled)
    if not rejecting:
        return None
    message = f"the data violates {_described(rejecting, compiled)}"
    name = next(iter(rejecting))
    others = ", and the same for the others" * (len(rejecting) > 1)
    hint = (
        "nothing was changed; fix the data first (`upshot repairs` finds a repair), or accept existing violations "
        f"with `.deny {name} existing=keep`, or write `.deny {name} on_violation=warn`{others}"
    )
    return _violation_error(message, rejecting, compiled, hint)


def _violation_error(message: str, violations: Violations, compiled: Compiled, hint: str) -> ConstraintError:
    places = {name: compiled.schema(name).span for name in violations}
    return ConstraintError(message, code="constraint-violated", violations=violations, places=places, help=hint)


def warnings_for(findings: ConstraintFindings, compiled: Compiled) -> tuple[Diagnostic, ...]:
    """One warning for each violated constraint that only warns, and for each whose violations are kept."""
    violated = [
        _warning("constraint-violated", f"the data violates {_described({name: rows}, compiled)}", name, compiled)
        for name, rows in findings.warning(compiled).items()
    ]
    kept = [
        _warning("violations-kept", _kept_text(name, rows, compiled), name, compiled)
        for name, rows in findings.kept.items()
    ]
    return (*violated, *kept)


def _warning(slug: str, message: str, constraint: str, compiled: Compiled) -> Diagnostic:
    return Diagnostic(slug, message, compiled.schema(constraint).span, severity=Severity.WARNING)


def _kept_text(name: str, rows: Sequence[Row], compiled: Compiled) -> str:
    count, stay = ("1 violation", "stays") if len(rows) == 1 else (f"{len(rows)} violations", "stay")
    return f"{count} of constraint `{name}` {stay}: {_listed(compiled.schema(name), rows)}"


def notes_of_repairs(repaired: Violations, schemas: Mapping[str, Schema]) -> tuple[Diagnostic, ...]:
    """One note for each constraint that lost witnesses."""
    return tuple(
        Diagnostic(
            "violation-repaired",
            f"constraint `{name}` is no longer violated by {_listed(schemas[name], rows)}",
            schemas[name].span,
            severity=Severity.NOTE,
        )
        for name, rows in repaired.items()
    )


def _described(violations: Violations, compiled: Compiled) -> str:
    parts = []
    for name, rows in violations.items():
        schema = compiled.checked.schemas[name]
        listed = _listed(schema, rows)
        parts.append(f"constraint `{name}`" + (f": {listed}" if schema.columns else ""))
    return "; ".join(parts)


def _key_error(keys: Violations, compiled: Compiled, hint: str) -> ConstraintError:
    shown = {hidden: name for name, hidden in compiled.checked.input_part.items()}
    parts, named, places = [], {}, {}
    for name, rows in keys.items():
        schema = compiled.checked.schemas[name]
        columns = " and ".join(
            f"({', '.join(schema.columns[position].name for position in key)})" for key in schema.keys
        )
        parts.append(f"key {columns} of `{shown.get(name, name)}`: {_listed(schema, rows)}")
        named[shown.get(name, name)] = rows
        places[shown.get(name, name)] = schema.span
    message = f"two rows share {'; '.join(parts)}"
    return ConstraintError(message, code="key-violation", violations=named, places=places, help=hint)


def _listed(schema: Schema, rows: Sequence[Row]) -> str:
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return ", ".join(fact(schema, row) for row in rows[:SHOWN]) + more


def _policy(compiled: Compiled, name: str) -> str:
    return compiled.checked.constraints[name].on_violation
