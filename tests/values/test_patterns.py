"""`match` reads patterns as Soufflé does: random ones are judged by std::regex, compiled where there is a compiler."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import upshot
from tests.properties.settings import case_count, seed_of
from upshot.core.errors import DataError, ProgramError
from upshot.values import patterns
from upshot.values.ecmascript import translated
from upshot.values.patterns import pattern

LETTERS = "ab1_ -]^[.A\n\r"
SET_ITEMS = (
    *"ab1-_[^$.", "a-b", "1-9", "[:alpha:]", "[:DIGIT:]", "[:space:]", "[:punct:]", "[:w:]", "[:xdigit:]", "[:cntrl:]",
    "[.hyphen.]", "[.a.]", "[=a=]", "[.zero.]", r"\d", r"\W", r"\s", r"\S", r"\b", r"\]", r"\\", r"\n", "--", "+--",
    r"\x41", r"\u0061", "a-", "-a", "a-[", "[:nothing:]",
)  # fmt: skip
ATOMS = (
    *"ab1_ -.]}A\n",
    r"\n",
    r"\.",
    r"\x61",
    r"\u0062",
    r"\-",
    r"\0",
    r"\t",
    r"\d",
    r"\D",
    r"\w",
    r"\W",
    r"\s",
    r"\S",
)
QUANTIFIERS = ("*", "+", "?", "{2}", "{1,2}", "{0,1}", "{1,}", "*?", "+?", "??", "{2,1}")
POSITIONS = ("^", "$", r"\b", r"\B")


class Patterns:
    """Random patterns, most of them valid."""

    def __init__(self, made: random.Random) -> None:
        self.made = made

    def choices(self, depth: int = 2) -> str:
        return "|".join(self._sequence(depth) for _ in range(self.made.choice((1, 1, 1, 2, 3))))

    def _sequence(self, depth: int) -> str:
        return "".join(self._term(depth) for _ in range(self.made.randrange(4)))

    def _term(self, depth: int) -> str:
        if self.made.random() < 0.1:
            return self.made.choice((*POSITIONS, *POSITIONS, r"\1", "{"))
        quantified = self._atom(depth)
        for chance in (0.35, 0.1):
            if self.made.random() < chance:
                quantified += self.made.choice(QUANTIFIERS)
        return quantified

    def _atom(self, depth: int) -> str:
        chosen = self.made.random()
        if chosen < 0.25:
            items = (self.made.choice(SET_ITEMS) for _ in range(self.made.randrange(4)))
            return f"[{self.made.choice(('', '', '^'))}{''.join(items)}]"
        if chosen < 0.45 and depth:
            return f"{self.made.choice(('(', '(', '(?:', '(?=', '(?!'))}{self.choices(depth - 1)})"
        return self.made.choice(ATOMS)

    def text(self) -> str:
        return "".join(self.made.choice(LETTERS) for _ in range(self.made.randrange(6)))


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ to compile the judge of patterns with")
    found = tmp_path_factory.mktemp("judge") / "std_regex"
    source = Path(__file__).with_name("std_regex.cpp")
    subprocess.run([compiler, "-O1", "-o", str(found), str(source)], check=True)
    return found


def verdicts(judge: Path, cases: list[tuple[str, str]]) -> list[str]:
    lines = "".join(f"{pattern.encode().hex()} {text.encode().hex()}\n" for pattern, text in cases)
    run = subprocess.run([str(judge)], input=lines, text=True, capture_output=True, check=True, timeout=600)
    return run.stdout.split()


def answer(expression: str, text: str) -> str:
    """1 or 0; `e` for what is no pattern, `t` for one that could take too long."""
    try:
        return str(int(pattern(expression).matches(text)))
    except DataError as error:
        return "t" if "very long" in error.message else "e"


@pytest.mark.slow
def test_random_patterns_match_what_they_match_in_souffle(judge: Path) -> None:
    cases: list[tuple[str, str]] = []
    for number in range(case_count(1)):
        made = Patterns(random.Random(seed_of("patterns", number)))
        expression = made.choices()
        cases += [(expression, made.text()) for _ in range(4)]
    counted: Counter[str] = Counter()
    for (expression, text), verdict in zip(cases, verdicts(judge, cases), strict=True):
        found = answer(expression, text)
        counted[found] += 1
        if "t" not in (found, verdict):
            assert found == verdict, (expression, text)
        if found in "01":
            followed = followed_together(expression, text)
            assert followed in (found, "t"), (expression, text)
    # Enough of them are patterns, match, and are not left to the bound on time.
    assert counted["1"] > len(cases) / 50
    assert counted["e"] < len(cases) / 2
    assert counted["t"] < len(cases) / 50


def followed_together(expression: str, text: str) -> str:
    try:
        return str(int(patterns._follow(patterns._automaton(translated(expression)), text)))
    except DataError:
        return "t"


def test_classes_of_posix_are_classes() -> None:
    """`[[:digit:]]+` found "d]" and not "12"."""
    with upshot.connect() as db:
        db.define(
            '.decl a(x: symbol)\n.decl v(x: symbol)\nv(X) :- a(X), match("[[:digit:]]+", X).\na("12"). a("d]"). a("x").'
        )
        assert set(db.rows("v")) == {("12",)}


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (r"\Aa", r"unknown escape `\A`"),
        (r"a\Z", r"unknown escape `\Z`"),
        (r"\cA", r"unknown escape `\c`"),
        (r"\p{L}", r"unknown escape `\p`"),
        ("(?i)a", "`(?i` is not a group"),
        ("(?<=a)b", "`(?<` is not a group"),
        ("(?P<x>a)", "`(?P` is not a group"),
        ("*a", "nothing to repeat"),
        ("(*a)", "nothing to repeat"),
        ("^*", "nothing to repeat"),
        ("a{", "`{` begins a repetition"),
        ("a{,3}", "`{` begins a repetition"),
        ("a{3,2}", "repeats at least more often"),
        ("a)", "`)` without `(`"),
        ("(a", "`(` without `)`"),
        ("[a", "`[` without `]`"),
        ("[b-a]", "the range `b-a` is empty"),
        (r"[\d-a]", "a range cannot begin with a class"),
        (r"[a-\d]", "a range cannot end with a class"),
        ("[[:digits:]]", "unknown class `[:digits:]`"),
        ("[[.nothing.]]", "unknown character name `nothing`"),
        ("[[:alpha]]", "`[:` without `:]`"),
        (r"(a)\2", r"`\2` refers to an unknown group"),
        (r"(a\1)", r"`\1` refers to an unknown group"),
        (r"\x4", r"`\x` needs 2 hexadecimal digits"),
        ("a\\", "a `\\` at the end"),
    ],
)
def test_what_is_no_pattern_is_refused_by_name(expression: str, reason: str) -> None:
    with pytest.raises(DataError) as caught:
        pattern(expression)
    assert reason in caught.value.message
    assert caught.value.code == "bad-pattern"


def test_a_written_pattern_is_refused_with_its_place_and_a_computed_one_in_the_transaction() -> None:
    text = ".decl a(x: symbol, p: symbol)\n.decl v(x: symbol)\n"
    with upshot.connect() as db:
        with pytest.raises(ProgramError) as caught:
            db.define(f'{text}v(X) :- a(X, _), match("[[:digits:]]", X).')
        (found,) = caught.value.diagnostics
        assert (found.slug, found.span and found.span.text) == ("bad-pattern", '"[[:digits:]]"')
        db.define(f"{text}v(X) :- a(X, P), match(P, X).")
        with pytest.raises(DataError) as refused, db.transaction() as tx:
            tx.insert("a", [("1", "[[:digits:]]")])
        assert refused.value.code == "bad-pattern"
        assert len(db.rows("a")) == 0
