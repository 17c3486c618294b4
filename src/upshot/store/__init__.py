"""The store of a durable database: the log, snapshots of relations, recovery.

A store is a directory. It takes rows and returns rows, and depends on neither their meaning nor the engine.

The log is in SQLite, one record a commit (version, time, the caller's metadata, the program if it changed, the exact
deltas); large deltas and snapshots are Parquet files beside it. The record is the commit: it is written after
constraints were checked and before the engine accepts. Recovery reads the newest complete snapshot and the records
after it. The format: docs/reference/store-format.md.

To change a record or add one, edit its section in `entries`: fields, row, table, writing and reading. `encoding`
encodes values; `log` has the queries.

A group (`database/group.py`) is transactions with one write: the engine accepts each as it ends, but its record waits,
and so do readers, subscribers and the outbox, until all records are written; if that fails, the base changes are
undone. Commits beyond the bounds of retention and not needed by cursors are dropped in slices between commits
(`store/retention.py`). A backup (`store/backup.py`) is a read transaction on the log and a copy of immutable folders.
"""
