"""How many random cases run, and which: UPSHOT_CASES and UPSHOT_SEED."""

from __future__ import annotations

import hashlib
import os

DEFAULT_SEED = 20260131
CASES = 120
"""Random cases of `make test`: one for each focus and strategy. `make soak` takes more, with other seeds."""
SOAK = 10_000


def base_seed() -> int:
    return int(os.environ.get("UPSHOT_SEED", DEFAULT_SEED))


def case_count(share: int = 1, *, least: int = 1) -> int:
    """How many cases a test takes: one in `share` of UPSHOT_CASES, for tests whose cases cost more than those of the
    local engine. At least `least`, so that it shows something; a quarter of that is enough for `make check`."""
    asked = int(os.environ.get("UPSHOT_CASES", CASES))
    return max(least if asked >= CASES else -(-least // 4), asked // share)


def is_soak() -> bool:
    """Whether the run was told to take its time."""
    return case_count() > SOAK


def is_slice() -> bool:
    """Test whether this is `make check` or `make test`, which take short cases where a step costs much."""
    return case_count() <= CASES


def seed_of(suite: str, number: int) -> int:
    """The seed of one case: other suites and other base seeds give other cases."""
    return int.from_bytes(hashlib.sha256(f"{base_seed()}/{suite}/{number}".encode()).digest()[:6])
