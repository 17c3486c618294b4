"""Checked programs print as programs: what is printed checks again and means the same."""

from __future__ import annotations

import random

from tests.check.programs import checked
from tests.properties.settings import base_seed
from upshot.check import print_checked

TEXT = """
.type City <: symbol
.decl road(x: City, y: City, km: decimal(6,1)?, open: boolean) key(x, y)
.decl near(x: symbol, n: unsigned)
.decl seen(x: symbol)
.decl one(x: number)
road("Rome", "Bari", 374.5, true).
road("Bari", "Rome", null, 1 = 1 ; false).
near(X, count : { road(X, Y, _, _) }) :- road(X, _, K, true), !(K > 3 ; seen(X)).
seen(X) :- near(X, N), N > 2.
seen("nowhere").
one(1) :- true.
.input seen
.output near(filename="near.csv")
.printsize seen
.view near strategy=counting policy=strict
.deny loop(X, 1u) :- road(X, X, _, _), strlen(cat(X, "x")) > 2.
.deny loop on_violation=warn
""".replace("1 = 1 ; false", "false")

PRINTED = """\
.decl road(x: symbol, y: symbol, km: decimal(6,1)?, open: boolean) key(x, y)
.decl near(x: symbol, n: unsigned)
.decl seen(x: symbol)
.decl one(x: number)
.decl seen_input(x: symbol)
.input seen_input(filename="seen.facts")
.output near(filename="near.csv")
.printsize seen
.view near strategy=counting policy=strict
road("Rome", "Bari", decimal("374.5"), true).
road("Bari", "Rome", null, false).
"""


def test_a_program_prints_as_text_that_prints_as_itself() -> None:
    text = print_checked(checked(TEXT.replace("!(K > 3 ; seen(X))", "!(K > 3)")))
    assert text.startswith(PRINTED)
    assert text.splitlines()[len(PRINTED.splitlines()) :] == [
        'near(X, count_1) :- road(X, _, K, true), K <= decimal("3.0"), count_1 = count : { road(X, Y, _, _) }.',
        "near(X, count_1) :- road(X, _, K, true), is_null(K), count_1 = count : { road(X, Y, _, _) }.",
        "seen(X) :- near(X, N), N > 2u.",
        'seen("nowhere").',
        "one(1) :- true.",
        "seen(X1) :- seen_input(X1).",
        '.deny loop(X, 1u) :- road(X, X, _, _), strlen(cat(X, "x")) > 2.',
        ".deny loop on_violation=warn",
    ]
    assert print_checked(checked(text)) == text


def test_the_printed_program_is_the_same_program() -> None:
    first = checked(TEXT.replace("!(K > 3 ; seen(X))", "!(K > 3)").replace(": City", ": symbol"))
    again = checked(print_checked(first))
    assert again.clauses == first.clauses
    assert again.facts == first.facts
    assert again.strata == first.strata
    assert again.schemas == first.schemas
    assert again.options == first.options
    assert again.constraints == first.constraints


def test_random_rules_print_as_themselves() -> None:
    draw = random.Random(base_seed())
    declared = ".decl e(x: number, y: number?)\n.decl s(x: symbol)\n.decl p(x: number?)\n"
    pieces = [
        "e(X, Y)",
        "e(Y, X)",
        "!(X < Y)",
        "!e(X, 3)",
        '(s(Z) ; e(Y, _), Z = "a")',
        'Z = cat("b", to_string(X))',
        "X = count : { e(Y, X), !(s(_)) }",
        "Y > sum W : { e(W, X) } - 1",
        "is_null(Y)",
        "!(e(X, Y), X != 2)",
    ]
    for _ in range(100):
        body = ", ".join(["e(X, Y)", *draw.sample(pieces, draw.randint(0, 5))])
        text = print_checked(checked(f"{declared}p(Y) :- {body}."))
        assert print_checked(checked(text)) == text
