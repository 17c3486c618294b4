"""repairs: ways out of violations, from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import upshot as library
from tests.cli.conftest import Ended

Run = Callable[..., Ended]

PROGRAM = """
.decl member(user: symbol, team: symbol)
.decl team(name: symbol)
.input member
.deny unknown(T) :- member(_, T), !team(T).
team("ops").
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "member.facts").write_text("ann\tops\nbob\tweb\n")
    path = tmp_path / "teams.dl"
    path.write_text(PROGRAM)
    return path


def test_facts_that_violate_a_constraint_are_loaded_and_repaired(upshot: Run, file: Path) -> None:
    ended = upshot("repairs", file, "-F", file.parent)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        '// `unknown` is violated by unknown("web")',
        "// 1. 1 change, cost 1",
        '-member("bob", "web")',
        '// goal: -unknown("web")',
        "// 2. 1 change, cost 1",
        '+team("web")',
        '// goal: -unknown("web")',
        "// these are all 2",
    ]


def test_the_repair_that_changes_least_else_comes_first(upshot: Run, tmp_path: Path) -> None:
    path = tmp_path / "teams.dl"
    users = ".decl user(u: symbol) user(U) :- member(U, _)."
    path.write_text(PROGRAM.replace(".input member", 'member("bob", "web").') + users)
    ended = upshot("repairs", path, "--least-side-effects", "--limit", 1)
    assert '+team("web")' in ended.out
    assert "// there are 2, of which these have the fewest side effects" in ended.out
    for constraint in ("unknown", None):
        with library.connect() as db:
            db.define(path.read_text() + ".deny unknown on_violation=warn existing=keep")
            first = next(db.repairs(constraint, side_effect_free_first=True))
            assert first.insert == {"team": (("web",),)}


def test_a_change_that_would_be_rejected_is_completed(upshot: Run, file: Path) -> None:
    ended = upshot("repairs", file, "-F", file.parent, '+member("cid", "new")', "--format", "json")
    violated, way, status = map(json.loads, ended.out.splitlines())
    assert violated == {"violated": {"unknown": [["new"]]}}
    assert way["insert"] == {"member": [["cid", "new"]], "team": [["new"]]}
    assert status["status"] == "all"


def test_each_transaction_of_a_change_file_is_asked_about_on_its_own(upshot: Run, file: Path) -> None:
    changes = file.parent / "changes.ndjson"
    changes.write_text('{"insert": {"member": [["cid", "new"]]}}\n{"insert": {"member": [["cid", "ops"]]}}\n')
    ended = upshot("repairs", file, "-F", file.parent, "--changes", changes, "--limit", "1")
    assert [line for line in ended.out.splitlines() if "violated" in line] == [
        f'// {changes}:1: `unknown` would be violated by unknown("new")',
        f"// {changes}:2: nothing would be violated",
    ]
    ended = upshot("repairs", file, "-F", file.parent, "--changes", changes, "--frozen", "team")
    assert (ended.code, "only" in ended.err or "does not change" in ended.err) == (1, True)


def test_nothing_to_repair_is_said(upshot: Run, file: Path) -> None:
    (file.parent / "member.facts").write_text("ann\tops\n")
    ended = upshot("repairs", file, "-F", file.parent)
    assert (ended.code, ended.out) == (0, "// nothing is violated\n")


def test_what_contradicts_itself_is_refused(upshot: Run, file: Path) -> None:
    ended = upshot("repairs", file, '+member("cid", "new")', "--constraint", "unknown")
    assert (ended.code, "options-conflict" in ended.err) == (2, True)
    ended = upshot("repairs", file, "--apply")
    assert (ended.code, "nothing-to-apply-to" in ended.err) == (2, True)
    ended = upshot("repairs", file, "--constraint", "unknwon")
    assert (ended.code, "unknown-relation" in ended.err) == (2, True)


def test_apply_repairs_a_database_in_a_folder(upshot: Run, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with library.connect(store) as db:
        db.define(PROGRAM + ".deny unknown on_violation=warn")
        with db.transaction() as tx:
            tx.insert("member", [("bob", "web")])
    ended = upshot("repairs", store, "--constraint", "unknown", "--frozen", "-member", "--apply")
    assert (ended.code, "applied as version" in ended.err) == (0, True)
    with library.connect(store) as db:
        assert sorted(db.rows("team")) == [("ops",), ("web",)]


def test_a_rejected_transaction_points_to_repairs(upshot: Run, file: Path) -> None:
    (file.parent / "member.facts").write_text("ann\tops\n")
    changes = file.parent / "changes.ndjson"
    changes.write_text('{"insert": {"member": [["cid", "new"]]}}\n')
    ended = upshot("watch", file, "-F", file.parent, "--changes", changes)
    assert (ended.code, "`upshot repairs`" in ended.err) == (1, True)
    with library.connect() as db:
        db.define(PROGRAM.replace(".input member", ""))
        with pytest.raises(library.ConstraintError, match=r"`db.repairs`"), db.transaction() as tx:
            tx.insert("member", [("cid", "new")])
