"""why and why-not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import upshot as library
from tests.cli.conftest import Ended

Run = Callable[..., Ended]

PROGRAM = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
edge(1, 2). edge(2, 3). edge(1, 3).
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
"""


def written(folder: Path) -> Path:
    path = folder / "routes.dl"
    path.write_text(PROGRAM)
    return path


def test_why_prints_the_smallest_derivation(upshot: Run, tmp_path: Path) -> None:
    ended = upshot("why", written(tmp_path), "closure(1, 3)")
    assert ended.code == 0
    assert ended.out.splitlines()[1:] == ["└─ edge(1, 3)  base fact"]


def test_why_all_prints_each_and_json_is_one_object_a_line(upshot: Run, tmp_path: Path) -> None:
    ended = upshot("why", written(tmp_path), "closure(1, 3).", "--all", "--format", "json")
    assert [len(json.loads(line)["premises"]) for line in ended.out.splitlines()] == [1, 2]
    ended = upshot("why", written(tmp_path), "closure(1, 3)", "--limit", "1")
    assert "\n\n" not in ended.out
    ended = upshot("why", written(tmp_path), "closure(1, 3)", "--limit", 10**20)
    assert (ended.code, ended.out.count("\n\n")) == (0, 1)


def test_why_draws_a_derivation_or_all_of_them_one_below_the_other(upshot: Run, tmp_path: Path) -> None:
    picture = tmp_path / "why.svg"
    ended = upshot("why", written(tmp_path), "closure(1, 3)", "--svg", picture)
    assert (ended.code, ended.out) == (0, "")
    assert picture.read_text().startswith("<svg")
    ended = upshot("why", written(tmp_path), "closure(1, 3)", "--svg", "-", "--all")
    drawing = ElementTree.fromstring(ended.out)
    titles = [each.text or "" for each in drawing.iter("{http://www.w3.org/2000/svg}title")]
    assert [each.split("  ")[0] for each in titles if each.startswith("closure(1, 3)")] == [
        "closure(1, 3) closure(X, Y) :- edge(X, Y).", "closure(1, 3) closure(X, Z) :- closure(X, Y), edge(Y, Z).",
    ]  # fmt: skip
    boxes = [float(each.get("y", "")) for each in drawing.iter("{http://www.w3.org/2000/svg}rect") if each.get("rx")]
    assert len(set(boxes)) >= 3
    ended = upshot("why", written(tmp_path), "closure(1, 3)", "--svg", picture, "--limit", "2", "--format", "json")
    assert (ended.code, len(ended.out.splitlines())) == (0, 2)


def test_why_not_prints_what_is_missing(upshot: Run, tmp_path: Path) -> None:
    ended = upshot("why-not", written(tmp_path), "closure(3, 1)")
    assert ended.code == 0
    assert "✗ edge(3, 1)" in ended.out
    ended = upshot("why-not", written(tmp_path), "closure(3, 1)", "--format", "json")
    assert json.loads(ended.out)["failing"] == 1
    ended = upshot("why-not", written(tmp_path), "closure(3, 1)", "--svg", "-")
    assert ended.out.startswith("<svg")


def test_what_is_no_row_of_the_program_ends_with_a_reason(upshot: Run, tmp_path: Path) -> None:
    file = written(tmp_path)
    for command, row, slug in [
        ("why", "closure(3, 1)", "row-not-there"),
        ("why-not", "closure(1, 3)", "row-is-there"),
        ("why", "closure(1, X)", "not-a-fact"),
        ("why", "closure(1, 2), edge(1, 2)", "not-a-fact"),
        ("why", "closure(1)", "wrong-arity"),
        ("why", 'closure("a", 1)', "wrong-type"),
    ]:
        ended = upshot(command, file, row)
        assert (ended.code, slug in ended.err) == (1, True), ended.err
    ended = upshot("why", file, "closur(1, 2)")
    assert (ended.code, "unknown-relation" in ended.err) == (2, True)


def test_why_not_prints_what_would_bring_the_row_about_and_as_many_as_told(upshot: Run, tmp_path: Path) -> None:
    file = written(tmp_path)
    ended = upshot("why-not", file, "closure(3, 1)", "--fixes", "2", "--seconds", "5")
    assert "└─ becomes true with" in ended.out
    assert len([line for line in ended.out.splitlines() if "─ +edge(" in line]) == 2
    ended = upshot("why-not", file, "closure(3, 1)", "--fixes", "0")
    assert "becomes true" not in ended.out
    ended = upshot("why-not", file, "closure(3, 1)", "--format", "json")
    assert json.loads(ended.out)["parts"][-1]["kind"] == "fixes"


def test_a_database_in_a_folder_is_asked_too_also_why_a_row_changed(upshot: Run, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with library.connect(store) as db:
        db.define(PROGRAM)
        with db.transaction(meta={"by": "ann"}) as tx:
            tx.insert("edge", [(3, 4)])
    assert "inserted in version" in upshot("why", store, "closure(2, 4)").out
    assert "✗ edge(4, 1)" in upshot("why-not", store, "closure(4, 1)").out
    ended = upshot("why-changed", store, "closure(2, 4)")
    assert ended.out.startswith("closure(2, 4) inserted in version 2")
    assert "+ edge(3, 4)" in ended.out
    assert json.loads(upshot("why-changed", store, "closure(2, 4)", "--format", "json").out)["meta"] == {"by": "ann"}
    ended = upshot("why-changed", store, "closure(1, 2)", "--version", "2")
    assert (ended.code, "row-not-changed" in ended.err) == (1, True)
    ended = upshot("why-changed", tmp_path / "nowhere", "closure(1, 2)")
    assert (ended.code, "no-such-directory" in ended.err) == (2, True)
    changes = tmp_path / "changes.ndjson"
    changes.write_text('{"delete": {"edge": [[3, 4]]}}\n')
    assert "-closure(2, 4)" in upshot("what-if", store, "--changes", changes).out
