"""Ranks of text values by code, so that the kernel can compare them: the codes are not ordered."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from upshot.engine.local.kernel.memory import Account, Buffer, store8

if TYPE_CHECKING:
    from upshot.engine.local.storage.codec import Dictionary

_TOP = 1 << 62
_MANY = 8
"""All values are ranked again if more than one in this many is unranked."""


class TextOrder:
    """Ranks with gaps, so that new values fit between neighbors until all are ranked again. `address` is that of two
    words that do not move: the address of the ranks, one word per code, and their number. Rank 0 means unknown."""

    def __init__(self, texts: Dictionary, account: Account | None = None) -> None:
        self._texts = texts
        self._words, self._ranks = Buffer(16), Buffer(account=account)
        self.address = self._words.address
        self._sorted: list[str] = []
        self._sweeps = -1
        texts.unranked = []

    def learn(self) -> None:
        """Rank every value that has a code."""
        texts = self._texts
        unranked, texts.unranked = texts.unranked or [], []
        if self._sweeps != texts.sweeps or len(unranked) * _MANY > len(self._sorted):
            self._rank_all()
            return
        self._make_room()
        for code in unranked:
            if not self._rank(texts.values[code], code):
                self._rank_all()
                return

    def _rank(self, text: str, code: int) -> bool:
        """Rank one value between its neighbors; return whether there was room."""
        place = bisect_left(self._sorted, text)
        ranks = self._ranks.view(np.int64, len(self._texts.values))
        below = int(ranks[self._texts.codes[self._sorted[place - 1]]]) if place else 0
        above = int(ranks[self._texts.codes[self._sorted[place]]]) if place < len(self._sorted) else _TOP
        middle = (below + above) // 2
        if middle == below:
            return False
        ranks[code] = middle
        self._sorted.insert(place, text)
        return True

    def _rank_all(self) -> None:
        codes = self._texts.codes
        self._make_room()
        self._sorted = sorted(codes)
        self._sweeps = self._texts.sweeps
        ranks = self._ranks.view(np.int64, len(self._texts.values))
        ranks[:] = 0
        step = _TOP // (len(codes) + 1)
        places = np.fromiter((codes[text] for text in self._sorted), np.int64, len(codes))
        ranks[places] = step * np.arange(1, len(codes) + 1)

    def _make_room(self) -> None:
        count = len(self._texts.values)
        self._ranks.reserve(8 * max(16, count, count * 3 // 2 if 8 * count > self._ranks.size else 0))
        store8(self._words.address, 0, self._ranks.address)
        store8(self._words.address, 1, count)
