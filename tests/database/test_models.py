"""Rules with alternatives in their heads: the perfect models, and that nothing of them is maintained."""

from __future__ import annotations

import itertools
import random

import pytest

import upshot
from tests.properties.settings import case_count, seed_of

GOLDEN = """
.decl s(x: symbol)  .decl t(x: symbol)  .decl r(x: symbol)  .decl p(x: symbol)  .decl q(x: symbol)
.decl b(x: symbol, y: symbol)
s(X) | t(X) :- r(X), !p(X).
p(X) :- b(X, Y), p(Y).
p(X) :- q(X).
q("2"). b("1", "2").
r("a") | r("b") | r("c") | r("1").
"""


def _shown(found: upshot.Models) -> set[frozenset[str]]:
    return {frozenset(f"{name}({row[0]})" for name, rows in model.items() for row in rows) for model in found}


def test_the_golden_program_has_seven_perfect_models() -> None:
    db = upshot.connect()
    db.define(GOLDEN)
    found = db.models(limit=None)
    assert found.complete
    assert _shown(found) == {frozenset({"r(1)"})} | {
        frozenset({f"r({x})", f"{name}({x})"}) for x in "abc" for name in "st"
    }
    assert not any(len(rows) for rows in found.cautious.values())
    assert set(found.brave["r"]) == {("a",), ("b",), ("c",), ("1",)}
    assert set(db.rows("p")) == {("1",), ("2",)}


def test_a_limit_says_whether_there_are_more() -> None:
    db = upshot.connect()
    db.define(GOLDEN)
    assert len(db.models(limit=3)) == 3
    assert not db.models(limit=3).complete
    assert db.models(limit=7).complete


def test_constraints_leave_models_out_and_computed_values_count() -> None:
    db = upshot.connect()
    db.define("""
    .decl n(x: number)  .decl low(x: number)  .decl high(x: number)  .decl next(x: number)
    low(X) | high(X + 10) :- n(X).
    next(X + 1) :- low(X), X < 2.
    .deny both(X) :- low(X), high(X + 11).
    """)
    with db.transaction() as tx:
        tx.insert("n", [(1,), (2,)])
    assert _shown(db.models()) == {
        frozenset({"low(1)", "low(2)", "next(2)"}),
        frozenset({"high(11)", "low(2)"}),
        frozenset({"high(11)", "high(12)"}),
    }
    assert set(db.models().cautious["low"]) == set()
    with db.transaction() as tx:
        tx.delete("n", [(1,)])
    assert len(db.models()) == 2


def test_what_is_undecided_has_no_rows_to_read() -> None:
    db = upshot.connect()
    db.define(GOLDEN)
    for ask in (
        lambda: db.rows("s"),
        lambda: list(db.query("s(X)")),
        lambda: list(db.sql("select x from s")),
        lambda: list(db.sql("select x from p where x in (select x from s)")),
        lambda: db.watch("s", print),
        lambda: db.watch('s(X), X != "a"', print),
        lambda: db.watch("select x from s where x > 'a'", print),
    ):
        with pytest.raises(upshot.UsageError) as caught:
            ask()
        assert caught.value.code == "undecided-relation"


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        (".decl a(x: number)  .decl b(x: number)  .decl c(x: number)  a(X) | b(Y) :- c(X).", "unsafe-variable"),
        (".decl a(x: number)  .decl c(x: number)  a(X) | z(X) :- c(X).", "unknown-relation"),
        (".decl a(x: number)  .decl b(x: number)  .decl c(x: number)  a(X) | b(X) :- c(X), !a(X).", "unstratified"),
        (
            ".decl a(x: number)  .decl b(x: number)  .decl c(x: number)  a(X) | b(X) :- c(X)."
            "  .decl d(x: number)  d(N) :- N = count : { a(_) }.",
            "aggregate-of-alternatives",
        ),
    ],
)
def test_a_wrong_program_is_refused(text: str, slug: str) -> None:
    with pytest.raises(upshot.ProgramError) as caught:
        upshot.connect().define(text)
    assert slug in [each.slug for each in caught.value.diagnostics]


def test_without_alternatives_there_is_one_model() -> None:
    with pytest.raises(upshot.UsageError) as caught:
        upshot.connect().models()
    assert caught.value.code == "no-alternatives"


def test_models_are_the_minimal_ones_of_random_positive_programs() -> None:
    for number in range(case_count(25)):
        chance = random.Random(seed_of("models", number))
        names = ["a", "b", "c", "d"]
        rules = []
        for _ in range(chance.randint(2, 5)):
            heads = chance.sample(names, chance.randint(1, 3))
            body = chance.sample(names, chance.randint(0, 2))
            rules.append((heads, body))
        rules.append((chance.sample(names, 2), []))
        text = "".join(f".decl {name}()\n" for name in names)
        for heads, body in rules:
            text += (
                " | ".join(f"{h}()" for h in heads) + (f" :- {', '.join(f'{x}()' for x in body)}" * bool(body)) + ".\n"
            )
        db = upshot.connect()
        db.define(text)
        fixed = {name for name in names if name not in db._state.compiled.checked.undecided and len(db.rows(name))}
        found = {frozenset(n for n, rows in model.items() if len(rows)) | fixed for model in db.models(limit=None)}
        assert found == _minimal(names, rules), text


def _minimal(names: list[str], rules: list[tuple[list[str], list[str]]]) -> set[frozenset[str]]:
    valid = [
        frozenset(chosen)
        for size in range(len(names) + 1)
        for chosen in itertools.combinations(names, size)
        if all(not set(body) <= set(chosen) or set(heads) & set(chosen) for heads, body in rules)
    ]
    return {one for one in valid if not any(other < one for other in valid)}


PAIR = ".decl r(x: number)  .decl a(x: number, y: number)  .decl b(x: number)\na(X, Y) | b(X) :- r(X), r(Y).\n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("a(x: number, y: number)", "a(x: number, y: min number)", "`min`"),
        ("y: number)", "y: number) eqrel", "`eqrel`"),
        ("y: number)", "y: number) choice-domain x", "`choice-domain`"),
        ("y: number)", "y: number) key(x)", "a key"),
        ("y: number)", "y: number) check(y > 1)", "a constraint of its declaration"),
        ("y: number)", "y: number) determines(x : y)", "a constraint of its declaration"),
        (".decl r(x: number)", ".decl r(x: number) foreign(x) b(x)", "a foreign key of `r`"),
        ("r(Y).\n", "r(Y).\na(X, A) <= a(X, B) :- B < A.\n", "a subsumption"),
        ("r(Y).\n", "r(Y).\n.view a materialized=false", "options of a view"),
        ("r(Y).\n", "r(Y).\n.deny n(X) :- a(X, _).\n.deny n existing=keep", "`existing=keep`"),
    ],
)
def test_what_no_model_would_keep_is_refused_by_name(old: str, new: str, words: str) -> None:
    assert old in PAIR
    with pytest.raises(upshot.ProgramError) as caught:
        upshot.connect().define(PAIR.replace(old, new, 1))
    found = [each for each in caught.value.diagnostics if each.slug == "unsupported-alternatives"]
    assert [each.message.partition(" cannot be kept")[0] for each in found] == [words]


@pytest.mark.parametrize(
    ("policy", "count"), [("", 1), (".deny n on_violation=warn", 2), (".deny n existing=reject", 1)]
)
def test_a_constraint_that_only_warns_excludes_no_model(policy: str, count: int) -> None:
    db = upshot.connect()
    db.define(PAIR + ".deny n(X) :- a(X, _).\n" + policy)
    with db.transaction() as tx:
        tx.insert("r", [(1,)])
    assert len(db.models()) == count


NULLABLE = ".decl r(x: number?)  .decl a(x: number?)  .decl b(x: number?)  .decl c(x: number?)\n"


@pytest.mark.parametrize(
    ("rules", "models"),
    [
        ("a(X) | b(X) :- r(X).  c(X) :- r(X), !a(X).", {"a(None)c(None)", "b(None)c(None)"}),
        ("a(X + 1) | b(X) :- r(X).", {"a(None)", "b(None)"}),
        ("a(null) | b(X) :- r(X).  c(1) :- a(null).", {"a(None)", "b(None)"}),
    ],
)
def test_null_matches_nothing_in_models_and_is_a_value_of_heads(rules: str, models: set[str]) -> None:
    db = upshot.connect()
    db.define(NULLABLE + rules)
    with db.transaction() as tx:
        tx.insert("r", [(None,)])
    assert {"".join(sorted(each)) for each in _shown(db.models())} == models


def test_not_a_number_is_itself_in_models() -> None:
    db = upshot.connect()
    db.define(NULLABLE.replace("number?", "float") + "a(X) | b(X) :- r(X).  c(X) :- r(X), !a(X).")
    with db.transaction() as tx:
        tx.insert("r", [(float("nan"),)])
    assert {"".join(sorted(each)) for each in _shown(db.models())} == {"a(nan)", "b(nan)c(nan)"}
