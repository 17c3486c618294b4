"""Repeated queries on unstored views: the answers are kept current, bounded, and evicted by use."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import upshot
from tests.database.test_live_queries import UNSTORED, Follower, chains
from upshot.database.live import follow, kept
from upshot.engine.time_limit import Interruption

QUERY = "reach($x, Y)"


def graph(keep_answers: int = 100_000, path: Any = None) -> upshot.Database:
    db = upshot.connect(path, keep_answers=keep_answers)
    db.define(UNSTORED)
    chains(db, 200)
    return db


def ask(db: upshot.Database, name: str, times: int = 1) -> list[str]:
    for _ in range(times):
        found = sorted(row[0] for row in db.query(QUERY, x=name))
    return found


def test_a_question_asked_again_is_kept_and_looked_up_from_then_on() -> None:
    db = graph()
    first = ask(db, "n3")
    assert (db.kept_answers.parameters, db.kept_answers.on_demand) == (0, 1)
    assert ask(db, "n3", 5) == first
    use = db.kept_answers
    assert (use.parameters, use.admitted, use.hits, use.on_demand) == (1, 1, 5, 1)
    assert ask(db, "n4") == first[1:]
    assert db.kept_answers.on_demand == 2


def test_a_commit_costs_what_it_changes_in_kept_answers() -> None:
    db = graph()
    for number in (1, 2, 3, 50):
        ask(db, f"n{number}", 2)
    with db.transaction() as tx:
        tx.insert("edge", [("elsewhere", "nowhere")])
    assert tx.stats.probed <= 4
    assert tx.stats.inserted == 0
    with db.transaction() as tx:
        tx.insert("edge", [("n9", "new")])
    three = tx.stats.probed
    assert [ask(db, f"n{number}")[-1] for number in (1, 2, 3)] == ["new"] * 3
    for number in range(100, 140):
        ask(db, f"n{number}", 2)
    with db.transaction() as tx:
        tx.insert("edge", [("n9", "newer")])
    assert tx.stats.probed <= three + 4
    assert db.kept_answers.on_demand == 44


def test_rows_stay_within_the_bound_and_the_longest_not_asked_for_goes_first() -> None:
    db = graph(keep_answers=60)
    for number in range(0, 100, 10):
        ask(db, f"n{number}", 2)
        assert db.kept_answers.rows <= 60
    use = db.kept_answers
    assert 0 < use.parameters < 10
    assert use.evicted == 10 - use.parameters
    before = db.kept_answers.on_demand
    assert ask(db, "n90")[-1] == "n99"
    assert db.kept_answers.on_demand == before, "the last one is kept"
    with db.transaction() as tx:
        tx.insert("edge", [("n99", f"m{i}") for i in range(100)])
    assert db.kept_answers.rows <= 60, "a commit keeps the bound too"
    assert len(ask(db, "n90")) == 109, "too large: on demand"
    assert ask(db, "n0") == sorted(f"n{i}" for i in range(1, 10))


def test_an_evicted_question_is_computed_on_demand_and_kept_again_when_asked() -> None:
    db = graph()
    ask(db, "n1", 3)
    db.keep_answers(0)
    assert (db.kept_answers.parameters, db.kept_answers.rows) == (0, 0)
    assert not db._state.live.by_answer
    assert ask(db, "n1", 3) == sorted(f"n{i}" for i in range(2, 10))
    assert db.kept_answers.parameters == 0
    db.keep_answers(1_000)
    ask(db, "n1", 2)
    assert db.kept_answers.parameters == 1


def test_a_parameter_that_is_not_asked_for_any_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "IDLE_COMMITS", 3)
    db = graph()
    ask(db, "n1", 2)
    ask(db, "n2", 2)
    for number in range(5):
        with db.transaction() as tx:
            tx.insert("edge", [("z", f"z{number}")])
        ask(db, "n2")
    assert (db.kept_answers.parameters, db.kept_answers.evicted) == (1, 1)


def test_a_query_that_is_followed_too_is_kept_once_and_outlives_its_follower() -> None:
    db = graph()
    follower = Follower(db, QUERY, x="n1")
    ask(db, "n1", 2)
    assert len(db._state.live.by_answer) == 1
    follower.subscription.close()
    with db.transaction() as tx:
        tx.delete("edge", [("n5", "n6")])
    assert ask(db, "n1") == ["n2", "n3", "n4", "n5"]
    assert db.kept_answers.on_demand == 1
    again = Follower(db, QUERY, x="n1")
    again.check()


def test_sql_without_an_order_is_kept_and_what_needs_the_whole_view_is_not() -> None:
    db = graph()
    for _ in range(3):
        assert len(db.sql("select y from reach where x = :x", x="n1")) == 8
    assert (db.kept_answers.hits, db.kept_answers.on_demand) == (2, 1)
    for _ in range(3):
        rows = list(db.sql("select y from reach where x = :x order by y desc limit 2", x="n1"))
        assert rows == [("n9",), ("n8",)]
        assert db.query("edge($x, Y)", x="n1").sorted() == [("n2",)]
        assert len(db.query("reach(X, X), X != $x", x="n1")) == 0
    assert db.kept_answers.parameters == 1


def test_kept_answers_survive_definitions_and_rollbacks_and_do_not_stand_in_the_way_of_a_drop() -> None:
    db = graph()
    ask(db, "n1", 2)
    with pytest.raises(upshot.Error), db.transaction() as tx:
        tx.insert("edge", [("n9", "never"), ("n9", 1)])
    db.add_rule("reach(X, Y) :- edge(Y, X).")
    assert "n0" in ask(db, "n1")
    db.define(".decl other(x: number)")
    assert "never" not in ask(db, "n1")
    assert (db.kept_answers.parameters, db.kept_answers.on_demand, db.kept_answers.admitted) == (1, 1, 1)
    db.define(".decl reach(x: symbol)\nreach(X) :- edge(X, _).")
    with pytest.raises(upshot.Error):
        ask(db, "n1")
    db.drop("reach")
    assert db.kept_answers.parameters == 0 or not db._state.live.by_answer


def test_nothing_begins_to_be_kept_while_somebody_else_writes() -> None:
    db = graph()
    ask(db, "n1")
    with db.transaction() as tx:
        tx.insert("edge", [("n9", "x")])
        assert ask(db, "n1", 2)[-1] == "n9"
        found: list[list[str]] = []
        other = threading.Thread(target=lambda: found.append(ask(db, "n1", 2)))
        other.start()
        other.join()
        assert found[0][-1] == "n9"
    assert db.kept_answers.parameters == 0
    assert ask(db, "n1")[-1] == "x"
    assert db.kept_answers.parameters == 1


def test_a_kept_query_that_fails_is_answered_on_demand_and_harms_no_commit() -> None:
    db = upshot.connect()
    db.define(UNSTORED + ".decl load(x: symbol, n: number)\n")
    chains(db, 20)
    with db.transaction() as tx:
        tx.insert("load", [("n2", 5)])
    query = "reach($x, Y), load(Y, N), Share = 100 / N"
    for _ in range(3):
        assert db.query(query, x="n1").sorted() == [("n2", 5, 20)]
    assert db.kept_answers.parameters == 1
    with db.transaction() as tx:
        tx.insert("load", [("n3", 0)])
    for _ in range(3):
        with pytest.raises(upshot.Error, match="division by zero"):
            db.query(query, x="n1")
    with db.transaction() as tx:
        tx.delete("load", [("n3", 0)])
    assert db.query(query, x="n1").sorted() == [("n2", 5, 20)]


def test_explain_names_what_is_kept_and_a_store_knows_nothing_of_it(tmp_path: Any) -> None:
    with graph(path=tmp_path / "db") as db:
        ask(db, "n1", 2)
        text = str(db.explain("reach"))
        assert 'kept current: reach($x, Y), for $x = "n1"' in text
        assert "answers for 1 parameter kept current" in db.explain("reach").summary()
        (part,) = db.explain("reach").as_dict()["relations"]["reach"]["kept"]
        assert (part["query"], part["parameters"]) == (QUERY, 1)
        db.snapshot()
    with upshot.connect(tmp_path / "db") as db:
        assert db.kept_answers.parameters == 0
        assert ask(db, "n1", 3) == sorted(f"n{i}" for i in range(2, 10))


@pytest.mark.parametrize("rows", [-1, True, 1.5, "many"])
def test_a_bound_that_is_no_number_of_rows_is_refused(rows: Any) -> None:
    with pytest.raises(upshot.UsageError, match="invalid `keep_answers`") as caught:
        upshot.connect(keep_answers=rows)
    assert caught.value.code == "wrong-argument"


def test_an_answer_has_the_columns_of_the_program_there_is() -> None:
    db = graph()
    for _ in range(2):
        db.sql("select * from reach where x = :x", x="n8")
    db.drop("reach")
    db.define(
        ".decl reach(x: symbol, n: number, z: symbol)\n.view reach materialized=false\nreach(X, 1, Y) :- edge(X, Y)."
    )
    for _ in range(3):
        found = db.sql("select * from reach where x = :x", x="n8")
        assert [column.name for column in found.schema.columns] == ["x", "n", "z"]
        assert list(found) == [("n8", 1, "n9")]


def test_values_of_a_subclass_that_print_alike_are_two_questions() -> None:
    class Masked(str):
        def __repr__(self) -> str:
            return "***"

    db = graph()
    for name in ("n1", "n1", "n7", "n7"):
        assert ask(db, Masked(name)) == ask(db, name)


def test_a_query_that_reads_the_clock_is_answered_anew() -> None:
    db = graph()
    times = {row for _ in range(4) for row in db.sql("select now() as t from reach where x = :x", x="n8")}
    assert len(times) == 4
    assert db.kept_answers.parameters == 0


def test_nan_is_one_parameter_for_followers_and_kept_answers() -> None:
    db = upshot.connect()
    db.define(
        ".decl at(x: float, y: number)\n.decl v(x: float, y: number)\n.view v materialized=false\nv(X, Y) :- at(X, Y)."
    )
    nan = float("nan")
    with db.transaction() as tx:
        tx.insert("at", [(nan, 1)])
    first, second = Follower(db, "v($x, Y)", x=float("nan")), Follower(db, "v($x, Y)", x=float("nan"))
    for query in ("v($x, Y)", "v($x,Y)", "v( $x, Y)") * 3:
        assert list(db.query(query, x=float("nan"))) == [(1,)]
    assert db.kept_answers.parameters == 1
    second.subscription.close()
    db.keep_answers(0)
    with db.transaction() as tx:
        tx.insert("at", [(nan, 2)])
    first.check()


def test_a_view_that_becomes_stored_keeps_no_answers() -> None:
    db = graph()
    ask(db, "n1", 2)
    db.define(".view reach materialized=true")
    assert db.kept_answers.parameters == 0
    assert not db._state.live.by_answer
    assert len(ask(db, "n1", 3)) == 8


def test_a_refused_query_leaves_nothing_in_the_engine() -> None:
    db = graph()
    for _ in range(3):
        db.query("reach(X, X), X != $x", x="n1")
    assert not db._state.live.by_answer


def test_notes_do_not_keep_earlier_programs() -> None:
    db = graph()
    old = id(db._state.compiled)
    ask(db, "n1")
    db.define(".decl other(x: number)")
    ask(db, "n2")
    assert all(isinstance(note.program, int) for note in db._state.kept.notes.values())
    assert id(db._state.kept.program) != old


def test_an_eviction_over_the_time_limit_fails_no_commit_and_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    db = graph()
    for name in ("n1", "n1", "n2", "n2"):
        ask(db, name)
    follower = Follower(db, QUERY, x="n5")
    state = db._state
    state.kept.bound = 1

    def interrupted(*_: object) -> None:
        raise Interruption("something else goes first", code="interrupted")

    with monkeypatch.context() as patch, db.transaction() as tx:
        tx.insert("edge", [("n9", "x")])
        patch.setattr(follow, "commit_change", interrupted)
    assert ask(db, "n1")[-1] == "x"
    with db.transaction() as tx:
        tx.insert("edge", [("x", "y")])
    assert not state.live.released
    Follower(db, QUERY, x="n1").check()
    follower.check()
    assert ask(db, "n2")[-1] == "y"


def test_a_commit_does_not_walk_the_kept_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    db = graph()
    for number in range(5):
        ask(db, f"n{number}", 2)
    with db.transaction() as tx:
        tx.insert("edge", [("a", "b")])
    monkeypatch.setattr(kept, "_is_kept", lambda *_: pytest.fail("walked"))
    with db.transaction() as tx:
        tx.insert("edge", [("b", "c")])
    assert db.kept_answers.parameters == 5


def test_records_and_large_numbers_are_asked_for_like_others() -> None:
    db = upshot.connect()
    db.define(".type P = [a: number, b: number]\n.decl at(p: P)\n.decl v(p: P, n: number)")
    db.define(".view v materialized=false\nv(P, 1) :- at(P).")
    with db.transaction() as tx:
        tx.insert("at", [([1, 2],)])
    for _ in range(3):
        assert list(db.query("v($x, N)", x=[1, 2])) == [(1,)]
        assert list(db.query("v($x, N)", x=(1, 3))) == []
    assert db.kept_answers.parameters == 2
    assert kept.question_of("v(X, $x)", {"x": 10**5000}) is None


def test_a_large_program_keeps_a_query_after_more_repeats_and_further_values_at_once() -> None:
    db = graph()
    more = 3 * kept.RULES_A_REPEAT - len(db._state.compiled.checked.clauses)
    db.define("".join(f".decl f{i}(x: symbol)\nf{i}(X) :- edge(X, _).\n" for i in range(more)))
    ask(db, "n3", 3)
    assert db.kept_answers.parameters == 0
    ask(db, "n3")
    assert db.kept_answers.parameters == 1
    ask(db, "n4", 2)
    assert db.kept_answers.parameters == 2
