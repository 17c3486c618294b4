"""The how-to for large views does what it says: its examples run against a service over its program."""

from __future__ import annotations

import doctest

import upshot
from tests.cli.test_tutorial import FENCE
from tests.docs.markdown import ROOT
from tests.service.serving import Running

PAGE = ROOT / "docs" / "how-to" / "large-views.md"


def test_every_example_prints_what_the_page_shows() -> None:
    blocks = [(match[1], match[3]) for match in FENCE.finditer(PAGE.read_text(encoding="utf-8"))]
    database = upshot.connect()
    database.define(next(text for language, text in blocks if language == "datalog"))
    with Running(database) as server:
        known = {"SERVICE": f"http://127.0.0.1:{server.port}"}
        text = "\n".join(text for language, text in blocks if language == "python")
        test = doctest.DocTestParser().get_doctest(text, known, PAGE.name, str(PAGE), 0)
        assert len(test.examples) > 10
        assert doctest.DocTestRunner().run(test).failed == 0
