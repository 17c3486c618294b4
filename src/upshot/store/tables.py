"""The tables of the log, as SQLite is told to make them."""

from __future__ import annotations

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE commits (
    version INTEGER PRIMARY KEY, time TEXT NOT NULL, meta TEXT, relations INTEGER NOT NULL, rows INTEGER NOT NULL,
    bytes INTEGER NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE changes (
    version INTEGER NOT NULL, relation TEXT NOT NULL, inserted INTEGER NOT NULL, deleted INTEGER NOT NULL, came BLOB,
    went BLOB, crc INTEGER NOT NULL, PRIMARY KEY (version, relation)) WITHOUT ROWID;
CREATE INDEX changes_of_relation ON changes (relation, version);
CREATE TABLE definitions (
    version INTEGER PRIMARY KEY, program TEXT NOT NULL, relations TEXT NOT NULL, reset TEXT NOT NULL,
    hidden TEXT NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE snapshots (
    version INTEGER PRIMARY KEY, time TEXT NOT NULL, relations TEXT NOT NULL, saved TEXT NOT NULL, hidden TEXT NOT NULL,
    crc INTEGER NOT NULL);
"""

LATER_TABLES = (
    """CREATE TABLE IF NOT EXISTS outbox (
    version INTEGER NOT NULL, number INTEGER NOT NULL, task TEXT NOT NULL, rows BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (version, number)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS records (
    kind TEXT NOT NULL, id TEXT NOT NULL, text TEXT NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (kind, id)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS cursors (
    name TEXT PRIMARY KEY, version INTEGER NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID""",
)
"""Stores that were made before there was one of these get it when they are opened."""
