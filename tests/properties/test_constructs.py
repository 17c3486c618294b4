"""Random programs of records, best values, equivalences, choices, ranges, alternatives, functions and folds, each view
over the others: after every change, exactly what the oracle says, and what recomputation gives.

UPSHOT_CASES sets how many cases run, UPSHOT_SEED which ones.
"""

from __future__ import annotations

import random
import re

import pytest

import upshot
from tests.properties.settings import case_count, seed_of
from upshot.check import check
from upshot.core.types import NUMBER, Kind, Type
from upshot.engine import naive_functions
from upshot.engine.naive import evaluate
from upshot.syntax import parse

Row = tuple[int, int]
Block = tuple[str, str]

HEAD = """
.type P = [a: number, b: number]
.type T = Leaf { n: number } | Pair { l: T, r: T }
.functor step(x: number): number pure
.functor odd(x: number, y: number): boolean pure
.functor mix(x: number): number fold
.functor most(x: number): number fold
.decl e(x: number, y: number)
.decl f(x: number, y: number)
"""
FUNCTIONS = {"step": lambda x: (3 * x + 1) % 5, "odd": lambda x, y: (x + y) % 2 == 1}
MIX = upshot.Fold(0, lambda s, v: s + v * v, lambda s, v: s - v * v, lambda s: s % 5)
MOST = upshot.Fold(-1, max)

BLOCKS = (
    (
        "",
        "v(X, Y) :- s(X, Y).\nv(X, Z) :- v(X, Y), t(Y, Z).",
    ),
    ("eqrel", "v(X, Y) :- s(X, Y)."),
    ("eqrel", "v(X, Y) :- s(X, Y), @odd(X, Y) = true."),
    (
        "eqrel",
        "v(X, Y) :- s(X, Y).\nv(X, Z) :- v(X, Y), t(Y, Z), X < Z.",
    ),
    (
        "min",
        "v(X, 0) :- s(X, _), X < 2.\nv(Y, D + Y) :- v(X, D), s(X, Y).",
    ),
    (
        "min",
        "v(X, 0) :- s(X, _), X < 2.\nv(Y, D + @step(Y)) :- v(X, D), t(X, Y).",
    ),
    (
        "max",
        "v(X, 4) :- s(X, 1).\nv(Y, min(D, Y)) :- v(X, D), s(X, Y).",
    ),
    (
        "record P",
        "v_made([X, Y]) :- s(X, Y), X != Y.\nv(Y, X) :- v_made([X, Y]), !t(X, Y).",
    ),
    (
        "record T",
        "v_made($Pair($Leaf(X), $Leaf(Y))) :- s(X, Y).\n"
        "v_made(R) :- v_made($Pair(_, R)).\n"
        "v(X, X) :- v_made($Leaf(X)).\n"
        "v(X, Y) :- v_made($Pair($Leaf(X), $Leaf(Y))), X < Y.",
    ),
    ("", "v(X, @step(Y)) :- s(X, Y), @odd(X, 1) = true."),
    (
        "",
        "v(X, @step(X)) :- s(X, _).\nv(X, @step(Y)) :- v(X, Y), t(Y, _).",
    ),
    ("choice-domain x", "v(X, Y) :- s(X, Y)."),
    ("choice-domain y", "v(X, Y) :- s(X, Y), X <= Y."),
    ("choice-domain x, y", "v(X, Y) :- s(X, Y)."),
    ("", "v(X, N) :- s(X, _), N = count : { s(X, Y) ; t(Y, X) }."),
    ("", "v(X, N) :- s(X, _), N = sum Y : { s(X, Y) ; t(X, Y), Y > 1 ; Y = 2 }."),
    ("", "v(X, N) :- t(X, _), N = max Y : { s(Y, Z), Z < X ; t(X, Y) }."),
    ("", "v(X, Y) :- s(X, B), Y = range(X, B)."),
    ("", "v(X, Y) :- s(X, B), Y = range(B, X, -2)."),
    ("", "v(N, Y) :- Y = range(0, 3), N = count : { s(Y, range(0, 4)) }."),
    ("", "v(X, N) :- s(X, _), N = @mix Y : { s(X, Y) }."),
    ("", "v(N, M) :- N = @mix Y : { s(_, Y) }, M = @most X : { t(X, _) ; s(_, X) }."),
    ("", "v(X, Y) :- s(X, Y), !t(X, Y)."),
    ("best", "v(X, Y) :- s(X, Y).\nv(X, Y) <= v(A, B) :- A + B < X + Y."),
    (
        "best",
        "v(X, Y) :- s(X, Y).\nv(X, Y) <= v(A, B) :- A <= X, B >= Y.",
    ),
)
"""Pairs of a kind of relation and its rules: `v` over two others, `s` and `t`."""


def declared(name: str, kind: str) -> str:
    column = f"{kind} number" if kind in ("min", "max") else "number"
    extra = f" {kind}" if kind == "eqrel" or kind.startswith("choice") else ""
    more = f".decl {name}_made(p: {kind.removeprefix('record ')})\n" if kind.startswith("record") else ""
    return f"{more}.decl {name}(x: number, y: {column}){extra}\n"


def program(rng: random.Random, blocks: tuple[Block, ...] = BLOCKS) -> tuple[str, list[str]]:
    """A text, and its views."""
    text, sources = HEAD, ["e", "f"]
    for number in range(rng.randint(2, 5)):
        kind, rules = rng.choice(blocks)
        names = {"v": f"v{number}", "v_made": f"v{number}_made", "s": rng.choice(sources), "t": rng.choice(sources)}
        made = re.sub(r"(?<![$@\w])(v|v_made|s|t)\(", lambda found: f"{names[found[1]]}(", rules)  # noqa: B023
        text += declared(names["v"], kind) + made + "\n"
        sources += [names["v"]] * 2
    return text, [each for each in dict.fromkeys(sources) if each.startswith("v")]


@pytest.fixture(autouse=True)
def _functions_of_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = (
        (naive_functions.FUNCTIONS, "@step(number):number", lambda x, _: FUNCTIONS["step"](x)),
        (naive_functions.FUNCTIONS, "@odd(number,number):boolean", lambda x, y, _: FUNCTIONS["odd"](x, y)),
        (naive_functions.RESULTS, "@step(number):number", NUMBER),
        (naive_functions.RESULTS, "@odd(number,number):boolean", Type(Kind.BOOLEAN)),
        (naive_functions.AGGREGATES, "@mix(number):number+0", lambda values, _: sum(v * v for v in values) % 5),
        (naive_functions.AGGREGATES, "@most(number):number+0", lambda values, _: max(values)),
    )
    for table, name, meaning in tables:
        monkeypatch.setitem(table, name, meaning)  # type: ignore[arg-type]


def _database(text: str) -> upshot.Database:
    db = upshot.connect()
    for name, code in {**FUNCTIONS, "mix": MIX, "most": MOST}.items():
        db.function(name, code)
    db.define(text)
    return db


def run(seed: int, blocks: tuple[Block, ...] = BLOCKS) -> None:
    rng = random.Random(seed)
    text, views = program(rng, blocks)
    checked = check(parse(text))
    held: dict[str, set[Row]] = {"e": set(), "f": set()}
    with _database(text) as db:
        before = {view: evaluate(checked, held)[view] for view in views}
        for _ in range(5):
            with db.transaction() as tx:
                for name, rows in held.items():
                    gone = {row for row in rows if rng.random() < 0.3}
                    come = {(rng.randrange(5), rng.randrange(5)) for _ in range(rng.randrange(5))} - gone
                    tx.delete(name, sorted(gone))
                    tx.insert(name, sorted(come))
                    held[name] = (rows - gone) | come
            found = evaluate(checked, held)
            after = {view: found[view] for view in views}
            for view in views:
                assert set(tx.changes[view].inserted) == after[view] - before[view], view
                assert set(tx.changes[view].deleted) == before[view] - after[view], view
                assert set(db.rows(view)) == after[view], view
            before = after
        db.verify()


def check_case(seed: int, blocks: tuple[Block, ...] = BLOCKS) -> None:
    try:
        run(seed, blocks)
    except BaseException as error:
        error.add_note(f"case {seed}\n{program(random.Random(seed), blocks)[0]}")
        raise


def test_every_change_of_every_construct_is_exact() -> None:
    for number in range(case_count(10)):
        check_case(seed_of("constructs", number))


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_change_of_one_construct_over_itself_is_exact(number: int) -> None:
    check_case(seed_of("one construct", number), (BLOCKS[number],))
