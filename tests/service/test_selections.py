"""Selections: exactly their rows, and nothing is looked at for those that a change does not concern."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.service.served_process import PATIENCE
from tests.service.serving import CLOSURE, Copy, EventReader, Running, changes_path
from upshot.service.feed.past import read_snapshot
from upshot.service.feed.selections import Selection, SelectionIndex, selection
from upshot.service.feed.streams import RingBounds

TYPES = """
.decl r(a: float, b: decimal(6,2), c: symbol?, d: number, e: number?)
"""


def test_a_selection_has_values_of_the_types_of_its_columns() -> None:
    database = upshot.connect()
    database.define(TYPES)
    found = selection("r", 'r(1, 2.5, "x", D, D)', database.schemas)
    assert (found.columns, [repr(value) for value in found.values]) == ((0, 1, 2), ["1.0", "Decimal('2.50')", "'x'"])
    assert found.same == ((3, 4),)
    assert selection("r", "r(_, _, _, _, _)", database.schemas) == selection("r", None, database.schemas)


@pytest.mark.parametrize(
    "where",
    [
        "r(A,B,C,D,E)",
        "r(1.5,_,_,_,_)",
        "r(_,_,C,D,D)",
        'r(_,_,"x",_,_)',
        "r(A,_,_,1,E)",
        'r(1.5,2,"x",1,1)',
        "r(_,_,_,D,D)",
    ],
)
def test_all_rows_of_a_selection_are_those_that_it_holds(where: str) -> None:
    database = upshot.connect()
    database.define(TYPES)
    with database.transaction() as tx:
        tx.insert(
            "r",
            [
                (1.5, 2, "x", 1, 1),
                (1.5, 2, None, 1, None),
                (0.5, 3, "x", 2, 1),
                (-0.0, 1, "y", 2, 2),
                (1.5, 2, "", 3, 3),
            ],
        )
    chosen = selection("r", where, database.schemas)
    snapshot = read_snapshot(database, chosen, 100)
    assert len(snapshot.rows) == len(set(snapshot.rows))
    assert set(snapshot.rows) == set(chosen.of(database.rows("r")))


def test_a_thousand_selections_cost_one_look_up_for_each_row() -> None:
    class Counted(tuple[Any, ...]):
        looks = 0

        def __getitem__(self, at: Any) -> Any:
            Counted.looks += 1
            return super().__getitem__(at)

    index: SelectionIndex[str] = SelectionIndex()
    chosen = [Selection("edge", (0,), (number,)) for number in range(1000)]
    for each in chosen:
        index.add(each, f"listener {each.values[0]}")
    assert index.affected([Counted((7, 8)), Counted((5000, 1))], [Counted((7, 9))]) == [
        ("listener 7", [(7, 8)], [(7, 9)])
    ]
    assert Counted.looks == 3
    for each in chosen:
        index.remove(each, next(name for name in index.listeners() if name == f"listener {each.values[0]}"))
    assert not index


def test_a_selection_is_followed_exactly_and_the_others_are_not_woken(tmp_path: Path) -> None:
    database = upshot.connect(tmp_path / "store")
    database.define(CLOSURE)
    with Running(database) as server:
        readers = {
            name: EventReader(server.port, changes_path("closure", where=f'closure("{name}",Y)')) for name in "abx"
        }
        copies = {name: Copy() for name in readers}
        for name, reader in readers.items():
            copies[name].take("snapshot", reader.expect("snapshot"))
        with database.transaction() as tx:
            tx.insert("edge", [("a", "b"), ("b", "c"), ("q", "x")])
        for name in "ab":
            copies[name].take("change", readers[name].expect("change"))
        assert copies["a"].rows == {("a", "b"), ("a", "c")}
        assert copies["b"].rows == {("b", "c")}
        streams = server.call(lambda: {s.selection.values: s.end for s in server.service.hub._streams.values()})
        assert readers["x"].expect("progress", progress=True)["version"] >= 1
        assert streams[("a",)] >= 1
        with database.transaction() as tx:
            tx.delete("edge", [("b", "c")])
        cursor = copies["a"].cursor
        readers["a"].close()
        with EventReader(server.port, changes_path("closure", where='closure("a",Z)', since=cursor)) as again:
            change = again.expect("change")
            assert (change["delete"], change["insert"]) == ([["a", "c"]], [])
        for reader in readers.values():
            reader.close()


def test_a_cursor_of_a_selection_goes_on_from_the_log_filtered(tmp_path: Path) -> None:
    database = upshot.connect(tmp_path / "store")
    database.define(CLOSURE)
    since = database.version
    for name in ("a", "p", "q", "b"):
        with database.transaction() as tx:
            tx.insert("edge", [(name, "z"), ("a", name)])
    where = 'closure("a","z")'
    with Running(database) as server, EventReader(
        server.port, changes_path("closure", where=where, since=since)
    ) as reader:  # fmt: skip
        assert reader.expect("change")["insert"] == [["a", "z"]]
        with database.transaction() as tx:
            tx.delete("edge", [("a", "z"), ("a", "p"), ("a", "q"), ("a", "b")])
        assert reader.expect("change")["delete"] == [["a", "z"]]
        assert server.net("closure", since, where=where)["insert"] == []


def test_selections_of_a_view_that_is_not_stored_are_exact(tmp_path: Path) -> None:
    database = upshot.connect(tmp_path / "store")
    database.define(CLOSURE + ".view closure materialized=false")
    with database.transaction() as tx:
        tx.insert("edge", [("a", "b"), ("m", "n")])
    with Running(database) as server, EventReader(
        server.port, changes_path("closure", where='closure("a",Y)')
    ) as reader:  # fmt: skip
        assert reader.expect("snapshot")["rows"] == [["a", "b"]]
        with database.transaction() as tx:
            tx.insert("edge", [("b", "c"), ("n", "o")])
        assert reader.expect("change")["insert"] == [["a", "c"]]


QUIET = CLOSURE + ".view closure materialized=false events=none\n"


def chain(database: upshot.Database, name: str, length: int) -> None:
    with database.transaction() as tx:
        tx.insert("edge", [(f"{name}{n}", f"{name}{n + 1}") for n in range(length)])


def test_a_selection_of_a_view_that_reports_nothing_has_a_view_of_its_own(tmp_path: Path) -> None:
    database = upshot.connect(tmp_path / "store")
    database.define(QUIET)
    chain(database, "a", 3)
    where = 'closure("a0",Y)'
    with Running(database) as server:
        copy = Copy()
        with EventReader(server.port, changes_path("closure", where=where)) as reader:
            copy.take("snapshot", reader.expect("snapshot"))
            assert copy.rows == {("a0", "a1"), ("a0", "a2"), ("a0", "a3")}
            with database.transaction() as tx:
                tx.insert("edge", [("a3", "z"), ("b", "c")])
            change = reader.expect("change")
            assert change["insert"] == [["a0", "z"]]
            copy.take("change", change)
        with database.transaction() as tx:
            tx.delete("edge", [("a1", "a2")])
        with EventReader(server.port, changes_path("closure", where=where, since=copy.cursor)) as reader:
            copy.take("change", reader.expect("change"))
        assert copy.rows == {("a0", "a1")}
        assert copy.snapshots == 1
        status, body, _ = server.request("GET", changes_path("closure"))
        assert (status, body["error"]["code"]) == (409, "not-reported")


def test_changes_that_do_not_concern_such_a_selection_derive_nothing_for_it() -> None:
    database = upshot.connect()
    database.define(QUIET)
    chain(database, "far", 50)
    with Running(database) as server, EventReader(
        server.port, changes_path("closure", where='closure("a",Y)')
    ) as reader:  # fmt: skip
        reader.expect("snapshot")
        with database.transaction() as near:
            near.insert("edge", [("a", "b")])
        assert reader.expect("change")["insert"] == [["a", "b"]]
        with database.transaction() as tx:
            tx.insert("edge", [("x", "y")])
        assert tx.stats.answered == tx.stats.potential == tx.stats.inserted == 0
        assert tx.stats.probed <= 10
        database.define(".view closure materialized=false events=all")
        with database.transaction() as whole:
            whole.insert("edge", [("far50", "far51")])
        assert whole.stats.potential >= 50, "this is what the whole view costs"


def test_a_selection_by_a_key_of_a_base_relation_is_screened() -> None:
    database = upshot.connect()
    database.define(
        ".decl stock(item: symbol, n: number) .decl low(item: symbol, n: number) low(I, N) :- stock(I, N), N < 10."
        ".view low materialized=false events=none"
    )
    with Running(database) as server, EventReader(
        server.port, changes_path("low", where='low("nut",N)')
    ) as reader:  # fmt: skip
        reader.expect("snapshot")
        with database.transaction() as tx:
            tx.insert("stock", [("bolt", 5), ("nut", 50)])
        assert (tx.stats.probed, tx.stats.matched, tx.stats.derived) == (1, 0, 0), "one look-up: nobody follows `bolt`"
        with database.transaction() as tx:
            tx.insert("stock", [("nut", 5)])
        assert reader.expect("change")["insert"] == [["nut", 5]]


def test_views_made_for_selections_go_when_nobody_follows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upshot.service.feed.hub.STANDING", 0.3)
    database = upshot.connect()
    database.define(QUIET)
    with Running(database, ring=RingBounds(linger=0.1)) as server:
        with EventReader(server.port, changes_path("closure", where='closure("a",Y)')) as reader:
            reader.expect("snapshot")
            time.sleep(0.6)
            (query,) = database._state.live.by_answer.values()
            assert database._state.engine.size(query.shape.parameters.name) == 1
        until = time.monotonic() + PATIENCE
        while database._state.live.by_answer:
            assert time.monotonic() < until, "it is let go"
            time.sleep(0.05)


def test_a_view_made_for_a_selection_stays_however_long_it_took_to_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upshot.service.feed.hub.STANDING", 0.0)
    database = upshot.connect()
    database.define(QUIET)
    define = database.define

    def slowly(program: str) -> object:
        time.sleep(1.0)
        return define(program)

    monkeypatch.setattr(database, "define", slowly)
    with (
        Running(database) as server,
        EventReader(server.port, changes_path("closure", where='closure("a",Y)')) as reader,
    ):
        reader.expect("snapshot")
        with database.transaction() as tx:
            tx.insert("edge", [("a", "b")])
        assert reader.expect("change")["insert"] == [["a", "b"]]
