"""No text, however broken, deep or long, gives anything but a program or diagnostics, and none takes long."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upshot.core.errors import ProgramError
from upshot.syntax import parse, parse_query, print_program

SEED_TEXT = (Path(__file__).parent / "layout.dl").read_text(encoding="utf-8")
WORDS = r"""
.decl .type .input .output .view .deny .rule .activate .deactivate .plan .pragma .comp .init .functor .lattice .dcl
#include
( ) [ ] { } , ; : . = < > + - * / % ^ ! | @ $ :- <= >= != <: == <> =< && || \+ -> // /* */ ? _ X Y edge r
count sum min max mean old inserted deleted on when do insert delete call key true false null nil band bor bnot lnot
not date timestamp decimal symbol? number contains is_null eqrel btree choice strategy=rod
1 -1 42u 0x 0x1F 1.5 1e9 1e999 99999999999999999999 1.2.3 "text" "\q" " ' ` $x é 😀
"""
TOKENS = (*WORDS.split(), "\0", "\n", "\ud800")


def outcome(text: str, *, read: Callable[[str], object] = parse) -> str:
    """The slug of the first diagnostic, or nothing for a text that parses; any other exception passes through."""
    try:
        read(text)
    except ProgramError as error:
        found = error
    else:
        return ""
    assert found.diagnostics
    assert str(found)
    places = [d.span for d in found.diagnostics if d.span is not None]
    assert all(0 <= place.start <= place.end <= len(text) for place in places)
    return found.code


@settings(max_examples=150)
@given(st.text(st.characters(), max_size=60))
def test_any_characters_give_a_program_or_diagnostics(text: str) -> None:
    outcome(text)
    outcome(text, read=parse_query)


@settings(max_examples=100)
@given(st.binary(max_size=80))
def test_any_bytes_give_a_program_or_diagnostics(data: bytes) -> None:
    outcome(data.decode("latin-1"))
    outcome(data.decode("utf-8", errors="surrogateescape"))


def test_any_tokens_give_a_program_or_diagnostics(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(1_500):
        text = rng.choice((" ", "", "\n")).join(rng.choices(TOKENS, k=rng.randrange(1, 40)))
        outcome(text)
        outcome(text, read=parse_query)


def test_a_damaged_program_gives_a_program_or_diagnostics_and_still_round_trips(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(250):
        text = SEED_TEXT
        for _ in range(rng.randrange(1, 6)):
            text = _damaged(rng, text)
        if outcome(text) == "":
            program = parse(text)
            assert parse(print_program(program)) == program


def _damaged(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    match rng.randrange(4):
        case 0:
            return text[:at] + text[at + rng.randrange(1, 9) :]
        case 1:
            return text[:at] + rng.choice(TOKENS) + text[at:]
        case 2:
            start = rng.randrange(len(text) + 1)
            return text[:at] + text[start : start + 30] + text[at:]
        case _:
            return text[:at] + chr(rng.choice((0, 34, 39, 40, 46, 123, 0xA0, 0xD800, 0x1F600))) + text[at + 1 :]


def test_a_cut_off_program_gives_a_program_or_diagnostics() -> None:
    text = SEED_TEXT[-900:]
    for end in range(0, len(text), 2):
        outcome(text[:end])


N = 100_000
FEW = 15_000


@pytest.mark.parametrize(
    "text",
    [
        f"a(X) :- {'(' * N}b(X){')' * N}.",
        f"a(X) :- X = {'(' * N}1{')' * N}.",
        f"a(X) :- {'(' * FEW}",
        f"a :- {'!' * N}b.",
        f"a :- {'!(' * FEW}b{')' * FEW}.",
        f"a({'-' * FEW}1).",
        f"a({'1^' * FEW}1).",
        f"a({'1+' * N}1).",
        f"a({'(X lor X land X bor X bxor X band X bshl X + X * ' * FEW}",
        f"a({'f(' * FEW}",
        f"a :- X = {'count : { Y = ' * FEW}",
        f"a :- X = {'sum ' * FEW}",
        f"a :- X = {'sum (' * FEW}",
        f"a :- X = {'bnot ' * FEW}",
        f"a :- {'(b, (c; ' * FEW}",
    ],
    ids=lambda text: text[8:24],
)
def test_endless_nesting_is_too_deep_and_nothing_worse(text: str) -> None:
    begin = time.process_time()
    assert outcome(text) == "too-deep"
    assert time.process_time() - begin < 5


MEGA = 10_000_000


@pytest.mark.parametrize(
    ("unit", "slug"),
    [
        ("a", "missing-period"),
        (".", "unexpected-token"),
        ("\0", "unexpected-character"),
        ("\ud800", "unexpected-character"),
        (" ", ""),
        ("%", "unexpected-token"),
        ("#\n", "unsupported-preprocessor"),
        (".dcl\n", "unknown-directive"),
        ("a\n", "missing-period"),
        (".decl ", "unexpected-token"),
        ("a(1). é", "unexpected-character"),
        ("'", "unexpected-character"),
    ],
)
def test_ten_megabytes_of_nonsense_are_answered_in_linear_time(unit: str, slug: str) -> None:
    text = unit * (MEGA // len(unit))
    begin = time.process_time()
    assert outcome(text) == slug
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ('"' + "a" * MEGA, "unterminated-text"),
        ("/*" + "a" * MEGA, "unterminated-comment"),
        ("a(" + "1" * MEGA + ").", "number-out-of-range"),
        ("a(1." + "1" * MEGA + ").", "number-out-of-range"),
        ('a("' + "\\n" * (MEGA // 40) + '").', ""),
        ('a(date("' + "1" * MEGA + '")).', "malformed-literal"),
        ('a(decimal("' + "1" * MEGA + '")).', "number-out-of-range"),
        ("a(" * 30_000, "too-deep"),
        ("{" * 100_000, "unexpected-token"),
        (".comp c " + "{" * 100_000, "unexpected-token"),
        (".decl r(" + "\n x" * 100_000, "unexpected-token"),
        (".decl r(a: b) " + "foo " * 100_000, "unknown-qualifier"),
        (".view v" + " a=b" * 20_000, ""),
        ("a(1)." * 10_000, ""),
        ("a :- b" + ".b" * 100_000, "missing-period"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else None,
)
def test_long_tokens_and_long_lists_take_linear_time(text: str, slug: str) -> None:
    begin = time.process_time()
    assert outcome(text) == slug
    assert time.process_time() - begin < 5


def test_a_thousand_rules_parse_in_well_under_half_a_second() -> None:
    text = "".join(f"p{n}(X, Y) :- e(X, Z), p{n}(Z, Y), !q(X, _), X < Y + 3.\n" for n in range(1000))
    best = min(_seconds(text) for _ in range(3))
    assert best < 0.5


def _seconds(text: str) -> float:
    begin = time.process_time()
    parse(text)
    return time.process_time() - begin


def test_a_caller_whose_stack_is_nearly_full_gets_a_diagnostic() -> None:
    text = f"a({'f(' * 90}1{')' * 90})."

    def code_of(text: str) -> str:
        with pytest.raises(ProgramError) as caught:
            parse(text)
        return caught.value.code

    def deeper(levels: int) -> str:
        return deeper(levels - 1) if levels else code_of(text)

    frames = 0
    frame = sys._getframe()
    while frame is not None:
        frames, frame = frames + 1, frame.f_back
    assert deeper(sys.getrecursionlimit() - frames - 250) == "too-deep"
    assert outcome(text) == ""
