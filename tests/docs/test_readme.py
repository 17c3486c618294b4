from __future__ import annotations

import contextlib
import io
from typing import Any

from tests.docs.markdown import ROOT, Block, blocks

README = ROOT / "README.md"


def _examples() -> list[tuple[Block, Block]]:
    """Each example with the block under it."""
    found = blocks(README)
    return [(block, found[place + 1]) for place, block in enumerate(found) if block.language == "python"]


def test_each_example_prints_what_the_readme_says() -> None:
    names: dict[str, Any] = {}
    for example, printed in _examples():
        assert printed.language == "text"
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(example.text, "README.md", "exec"), names)
        assert output.getvalue() == printed.text


def test_the_examples_stay_short() -> None:
    assert len(_examples()) == 4
    for example, _ in _examples():
        assert len([line for line in example.text.splitlines() if line.strip()]) <= 20
