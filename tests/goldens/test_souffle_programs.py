"""Programs in Soufflé's language with the files that they write; Soufflé itself is the judge where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import upshot
from tests.database.souffle_directives import write_outputs

PROGRAMS: dict[str, tuple[str, dict[str, str]]] = {
    "components": (
        """
.comp Graph<T> { .decl edge(a: T, b: T) .decl reach(a: T, b: T) overridable
  reach(X, Y) :- edge(X, Y).
  reach(X, Z) :- reach(X, Y), edge(Y, Z). }
.comp Undirected<T> : Graph<T> { .override reach
  reach(X, Y) :- edge(X, Y) ; edge(Y, X). }
.init g = Graph<symbol>
.init u = Undirected<number>
g.edge("a", "b"). g.edge("b", "c"). u.edge(1, 2).
.output g.reach, u.reach
""",
        {"g.reach": "a\tb\na\tc\nb\tc\n", "u.reach": "1\t2\n2\t1\n"},
    ),
    "records": (
        """
.type List = [head: number, tail: List]
.decl list(l: List)
.decl sum(l: List, n: number)
.output sum
list([1, [2, nil]]).
list(T) :- list([_, T]).
sum(nil, 0).
sum(L, H + N) :- list(L), L = [H, T], sum(T, N).
""",
        {"sum": "[1, [2, nil]]\t3\n[2, nil]\t2\nnil\t0\n"},
    ),
    "ranges": (
        """
.decl bounds(a: number, b: number)
bounds(1, 4). bounds(8, 6).
.decl value(x: number)
.decl stepped(x: number)
.decl size(a: number, n: number)
.output value, stepped, size
value(X) :- bounds(A, B), X = range(A, B).
stepped(X) :- X = range(10, 0, -4).
size(A, N) :- bounds(A, B), N = count : { X = range(A, B) }.
""",
        {"value": "1\n2\n3\n7\n8\n", "stepped": "2\n6\n10\n", "size": "1\t3\n8\t2\n"},
    ),
    "casts": (
        """
.type Meters <: number
.type Feet <: number
.decl m(x: Meters)
.decl f(x: Feet)
.output f
m(3).
f(as(X * 3, Feet)) :- m(X).
""",
        {"f": "9\n"},
    ),
    "subsumption of two columns": (
        """
.decl offer(price: number, days: number)
.decl good(price: number, days: number)
.output good
offer(300, 5). offer(320, 2). offer(330, 6).
good(P, D) :- offer(P, D).
good(P, D) <= good(Q, E) :- Q <= P, E <= D.
""",
        {"good": "300\t5\n320\t2\n"},
    ),
    "subsumption in turn": (
        """
.decl offer(item: symbol, price: number, days: number)
.decl best(item: symbol, price: number, days: number)
.output best
offer("a", 300, 5). offer("a", 300, 2). offer("a", 330, 1). offer("b", 9, 9).
best(I, P, D) :- offer(I, P, D).
best(I, P, D) <= best(I, Q, E) :- Q < P ; Q = P, E <= D.
""",
        {"best": "a\t300\t2\nb\t9\t9\n"},
    ),
    "branches": (
        """
.type Expr = Number {v: number} | Add {l: Expr, r: Expr}
.decl expr(e: Expr)
.decl value(n: number)
.output value
expr($Add($Number(1), $Add($Number(2), $Number(3)))).
expr(L), expr(R) :- expr($Add(L, R)).
value(N) :- expr($Number(N)).
""",
        {"value": "1\n2\n3\n"},
    ),
    "preprocessor": (
        """
#define LIMIT 3
#define STEP(x) (x) + 1
.decl n(x: number)
.output n
n(0).
#ifdef LIMIT
n(STEP(X)) :- n(X), X < LIMIT.
#endif
""",
        {"n": "0\n1\n2\n3\n"},
    ),
    "conversions": (
        """
.decl c(i: number, x: number)
.output c
c(1, 7 band 3). c(2, 6 bxor 3). c(3, 5 land 0). c(4, lnot 0). c(5, to_number("12")). c(6, strlen(cat("ab", "c"))).
""",
        {"c": "1\t3\n2\t5\n3\t0\n4\t1\n5\t12\n6\t3\n"},
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_upshot_writes_these_files(name: str, tmp_path: Path) -> None:
    text, expected = PROGRAMS[name]
    with upshot.connect() as db, open(tmp_path / "printed", "w") as stream:
        db.define(text)
        write_outputs(db, tmp_path, stream)
    assert {relation: (tmp_path / f"{relation}.csv").read_text() for relation in expected} == expected


@pytest.mark.parametrize("name", PROGRAMS)
def test_souffle_writes_the_same_files(name: str, tmp_path: Path) -> None:
    judge = shutil.which("souffle")
    if judge is None:
        pytest.skip("`souffle` is not on the PATH, so it cannot judge")
    text, expected = PROGRAMS[name]
    (tmp_path / "program.dl").write_text(text)
    subprocess.run([judge, "-D", str(tmp_path), str(tmp_path / "program.dl")], check=True, timeout=60)
    for relation, lines in expected.items():
        found = (tmp_path / f"{relation}.csv").read_text()
        assert sorted(found.splitlines()) == sorted(lines.splitlines())
