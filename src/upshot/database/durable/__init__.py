"""Durable databases: journal, recovery, history, retention, backups, batches of streams.

Commits in; versions that outlive the process out. Read `durable`, `journal`, `history`.
"""
