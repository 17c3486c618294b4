"""The how-to for subscriptions does what it says: its examples run against a service over its program."""

from __future__ import annotations

import doctest
import queue
from pathlib import Path

import pytest

import upshot
from tests.cli.test_tutorial import FENCE
from tests.docs.markdown import ROOT
from tests.service.served_process import PATIENCE
from tests.service.serving import Running
from tests.service.test_webhooks import SECRET, SETTINGS, Receiver

PAGE = ROOT / "docs" / "how-to" / "subscriptions.md"


def test_every_example_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSHOT_WEBHOOK_SECRET_HOOKS", SECRET)
    blocks = [(match[1], match[3]) for match in FENCE.finditer(PAGE.read_text(encoding="utf-8"))]
    database = upshot.connect(tmp_path / "network.store")
    database.define(next(text for language, text in blocks if language == "datalog"))
    deliveries: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()
    receiver = Receiver()
    receiver.before_answer = lambda: deliveries.put(receiver.attempts[-1])

    def received() -> tuple[dict[str, str], bytes]:
        headers, body = deliveries.get(timeout=PATIENCE)
        return {"-".join(part.capitalize() for part in name.split("-")): each for name, each in headers.items()}, body

    try:
        with Running(database, SETTINGS) as server:
            known = {
                "SERVICE": f"http://127.0.0.1:{server.port}", "RECEIVER": receiver.url, "SECRET": SECRET,
                "received": received,
            }  # fmt: skip
            text = "\n".join(text for language, text in blocks if language == "python")
            test = doctest.DocTestParser().get_doctest(text, known, PAGE.name, str(PAGE), 0)
            assert len(test.examples) > 20
            assert doctest.DocTestRunner().run(test).failed == 0
    finally:
        receiver.close()
