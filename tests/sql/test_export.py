"""`upshot export postgres`: exported triggers against the engine, on a real PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

import upshot
from tests.pipeline.postgres import Cluster
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.sql.exported import Exported, changed, comparable
from upshot.check import check
from upshot.cli.app import main
from upshot.core.errors import ProgramError
from upshot.export.postgres import postgres_script
from upshot.sql.either import parse_either

TRAINS = """
.decl train(x: symbol, y: symbol)
.decl station(x: symbol, state: symbol)
.decl route(x: symbol, y: symbol)
route(X, Y) :- train(X, Y).
route(X, Y) :- route(X, Z), route(Z, Y).
.decl reach_cal(x: symbol)
reach_cal(X) :- station(X, "California").
reach_cal(X) :- route(X, Y), reach_cal(Y).
.decl unconnected(x: symbol, y: symbol)
unconnected(X, Y) :- station(X, _), station(Y, _), !route(X, Y).
.decl reached(x: symbol, n: number)
reached(X, N) :- station(X, _), N = count : { route(X, _) }.
"""
FEATURES = Features(mean=0, division=0, strings=0.1, errors=0)


def refused(text: str) -> str:
    """Why a program is not exported, empty if it is."""
    try:
        postgres_script(check(parse_either(text, "program.dl", {})))
    except ProgramError as error:
        found = [each for each in error.diagnostics if each.slug == "not-exported"]
        return found[0].message if len(found) == len(error.diagnostics) else ""
    return ""


def agree(exported: Exported, db: upshot.Database) -> None:
    for name in db.schemas:
        assert comparable(exported.rows(name)) == comparable(db.rows(name)), name


def transact(exported: Exported, db: upshot.Database, changes: list[tuple[str, str, tuple[object, ...]]]) -> None:
    """One transaction on both sides; rows and changes must agree."""
    with db.transaction() as tx:
        for sign, relation, row in changes:
            (tx.insert if sign == "+" else tx.delete)(relation, [row])
    before = exported.version()
    statements = "; ".join(exported.change(sign, relation, [row]) for sign, relation, row in changes)
    lines = exported.say(f"BEGIN; {statements}; COMMIT")
    assert not lines, lines
    version = exported.version()
    for name in db.schemas:
        expected = changed(tx.changes, name) if name in tx.changes else (set(), set())
        found = exported.changes(name, version) if version > before else (set(), set())
        assert tuple(map(comparable, found)) == expected, name
    agree(exported, db)


def test_the_train_program_of_the_paper_follows_deletions_in_a_cycle(cluster: Cluster) -> None:
    exported = Exported(cluster, TRAINS, "trains")
    db = upshot.connect()
    db.define(TRAINS)
    stations = [("la", "California"), ("ny", "New York"), ("sf", "California"), ("reno", "Nevada")]
    transact(exported, db, [("+", "station", row) for row in stations])
    tracks = [("ny", "reno"), ("reno", "sf"), ("sf", "reno"), ("sf", "la")]
    transact(exported, db, [("+", "train", row) for row in tracks])
    transact(exported, db, [("-", "train", ("reno", "sf")), ("+", "train", ("la", "ny"))])
    transact(exported, db, [("-", "train", ("la", "ny")), ("+", "train", ("la", "ny"))])
    transact(exported, db, [("-", "station", ("ny", "New York")), ("-", "train", ("sf", "la"))])
    exported.close()


@pytest.mark.parametrize("number", range(case_count(12, least=4)))
def test_random_programs_and_transactions_agree_with_the_engine(cluster: Cluster, number: int) -> None:
    case = random_case(seed_of("export", number), FEATURES)
    if reason := refused(case.text()):
        pytest.skip(reason)
    exported = Exported(cluster, case.text(), f"case{number}")
    try:
        db = upshot.connect()
        db.define(case.text())
        agree(exported, db)
        first = [("+", name, row) for name, rows in case.base.items() for row in rows]
        transact(exported, db, first)
        for transaction in case.transactions:
            transact(exported, db, [(each.sign, each.relation, each.row) for each in transaction])
    finally:
        exported.close()


def test_updates_truncations_and_processing_points_are_followed(cluster: Cluster) -> None:
    text = ".decl e(x: number, y: number)\n.decl p(x: number, y: number)\n"
    text += "p(X, Y) :- e(X, Y).\np(X, Z) :- p(X, Y), e(Y, Z).\n"
    exported = Exported(cluster, text, "points")
    e, p = exported.table("e"), exported.table("p")
    assert not exported.say(f"INSERT INTO {e} VALUES (1, 2), (2, 3), (3, 4)")
    assert not exported.say(f"UPDATE {e} SET y = 9 WHERE x = 2")
    assert exported.rows("p") == {(1, 2), (1, 9), (2, 9), (3, 4)}
    assert exported.changes("p", exported.version()) == ({(1, 9), (2, 9)}, {(2, 3), (2, 4), (1, 3), (1, 4)})
    seen = f"COPY (SELECT count(*) FROM {p}) TO STDOUT"
    lines = exported.say(
        f'BEGIN; INSERT INTO {e} VALUES (9, 1); {seen}; SELECT FROM "points".process() \\g /dev/null\n {seen}; ROLLBACK'
    )
    assert lines == ["4", "10"]
    assert len(exported.rows("p")) == 4
    assert not exported.say(f"TRUNCATE {e}")
    assert exported.rows("p") == set()
    refused = exported.say(f"INSERT INTO {p} VALUES (7, 7)")
    assert "p is a view: change its base tables" in refused[0]
    refused = exported.say(f"BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO {e} VALUES (1, 1); ROLLBACK")
    assert "use READ COMMITTED" in refused[0]
    exported.close()


def test_texts_with_quotes_of_all_kinds_are_data(cluster: Cluster) -> None:
    text = ".decl a(x: symbol)\n.decl b(x: symbol, y: symbol)\n"
    text += 'b(X, "it\'s $upshot$ -- \\\\ $$") :- a(X), X != "$upshot1$".\n'
    exported = Exported(cluster, text, "quotes")
    db = upshot.connect()
    db.define(text)
    transact(exported, db, [("+", "a", ("$upshot$'; --",)), ("+", "a", ("$upshot1$",))])
    assert len(exported.rows("b")) == 1
    exported.close()


def test_constraints_keys_and_facts_hold(cluster: Cluster) -> None:
    text = '.decl n(x: symbol, v: number) key(x)\nn("a", 1).\n.deny large(X) :- n(X, V), V > 9.\n'
    exported = Exported(cluster, text, "denied")
    n = exported.table("n")
    assert exported.rows("n") == {("a", 1)}
    assert "constraint large is violated" in exported.say(f"INSERT INTO {n} VALUES ('b', 10)")[0]
    assert "duplicate key" in exported.say(f"INSERT INTO {n} VALUES ('a', 2)")[0]
    assert not exported.say(f"BEGIN; INSERT INTO {n} VALUES ('b', 10); UPDATE {n} SET v = 3 WHERE x = 'b'; COMMIT")
    assert exported.rows("n") == {("a", 1), ("b", 3)}
    exported.close()


REFUSED = {
    ".decl a(x: symbol)\n.decl b(x: number)\nb(N) :- a(X), N = to_number(X).": "function `to_number` on `symbol`",
    '.decl a(x: symbol)\n.decl b(x: symbol)\nb(X) :- a(X), match("a.*", X).': "test `match`",
    ".decl a(x: float)\n.decl b(m: float)\nb(M) :- M = sum Y : { a(Y) }.": "aggregate `sum` over `float`",
    ".decl a(x: number)\n.decl b(x: number)\n.rule r(X) on insert a(X) do insert b(X).": "active rule `r`",
    ".decl a(x: number, d: min number)\n.decl b(x: number)\na(X, 1) :- b(X).": "`a`, which keeps best values,",
    ".type R = [x: number]\n.decl a(r: R)": "the record in `a`",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_postgres_would_compute_otherwise_is_refused_by_name(text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        postgres_script(check(parse_either(text, "program.dl", {})))
    assert caught.value.diagnostics[0].message == f"{REFUSED[text]} cannot be exported to PostgreSQL"
    assert all(each.help for each in caught.value.diagnostics)


def test_the_command_prints_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trains.dl"
    file.write_text(TRAINS)
    assert main(["export", "postgres", str(file), "--schema", "rail"]) == 0
    printed = capsys.readouterr().out
    assert 'CREATE TABLE "rail"."route"' in printed
    assert "-- route/2-del-1: del route(X, Y) :- del route(X, Z), old route(Z, Y)." in printed
    assert main(["export", "postgres", str(file), "--schema", "x" * 41]) == 2
