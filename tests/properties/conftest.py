"""Prints the seed of the random cases, so that a run can be repeated."""

from __future__ import annotations

import pytest

from tests.properties.settings import base_seed


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"random cases: UPSHOT_SEED={base_seed()}")
