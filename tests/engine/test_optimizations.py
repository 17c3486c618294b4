"""Every optimization can be switched off: the answers are the same, and the counters grow."""

from __future__ import annotations

from pathlib import Path

import pytest

import upshot
from tests.engine.driver import plain
from tests.properties.cases import after
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.properties.strategies import view_options
from upshot.check import check
from upshot.core.optimizations import NAMES
from upshot.engine.naive import evaluate
from upshot.syntax import parse

REACH = """
.decl edge(x: number, y: number)
.decl reach(x: number, y: number)
.decl far(y: number)
reach(X, Y) :- edge(X, Y).
reach(X, Z) :- reach(X, Y), edge(Y, Z).
far(Y) :- reach(1, Y), Y > 50.
.view reach strategy=epf events=none
.view far strategy=epf events=insert
"""
EDGES = [(n, n + 1) for n in range(60)] + [(n, n + 1) for n in range(1000, 1060)]


def loaded(text: str, optimize: bool | list[str]) -> upshot.Database:
    db = upshot.connect(optimize=optimize)
    db.define(text)
    with db.transaction() as tx:
        tx.insert("edge", EDGES)
    return db


def test_constants_are_pushed_down_and_only_wanted_events_are_followed() -> None:
    probed = {}
    for name, optimize in (("on", True), ("off", False)):
        with loaded(REACH, optimize) as db:
            with db.transaction() as tx:
                tx.insert("edge", [(1060, 2000), (60, 3000)])
            assert plain(tx.changes["far"].inserted) == {(3000,)}
            assert "reach" not in tx.changes
            with db.transaction() as gone:
                gone.delete("edge", [(30, 31)])
            assert "far" not in gone.changes
            probed[name] = (tx.stats.probed + tx.stats.derived, gone.stats.probed + gone.stats.derived)
    assert probed["on"][0] * 5 < probed["off"][0]
    assert probed["on"][1] * 5 < probed["off"][1]


SILENT = """
.decl edge(x: number, y: number)
.decl first(x: number, y: number)
.decl second(x: number, y: number)
first(X, Y) :- edge(X, Y).
first(X, Z) :- second(X, Y), edge(Y, Z).
second(X, Y) :- first(X, Y).
"""
"""Views that depend on each other."""


@pytest.mark.parametrize("strategy", ["rod", "epf", "propagation", "differencing"])
@pytest.mark.parametrize(("silent", "other"), [("first", "second"), ("second", "first")])
def test_a_view_without_events_reports_nothing_beside_one_that_reports(
    strategy: str, silent: str, other: str, tmp_path: Path
) -> None:
    text = f"{SILENT}.view {silent} strategy={strategy} events=none\n.view {other} strategy={strategy}\n"
    heard: list[upshot.Event] = []
    with upshot.connect(tmp_path / "store") as db:
        db.define(text)
        db.watch(silent, heard.append)
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2), (2, 3)])
        assert plain(tx.changes[other].inserted) == plain(db.rows(silent)) == {(1, 2), (2, 3), (1, 3)}
        defined = db.add_rule("first(X, X) :- edge(X, _).")
        assert plain(defined.changes[other].inserted) >= {(1, 1), (2, 2)}
        asked = db.what_if(delete={"edge": [(1, 2)]})
        commits = [tx.changes, defined.changes, asked, *(commit.changes for commit in db.history())]
        assert not any(silent in changes for changes in commits)
        assert [event.snapshot for event in heard] == [True]
        assert not list(db.past_events(silent, 1, db.version))
        assert not db.reports_changes(silent)


@pytest.mark.parametrize("events", ["all", "insert", "delete", "none"])
def test_a_key_of_a_view_holds_whatever_is_reported_of_the_view(events: str) -> None:
    with upshot.connect() as db:
        db.define(f"""
            .decl a(x: number, y: number) .decl v(x: number, y: number) key(x)
            v(X, Y) :- a(X, Y).
            .view v strategy=epf events={events}
        """)
        with db.transaction() as tx:
            tx.insert("a", [(1, 2)])
        assert len(tx.changes["v"].inserted) == (events in ("all", "insert"))
        with pytest.raises(upshot.ConstraintError, match="key"), db.transaction() as tx:
            tx.insert("a", [(1, 3)])
        db.verify()


def test_changes_that_no_literal_matches_wake_nobody() -> None:
    text = """
    .decl edge(x: number, y: number) .decl near(x: number, y: number) .decl start(y: number)
    near(X, Y) :- edge(X, Y), Y < 100. start(Y) :- edge(1, Y).
    """
    for optimize, components in ((True, 0), (False, 2)):
        with loaded(text, optimize) as db:
            with db.transaction() as tx:
                tx.insert("edge", [(7, 500), (8, 501)])
                tx.delete("edge", [(1005, 1006)])
            assert (tx.stats.components, len(tx.changes["edge"].inserted)) == (components, 2)
            assert tx.stats.screened == (3 if optimize else 0)
            with db.transaction() as tx:
                tx.insert("edge", [(7, 500), (1, 700)])
            assert plain(tx.changes["start"].inserted) == {(700,)}
            db.verify()


def test_what_is_known_is_not_asked_for_again() -> None:
    text = REACH.replace("epf events=none", "rod").replace("epf events=insert", "rod")
    asked = {}
    for optimize in (True, ["sip", "event_paths", "partial_evaluation", "screening"]):
        with loaded(text, optimize) as db:
            with db.transaction() as tx:
                tx.delete("edge", [(20, 21)])
            asked[bool(optimize is True)] = tx.stats.asked
            db.verify()
    assert asked[True] < asked[False]


@pytest.mark.parametrize("left_out", ["event_paths", "partial_evaluation"])
def test_each_of_the_two_is_missed_by_itself(left_out: str) -> None:
    found = []
    for kept in (list(NAMES), [name for name in NAMES if name != left_out]):
        with loaded(REACH, kept) as db:
            with db.transaction() as tx:
                tx.insert("edge", [(1060, 2000), (60, 3000)])
            with db.transaction() as gone:
                gone.delete("edge", [(30, 31)])
            told = [sorted(plain(each.changes["far"].inserted)) for each in (tx, gone)]
            found.append((told, sum(each.stats.probed + each.stats.derived for each in (tx, gone))))
            db.verify()
    (told, least), (also, more) = found
    assert told == also == [[(3000,)], []]
    assert 2 * least < more


def test_joining_from_what_is_bound_outward_touches_less() -> None:
    text = """
    .decl edge(x: number, y: number) .decl all_pairs(x: number, y: number) .decl two(x: number, z: number)
    all_pairs(X, Y) :- edge(X, Y).
    two(X, Z) :- all_pairs(A, X), all_pairs(B, Z), edge(X, B), edge(A, A).
    .view two strategy=epf .view all_pairs strategy=epf
    """
    work = {}
    for optimize in (True, [name for name in NAMES if name != "sip"]):
        with loaded(text, optimize) as db:
            with db.transaction() as tx:
                tx.insert("edge", [(5, 5)])
            work[optimize is True] = tx.stats.probed + tx.stats.matched
            db.verify()
    assert work[True] < work[False]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["rod", "epf", "propagation", "differencing", "maintenance"])
@pytest.mark.parametrize("left_out", [*NAMES, "all"])
def test_random_programs_give_the_same_changes_without(strategy: str, left_out: str) -> None:
    kept = [] if left_out == "all" else [name for name in NAMES if name != left_out]
    for number in range(case_count(500)):
        case = random_case(seed_of(f"optimizations {strategy} {left_out}", number), Features())
        program = check(parse(case.text()))
        with upshot.connect(optimize=kept) as db:
            db.define(case.text() + "\n" + "\n".join(view_options(program, strategy)))
            with db.transaction() as tx:
                for name, rows in case.base.items():
                    tx.insert(name, list(rows))
            state = case.base
            for transaction in case.transactions:
                following = after(state, transaction)
                before, wanted = evaluate(program, state), evaluate(program, following)
                with db.transaction() as tx:
                    for change in transaction:
                        (tx.insert if change.sign == "+" else tx.delete)(change.relation, [change.row])
                for view, rows in wanted.items():
                    assert plain(tx.changes[view].inserted) == rows - before[view], case.text()
                    assert plain(tx.changes[view].deleted) == before[view] - rows, case.text()
                state = following


@pytest.mark.parametrize("given", ["sip", ["sips"], [1]])
def test_unknown_optimizations_are_refused(given: object) -> None:
    with pytest.raises(upshot.Error) as caught:
        upshot.connect(optimize=given)  # type: ignore[arg-type]
    assert caught.value.code == "wrong-argument"


def test_changes_go_as_the_wave_passes() -> None:
    depth = 12
    lines = [".decl edge(x: number, y: number)", ".decl v0(x: number, y: number)", "v0(X, Y) :- edge(X, Y)."]
    for n in range(1, depth):
        # Two rules each, so that the view stays a node of the network.
        lines += [
            f".decl v{n}(x: number, y: number)",
            f"v{n}(X, Y) :- v{n - 1}(X, Y), X < 9000. v{n}(X, Y) :- v{n - 1}(Y, X), X > 9000.",
        ]
    silent = [f".view v{n} strategy=differencing events=none" for n in range(depth - 1)]
    text = "\n".join([*lines, *silent, f".view v{depth - 1} strategy=differencing"])
    with loaded(text, True) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(n, n + 7) for n in range(50)])
        assert len(tx.changes[f"v{depth - 1}"].inserted) == 50
        assert tx.stats.stored == 0
        assert 50 <= tx.stats.peak <= 8 * 50 < depth * 50 * 2


def test_a_view_that_is_empty_has_nothing_to_lose() -> None:
    """What can only take rows away does not wake a constraint that nothing violates; repairs are followed."""
    text = """
    .decl a(x: number) .decl b(x: number)
    .deny both(X) :- a(X), b(X).
    .deny both on_violation=warn
    .deny lonely(X) :- a(X), !b(X), X > 10.
    """
    looked_at = []
    for optimize in (True, False):
        with upshot.connect(optimize=optimize) as db:
            db.define(text)
            with db.transaction() as tx:
                tx.insert("a", [(x,) for x in range(5)])
            with db.transaction() as tx:
                tx.delete("a", [(1,)])
            looked_at.append(tx.stats.components)
            assert set(tx.changes) == {"a"}
            with db.transaction() as tx:
                tx.insert("b", [(2,)])
            assert tx.changes["both"].inserted == [(2,)]
            with db.transaction() as tx:
                tx.delete("a", [(2,)])
            assert tx.changes["both"].deleted == [(2,)]
    assert looked_at == [0, 2]
