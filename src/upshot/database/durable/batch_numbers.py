"""The last batch of each stream that was applied to a database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Batches:
    """One batch at a time is applied; its number is known from then on, and looked up in the store before."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    _last: dict[str, int] = field(default_factory=dict)

    def last(self, stream: str, stored: Callable[[str], int | None]) -> int | None:
        if stream not in self._last:
            found = stored(stream)
            if found is None:
                return None
            self._last[stream] = found
        return self._last[stream]

    def applied(self, stream: str, batch: int) -> None:
        self._last[stream] = batch
