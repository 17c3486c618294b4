from __future__ import annotations

import contextlib
import io

from tests.docs.markdown import ROOT, blocks

README = ROOT / "README.md"


def test_the_example_prints_what_the_readme_says() -> None:
    code, printed = (next(b.text for b in blocks(README) if b.language == language) for language in ("python", "text"))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {})
    assert output.getvalue() == printed


def test_the_example_stays_short() -> None:
    (code,) = (b.text for b in blocks(README) if b.language == "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
