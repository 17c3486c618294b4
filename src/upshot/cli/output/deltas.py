"""The changes of views as they are printed: a JSON object, or lines with a sign."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from upshot.core.fact_text import fact
from upshot.core.json_values import rows_to_json
from upshot.core.schema import Role, Schema
from upshot.database.changes import Changes, ChangeSet


def view_changes(changes: ChangeSet, schemas: Mapping[str, Schema]) -> list[tuple[str, Changes]]:
    """The views that changed, by name; base relations are left out, their changes are the caller's own."""
    return [(name, change) for name, change in sorted(changes.items()) if schemas[name].role is not Role.BASE]


def changes_to_json(changes: Iterable[tuple[str, Changes]]) -> str:
    """Print changes as in `{"closure": {"insert": [[1,3]], "delete": []}}`, rows sorted."""
    parts = (
        f'{json.dumps(name)}: {{"insert": {rows_to_json(change.inserted.sorted())}, '
        f'"delete": {rows_to_json(change.deleted.sorted())}}}'
        for name, change in changes
    )
    return "{" + ", ".join(parts) + "}"


def signed_lines(changes: Iterable[tuple[str, Changes]]) -> list[str]:
    """One line a row, `+closure(1, 3)` or `-closure(2, 4)`, in the syntax of facts."""
    lines = []
    for _, change in changes:
        lines += [f"-{fact(change.deleted.schema, row)}" for row in change.deleted.sorted()]
        lines += [f"+{fact(change.inserted.schema, row)}" for row in change.inserted.sorted()]
    return lines
