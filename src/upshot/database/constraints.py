"""Keys and `.deny` constraints: the violations of a change, the policy of each, and their messages.

`findings_of` is what a change violates. A commit tests it once, when views and rules have ended (`commit.commit`); a
definition tests it against the program before (`program/redefine.py`). In a group (`group.py`) every transaction is
tested on its own.

To defer a constraint to the end of its group: `commit.commit` knows that a group is open (`DatabaseState.held`), so let
`examine` there leave the constraint out of what it gives `rejected_transaction`; a definition must still be refused, so
`ConstraintFindings.rejecting` stays, which `rejected_definition` and `grandfathered` read too. `Group._finish` then
tests the deferred ones before `write_held`, over all of the group: a witness that one transaction inserts, the next may
delete (`PendingGroup.deltas` has the base changes only). A violation there must undo the whole group (`Group._undo`).
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
    """Rows that share a key, by relation, and witnesses by constraint: those that came, those that went (`repaired`),
    and those that a definition leaves where they are although its constraint rejects (`kept`)."""

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
    """The findings of a change. Relations that are `rekeyed` are given with all their rows, constraints that are new
    with all their `witnesses`."""
    return ConstraintFindings(
        key_violations(engine, compiled, deltas, rekeyed),
        {**added_violations(compiled, deltas), **(witnesses or {})},
        repaired_violations(compiled, deltas),
    )


def added_violations(compiled: Compiled, deltas: Deltas) -> dict[str, list[Row]]:
    """The violations that the change inserted."""
    touched = compiled.checked.constraints.keys() & deltas.keys()
    if not touched:
        return {}
    return {name: deltas[name][0].sorted() for name in sorted(touched) if len(deltas[name][0])}


def repaired_violations(compiled: Compiled, deltas: Deltas) -> dict[str, list[Row]]:
    """The violations that the change deleted, of constraints that report it."""
    constraints = compiled.checked.constraints.keys() & deltas.keys()
    if not constraints:
        return {}
    touched = [name for name in constraints if "minus" in compiled.plan.reported(name)]
    return {name: deltas[name][1].sorted() for name in sorted(touched) if len(deltas[name][1])}


def grandfathered(findings: ConstraintFindings, compiled: Compiled, stated: Collection[str]) -> ConstraintFindings:
    """The findings of a definition without the violations that it says to keep, of constraints that it states."""
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
    """Rows that share a key after the change. The engine looks at touched keys only; relations in `whole` are given
    with all their rows, because their key is new."""
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
    """The error that ends the transaction, if anything does."""
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
    places = {name: compiled.schema(name).span for name in rejecting}
    return ConstraintError(message, code="constraint-violated", violations=rejecting, places=places, help=hint)


def rejected_definition(findings: ConstraintFindings, compiled: Compiled) -> ConstraintError | None:
    """The error that refuses a definition the data already contradict, if they do."""
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
    places = {name: compiled.schema(name).span for name in rejecting}
    return ConstraintError(message, code="constraint-violated", violations=rejecting, places=places, help=hint)


def warnings_for(findings: ConstraintFindings, compiled: Compiled) -> tuple[Diagnostic, ...]:
    """One warning for each constraint that is violated and only warns, or whose violations were kept."""
    violated = [
        _warning("constraint-violated", f"the data violates {_described({name: rows}, compiled)}", name, compiled)
        for name, rows in findings.warning(compiled).items()
    ]
    kept = [
        _warning("violations-kept", _keeping(name, rows, compiled), name, compiled)
        for name, rows in findings.kept.items()
    ]
    return (*violated, *kept)


def _warning(slug: str, message: str, constraint: str, compiled: Compiled) -> Diagnostic:
    return Diagnostic(slug, message, compiled.schema(constraint).span, severity=Severity.WARNING)


def _keeping(name: str, rows: Sequence[Row], compiled: Compiled) -> str:
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
