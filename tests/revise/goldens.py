"""The worked examples of view updating, stated once: in Python, on the command line, over HTTP and on the page they
have exactly these realizations. The rules printed for them are in `tests/rewrites/view_updates`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RULES = Path(__file__).parents[1] / "rewrites" / "view_updates"

CONSISTENT = """
    .decl r1(x: number)  .decl r2(x: number)  .decl s(x: number)
    .decl p(x: number)  .decl q1(x: number)  .decl q2(x: number)  .decl au(x: number)
    p(X) :- q1(X).  p(X) :- q2(X).
    q1(X) :- r1(X), s(X).
    q2(X) :- r2(X), !s(X).
    au(X) :- q2(X), !q1(X).
    .deny ic() :- au(2).
"""
COMPENSATED = """
    .decl p(x: number)  .decl q(x: number)  .decl h(x: number)  .decl i()
    h(X) :- p(X), q(X), i().
    i() :- p(X), !q(X).
"""
CHOSEN = """
    .decl r(x: symbol)  .decl s(x: symbol)  .decl t(x: symbol)
    .decl q(x: symbol)  .decl b(x: symbol, y: symbol)  .decl p(x: symbol)  .decl some()
    .deny chosen(X) :- r(X), !p(X), !s(X), !t(X).
    p(X) :- b(X, Y), p(Y).
    p(X) :- q(X).
    some() :- r("a").  some() :- r("b").  some() :- r("c").  some() :- r("1").
"""
"""`s(X) ∨ t(X) :- r(X), !p(X)` as a constraint, `r(a) ∨ r(b) ∨ r(c) ∨ r(1)` as what is asked for."""
ENDLESS = """
    .decl e(x: number, y: number)  .decl h()  .decl i()  .decl j(x: number)
    h() :- e(X, Y), !i().
    i() :- e(Y, X), e(Z, X), Y != Z.
    j(X) :- e(X, Y), e(X, Z), Y != Z.
    i() :- e(X, Y), !j(X).
    i() :- e(X, Y), !j(Y).
"""
EITHER = COMPENSATED + ".decl g(x: number)  .decl z(x: number)  g(X) :- h(X).  g(X) :- z(X).\n"
CLOSURE = """
    .decl e(x: number, y: number)  .decl p(x: number, y: number)  .decl h(x: number, y: number)
    p(X, Y) :- e(X, Y).
    p(X, Y) :- e(X, Z), p(Z, Y).
    h(X, Y) :- p(X, Y), !e(X, Y).
"""
CONSTRAINED = CLOSURE + ".decl some()  some() :- p(X, Y).  .deny ic1() :- !some().  .deny ic2(X) :- p(X, X).\n"


@dataclass(frozen=True, slots=True)
class Golden:
    """What is asked of a program and its facts, row by row as `+p(2)`, and the answer: the changes of each realization,
    how the search ended and in what words, and the views whose rows can need any number of fresh values."""

    number: int
    program: str
    facts: str
    request: tuple[str, ...]
    ways: tuple[frozenset[str], ...]
    status: str
    reason: str
    frozen: tuple[str, ...] = ()
    new_values: int = 2
    unbounded: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The program with its facts."""
        return f"{self.program}    {self.facts}\n"

    @property
    def rules(self) -> str:
        """The rules printed for the program, R∇ and R∇τ."""
        return (RULES / f"golden_{self.number}.rules").read_text()

    def agrees(self, found: Iterable[Iterable[str]]) -> bool:
        """Whether these are the realizations, the smaller ones first; of equally small ones any may be."""
        ways = [frozenset(each) for each in found]
        return sorted(map(len, ways)) == [*map(len, ways)] and Counter(ways) == Counter(self.ways)

    def asked(self, sign: str) -> dict[str, list[tuple[int, ...]]]:
        """The rows asked for with this sign, by relation."""
        found: dict[str, list[tuple[int, ...]]] = {}
        for name, _, values in (each[1:-1].partition("(") for each in self.request if each[0] == sign):
            found.setdefault(name, []).append(tuple(map(int, filter(None, values.split(",")))))
        return found


def _ways(*changes: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(each.split(" & ")) for each in changes)


GOLDENS = (
    Golden(1, CONSISTENT, "r2(2). s(2).", ("+p(2)",), _ways("+r1(2)"), "all", "this is the only one"),
    Golden(2, COMPENSATED, "p(1).", ("+h(1)",), _ways("+q(1) & +p(?1)"), "all", "this is the only one"),
    Golden(
        3, CHOSEN, 'q("2"). b("1", "2").', ("+some()",),
        _ways('+r("1")', *(f'+r("{x}") & +{other}("{x}")' for x in "cba" for other in "st")),
        "all", "these are all 7", frozen=("q", "b"),
    ),
    Golden(4, ENDLESS, "", ("+h()",), (), "bounds reached", "none found within 2 fresh values", unbounded=("j",)),
    Golden(5, EITHER, "p(1).", ("+g(1)",), _ways("+z(1)", "+q(1) & +p(?1)"), "all", "these are all 2"),
    Golden(
        6, CONSTRAINED, "e(1, 2). e(1, 4). e(2, 3).", ("-h(1, 3)",),
        _ways("+e(1, 3)", "-e(1, 2)", "-e(2, 3)"), "all", "these are all 3", unbounded=("p",),
    ),
    Golden(
        7, CLOSURE, "", ("+p(1, 2)",), _ways("+e(1, 2)", "+e(1, ?1) & +e(?1, 2)"),
        "bounds reached", "2 found within 1 fresh value", new_values=1, unbounded=("p",),
    ),
)  # fmt: skip


def name(golden: Golden) -> str:
    """How tests call it."""
    return f"golden {golden.number}"
