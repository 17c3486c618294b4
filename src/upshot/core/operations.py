"""The operations on a row, in the words of events, windows and transition tables."""

from __future__ import annotations

INSERTED, DELETED = "inserted", "deleted"
OPPOSITE = {INSERTED: DELETED, DELETED: INSERTED}
UPDATED = "updated"
"""A row was deleted and another with the same key inserted."""
SIGNS = {INSERTED: (INSERTED,), DELETED: (DELETED,), UPDATED: (DELETED, INSERTED)}
"""The changes that each of them consists of."""
