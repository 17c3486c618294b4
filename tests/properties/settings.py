"""How many random cases run, and which: UPSHOT_CASES and UPSHOT_SEED."""

from __future__ import annotations

import hashlib
import os

DEFAULT_SEED = 20260131


def base_seed() -> int:
    return int(os.environ.get("UPSHOT_SEED", DEFAULT_SEED))


def case_count(default: int) -> int:
    """The number of cases of a whole suite."""
    return int(os.environ.get("UPSHOT_CASES", default))


def seed_of(suite: str, number: int) -> int:
    """The seed of one case: other suites and other base seeds give other cases."""
    return int.from_bytes(hashlib.sha256(f"{base_seed()}/{suite}/{number}".encode()).digest()[:6])
