"""The packing itself, on the local engine: what is wrong in one part is said of that part, and of no other."""

from __future__ import annotations

from collections.abc import Callable

import upshot
from tests.properties.engines import connect
from tests.spark.packing import Broken, failures, run

COPY = ".decl a(x: number) .decl b(x: number) b(X) :- a(X)."
HALVES = ".decl a(x: number) .decl b(x: number) b(Y) :- a(X), Y = 6 / X."


def copies(numbers: list[int], wanted: set[tuple[int]] | None = None, text: str = COPY) -> Callable[[], None]:
    """A part that inserts one number after another and then expects `b` to hold `wanted`, or all of them."""

    def part() -> None:
        with connect() as db:
            db.define(text)
            for number in numbers:
                with db.transaction() as tx:
                    tx.insert("a", [(number,)])
                assert text != COPY or list(tx.changes["b"].inserted) == [(number,)]
            assert set(db.query("b(X)")) == set(db.rows("b")) == ({(n,) for n in numbers} if wanted is None else wanted)

    return part


def test_parts_with_the_same_names_and_different_lengths_do_not_see_each_other() -> None:
    assert run(upshot.connect, [copies([1, 2, 3]), copies([7]), copies([])]) == [None, None, None]


def test_a_part_that_is_wrong_fails_alone_and_the_others_go_on() -> None:
    found = run(upshot.connect, [copies([1, 2, 3]), copies([7], wanted={(8,)})])
    assert found[0] is None
    assert isinstance(found[1], AssertionError)


def test_a_transaction_that_fails_breaks_the_pack_and_the_culprit_is_found() -> None:
    culprit = copies([1, 0], text=HALVES)
    parts = {"one": copies([1, 2, 3]), "two": culprit, "three": copies([1]), "four": copies([2], wanted={(8,)})}
    assert {type(error) for error in run(upshot.connect, list(parts.values()))[:2]} == {Broken}
    found = failures(upshot.connect, parts)
    assert set(found) == {"two", "four"}
    assert "division" in found["two"]
