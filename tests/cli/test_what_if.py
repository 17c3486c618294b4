"""what-if with rows on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import upshot as library
from tests.cli.conftest import Ended

Run = Callable[..., Ended]

PROGRAM = """
.decl stock(item: symbol, n: number?) key(item)
.decl orders(item: symbol)
.decl low(item: symbol)
stock("bolt", 7).
low(I) :- stock(I, N), N < 3.
.rule reorder(I) on insert low(I) do insert orders(I).
.rule report(I) coupling=after on insert low(I) do call tell(I).
.deny negative(I) :- stock(I, N), N < 0.
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "stock.dl"
    path.write_text(PROGRAM)
    return path


def test_rows_are_one_transaction_with_deltas_firings_and_violations(upshot: Run, file: Path) -> None:
    ended = upshot("what-if", file, '+stock("nail", -1)', '-stock("bolt", 7)', '+stock("bolt", 2)')
    assert ended.code == 0
    assert ended.out.splitlines() == [
        '+orders("bolt")', '+orders("nail")', '+low("bolt")', '+low("nail")', '+negative("nail")',
        '// firing: reorder("bolt"), reorder("nail")', '// firing: report("bolt"), report("nail")',
    ]  # fmt: skip
    assert 'warning[would-violate]: would violate `negative`: negative("nail")' in ended.err
    ended = upshot("what-if", file, '+stock("bolt", 2)', "--format", "json")
    assert json.loads(ended.out) == {
        "changes": {"orders": {"insert": [["bolt"]], "delete": []}, "low": {"insert": [["bolt"]], "delete": []}},
        "violations": {"stock": [["bolt", 2], ["bolt", 7]]},
        "firings": [{"rule": "reorder", "rows": [["bolt"]]}, {"rule": "report", "rows": [["bolt"]]}],
    }


def test_a_row_that_comes_and_goes_counts_in_neither_and_null_is_a_value(upshot: Run, file: Path) -> None:
    both = upshot("what-if", file, '+stock("nail", 1)', '-stock("nail", 1)')
    assert (both.code, both.out) == (0, "// no view changed\n")
    null = upshot("what-if", file, '+stock("nail", null)')
    assert (null.code, null.out) == (0, "// no view changed\n"), null.err


def test_a_database_in_a_folder_is_asked_and_stays_as_it_is(upshot: Run, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with library.connect(store) as db:
        db.define(
            ".decl edge(x: number, y: number) .decl far(x: number, z: number) far(X, Z) :- edge(X, Y), edge(Y, Z)."
        )
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2), (2, 3)])
    assert upshot("what-if", store, "-edge(2, 3)").out == "-far(1, 3)\n"
    with library.connect(store) as db:
        assert set(db.rows("far")) == {(1, 3)}


@pytest.mark.parametrize(
    ("arguments", "slug", "code"),
    [
        ((), "empty-request", 2),
        (("+stock(\"nail\", 1)", "--changes", "-"), "options-conflict", 2),
        (("stock(\"nail\", 1)",), "sign-needed", 2),
        (("+low(\"nail\")",), "not-a-base-relation", 1),
        (("+stok(\"nail\", 1)",), "unknown-relation", 2),
        (("+stock(\"nail\")",), "wrong-arity", 1),
        (("+stock(1, 1)",), "wrong-type", 1),
        (("+stock(X, 1)",), "not-a-fact", 1),
    ],
)  # fmt: skip
def test_what_is_no_transaction_ends_with_a_reason_and_a_cure(
    upshot: Run, file: Path, arguments: tuple[str, ...], slug: str, code: int
) -> None:
    ended = upshot("what-if", file, *arguments)
    assert (ended.code, f"error[{slug}]" in ended.err, "= help: " in ended.err) == (code, True, True), ended.err
    assert ended.out == ""
