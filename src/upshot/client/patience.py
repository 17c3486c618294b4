"""How long to wait before trying again: longer each time, and not all clients at once."""

from __future__ import annotations

import random

FIRST, LONGEST = 0.1, 10.0
_GROWTH = 2.0


class Patience:
    """The waits of one row of failures. Each is random, so that clients a restart has cut off come back spread out.

    >>> patience = Patience(random.Random(1))
    >>> waits = [patience.next() for _ in range(20)]
    >>> max(waits) <= LONGEST, waits[0] <= FIRST
    (True, True)
    """

    def __init__(self, dice: random.Random | None = None, *, first: float | None = None) -> None:
        self._dice = dice or random.Random()
        self._first = FIRST if first is None else first
        self._bound = self._first

    def next(self, least: float = 0.0) -> float:
        """Seconds to wait now; `least` is what the service asked for."""
        wait = self._dice.uniform(self._bound / 2, self._bound)
        self._bound = min(self._bound * _GROWTH, LONGEST)
        return max(wait, min(least, LONGEST))

    def reset(self) -> None:
        """Something worked."""
        self._bound = self._first
