"""What the answer to a request can hang on."""

from __future__ import annotations

import upshot

PROGRAM = """
.decl a(x: number)
.decl b(x: number)
.decl c(x: number)
.decl d(x: number)
.decl far(x: number)
.decl v(x: number)
v(X) :- a(X), !b(X).
.decl w(x: number)
w(X) :- v(X).
.decl own(x: number)
own(X) :- far(X).
"""


def reach(more: str, *names: str) -> set[str]:
    db = upshot.connect()
    db.define(PROGRAM + more)
    return set(db.search_reach(names))


def test_a_request_hangs_on_what_its_relations_rest_on() -> None:
    assert reach("", "v") == {"v", "a", "b"}
    assert reach("", "w", "own") == {"w", "v", "a", "b", "own", "far"}
    assert reach("", "a") == {"a"}


def test_a_constraint_over_what_may_change_counts_with_all_it_rests_on_and_others_do_not() -> None:
    assert reach(".deny n(X) :- b(X), c(X). .deny o(X) :- far(X), X < 0.", "v") == {"v", "a", "b", "n", "c"}
    assert reach(".deny n(X) :- b(X), c(X). .deny o(X) :- c(X), d(X).", "v") >= {"n", "c", "o", "d"}


def test_a_constraint_that_only_warns_does_not_count() -> None:
    assert reach(".deny n(X) :- b(X), c(X). .deny n on_violation=warn", "v") == {"v", "a", "b"}


def test_a_key_of_a_view_above_counts_with_all_it_rests_on() -> None:
    more = ".decl k(x: number, y: number) key(x) k(X, Y) :- a(X), c(Y)."
    assert reach(more, "v") == {"v", "a", "b", "c", "k"}


def test_an_active_rule_that_may_be_set_off_counts_with_what_it_reads_and_changes() -> None:
    assert reach(".rule r(X) when w(X), c(X) do insert d(X).", "v") == {"v", "a", "b", "w", "r", "c", "d"}
    assert reach(".rule r(X) when far(X) do insert d(X).", "v") == {"v", "a", "b"}
    chained = ".rule r(X) when a(X) do insert c(X). .deny n(X) :- c(X), far(X)."
    assert reach(chained, "v") == {"v", "a", "b", "r", "c", "n", "far"}


def test_facts_of_a_view_are_its_own() -> None:
    assert reach(".decl m(x: number) .input m m(X) :- c(X).", "m") == {"m", "c"}


def test_a_view_above_counts_if_what_it_computes_can_fail() -> None:
    assert reach(".decl k(x: number) k(X * Y) :- a(X), c(Y).", "v") == {"v", "a", "b", "c", "k"}
    summed = ".decl k(x: number) k(N) :- N = sum X + Y : { a(X), c(Y) }."
    assert reach(summed, "v") == {"v", "a", "b", "c", "k"}
    assert reach(".decl k(x: number) k(N) :- N = count : { a(_) }.", "v") == {"v", "a", "b"}
    for term in ("X + 1", "-X", "X / Y", "X % 0", "X / -1", "X bshl 3", "X ^ 2", "to_number(to_string(X))"):
        assert "k" in reach(f".decl k(x: number) k({term}) :- a(X), c(Y), Y = Y.", "v"), term


def test_a_view_above_does_not_count_if_what_it_computes_has_always_a_value() -> None:
    for term in (
        "X / 2",
        "X % 10",
        "X band 7",
        "bnot X",
        "max(X, 3)",
        "strlen(to_string(X))",
        'ord(substr("ab", X, 1))',
    ):
        assert reach(f".decl k(x: number) k({term}) :- a(X), c(_).", "v") == {"v", "a", "b"}, term
    floats = (
        ".decl f(x: float) .decl k(x: float) k(F * 2.0 / G) :- f(F), f(G), a(_). k(S) :- a(_), S = sum F : { f(F) }."
    )
    assert reach(floats, "v") == {"v", "a", "b"}
    assert reach('.decl k(s: symbol) k(cat("n", to_string(X))) :- a(X), c(_).', "v") == {"v", "a", "b"}


def test_a_view_above_counts_if_it_may_make_values_without_end() -> None:
    endless = '.decl k(s: symbol) k(to_string(X)) :- a(X), c(_). k(cat(S, "x")) :- k(S), strlen(S) < 9.'
    assert reach(endless, "v") == {"v", "a", "b", "c", "k"}


def test_a_view_above_counts_if_it_may_derive_the_number_that_stands_for_null() -> None:
    assert reach(".decl k(x: number?) k(X) :- a(X), c(X).", "v") == {"v", "a", "b", "c", "k"}
    assert reach(".decl k(x: number?) k(X) :- m(X), a(_). .decl m(x: number?)", "v") == {"v", "a", "b"}
    assert reach(".decl k(x: number) k(X) :- a(X), c(X).", "v") == {"v", "a", "b"}


def test_what_a_view_of_sql_was_split_into_is_not_named() -> None:
    db = upshot.connect()
    db.define(PROGRAM)
    db.define("CREATE VIEW most AS SELECT x FROM a WHERE x > (SELECT max(x) FROM c);")
    assert db.search_reach(["most"]) == {"most", "a", "c"}


def test_the_rules_of_a_search_are_made_once_for_each_program() -> None:
    with upshot.connect() as db:
        db.define(PROGRAM)
        with db.transaction() as tx:
            tx.insert("a", [(number,) for number in range(3)])
        made = []
        for number in range(3):
            assert len(list(db.realize(delete={"v": [(number,)]}))) == 2
            ((asked, rules),) = db._state.compiled.search_rules.items()
            made.append((asked, id(rules), len(rules.queries)))
        assert made == [(frozenset("v"), made[0][1], 1)] * 3
        db.define(".decl e(x: number) v(X) :- e(X).")
        assert not db._state.compiled.search_rules
        assert [way.lines() for way in db.realize({"v": [(7,)]})] == [["+e(7)"]]
