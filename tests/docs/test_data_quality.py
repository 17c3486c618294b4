"""The how-to for data quality does what it says: its examples run, its pipeline too."""

from __future__ import annotations

import doctest
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import environment_with
from tests.cli.test_tutorial import FENCE, console
from tests.docs.markdown import ROOT
from tests.pipeline.test_tutorial_pipeline import shims
from tests.run_suites import missing_for_spark

PAGE = ROOT / "docs" / "how-to" / "data-quality.md"


def _blocks() -> list[tuple[str, str | None, str]]:
    return [(match[1], match[2], match[3]) for match in FENCE.finditer(PAGE.read_text(encoding="utf-8"))]


def test_every_example_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n".join(text for language, file, text in _blocks() if language == "python" and file is None)
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 20
    assert doctest.DocTestRunner().run(test).failed == 0


def test_every_block_is_a_file_or_is_run() -> None:
    assert all(file is not None or language in ("python", "console") for language, file, _ in _blocks())
    assert all(text.startswith(">>>") for language, file, text in _blocks() if language == "python" and file is None)


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_for_spark()), reason=missing_for_spark())
def test_the_violations_of_a_pipeline_have_a_sink_of_their_own(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    environment = environment_with(PATH=shims(tmp_path / "bin"))
    for language, file, text in _blocks():
        if file is not None:
            (work / file).write_text(text, encoding="utf-8")
        elif language == "console":
            for command, expected in console(text):
                ended = subprocess.run(
                    command, shell=True, cwd=work, env=environment, stdout=-1, stderr=subprocess.STDOUT, timeout=300
                )
                assert ended.stdout.decode() == expected, f"$ {command}"
