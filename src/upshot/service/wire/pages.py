"""Pages of large answers, in any order, of one version. A cursor has the last row of the previous page."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from upshot.core.json_values import JsonMisfit, row_reader, to_json
from upshot.core.row_order import RowOrder, row_order
from upshot.core.rows import Row, Rows
from upshot.service.wire.errors import RequestError

_MOST_ROWS = 2_000_000
_LIFETIME = 300.0
_LONGEST_ROW = 1_000
"""The longest row, in characters, in a cursor; a longer one is stored with its listing."""
LONGEST_CURSOR = 2_000


@dataclass(frozen=True, slots=True)
class Listing:
    """All rows of an answer at one version; pages are decoded one at a time. `subject` is the relation and its
    selection, or the query and its parameters."""

    view: str
    subject: str
    version: int
    rows: Rows
    order: str | None = None
    is_sorted: bool = False
    """True if the rows have the order of a SELECT. A cursor is then a number of rows."""
    time: dt.datetime | None = None
    """The time of a requested earlier version, if the log has it."""
    positions: list[Row] = field(default_factory=list)
    """Rows that are too long for a cursor."""

    @property
    def digest(self) -> str:
        return _digest(self.subject, self.order)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a listing; `next` is the cursor of the following page."""

    listing: Listing
    rows: Rows
    next: str | None


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for at most `limit` rows of a subject, in an order, after a cursor. With `consistent`, all pages are of
    the version of the first."""

    subject: str
    limit: int
    order: str | None = None
    after: str | None = None
    consistent: bool = True


@dataclass(frozen=True, slots=True)
class _PageCursor:
    key: str
    version: int
    digest: str
    order: str | None
    position: list[Any] | int
    """The last row as JSON; or a number of rows; or the index of a long row in `Listing.positions`."""


class Pages:
    """Keeps the listings of open cursors for a few minutes. Beyond a number of rows, the least recently used are
    dropped."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: OrderedDict[str, tuple[Listing, float]] = OrderedDict()
        self._rows = 0

    def page(self, request: PageRequest, read: Callable[[], Listing]) -> Page:
        """The requested page; `read` recreates a dropped listing."""
        if request.after is None:
            listing = replace(read(), order=request.order)
            return self._page(None, listing, _order(listing), None, request.limit)
        cursor = _read(request.after)
        if request.order not in (None, cursor.order):
            raise _bad_cursor("`after` belongs to another `order`")
        if cursor.digest != _digest(request.subject, cursor.order):
            raise _expired("this page belongs to another view or query")
        kept = self._listing(cursor)
        listing = kept or self._read_again(request, cursor, read)
        key = cursor.key if kept else None
        return self._page(key, listing, _order(listing), _position(cursor, listing), request.limit)

    def _read_again(self, request: PageRequest, cursor: _PageCursor, read: Callable[[], Listing]) -> Listing:
        """Recreate the listing of a cursor. It is the same if its version is."""
        listing = replace(read(), order=cursor.order)
        has_row = isinstance(cursor.position, list)
        if (listing.version == cursor.version and (has_row or listing.is_sorted)) or (
            has_row and not request.consistent
        ):
            return listing
        raise _expired("this page is no longer kept")

    def _page(
        self, key: str | None, listing: Listing, order: RowOrder | None, position: Row | int | None, limit: int
    ) -> Page:
        if order is None:
            first = position if isinstance(position, int) else 0
            rows, end = listing.rows.part(first, first + limit), first + limit
            if end >= len(listing.rows):
                return Page(listing, rows, None)
            return Page(listing, rows, _text(self._keep(key, listing), listing, end))
        after = None if isinstance(position, int) else position
        if after is None and len(listing.rows) <= limit:
            return Page(listing, Rows.of(listing.rows.schema, listing.rows.page(limit, order)), None)
        found = listing.rows.page(limit + 1, order, after)
        rows = Rows.of(listing.rows.schema, found[:limit])
        if len(found) <= limit:
            return Page(listing, rows, None)
        key = self._keep(key, listing)
        shown: list[Any] | int = [to_json(value) for value in found[limit - 1]]
        if len(json.dumps(shown)) > _LONGEST_ROW:
            listing.positions.append(found[limit - 1])
            shown = len(listing.positions) - 1
        return Page(listing, rows, _text(key, listing, shown))

    def _keep(self, key: str | None, listing: Listing) -> str:
        if key is not None:
            return key
        key = secrets.token_urlsafe(12)
        with self._guard:
            self._kept[key] = listing, time.monotonic() + _LIFETIME
            self._rows += len(listing.rows)
            self._make_room()
        return key

    def _listing(self, cursor: _PageCursor) -> Listing | None:
        with self._guard:
            self._make_room()
            listing, _ = self._kept.get(cursor.key, (None, 0.0))
            if listing is None or listing.digest != cursor.digest:
                return None
            self._kept.move_to_end(cursor.key)
            self._kept[cursor.key] = listing, time.monotonic() + _LIFETIME
        return listing

    def _make_room(self) -> None:
        now = time.monotonic()
        for key, (_, until) in list(self._kept.items()):
            if until < now:
                self._rows -= len(self._kept.pop(key)[0].rows)
        while self._rows > _MOST_ROWS and len(self._kept) > 1:
            _, (listing, _) = self._kept.popitem(last=False)
            self._rows -= len(listing.rows)


def _order(listing: Listing) -> RowOrder | None:
    if listing.is_sorted and listing.order is None:
        return None
    return row_order(listing.rows.schema, listing.order)


def _digest(subject: str, order: str | None) -> str:
    return hashlib.sha256(json.dumps([subject, order]).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _text(key: str, listing: Listing, position: list[Any] | int) -> str:
    content = [key, listing.version, listing.digest, listing.order, position]
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.urlsafe_b64encode(text.encode("utf-8", "backslashreplace")).decode().rstrip("=")


def _read(text: str) -> _PageCursor:
    try:
        content = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        content = None
    match content:
        case [str(key), int(version), str(digest), str() | None as order, list() | int() as position] if not (
            isinstance(position, bool) or (isinstance(position, int) and position < 0)
        ):
            return _PageCursor(key, version, digest, order, position)
        case _:
            raise _bad_cursor("invalid `after`")


def _position(cursor: _PageCursor, listing: Listing) -> Row | int:
    """The row, or the number of rows, after which a page starts."""
    if isinstance(cursor.position, list):
        try:
            return row_reader(listing.rows.schema)(cursor.position)
        except JsonMisfit:
            raise _bad_cursor("the row in `after` has other columns than the answer") from None
    if listing.is_sorted and listing.order is None:
        return cursor.position
    if cursor.position >= len(listing.positions):
        raise _bad_cursor("invalid `after`")
    return listing.positions[cursor.position]


def _bad_cursor(message: str) -> RequestError:
    return RequestError(
        400, "bad-cursor", message, help="use `next` of the previous page, and the same `order` or none"
    )


def _expired(message: str) -> RequestError:
    hint = "start again without `after`, or continue in the current version with `consistent=false`"
    return RequestError(410, "page-expired", message, help=hint)
