"""The example of the page on strategies runs, and prints what the page says."""

from __future__ import annotations

import contextlib
import io

from tests.docs.markdown import ROOT, blocks

PAGE = ROOT / "docs" / "explanation" / "strategies.md"


def test_the_example_prints_what_the_page_says() -> None:
    code, printed = (next(b.text for b in blocks(PAGE) if b.language == language) for language in ("python", "text"))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {})
    assert out.getvalue() == printed
