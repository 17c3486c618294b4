"""update: view updating from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import upshot as library
from tests.cli.conftest import Ended

Run = Callable[..., Ended]

PROGRAM = """
.decl member(user: symbol, team: symbol)
.decl granted(team: symbol, right: symbol)
.decl access(user: symbol, right: symbol)
access(U, R) :- member(U, T), granted(T, R).
"""
FACTS = 'member("ann", "ops"). member("bob", "ops"). granted("ops", "deploy").\n'


def written(folder: Path) -> Path:
    path = folder / "access.dl"
    path.write_text(PROGRAM + FACTS)
    return path


def test_update_prints_each_realization_with_its_effects(upshot: Run, tmp_path: Path) -> None:
    ended = upshot("update", written(tmp_path), '-access("ann", "deploy")')
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "// 1. 1 change, cost 1",
        '-member("ann", "ops")',
        '// goal: -access("ann", "deploy")',
        "// 2. 1 change, cost 1",
        '-granted("ops", "deploy")',
        '// goal: -access("ann", "deploy")',
        '// also: -access("bob", "deploy")',
        "// these are all 2",
    ]


def test_rows_that_begin_with_a_minus_are_no_options_wherever_they_stand(upshot: Run, tmp_path: Path) -> None:
    file = written(tmp_path)
    for arguments in (
        ('-access("ann", "deploy")', file, "--frozen", "granted"),
        ("--frozen", "granted", file, '-access("ann", "deploy").'),
        (file, "--frozen=granted", "--", '-access("ann", "deploy")'),
    ):
        ended = upshot("update", *arguments, "--limit", "1")
        assert ended.out.splitlines()[1] == '-member("ann", "ops")'


def test_a_row_that_is_there_needs_nothing_to_be_done(upshot: Run, tmp_path: Path) -> None:
    ended = upshot("update", written(tmp_path), '+access("ann", "deploy")')
    assert (ended.code, ended.out) == (0, "// nothing to do: already true\n")
    ended = upshot("update", written(tmp_path), '+access("ann", "deploy")', "--format", "json", "--limit", "1")
    way, status = map(json.loads, ended.out.splitlines())
    assert (ended.code, way["insert"], way["delete"]) == (0, {}, {})
    assert status == {"status": "all", "reason": "nothing to do: already true", "found": 1}


def test_update_as_data(upshot: Run, tmp_path: Path) -> None:
    ended = upshot(
        "update", written(tmp_path), '-access("ann", "deploy")', '+access("bob", "deploy")', "--format", "json",
        "--limit", "1", "--cost", "-member=3", "--cost", "granted=9",
    )  # fmt: skip
    first, status = map(json.loads, ended.out.splitlines())
    assert (first["delete"], first["cost"]) == ({"member": [["ann", "ops"]]}, 3)
    assert status == {"status": "more", "reason": "the search has not ended: there may be more", "found": 1}


def test_what_cannot_be_brought_about_ends_with_the_reason(upshot: Run, tmp_path: Path) -> None:
    frozen = ["--frozen", "granted", "--frozen", "member"]
    ended = upshot("update", written(tmp_path), '-access("ann", "deploy")', *frozen)
    assert (ended.code, ended.out) == (1, "")
    assert "no-realization" in ended.err
    assert "does not change `member`, `granted`" in ended.err or "does not change `granted`, `member`" in ended.err


def test_a_row_needs_a_sign_and_a_price_a_number(upshot: Run, tmp_path: Path) -> None:
    ended = upshot("update", written(tmp_path), 'access("ann", "deploy")')
    assert (ended.code, "sign-needed" in ended.err) == (2, True)
    ended = upshot("update", written(tmp_path), '-access("ann", "deploy")', "--cost", "member")
    assert (ended.code, "wrong-argument" in ended.err) == (2, True)


def test_apply_commits_to_a_database_in_a_folder(upshot: Run, tmp_path: Path) -> None:
    ended = upshot("update", written(tmp_path), '-access("ann", "deploy")', "--apply")
    assert (ended.code, "nothing-to-apply-to" in ended.err) == (2, True)
    store = tmp_path / "store"
    with library.connect(store) as db:
        db.define(PROGRAM + FACTS)
    ended = upshot("update", store, '-access("ann", "deploy")', "--frozen", "granted", "--apply")
    assert (ended.code, "applied as version" in ended.err) == (0, True)
    with library.connect(store) as db:
        assert db.rows("access") == [("bob", "deploy")]


def test_what_rules_would_add_is_told_with_each_realization(upshot: Run, tmp_path: Path) -> None:
    path = tmp_path / "access.dl"
    path.write_text("""
.decl member(person: symbol, team: symbol)
.decl granted(team: symbol, right: symbol)
.decl access(person: symbol, right: symbol)
access(P, R) :- member(P, T), granted(T, R).
.decl gone(person: symbol)
.rule note(P) on delete access(P, _) do insert gone(P).
member("ann", "ops"). granted("ops", "deploy").
""")
    ended = upshot("update", path, '-access("ann", "deploy")', "--frozen", "granted")
    assert ended.out.splitlines()[1:-1] == [
        '-member("ann", "ops")', '// goal: -access("ann", "deploy")', '// rules: +gone("ann")', "// firing: note",
    ]  # fmt: skip
    ended = upshot("update", path, '-access("ann", "deploy")', "--frozen", "granted", "--format", "json")
    way = json.loads(ended.out.splitlines()[0])
    assert way["changes"]["gone"] == {"insert": [["ann"]], "delete": []}
    assert way["firings"] == [{"rule": "note", "rows": [["ann"]]}]
    assert way["changes"]["member"] == {"insert": [], "delete": [["ann", "ops"]]}


def test_a_pattern_stands_for_all_its_rows_and_fewest_side_effects_come_first(upshot: Run, tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text() + 'member("ann", "dev"). granted("dev", "code").\n')
    ended = upshot("update", path, '-access("ann", _)', "--prefer", "least_side_effects", "--limit", "1")
    assert ended.out.splitlines()[1:3] == ['-member("ann", "dev")', '-member("ann", "ops")']
    assert "also:" not in ended.out
    assert upshot("update", path, '-access("zoe", _)').out == "// nothing to do: already true\n"
    for wrong, cause in (
        ("-access(ann, _)", "has the variable `ann`"),
        ("-access(_)", "is no pattern of `access`"),
        ('+access("ann", _)', "a row has only constants"),
    ):
        ended = upshot("update", path, wrong)
        assert (ended.code in (1, 2), cause in ended.err) == (True, True), wrong
    assert "`prefer` is `least_side_effects`" in upshot("update", path, "-access(_, _)", "--prefer", "cheap").err


def test_at_most_ten_side_effects_and_requested_rows_are_printed(upshot: Run, tmp_path: Path) -> None:
    rows = " ".join(f"p({n})." for n in range(60))
    decls = " ".join(f".decl {name}(x: number)" for name in ("p", "q", "r", "on"))
    file = tmp_path / "many.dl"
    file.write_text(f"{decls} q(X) :- p(X), on(1). r(X) :- q(X). {rows} on(1).")
    ended = upshot("update", file, "-q(0)", "--limit", 1, "--frozen", "p")
    lines = ended.out.splitlines()
    assert sum(line.startswith("// also:") for line in lines) == 10
    assert "// … and 109 more side effects; `--format json` lists all" in lines
    ended = upshot("update", file, "-q(_)", "--limit", 1)
    lines = ended.out.splitlines()
    assert sum(line.startswith("// goal:") for line in lines) == 10
    assert "// … and 50 more goals; `--format json` lists all" in lines
    data = json.loads(upshot("update", file, "-q(_)", "--limit", 1, "--format", "json").out.splitlines()[0])
    assert data["side_effects"] == 60


def test_recursive_views_that_can_need_any_number_of_new_values_are_named(upshot: Run, tmp_path: Path) -> None:
    path = tmp_path / "path.dl"
    path.write_text(
        ".decl edge(x: number, y: number) .decl path(x: number, y: number)\n"
        "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z). edge(1, 2).\n"
    )
    for request, expected in (("+path(5, 6)", ["path"]), ("-path(1, 2)", None)):
        ended = upshot("update", path, request, "--limit", "1", "--format", "json")
        assert json.loads(ended.out.splitlines()[-1]).get("unbounded") == expected
