"""Commits that outlive the process: the log, snapshots of relations, recovery.

A store is a folder. It takes rows and gives rows; what they mean, and which engine works them out, it does not know.

A directory: the log in SQLite, one record a commit (version, time, the committer's own notes, the program if it
changed, the exact deltas), large deltas and snapshots as Parquet beside it. The record is the commit: it is written
after constraints have been tested and before the engine accepts. Recovery is the newest whole snapshot and the records
after it. The format is in docs/reference/store-format.md.

To change a record, or add one: its section in `entries` has its fields, its row, its table, and how it is written and
read. Values become bytes in `encoding`; `log` has the queries.

A group (`database/group.py`) is transactions with one write: each is accepted by the engine as it ends, but its record
waits, and so do readers, watchers and the outbox, until all records are written; should that fail, the base changes are
made again the other way round. What is older than the bounds of retention, or than what cursors need, goes in slices
between commits (`store/retention.py`). A backup (`store/backup.py`) is a read transaction on the log and a copy of
folders that do not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from upshot.store.backup import back_up, back_up_from_outside, pinned_log
    from upshot.store.entries import Encoded, Entry, LoggedFiring, LoggedRelation, NewProgram, OutboxTask
    from upshot.store.opening import accept_loss, open_lake_store, open_store
    from upshot.store.recovery import Recovered
    from upshot.store.retention import Retention
    from upshot.store.store import Store
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "Encoded": "upshot.store.entries",
            "Entry": "upshot.store.entries",
            "LoggedFiring": "upshot.store.entries",
            "NewProgram": "upshot.store.entries",
            "Recovered": "upshot.store.recovery",
            "LoggedRelation": "upshot.store.entries",
            "Retention": "upshot.store.retention",
            "Store": "upshot.store.store",
            "OutboxTask": "upshot.store.entries",
            "accept_loss": "upshot.store.opening",
            "back_up": "upshot.store.backup",
            "back_up_from_outside": "upshot.store.backup",
            "open_lake_store": "upshot.store.opening",
            "open_store": "upshot.store.opening",
            "pinned_log": "upshot.store.backup",
        },
    )

__all__ = [
    "Encoded",
    "Entry",
    "LoggedFiring",
    "LoggedRelation",
    "NewProgram",
    "OutboxTask",
    "Recovered",
    "Retention",
    "Store",
    "accept_loss",
    "back_up",
    "back_up_from_outside",
    "open_lake_store",
    "open_store",
    "pinned_log",
]
