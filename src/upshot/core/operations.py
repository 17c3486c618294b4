"""The changes of a row, as named in events, windows and transition tables."""

from __future__ import annotations

INSERTED, DELETED = "inserted", "deleted"
OPPOSITE = {INSERTED: DELETED, DELETED: INSERTED}
UPDATED = "updated"
"""A row was deleted and another with the same key inserted."""
SIGNS = {INSERTED: (INSERTED,), DELETED: (DELETED,), UPDATED: (DELETED, INSERTED)}
"""The insertions and deletions that each change consists of."""
