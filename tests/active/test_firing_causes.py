"""The cause of a firing: the literals that changed, and the base changes that they follow from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.active.random_rules import BASES, RuleCase, random_case
from tests.active.rule_interpreter import Interpreter, Runaway, Window
from tests.active.test_random_rules import MOST, action_after, run, shown
from tests.properties.settings import case_count, seed_of
from upshot.active.firing import Cause

SHOP = """
.decl stock(item: symbol, n: number) key(item)
.decl threshold(item: symbol, n: number) key(item)
.decl blocked(item: symbol)
.decl order(item: symbol)
.decl log(item: symbol)
.decl low(item: symbol)
low(I) :- stock(I, N), threshold(I, T), N < T.
"""


@pytest.fixture
def db() -> Iterator[upshot.Database]:
    with upshot.connect() as db:
        db.define(SHOP)
        with db.transaction() as tx:
            tx.insert("stock", [("nail", 500), ("screw", 10)])
            tx.insert("threshold", [("nail", 140), ("screw", 20)])
            tx.insert("blocked", [("screw",)])
        yield db


def sell(db: upshot.Database, *rows: tuple[str, int]) -> upshot.Transaction:
    with db.transaction() as tx:
        tx.upsert("stock", rows)
    return tx


def cause(tx: upshot.Transaction, rule: str) -> Any:
    (firing,) = (each for each in tx.firings if each.rule == rule)
    ((_, found),) = firing.cause.items()
    return found


def test_a_condition_that_becomes_true_names_the_literal_and_the_base_rows(db: upshot.Database) -> None:
    db.define(".rule reorder(I) when low(I), !blocked(I) do insert order(I).")
    found = cause(sell(db, ("nail", 1)), "reorder")
    assert found.differentials == ("+low(I)",)
    assert found.literals == ('low("nail")',)
    assert (found.inserted, found.deleted) == ((("stock", ("nail", 1)),), ())
    with db.transaction() as tx:
        tx.delete("blocked", [("screw",)])
    found = cause(tx, "reorder")
    assert found.differentials == ("-blocked(I)",)
    assert (found.inserted, found.deleted) == ((), (("blocked", ("screw",)),))


def test_each_row_has_its_own_cause(db: upshot.Database) -> None:
    db.define(".rule reorder(I) when low(I), !blocked(I) do insert order(I).")
    with db.transaction() as tx:
        tx.upsert("stock", [("nail", 1)])
        tx.delete("blocked", [("screw",)])
    (firing,) = tx.firings
    assert {row: each.differentials for row, each in firing.cause.items()} == {
        ("nail",): ("+low(I)",),
        ("screw",): ("-blocked(I)",),
    }


def test_the_cause_of_an_event_rule_is_the_event(db: upshot.Database) -> None:
    db.define(".rule gone(I) on delete low(I) when stock(I, N), N > 5 do insert log(I).")
    found = cause(sell(db, ("screw", 500)), "gone")
    assert found.differentials == ("-low(I)",)
    assert found.literals == ('low("screw")',)
    assert found.deleted == (("stock", ("screw", 10)),)


def test_a_change_that_a_later_rule_undoes_is_still_the_cause(db: upshot.Database) -> None:
    db.define("""
        .rule reorder(I) when low(I), !blocked(I) do insert order(I).
        .rule fulfill(I) on insert order(I) do delete order(I), insert log(I).
        .rule noted(I) when log(I) do insert blocked(I).
    """)
    tx = sell(db, ("nail", 1))
    assert "order" not in tx.changes
    assert not list(db.query('order("nail")'))
    assert cause(tx, "reorder").inserted == (("stock", ("nail", 1)),)
    assert cause(tx, "fulfill").inserted == (("order", ("nail",)),)
    assert cause(tx, "noted").inserted == (("log", ("nail",)),)


def test_a_transaction_without_net_change_has_causes(db: upshot.Database) -> None:
    db.define(".rule refuse(I) on insert order(I) do delete order(I).")
    version = db.version
    with db.transaction() as tx:
        tx.insert("order", [("nail",)])
    assert tx.version == version
    assert cause(tx, "refuse").inserted == (("order", ("nail",)),)


def test_what_the_rule_itself_took_away_and_another_brings_back_is_a_cause(db: upshot.Database) -> None:
    db.define("""
        .rule take(I) when order(I), !log("stop") do delete order(I), insert blocked(I).
        .rule back(I) on insert blocked(I) do insert order(I), insert log("stop"), delete blocked(I).
        .rule again(I) on insert order(I) do insert threshold(I, 1).
    """)
    with db.transaction() as tx:
        tx.insert("order", [("bolt",)])
    firings = [(each.rule, tuple(each.cause[("bolt",)].differentials)) for each in tx.firings]
    assert firings[:2] == [("take", ("+order(I)",)), ("back", ("+blocked(I)",))]
    assert ("again", ("+order(I)",)) in firings


def test_transitions_and_aggregates_have_signs(db: upshot.Database) -> None:
    db.define("""
        .rule fell(I, A, B) when old stock(I, A), stock(I, B), B < A do insert log(I).
        .rule many semantics=nervous when N = count : { blocked(_) }, N > 1 do insert log("many").
        .rule full when 2 <= count : { blocked(_) } do insert log("full").
    """)
    found = cause(sell(db, ("nail", 400)), "fell")
    assert found.differentials == ("-stock(I, A)", "+stock(I, B)")
    assert (found.inserted, found.deleted) == ((("stock", ("nail", 400)),), (("stock", ("nail", 500)),))
    with db.transaction() as tx:
        tx.insert("blocked", [("nail",)])
    assert cause(tx, "many").differentials[0].startswith("±N = count : { blocked(_)")
    assert cause(tx, "many").inserted == (("blocked", ("nail",)),)
    assert "count : { blocked(_)" in cause(tx, "full").differentials[0]
    assert cause(tx, "full").inserted == (("blocked", ("nail",)),)


def test_a_function_called_after_the_commit_reads_the_cause(db: upshot.Database) -> None:
    found = []
    db.action("mail", lambda rows, firing: found.append(firing.cause))
    db.define(".rule tell(I) on insert low(I) do call mail(I).")
    sell(db, ("nail", 1))
    assert found[0][("nail",)].inserted == (("stock", ("nail", 1)),)


def test_a_function_called_before_the_commit_is_refused(db: upshot.Database) -> None:
    codes = []

    def judge(rows: object, firing: Any) -> None:
        with pytest.raises(upshot.UsageError) as caught:
            _ = firing.cause
        codes.append(caught.value.code)

    db.action("judge", judge)
    db.define(".rule tell(I) coupling=deferred on insert low(I) do call judge(I).")
    sell(db, ("nail", 1))
    with pytest.raises(upshot.UsageError) as caught:
        _ = db.what_if(insert={"stock": [("bolt", 1)], "threshold": [("bolt", 2)]}).firings[0].cause
    assert [*codes, caught.value.code] == ["no-causes"] * 3


def test_a_cause_is_kept_as_long_as_its_version(db: upshot.Database, tmp_path: Path) -> None:
    rule = ".rule reorder(I) when low(I), !blocked(I) do insert order(I)."
    db.define(rule)
    tx = sell(db, ("nail", 1))
    sell(db, ("bolt", 7))
    with pytest.raises(upshot.UsageError) as caught:
        cause(tx, "reorder")
    assert caught.value.code == "history-not-kept"
    with upshot.connect(tmp_path) as durable:
        durable.define(SHOP + rule)
        with durable.transaction() as tx:
            tx.insert("stock", [("nail", 1)])
            tx.insert("threshold", [("nail", 2)])
        sell(durable, ("bolt", 7))
        assert cause(tx, "reorder").inserted == (("stock", ("nail", 1)), ("threshold", ("nail", 2)))
        durable.define(".decl other(x: number)")
        with pytest.raises(upshot.UsageError) as caught:
            cause(tx, "reorder")
        assert caught.value.code == "program-changed"


def test_a_large_transaction_keeps_no_states_between(db: upshot.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upshot.database.rules.transaction_rules.MOST_REMEMBERED", 3)
    db.define("""
        .rule reorder(I) when low(I), !blocked(I) do insert order(I).
        .rule log_order(I) coupling=after on insert order(I) do call mail(I).
    """)
    db.action("mail", lambda rows: None)
    tx = sell(db, ("nail", 1), ("bolt", 1), ("nut", 1))
    with pytest.raises(upshot.UsageError) as caught:
        cause(tx, "reorder")
    assert caught.value.code == "history-not-kept"
    assert cause(tx, "log_order").inserted == (("order", ("nail",)),)


def test_a_commit_in_which_no_rule_has_a_turn_keeps_nothing(
    db: upshot.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.define(".rule reorder(I) when low(I), !blocked(I) do insert order(I).")
    monkeypatch.setattr("upshot.database.rules.transaction_rules.TurnLog", None)
    assert sell(db, ("nail", 400)).firings == ()
    with pytest.raises(TypeError):
        sell(db, ("nail", 1))


def test_a_savepoint_takes_back_the_turns_of_rules(db: upshot.Database) -> None:
    db.define(".rule reorder(I) coupling=immediate when low(I), !blocked(I) do insert order(I).")
    with db.transaction() as tx:
        with tx.savepoint() as point:
            tx.upsert("stock", [("nail", 1)])
            point.rollback()
        tx.upsert("stock", [("nail", 2)])
        tx.delete("blocked", [("screw",)])
    assert [each.cause for each in tx.firings] == [
        {("nail",): Cause((("stock", ("nail", 2)),), (), ('low("nail")',), ("+low(I)",))},
        {("screw",): Cause((), (("blocked", ("screw",)),), ('no row matches blocked("screw")',), ("-blocked(I)",))},
    ]


def test_why_changed_explains_the_condition_of_a_rule(db: upshot.Database) -> None:
    db.define(".rule reorder(I) when low(I), !blocked(I) do insert order(I).")
    sell(db, ("nail", 1))
    told = db.why_changed("reorder", ("nail",))
    assert told.change == "came"
    assert [each.statement for each in told.derivation.premises if each.change] == ['low("nail")']


# ---- random rules -------------------------------------------------------------------------------


def test_causes_of_random_firings_agree_with_the_states_around_them() -> None:
    compared, count = 0, case_count(10, least=20)
    for number in range(count):
        case = random_case(seed_of("causes", number))
        try:
            compared += check_case(case)
        except Exception as error:
            raise AssertionError(f"{error}\n{case.text}\n{case.base}\n{case.transactions}") from error
    assert compared > min(10, count // 2)


def check_case(case: RuleCase) -> int:
    """How many firings were compared."""
    reference = Interpreter(case.text, MOST)
    compared, base = 0, dict(case.base)
    with upshot.connect(max_firings=MOST) as db:
        db.action("tell", lambda rows: None)
        db.define("\n".join(line for line in case.text.splitlines() if not line.startswith(".rule")))
        with db.transaction() as tx:
            for name, rows in case.base.items():
                tx.insert(name, sorted(rows))
        db.define("\n".join(line for line in case.text.splitlines() if line.startswith(".rule")))
        for transaction in case.transactions:
            try:
                wanted = reference.transaction(base, transaction)
            except Runaway:
                return compared
            if any(action_after(case.text, rule) for rule, _ in wanted.firings):
                return compared
            tx = run(db, transaction)
            for firing, (rule, rows), window in zip(tx.firings, wanted.firings, wanted.windows, strict=True):
                found = firing.cause
                assert set(found) == shown(case.text, rule, rows)
                for row, each in found.items():
                    check_cause(case.text, rule, row, each, window)
                check_nervous(case.text, reference, rule, found, window)
                compared += 1
            base = wanted.base
        db.verify()
    return compared


def check_cause(text: str, rule: str, row: Any, found: Any, window: Window) -> None:
    """Every change that is named happened in the window, and one at least is."""
    told = (rule, row, found)
    assert found.differentials, told
    assert found.literals, told
    assert found.inserted or found.deleted, told
    for operation, rows in (("+", found.inserted), ("-", found.deleted)):
        for relation, values in rows:
            assert relation in BASES, told
            assert changed(window, relation, values, operation), told
    line = next(line for line in text.splitlines() if re.match(rf"\.rule {rule}\b", line))
    written = [line, *halves_of_updates(line)]
    assert all(each[0] == "±" or any(each[1:] in part for part in written) for each in found.differentials), told
    event = re.search(r" on (?:insert|delete|change) (\w+\([^)]*\))", line)
    assert event is None or {each[1:] for each in found.differentials} == {event[1]}, told
    for statement in found.literals:
        match = re.fullmatch(r"(\w+)\(([\d, ]*)\)", statement)
        if match:
            values = tuple(int(each) for each in match[2].split(",") if each)
            # The sign is that of a literal as it is written; a row behind a view in its place may have either.
            signs = "".join(each[0] for each in found.differentials if each[1:].startswith(f"{match[1]}("))
            either = not signs or "±" in signs
            assert any(changed(window, match[1], values, sign) for sign in ("+-" if either else signs)), told


def halves_of_updates(line: str) -> list[str]:
    """The atoms of the old and of the new row of each update that the rule reads."""
    found = []
    for name, text in re.findall(r"\b(?:on update|updated) (\w+)\(([^)]*)\)", line):
        columns = text.split(", ")
        middle = len(columns) // 2
        found += [f"{name}({', '.join(half)})" for half in (columns[:middle], columns[middle:])]
    return found


def changed(window: Window, relation: str, row: Any, sign: str) -> bool:
    pairs = ((window.acted, window.now), (window.begin, window.now), (window.begin, window.acted))
    return any(
        (row in (after[relation] if sign == "+" else before[relation]))
        and (row not in (before[relation] if sign == "+" else after[relation]))
        for before, after in pairs
    )


def check_nervous(text: str, reference: Interpreter, rule: str, found: Any, window: Window) -> None:
    """The literals of a nervous condition are exactly those that derive the instance through a changed row."""
    wanted = reference.differentials(rule, window)
    if wanted is None:
        return
    expected: dict[Any, set[str]] = {row: set() for row in found}
    for literal, rows in wanted.items():
        for row in shown(text, rule, rows):
            if row in expected:
                expected[row].add(literal)
    signed = {row: {"±" if each[0] == "±" else each for each in cause.differentials} for row, cause in found.items()}
    assert signed == expected, (rule, found)
