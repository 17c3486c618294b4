"""The transactions that base rows came with, as the log of a durable database tells."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection
from typing import Any

from upshot.core.row_sets import row_set
from upshot.reasons.derivation import Moment
from upshot.store import Store
from upshot.store.entries import relations_from
from upshot.store.log import CommitRow

Key = tuple[str, tuple[Any, ...]]


def moments_of(store: Store, facts: Collection[Key], until: int) -> dict[Key, Moment]:
    """When each of these base rows, which are there, came last; those that came before the log begins are left out.
    The log is read backwards, until every row is found."""
    wanted: dict[str, set[tuple[Any, ...]]] = {}
    for relation, row in facts:
        wanted.setdefault(relation, set()).add(row)
    found: dict[Key, Moment] = {}
    for relation, rows in wanted.items():
        for version, came in _additions(store, relation, until):
            for row in rows & came:
                found[relation, row] = moment(store, version)
            rows -= came
            if not rows:
                break
    return found


def _additions(store: Store, relation: str, until: int) -> Any:
    changes = list(store.changes_of(relation, store.oldest, until))
    for change in reversed(changes):
        definition = store.definition_at(change.version)
        known = relations_from(definition.relations).get(relation) if definition else None
        if change.inserted and known is not None:
            yield change.version, row_set(store.rows(known, change)[0])


def last_change(store: Store, key: Key, until: int) -> tuple[int, str] | None:
    """The last version that a row came or went with, and which of both; None if the log does not know."""
    relation, row = key
    for change in reversed(list(store.changes_of(relation, store.oldest, until))):
        definition = store.definition_at(change.version)
        known = relations_from(definition.relations).get(relation) if definition else None
        if known is not None:
            came, went = store.rows(known, change)
            if row in row_set(came):
                return change.version, "came"
            if row in row_set(went):
                return change.version, "went"
    return None


def moment(store: Store, version: int) -> Moment:
    """The commit of a version."""
    row: CommitRow = next(iter(store.commits(version - 1, version)))
    return Moment(version, dt.datetime.fromisoformat(row.time), json.loads(row.meta) if row.meta else {})
