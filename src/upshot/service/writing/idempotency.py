"""Transactions that were sent before: a repeated `Idempotency-Key` gets the first outcome, and nothing happens again.

The key is kept in the notes of its commit, so that a repetition is known after a restart too, as long as the log keeps
the commit.
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
class Sent:
    """The sender and key of a transaction, and a hash of its content."""

    token: str
    key: str
    body: str

    def notes(self) -> dict[str, Any]:
        return {"token": self.token, "key": self.key, "body": self.body}


def sent(token: str, key: str | None, raw: bytes) -> Sent | None:
    """The idempotency record of a request; None without a key."""
    if key is None:
        return None
    if not 1 <= len(key) <= LONGEST or not key.isprintable() or not key.isascii():
        hint = f"send 1 to {LONGEST} printable ASCII characters, such as a UUID"
        raise RequestError(400, "bad-request", "invalid `Idempotency-Key`", help=hint)
    return Sent(token, key, hashlib.sha256(raw).hexdigest())


class Repetitions:
    """Keys and the versions they made; used by the writer's thread alone."""

    def __init__(self, database: Database) -> None:
        self._versions: OrderedDict[tuple[str, str], tuple[str, int]] = OrderedDict()
        self._outcomes: OrderedDict[tuple[str, str], Transaction] = OrderedDict()
        for version, notes in reversed(list(_kept(database))):
            self.remember(Sent(notes["token"], notes["key"], notes["body"]), version)

    def version_of(self, sent: Sent) -> int | None:
        """The version that a transaction made when it was sent first, if it was."""
        found = self._versions.get((sent.token, sent.key))
        if found is None:
            return None
        if found[0] != sent.body:
            hint = "use a new key for each transaction"
            raise RequestError(409, "key-reused", "the `Idempotency-Key` belongs to another transaction", help=hint)
        return found[1]

    def outcome_of(self, sent: Sent) -> Transaction | None:
        """The outcome of an earlier request, if it is still in memory."""
        return self._outcomes.get((sent.token, sent.key))

    def remember(self, sent: Sent, version: int, made: Transaction | None = None) -> None:
        self._versions[sent.token, sent.key] = sent.body, version
        if made is not None:
            self._outcomes[sent.token, sent.key] = made
        while len(self._versions) > KEPT:
            self._versions.popitem(last=False)
        while len(self._outcomes) > KEPT_OUTCOMES:
            self._outcomes.popitem(last=False)

    def forget(self, sent: Sent) -> None:
        """It did not happen after all."""
        self._versions.pop((sent.token, sent.key), None)
        self._outcomes.pop((sent.token, sent.key), None)


def _kept(database: Database) -> list[tuple[int, Mapping[str, str]]]:
    """The versions of the log that carry a key, newest first."""
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
        # The log does not reach back to the beginning; the error names where it begins.
        return _after(database)


def _after(database: Database) -> Any:
    low, high = 0, database.version
    while low < high:
        middle = (low + high) // 2
        try:
            database.history(middle)
            high = middle
        except UsageError:
            low = middle + 1
    return database.history(low, reverse=True)
