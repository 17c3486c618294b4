"""Clients that do not wait long."""

from __future__ import annotations

import pytest

from upshot.client import patience


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "FIRST", 0.002)
    monkeypatch.setattr(patience, "LONGEST", 0.05)
    monkeypatch.delenv("UPSHOT_TOKEN", raising=False)
