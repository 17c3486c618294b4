"""The two things that can happen to a row, in the words of events, windows and transition tables."""

from __future__ import annotations

INSERTED, DELETED = "inserted", "deleted"
OPPOSITE = {INSERTED: DELETED, DELETED: INSERTED}
