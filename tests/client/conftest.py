"""Clients that do not wait long."""

from __future__ import annotations

import pytest

from upshot.client import requests


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "FIRST", 0.002)
    monkeypatch.setattr(requests, "LONGEST", 0.05)
    monkeypatch.delenv("UPSHOT_TOKEN", raising=False)
