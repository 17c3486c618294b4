"""What every suite shares: how many random cases to run, and from which seed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

CASES = int(os.environ.get("UPSHOT_CASES", "200"))
SEED = int(os.environ.get("UPSHOT_SEED", "1"))

# Deadlines measure the machine, not the code; a failing example is printed as a call that can be pasted into a test.
settings.register_profile("upshot", deadline=None, max_examples=max(20, min(CASES, 2_000) // 10), print_blob=True)
settings.load_profile("upshot")


def pytest_report_header() -> str:
    return f"UPSHOT_CASES={CASES} UPSHOT_SEED={SEED}"


def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis draws from the same seed as everything else, unless the command line names another one."""
    if getattr(config.option, "hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(SEED)


@pytest.fixture(scope="session")
def cases() -> int:
    """How many random cases a property test should try in all."""
    return CASES


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this run; a test that draws at random derives all its randomness from it and prints it on failure."""
    return SEED


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the repository."""
    return Path(__file__).resolve().parent.parent
