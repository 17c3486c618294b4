"""The commands of the how-to for view updating that talk to a service are run, and print what it says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.service.served_process import ServedProcess
from tests.service.test_curl_client import PORT, comparable, parts, shell

PAGE = ROOT / "docs" / "how-to" / "view-updates.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl"),
]


def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    found = blocks(PAGE)
    (program,) = (block.text for block in found if block.language == "datalog")
    (tmp_path / "access.dl").write_text(program)
    compared = 0
    with ServedProcess(tmp_path / "access.dl", tmp_path / "access.store") as server:
        for block, behind in zip(found, [*found[1:], None], strict=True):
            if block.language == "sh" and block.text.startswith("curl"):
                assert behind is not None
                printed = comparable(shell(block.text, tmp_path, server.port))
                assert parts(printed) == parts(comparable(behind.text)), block.line
                compared += 1
        assert compared == 3
        (client,) = (block.text for block in found if block.language == "python" and "client" in block.text)
        exec(compile(client.replace(PORT, str(server.port)), f"{PAGE.name}", "exec"), {})
