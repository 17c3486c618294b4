"""Rules are added and removed one by one; rows follow, and nothing is computed anew that need not be."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

import upshot
from tests.engine.driver import plain
from tests.properties.engines import connect
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from upshot.check import check
from upshot.core.errors import ProgramError
from upshot.engine.naive import evaluate
from upshot.plan.rule_changes import RuleChange
from upshot.syntax import parse, print_item
from upshot.syntax.ast import Program, Rule

BLOCKS = """
.decl edge(x: number, y: number)
.decl link(x: number, y: number)
.decl path(x: number, y: number)
.decl far(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
far(X, Y) :- path(X, Y), !edge(X, Y).
"""
LINKS = "path(X, Y) :- link(X, Y)."


@pytest.fixture
def chains() -> upshot.Database:
    db = upshot.connect()
    db.define(BLOCKS)
    with db.transaction() as tx:
        tx.insert("edge", [(100 * block + n, 100 * block + n + 1) for block in range(50) for n in range(9)])
        tx.insert("link", [(9, 100), (5, 7)])
    return db


def test_a_rule_that_is_added_costs_what_it_derives(chains: upshot.Database) -> None:
    before = {name: plain(chains.rows(name)) for name in ("path", "far")}
    made = chains.add_rule(LINKS)
    assert (made.recomputed, set(made.followed)) == ((), {"path", "far"})
    for name in ("path", "far"):
        now = plain(chains.rows(name))
        assert plain(made.changes[name].inserted) == now - before[name]
        assert plain(made.changes[name].deleted) == before[name] - now
    assert (9, 109) in plain(chains.rows("path"))
    assert made.stats.derived < len(before["path"])
    chains.verify()
    back = chains.remove_rule(LINKS)
    assert (back.recomputed, set(back.followed)) == ((), {"path", "far"})
    assert {name: plain(chains.rows(name)) for name in ("path", "far")} == before
    assert back.stats.derived < len(before["path"])
    chains.verify()


def test_what_another_rule_still_derives_stays(chains: upshot.Database) -> None:
    chains.add_rule(LINKS)
    assert (5, 7) not in plain(chains.remove_rule(LINKS).changes["path"].deleted)


def test_the_last_base_rule_of_a_recursive_view_takes_every_row_along(chains: upshot.Database) -> None:
    made = chains.remove_rule("path(X, Y) :- edge(X, Y).")
    assert made.followed
    assert len(chains.rows("path")) == 0
    assert len(made.changes["path"].deleted) == 50 * 45
    chains.verify()


def test_a_counted_view_follows_too(chains: upshot.Database) -> None:
    chains.define(".decl near(x: number, y: number) near(X, Y) :- edge(X, Y). near(X, Y) :- edge(Y, X).")
    made = chains.add_rule("near(X, Y) :- link(X, Y).")
    assert made.followed == ("near",)
    assert plain(made.changes["near"].inserted) == {(9, 100), (5, 7)}
    assert plain(chains.remove_rule("near(X, Y) :- edge(Y, X).").changes["near"].deleted) == {
        (y, x) for x, y in plain(chains.rows("edge"))
    }
    with chains.transaction() as tx:
        tx.delete("link", [(5, 7)])
    assert plain(tx.changes["near"].deleted) == {(5, 7)}
    chains.verify()


def test_a_strict_view_follows_and_refuses_to_be_computed_anew(chains: upshot.Database) -> None:
    chains.define(".view path policy=strict")
    chains.add_rule(LINKS)
    with pytest.raises(upshot.Error) as caught:
        chains.define("path(X, Y) :- link(Y, X).")
    assert caught.value.code == "would-recompute"
    chains.verify()
    chains.define(".view path policy=auto\npath(X, Y) :- link(Y, X).")
    assert plain(chains.rows("path")) == {(100, 9), (7, 5)}


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("path(X, Y) :- edge(Y, X).", "no-such-rule"),
        (".decl q(x: number)", "not-a-rule"),
        ("", "not-a-rule"),
    ],
)
def test_what_cannot_be_removed_is_named(chains: upshot.Database, text: str, slug: str) -> None:
    with pytest.raises(upshot.Error) as caught:
        chains.remove_rule(text)
    assert caught.value.code == slug


def test_a_rule_is_not_added_twice(chains: upshot.Database) -> None:
    with pytest.raises(upshot.Error) as caught:
        chains.add_rule("path(X, Y) :- edge(X, Y).")
    assert caught.value.code == "rule-exists"


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["auto", "maintenance", "bf", "production", "rod", "epf"])
def test_random_programs_follow_their_rules_exactly(strategy: str) -> None:
    followed, cases = 0, case_count(100, least=3)
    for number in range(cases):
        case = random_case(seed_of(f"rules {strategy}", number), Features(recursion=0.7))
        followed += _follow(case.text(), case.base, strategy, random.Random(case.seed))
    assert followed >= cases, "some changes are refused, and not most"


def _follow(text: str, base: dict[str, frozenset[tuple[object, ...]]], strategy: str, rng: random.Random) -> int:
    """How many changes of rules were followed exactly."""
    followed = 0
    items = parse(text).items
    rules = [item for item in items if isinstance(item, Rule) and item.body is not None]
    left = set(range(len(rules)))
    views = sorted({head.relation for rule in rules for head in rule.heads})
    options = "" if strategy == "auto" else "".join(f".view {view} strategy={strategy}\n" for view in views)
    with upshot.connect() as db:
        db.define(text + "\n" + options)
        with db.transaction() as tx:
            for name, rows in base.items():
                tx.insert(name, list(rows))
        for _ in range(6):
            number = rng.randrange(len(rules))
            change = db.remove_rule if number in left else db.add_rule
            before = {view: plain(db.rows(view)) for view in views}
            try:
                made = change(print_item(rules[number]))
            except ProgramError:
                continue
            followed += 1
            left ^= {number}
            now = Program(tuple(item for item in items if item not in rules or rules.index(item) in left))
            program = check(now)
            wanted = {view: set(program.facts.get(view, ())) for view in views} | evaluate(program, base)
            for view in views:
                assert plain(db.rows(view)) == wanted[view], (text, print_item(rules[number]), view)
                assert plain(made.changes[view].inserted) == wanted[view] - before[view], (text, view)
                assert plain(made.changes[view].deleted) == before[view] - wanted[view], (text, view)
    return followed


def test_a_view_that_is_not_stored_follows_its_rules_too() -> None:
    with upshot.connect() as db:
        db.define(BLOCKS + ".view path strategy=epf\n.view far materialized=false")
        with db.transaction() as tx:
            tx.insert("edge", [(100 * block + n, 100 * block + n + 1) for block in range(200) for n in range(9)])
            tx.insert("link", [(9, 100), (5, 7)])
        whole = len(db.rows("path"))
        for change, sign in ((db.add_rule, 1), (db.remove_rule, -1)):
            before = plain(db.rows("path"))
            made = change(LINKS)
            assert (made.recomputed, set(made.followed)) == ((), {"path", "far"})
            now = plain(db.rows("path"))
            assert (plain(made.changes["path"].inserted), plain(made.changes["path"].deleted)) == (
                now - before,
                before - now,
            )
            assert len(now) - len(before) == sign * 10
            assert made.stats.derived < whole / 5
            assert made.stats.stored == 0
            db.verify()


def test_a_view_of_production_rules_follows_by_deletion_rederivation_and_insertion() -> None:
    with upshot.connect() as db:
        db.define(BLOCKS + ".view path strategy=production policy=strict\n.view far strategy=production")
        with db.transaction() as tx:
            tx.insert("edge", [(100 * block + n, 100 * block + n + 1) for block in range(200) for n in range(9)])
            tx.insert("link", [(9, 100), (5, 7)])
        whole = len(db.rows("path"))
        for change, sign in ((db.add_rule, 1), (db.remove_rule, -1)):
            before = plain(db.rows("path"))
            made = change(LINKS)
            assert (made.recomputed, set(made.followed)) == ((), {"path", "far"})
            now = plain(db.rows("path"))
            assert plain(made.changes["path"].inserted) == now - before
            assert plain(made.changes["path"].deleted) == before - now
            assert len(now) - len(before) == sign * 10
            assert made.stats.derived < whole / 5
            db.verify()
        with db.transaction() as tx:
            tx.delete("edge", [(3, 4)])
        assert len(tx.changes["path"].deleted) == 4 * 6, "the triggers go on from there"
        db.verify()


def test_a_view_of_production_rules_is_stored_and_no_longer_and_again() -> None:
    with upshot.connect() as db:
        db.define(".decl e(x: number) .decl v(x: number) v(X) :- e(X), X > 1. v(X) :- e(Y), X = Y + 10.")
        with db.transaction() as tx:
            tx.insert("e", [(1,), (2,), (3,)])
        for stored in (False, True, False, True):
            made = db.define(f".view v strategy=production materialized={str(stored).lower()}")
            assert not made.changes["v"]
            assert len(db.rows("v")) == 5
            db.verify()


# ---- a clause counts once -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A view `v` over `a(1)` and `b(2)` before and after a change of its rules: `change` is a method of a database and
    its text; `left` are the rows once `a(1)` is deleted."""

    before: str
    change: tuple[str, str]
    left: frozenset[tuple[int, ...]] = frozenset()


REWRITINGS = {
    "one of two equal rules is removed": Rewriting("v(X) :- a(X). v(X) :- a(X).", ("remove_rule", "v(X) :- a(X).")),
    "two equal rules become one": Rewriting("v(X) :- a(X). v(X) :- a(X).", ("define", "v(X) :- a(X).")),
    "one rule becomes two equal ones": Rewriting(
        "v(X) :- a(X). v(X) :- c(X).", ("define", "v(X) :- a(X). v(X) :- a(X). v(X) :- c(X)."), frozenset({(1,)})
    ),
    "two equal heads become one": Rewriting("v(X), v(X) :- a(X).", ("define", "v(X) :- a(X).")),
    "two equal alternatives become one": Rewriting("v(X) :- (a(X) ; a(X)).", ("define", "v(X) :- a(X).")),
    "a rule with an alternative of another is removed": Rewriting(
        "v(X) :- a(X). v(X) :- (a(X) ; b(X)).", ("remove_rule", "v(X) :- (a(X) ; b(X)).")
    ),
    "a rule with an alternative of another is added": Rewriting(
        "v(X) :- a(X).", ("add_rule", "v(X) :- (a(X) ; b(X))."), frozenset({(2,)})
    ),
    "a rule that is equal but for its variables is added": Rewriting("v(X) :- a(X).", ("add_rule", "v(Y) :- a(Y).")),
    "a rule that is equal but for its variables is removed": Rewriting(
        "v(X) :- a(X). v(Y) :- a(Y).", ("remove_rule", "v(Y) :- a(Y).")
    ),
    "a rule that is equal but for the order of its literals is removed": Rewriting(
        "v(X) :- a(X), X < 5. v(X) :- X < 5, a(X).", ("remove_rule", "v(X) :- X < 5, a(X).")
    ),
    "rules become equal in normal form": Rewriting(
        "v(X + 0) :- a(X). v(V) :- a(X), V = X + 0.", ("remove_rule", "v(X + 0) :- a(X).")
    ),
    "one of two equal rules with an aggregate is removed": Rewriting(
        "v(N) :- a(X), N = count : { a(X) }. v(N) :- a(X), N = count : { a(X) }. v(X) :- a(X).",
        ("remove_rule", "v(N) :- a(X), N = count : { a(X) }."),
    ),
    "a fact is written twice, then once": Rewriting(
        "v(7). v(7). v(X) :- a(X).", ("define", "v(7). v(X) :- a(X)."), frozenset({(7,)})
    ),
    "a fact that a base change comes with": Rewriting(
        "v(X) :- a(X). v(X) :- a(X).", ("define", "a(3). v(X) :- a(X). v(X) :- b(X)."), frozenset({(2,), (3,)})
    ),
}
"""Other rules, and how often each derives a row changes or only seems to."""


def follow_rewriting(db: upshot.Database, case: Rewriting, options: str = "") -> set[tuple[object, ...]]:
    """The view follows exactly, and what is then deleted has no derivation left over. Return the rows between."""
    db.define("".join(f".decl {name}(x: number)\n" for name in "abcv") + options + case.before)
    with db.transaction() as tx:
        for name, row in (("a", 1), ("b", 2), ("c", 1)):
            tx.insert(name, [(row,)])
    verb, text = case.change
    before = plain(db.rows("v"))
    made = getattr(db, verb)(text)
    now = plain(db.rows("v"))
    assert (plain(made.changes["v"].inserted), plain(made.changes["v"].deleted)) == (now - before, before - now)
    db.verify()
    with db.transaction() as tx:
        tx.delete("a", [(1,)])
    assert plain(db.rows("v")) == case.left
    assert plain(tx.changes["v"].deleted) == now - case.left
    db.verify()
    return now


@pytest.mark.parametrize("strategy", ["counting", "maintenance", "production", "epf"])
@pytest.mark.parametrize("name", REWRITINGS)
def test_a_clause_derives_a_row_once_however_often_it_is_written(name: str, strategy: str) -> None:
    with connect() as db:
        follow_rewriting(db, REWRITINGS[name], f".view v strategy={strategy}\n")


def test_a_constraint_that_is_written_twice_and_then_once_leaves_no_violation_standing() -> None:
    once = ".deny late(X) :- a(X), X > 3.\n"
    with connect() as db:
        db.define(f".decl a(x: number)\n{once}{once}.deny late on_violation=warn\n")
        with db.transaction() as tx:
            tx.insert("a", [(5,)])
        assert not db.define(f"{once}.deny late on_violation=warn\n").changes["late"]
        with db.transaction() as tx:
            tx.delete("a", [(5,)])
        assert plain(tx.changes["late"].deleted) == {(5,)}
        db.verify()


def test_the_rules_of_a_view_are_compared_a_few_times_however_many_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    found = RuleChange.added
    compared = []
    monkeypatch.setattr(RuleChange, "added", property(lambda it: compared.append(it) or found.fget(it)))
    rules = "".join(f"v(X) :- a(X), X != {number}.\n" for number in range(40))
    with connect() as db:
        db.define(f".decl a(x: number) .decl v(x: number)\n.view v strategy=counting\n{rules}")
        with db.transaction() as tx:
            tx.insert("a", [(1,), (2,)])
        db.add_rule("v(-X) :- a(X), X > 1.")
        assert plain(db.rows("v")) == {(1,), (2,), (-2,)}
        db.verify()
    assert 0 < len(compared) <= 5
