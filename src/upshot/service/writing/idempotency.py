"""Repeated transactions: a repeated `Idempotency-Key` gets the outcome of the first request, and nothing else happens.

The key is stored in the metadata of the commit, so a repetition is recognized after a restart, too, as long as the log
has the commit.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upshot.core.errors import UsageError
from upshot.database.database import Database
from upshot.database.transaction import Transaction
from upshot.service.wire.bodies import RESERVED
from upshot.service.wire.errors import RequestError

KEPT = 10_000
KEPT_OUTCOMES = 500
LONGEST = 200


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """The sender, key and body hash of a transaction."""

    token: str
    key: str
    body: str

    def metadata(self) -> dict[str, Any]:
        return {"token": self.token, "key": self.key, "body": self.body}


def idempotency_key(token: str, key: str | None, raw: bytes) -> IdempotencyKey | None:
    """The idempotency record of a request; None without a key."""
    if key is None:
        return None
    if not 1 <= len(key) <= LONGEST or not key.isprintable() or not key.isascii():
        hint = f"send 1 to {LONGEST} printable ASCII characters, such as a UUID"
        raise RequestError(400, "bad-request", "invalid `Idempotency-Key`", help=hint)
    return IdempotencyKey(token, key, hashlib.sha256(raw).hexdigest())


class Repetitions:
    """Keys and the versions of their transactions. Used by the writer's thread only."""

    def __init__(self, database: Database) -> None:
        self._versions: OrderedDict[tuple[str, str], tuple[str, int]] = OrderedDict()
        self._outcomes: OrderedDict[tuple[str, str], Transaction] = OrderedDict()
        for version, notes in reversed(list(_kept(database))):
            self.remember(IdempotencyKey(notes["token"], notes["key"], notes["body"]), version)

    def version_of(self, key: IdempotencyKey) -> int | None:
        """The version of the first request with this key, None if there was none."""
        found = self._versions.get((key.token, key.key))
        if found is None:
            return None
        if found[0] != key.body:
            hint = "use a new key for each transaction"
            raise RequestError(409, "key-reused", "the `Idempotency-Key` belongs to another transaction", help=hint)
        return found[1]

    def outcome_of(self, key: IdempotencyKey) -> Transaction | None:
        """The outcome of the first request, if it is still in memory."""
        return self._outcomes.get((key.token, key.key))

    def remember(self, key: IdempotencyKey, version: int, made: Transaction | None = None) -> None:
        self._versions[key.token, key.key] = key.body, version
        if made is not None:
            self._outcomes[key.token, key.key] = made
        while len(self._versions) > KEPT:
            self._versions.popitem(last=False)
        while len(self._outcomes) > KEPT_OUTCOMES:
            self._outcomes.popitem(last=False)

    def forget(self, key: IdempotencyKey) -> None:
        """Remove a transaction that could not be written."""
        self._versions.pop((key.token, key.key), None)
        self._outcomes.pop((key.token, key.key), None)


def _kept(database: Database) -> list[tuple[int, Mapping[str, str]]]:
    """The versions in the log with a key, newest first."""
    if not database.is_durable:
        return []
    found: list[tuple[int, Mapping[str, str]]] = []
    for commit in _commits(database):
        notes = commit.meta.get(RESERVED)
        if isinstance(notes, dict) and {"token", "key", "body"} <= notes.keys():
            found.append((commit.version, notes))
            if len(found) == KEPT:
                break
    return found


def _commits(database: Database) -> Any:
    try:
        return database.history(reverse=True)
    except UsageError:
        # The log does not have the first versions.
        return _oldest_kept(database)


def _oldest_kept(database: Database) -> Any:
    low, high = 0, database.version
    while low < high:
        middle = (low + high) // 2
        try:
            database.history(middle)
            high = middle
        except UsageError:
            low = middle + 1
    return database.history(low, reverse=True)
