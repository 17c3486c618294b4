"""Large answers in pages, all of one version."""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from upshot.core.rows import Rows
from upshot.service.wire.errors import Refused

_MOST_ROWS = 2_000_000
_LIFETIME = 300.0


@dataclass(frozen=True, slots=True)
class Listing:
    """All rows of an answer at one version, those of a large one decoded page by page."""

    view: str
    where: str | None
    version: int
    rows: Rows


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing; `next` asks for the part behind it."""

    listing: Listing
    rows: Rows
    next: str | None


class Pages:
    """Listings that somebody has begun to read, for a few minutes each; those not asked for go first when there are too
    many rows."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: OrderedDict[str, tuple[Listing, float]] = OrderedDict()
        self._rows = 0

    def first(self, listing: Listing, limit: int) -> Page:
        """The first page; what is behind it is kept."""
        if len(listing.rows) <= limit:
            return Page(listing, listing.rows, None)
        key = secrets.token_urlsafe(12)
        with self._guard:
            self._kept[key] = listing, time.monotonic() + _LIFETIME
            self._rows += len(listing.rows)
            self._make_room()
        return Page(listing, listing.rows.part(0, limit), _cursor(key, limit))

    def following(self, view: str, where: str | None, cursor: str, limit: int) -> Page:
        """The page that a cursor asks for, of the same view and selection."""
        key, offset = _read(cursor)
        with self._guard:
            self._make_room()
            listing, _ = self._kept.get(key, (None, 0.0))
            if listing is None or (listing.view, listing.where) != (view, where):
                hint = "start again without `after`"
                raise Refused(410, "page-expired", "this page is no longer kept", help=hint)
            self._kept.move_to_end(key)
            self._kept[key] = listing, time.monotonic() + _LIFETIME
        end = offset + limit
        return Page(listing, listing.rows.part(offset, end), _cursor(key, end) if end < len(listing.rows) else None)

    def _make_room(self) -> None:
        now = time.monotonic()
        for key, (_, until) in list(self._kept.items()):
            if until < now:
                self._rows -= len(self._kept.pop(key)[0].rows)
        while self._rows > _MOST_ROWS and len(self._kept) > 1:
            _, (listing, _) = self._kept.popitem(last=False)
            self._rows -= len(listing.rows)


def _cursor(key: str, offset: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([key, offset]).encode()).decode().rstrip("=")


def _read(cursor: str) -> tuple[str, int]:
    try:
        key, offset = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, TypeError):
        key, offset = None, None
    if not isinstance(key, str) or not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise Refused(400, "bad-cursor", "invalid `after`", help="use `next` of the previous page")
    return key, offset
