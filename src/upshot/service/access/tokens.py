"""The token file: names, hashes and scopes of tokens. A token itself is printed once, when it is created.

[token.dashboard]
hash = "sha256:9f86…"
read = ["closure", "edge"]      # relations, views, constraints and rules by name; "*" is all of them
write = []
subscribe = true
admin = false
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import threading
import time
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upshot.core.errors import UsageError, system_reason
from upshot.service.access.scopes import Scopes

log = logging.getLogger("upshot.service")

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_KEYS = ("hash", "read", "write", "subscribe", "admin")
_CHECK_EVERY = 2.0
"""Seconds between two checks of the file: a removed token is valid for at most that long."""
_QUIET = 0.2
"""Seconds without a change of the file before a missing entry counts as removed: the file may be incomplete while it is
written, and two writes in quick succession can have the same time stamp."""


Stamp = tuple[int, int, int]
"""The time of change, the size and the identity of a file."""


@dataclass(frozen=True, slots=True)
class Token:
    """One entry of the file."""

    hash: str
    scopes: Scopes


def hash_of(token: str) -> str:
    """The hash of a token, as the file stores it. A token is random and long: a plain hash cannot be inverted."""
    return "sha256:" + hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Tokens:
    """The tokens of a file, read again when the file changes. While the file cannot be read, its last readable content
    stays valid."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._stamp = _stamp(path)
        self._entries = read_tokens(path)
        self._bad: Stamp | None = None
        self._is_written = self._stamp is not None and _is_fresh(self._stamp)
        """True if the file changed so recently that it may be incomplete."""
        self._checked_at = time.monotonic()

    def find(self, token: str) -> Scopes | None:
        """The scopes of a token."""
        return self.hashed(hash_of(token))

    def hashed(self, hash: str) -> Scopes | None:
        """The scopes of the token with this hash. For an unknown hash the file is checked again, so that a new token
        is valid immediately."""
        found = _scopes_of(hash, self._current())
        return _scopes_of(hash, self._current(force=True)) if found is None else found

    def named(self, name: str) -> Scopes | None:
        """The scopes of the token of this name, if it still exists."""
        entry = self._current().get(name)
        return None if entry is None else entry.scopes

    def _current(self, *, force: bool = False) -> Mapping[str, Token]:
        with self._guard:
            if time.monotonic() - self._checked_at >= _CHECK_EVERY:
                self._checked_at = time.monotonic()
                self._bad = None
                force = True
            stamp = _stamp(self._path) if force or self._is_written else self._stamp
            if stamp not in (self._stamp, self._bad) or self._is_written:
                self._read(stamp)
            return self._entries

    def _read(self, stamp: Stamp | None) -> None:
        self._is_written = stamp is not None and _is_fresh(stamp)
        try:
            entries = read_tokens(self._path)
        except UsageError as error:
            if not self._is_written:
                self._bad = stamp
                log.error("the tokens stay as they were: %s", error.message)
            return
        if self._is_written:
            # The file may be incomplete: keep the known entries.
            known = self._entries
            new = {name: each for name, each in entries.items() if name not in known or each.hash != known[name].hash}
            entries = {**known, **new}
        self._entries, self._stamp = entries, stamp


def _scopes_of(hash: str, entries: Mapping[str, Token]) -> Scopes | None:
    """Compare every entry, in constant time."""
    found = None
    for entry in entries.values():
        if hmac.compare_digest(hash, entry.hash):
            found = entry.scopes
    return found


def _is_fresh(stamp: Stamp) -> bool:
    return abs(time.time_ns() - stamp[0]) < _QUIET * 1e9


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_tokens(path: Path) -> dict[str, Token]:
    """The entries of a file by name, or a `UsageError` with the fault of the file."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise _bad_file(path, f"is not readable: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise _bad_file(path, f"is not TOML: {error}") from None
    listed = content.get("token", {})
    if set(content) - {"token"} or not isinstance(listed, dict):
        raise _bad_file(path, "may have only tables `[token.NAME]`")
    found = {name: _entry(path, name, entry) for name, entry in listed.items()}
    if len({entry.hash for entry in found.values()}) < len(found):
        raise _bad_file(path, "has one token under two names")
    return found


def _entry(path: Path, name: str, entry: Any) -> Token:
    if not NAME.fullmatch(name) or not isinstance(entry, dict):
        raise _bad_file(path, f"has an invalid name in `[token.{name}]`: use letters, digits, `_` and `-`")
    for key in entry:
        if key not in _KEYS:
            raise _bad_file(path, f"has an unknown key `{key}` in `[token.{name}]`")
    hash = entry.get("hash")
    if not isinstance(hash, str) or not _HASH.fullmatch(hash):
        raise _bad_file(path, f'has no `hash = "sha256:…"` in `[token.{name}]`')
    lists = {key: entry.get(key, []) for key in ("read", "write")}
    for key, names in lists.items():
        if not isinstance(names, list) or not all(isinstance(each, str) and each for each in names):
            raise _bad_file(path, f"needs a list of names for `{key}` in `[token.{name}]`")
    flags = {key: entry.get(key, False) for key in ("subscribe", "admin")}
    for key, value in flags.items():
        if not isinstance(value, bool):
            raise _bad_file(path, f"needs true or false for `{key}` in `[token.{name}]`")
    return Token(hash, Scopes(name, frozenset(lists["read"]), frozenset(lists["write"]), **flags))


def _bad_file(path: Path, fault: str) -> UsageError:
    hint = "create entries with `upshot token NAME --tokens FILE`"
    return UsageError(f"token file `{path}` {fault}", code="bad-tokens", help=hint)


def add_token(path: Path, name: str, *, read: Sequence[str], write: Sequence[str], subscribe: bool, admin: bool) -> str:
    """Create a token, add its hash to the file, and return the token. The file is created if necessary."""
    if not NAME.fullmatch(name):
        hint = "use letters, digits, `_` and `-`, start with a letter, at most 64"
        raise UsageError(f"`{name}` is not a valid token name", code="wrong-argument", help=hint)
    known = read_tokens(path) if path.exists() else {}
    if name in known:
        hint = "remove it from the file first, or use another name"
        raise UsageError(f"token `{name}` already exists", code="wrong-argument", help=hint)
    token = f"upshot_{secrets.token_urlsafe(32)}"
    entry = [
        f"[token.{name}]",
        f'hash = "{hash_of(token)}"',
        f"read = {_listed(read)}",
        f"write = {_listed(write)}",
        f"subscribe = {str(subscribe).lower()}",
        f"admin = {str(admin).lower()}",
    ]
    _append(path, "\n".join(entry) + "\n")
    return token


def _listed(names: Sequence[str]) -> str:
    # A JSON list in ASCII is also TOML.
    return json.dumps(list(names))


def _append(path: Path, entry: str) -> None:
    """Append the entry. The file is replaced atomically; a new file is readable by its owner only."""
    before = path.read_text("utf-8") if path.exists() else ""
    mode = path.stat().st_mode & 0o777 if before else 0o600
    glue = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as stream:
            stream.write(before + glue + entry)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, path)
    except OSError as error:
        with suppress(OSError):  # a directory without write access does not allow deletion either
            fresh.unlink(missing_ok=True)
        raise UsageError(
            f"the file of tokens `{path}` cannot be written: {system_reason(error)}",
            code="bad-tokens",
            help="no token was made; check that its directory is writable and has free space",
        ) from None
