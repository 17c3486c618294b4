"""Files of SQL at the command line, in a pipeline and behind the service."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from upshot import Database
from upshot.cli import main
from upshot.pipeline.config.config import read_config
from upshot.pipeline.program import compiled_program
from upshot.service.program_file import serve_program

TEXT = """\
-- who is above whom
.input works_for
CREATE TABLE works_for (who TEXT PRIMARY KEY, boss TEXT NOT NULL);
CREATE VIEW above AS
  WITH RECURSIVE up(who, boss) AS (
    SELECT who, boss FROM works_for
    UNION
    SELECT up.who, w.boss FROM up JOIN works_for w ON w.who = up.boss
  )
  SELECT * FROM up;
CREATE VIEW reports AS SELECT boss, count(*) AS n FROM above GROUP BY boss;
CREATE ASSERTION no_circle CHECK (NOT EXISTS (SELECT who FROM above WHERE who = boss));
.output reports
"""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "company.sql").write_text(TEXT)
    (tmp_path / "works_for.facts").write_text("bob\tann\ncy\tbob\n")
    return tmp_path


@pytest.fixture
def upshot(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    def run(*arguments: object) -> Ended:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        return Ended(code, *capfd.readouterr())

    return run


def test_check_counts_what_the_user_wrote(folder: Path, upshot: Callable[..., Ended]) -> None:
    ended = upshot("check", folder / "company.sql")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith("company.sql: ok, 1 base relation, 2 views, 1 constraint\n")


def test_check_shows_where_a_mistake_is(folder: Path, upshot: Callable[..., Ended]) -> None:
    (folder / "wrong.sql").write_text("CREATE TABLE t (a BIGINT);\nCREATE VIEW v AS SELECT b FROM t;\n")
    ended = upshot("check", folder / "wrong.sql")
    assert ended.code == 1
    assert "wrong.sql:2:25" in ended.err


def test_run_reads_facts_and_prints_rows(folder: Path, upshot: Callable[..., Ended]) -> None:
    ended = upshot("run", folder / "company.sql", "-F", folder, "-D", "-")
    assert ended.code == 0
    assert "ann\t2\nbob\t1\n" in ended.out


def test_watch_tells_exact_changes_of_visible_views(folder: Path, upshot: Callable[..., Ended]) -> None:
    (folder / "changes.ndjson").write_text('{"insert": {"works_for": [["di", "cy"]]}}\n')
    ended = upshot("watch", folder / "company.sql", "-F", folder, "--changes", folder / "changes.ndjson")
    assert ended.code == 0
    assert json.loads(ended.out)["changes"] == {
        "above": {"insert": [["di", "ann"], ["di", "bob"], ["di", "cy"]], "delete": []},
        "reports": {"insert": [["ann", 3], ["bob", 2], ["cy", 1]], "delete": [["ann", 2], ["bob", 1]]},
    }


def test_explain_and_why_lead_to_the_text(folder: Path, upshot: Callable[..., Ended]) -> None:
    assert "above(who: symbol, boss: symbol): recursive view" in upshot(
        "explain", folder / "company.sql", "-F", folder, "--view", "above"
    ).out  # fmt: skip
    ended = upshot("why", folder / "company.sql", 'above("cy","ann")', "-F", folder)
    assert "SELECT up.who, w.boss FROM up JOIN works_for w ON w.who = up.boss" in ended.out
    assert "company.sql:8" in ended.out


def test_verify_and_update_take_sql(folder: Path, upshot: Callable[..., Ended]) -> None:
    assert upshot("verify", folder / "company.sql", "-F", folder).code == 0
    ended = upshot("update", folder / "company.sql", '-above("cy","ann")', "-F", folder)
    assert '-works_for("cy", "bob")' in ended.out


def test_the_service_takes_sql_and_knows_it_again(folder: Path) -> None:
    with Database() as db:
        serve_program(db, TEXT, "company.sql", folder, lambda _: None, lambda: None)
        assert db.rows("reports") == {("ann", 2), ("bob", 1)}
        version = db.version
        serve_program(db, TEXT, "company.sql", folder, lambda _: None, lambda: None)
        assert db.version == version


def test_a_pipeline_takes_sql(folder: Path) -> None:
    (folder / "pipeline.toml").write_text(
        '[pipeline]\nname = "company"\nprogram = "company.sql"\nstate = "state"\n\n'
        '[source.works_for]\nformat = "csv"\npath = "works_for.csv"\n\n'
        '[sink.reports]\nformat = "parquet"\npath = "reports"\n'
    )
    compiled = compiled_program(read_config(folder / "pipeline.toml"))
    assert list(compiled.visible) == ["works_for", "above", "reports", "no_circle"]
