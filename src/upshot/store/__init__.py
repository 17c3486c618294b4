"""Commits that outlive the process: the log, snapshots of relations, recovery.

A store is a folder. It takes rows and gives rows; what they mean, and which engine works them out, it does not know.
"""

from upshot.store.backup import back_up, back_up_from_outside, pinned_log
from upshot.store.entries import Entry, NewProgram, Relation, Task
from upshot.store.log import Encoded
from upshot.store.opening import open_lake_store, open_store
from upshot.store.recovery import Recovered
from upshot.store.retention import Retention
from upshot.store.store import Store

__all__ = [
    "Encoded",
    "Entry",
    "NewProgram",
    "Recovered",
    "Relation",
    "Retention",
    "Store",
    "Task",
    "back_up",
    "back_up_from_outside",
    "open_lake_store",
    "open_store",
    "pinned_log",
]
