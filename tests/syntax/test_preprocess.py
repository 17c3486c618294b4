"""Lines for the preprocessor: what they expand to, and where spans point."""

from __future__ import annotations

from pathlib import Path

import pytest

from upshot.check import check
from upshot.core.errors import ProgramError
from upshot.syntax import parse, print_program


def expanded(text: str) -> list[str]:
    return print_program(parse(text)).splitlines()


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("#define N 10\na(N).", ["a(10)."]),
        ('#define N 10\na("N"). // N\na(NN).', ['a("N").', "a(NN)."]),
        ("#define E(x, y) e(x, y)\nE(1, (2 + 3)).", ["e(1, 2 + 3)."]),
        ("#define E(x, y) e(x, \\\n   y)\nE(1, 2).", ["e(1, 2)."]),
        ("#define T(x) a(#x)\nT(some text).", ['a("some text").']),
        ("#define R(x) r_##x\nR(one)(1).", ["r_one(1)."]),
        ("#define A B\n#define B A\np(A) :- q(A).", ["p(A) :- q(A)."]),
        ("#define F(x) f(x)\np(F) :- q(F).", ["p(F) :- q(F)."]),
        ("#define N 1\n#undef N\np(N) :- q(N).", ["p(N) :- q(N)."]),
        ("#ifdef N\na(1).\n#else\na(2).\n#endif", ["a(2)."]),
        ("#define N\n#ifdef N\na(1).\n#else\na(2).\n#endif", ["a(1)."]),
        ("#ifndef N\na(1).\n#ifdef M\na(3).\n#endif\n#endif", ["a(1)."]),
        ("#define N 3\n#if N < 3\na(1).\n#elif N == 3 && !defined(M)\na(2).\n#else\na(3).\n#endif", ["a(2)."]),
        ("#if 9007199254740993 / 1 == 9007199254740993 && -7 / 2 == -3 && -7 % 2 == -1\na(1).\n#endif", ["a(1)."]),
        ("#if 123456789012345678901234567890 * 1 / 3 > 1\na(1).\n#endif", ["a(1)."]),
        ('#if 0\n"unclosed\n/* #endif */\n#endif\na(1).', ["a(1)."]),
        ("/*\n#define N 1\n*/\np(N) :- q(N).", ["p(N) :- q(N)."]),
        ("#pragma once\n# define N 7\na(N).", ["a(7)."]),
        ("#define F(r, ...) r(__VA_ARGS__).\nF(e, 1, f(2, 3))", ["e(1, f(2, 3))."]),
        ("#define F(...) e(__VA_ARGS__).\nF(1, 2)\nF(3)", ["e(1, 2).", "e(3)."]),
        ("#define MAX(a, b) (a) + (b)\np(MAX(X, f(Y, 1))) :- q(X, Y).", ["p(X + f(Y, 1)) :- q(X, Y)."]),
    ],
)
def test_a_text_expands_to_these_items(text: str, items: list[str]) -> None:
    assert expanded(text) == items


@pytest.mark.parametrize(
    ("text", "slug", "place"),
    [
        ("#ifdef N\na(1).", "bad-preprocessor-line", (1, 1)),
        ("a(1).\n#endif", "bad-preprocessor-line", (2, 1)),
        ("#if 1 +\n#endif", "bad-preprocessor-line", (1, 1)),
        ("#if 1 / 0\n#endif", "bad-preprocessor-line", (1, 1)),
        ("#define", "bad-preprocessor-line", (1, 1)),
        ("#define F(x, x) 1", "bad-preprocessor-line", (1, 1)),
        ("#define F(x) x\na(F(1, 2)).", "bad-preprocessor-line", (2, 3)),
        ("#define F(x) x\na(F(1.", "bad-preprocessor-line", (2, 3)),
        ("#error too small", "bad-preprocessor-line", (1, 1)),
        ('#include "other.dl"', "include-without-file", (1, 1)),
        ("#include other.dl", "bad-preprocessor-line", (1, 1)),
        ("#define A B B B B B B B B\n#define B C C C C C C C C\n#define C D D D D D D D D\n#define D E E E E E E E E\n"
         "#define E F F F F F F F F\n#define F G G G G G G G G\n#define G H H H H H H H H\na(A).",
         "bad-preprocessor-line", (8, 3)),
        ("#define N 10\nx y\na(N) :- b(.", "unexpected-token", (2, 3)),
        ("#nonsense\na(1).", "unsupported-preprocessor", (1, 1)),
    ],
)  # fmt: skip
def test_a_mistake_has_its_place_in_the_text_of_the_user(text: str, slug: str, place: tuple[int, int]) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(text)
    first = caught.value.diagnostics[0]
    assert first.span is not None
    assert (first.slug, (first.span.line, first.span.column)) == (slug, place)


def test_a_macro_that_takes_further_arguments_says_how_many_it_needs() -> None:
    with pytest.raises(ProgramError, match="`F` takes at least 2 arguments, 1 are given"):
        parse("#define F(x, y, ...) e(x, y).\nF(1)")


def test_included_files_keep_their_own_places(tmp_path: Path) -> None:
    main, types = tmp_path / "main.dl", tmp_path / "parts" / "types.dl"
    types.parent.mkdir()
    types.write_text('#pragma once\n#include "more.dl"\n.decl edge(x: number, y: number)\n')
    (types.parent / "more.dl").write_text('#include "types.dl"\n.decl p(x: number)\np(X) :- edge(X, Y), !edge(_, Z).\n')
    main.write_text('#include "parts/types.dl"\n.include "parts/types.dl"\nedge(1, 2).\np(Q) :- edge(_, P).\n')
    with pytest.raises(ProgramError) as caught:
        check(parse(main.read_text(), str(main)))
    spans = [each.span for each in caught.value.diagnostics if each.slug == "unsafe-variable"]
    assert sorted((Path(s.source.name).name, s.line, s.text) for s in spans if s is not None) == [
        ("main.dl", 4, "Q"),
        ("more.dl", 3, "Z"),
    ]


def test_a_missing_or_circular_include_is_named(tmp_path: Path) -> None:
    main = tmp_path / "main.dl"
    main.write_text('#include "nowhere.dl"\n#include "main.dl"\na(1).')
    with pytest.raises(ProgramError) as caught:
        parse(main.read_text(), str(main))
    assert [each.slug for each in caught.value.diagnostics] == ["missing-include", "bad-preprocessor-line"]
    assert "includes itself" in str(caught.value)


def test_the_use_of_a_macro_is_where_its_expansion_fails() -> None:
    text = ".decl e(x: number)\n#define BAD(x) e(x, x)\nBAD(1).\n"
    with pytest.raises(ProgramError) as caught:
        check(parse(text))
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert (span.line, span.text) == (3, "BAD(1)")
