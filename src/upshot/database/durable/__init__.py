"""Durable databases: journal, recovery, history, retention, backups, batches of streams.

Commits in; versions that outlive the process out. Read `opening`, `journal`, `history`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_modules

if TYPE_CHECKING:
    from upshot.database.durable import (
        history,
        journal,
        opening,
        past_version,
        retention,
        stream_batches,
    )
else:
    __getattr__ = lazy_modules(__name__)

__all__ = ["history", "journal", "opening", "past_version", "retention", "stream_batches"]
