"""The answer to a request for realizations is the same, byte for byte, whatever there is that it cannot hang on."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.service.bank import bearer, write_tokens
from tests.service.served_process import PATIENCE
from tests.service.serving import Running
from upshot.service.access.scopes import Scopes
from upshot.service.access.tokens import Tokens
from upshot.service.service import Service

SEEN = """
.decl e(x: number, s: symbol, f: float)
.decl n(x: number, y: number)
.decl bar(x: number)
.decl ids(x: number)
ids(X) :- e(X, _, _).
.decl texts(s: symbol)
texts(S) :- e(X, S, F), X < 900000, F > 1.5.
.decl any_text(k: number)
any_text(9) :- e(_, S, _), S != "m".
.decl path(x: number, y: number)
path(X, Y) :- n(X, Y).
path(X, Z) :- path(X, Y), n(Y, Z), !bar(Z).
.decl total(x: number, s: number)
total(X, S) :- n(X, _), S = sum Y : { n(X, Y) }.
.decl rich(x: number)
rich(X) :- total(X, S), S > 10.
.decl crowded(x: number)
crowded(X) :- n(X, _), count : { n(X, _) } >= 3.
.deny loop(X) :- n(X, X).
"""

FACTS: dict[str, list[tuple[Any, ...]]] = {
    "e": [(1, "one", 1.0), (2, "two", 2.5)],
    "n": [(1, 2), (2, 3), (3, 4)],
    "bar": [(5,)],
}

REQUESTS: list[dict[str, Any]] = [
    {"insert": {"texts": [["x"]]}},
    {"insert": {"any_text": [[9]]}},
    {"insert": {"ids": [[77]]}},
    {"delete": {"any_text": [[9]]}},
    {"insert": {"path": [[1, 9]]}, "limit": 4},
    {"insert": {"path": [[1, 5]]}},
    {"insert": {"path": [[7, 7]]}, "bounds": {"new_constants": 1}, "limit": 3},
    {"delete": {"path": [[1, 4]]}},
    {"insert": {"rich": [[1]]}, "limit": 3},
    {"insert": {"crowded": [[2]]}, "limit": 3},
    {"insert": {"total": [[2, 8]]}, "limit": 3},
    {"insert": {"n": [[4, 4]]}},
    {"insert": {"path": [[2, 9]]}, "frozen": ["+n"]},
]

HIDDEN = {
    "comparisons of numbers": "h(X) :- z(X, _), X > 770077. h(X) :- z(X, _), X <= 42. h(X) :- n(X, _), X < 3.",
    "comparisons of texts": 'h(1) :- z(_, S), S < "secret". h(X) :- e(X, S, _), S > "k".',
    "comparisons of floats": "h(X) :- e(X, _, F), F < 770077.5, F >= -2.0.",
    "equalities": 'h(X) :- e(X, S, _), S = "secret", X != 770077.',
    "comparisons of columns": "h(X) :- z(X, _), z(Y, _), X > Y. h(X) :- n(X, Y), X < Y.",
    "constants in heads": "h(770077). h(9) :- z(_, _). h(8) :- bar(_).",
    "aggregates": "h(N) :- N = count : { n(_, _) }. h(N) :- n(X, _), N = min Y : { n(X, Y) }, N < 4.",
    "sums and what they are kept in": ".decl total_sum_rows(x: number) total_sum_rows(X) :- z(X, _). "
    "h(S) :- S = sum X : { z(X, _) }, S > 770077.",
    "recursion": ".decl r(x: number, y: number) r(X, Y) :- n(X, Y). r(X, Z) :- r(X, Y), r(Y, Z), Y < 770077.",
    "negation": "h(X) :- e(X, _, _), !bar(X), !z(X, _).",
    "a constraint over other relations": ".deny no(X) :- z(X, _), X < 0, X > -770077.",
    "a constraint that warns": ".deny no(X) :- n(X, _), z(X, _), X > 770077. .deny no on_violation=warn",
    "an active rule over other relations": ".decl log(x: number) .rule tell(X) when z(X, _), X > 77 do insert log(X).",
    "tests of texts": 'h(X) :- e(X, S, _), contains("sec", S). .decl m(x: number) m(X) :- z(X, S), match("sec.*", S).',
    "functions that cannot fail": "h(N) :- e(_, S, _), z(_, T), N = strlen(cat(S, T)), N > 77. "
    'h(Y) :- n(X, _), Y = max(X % 10, X / 3). .decl t(s: symbol) t(cat(S, "secret")) :- e(_, S, _).',
    "arithmetic of floats": ".decl f(x: float) f(F * 770077.5 / G) :- e(_, _, F), e(_, _, G). "
    "f(S) :- S = sum F : { e(_, _, F) }.",
    "arithmetic over other relations": "h(Y) :- z(X, _), Y = X * 2, Y < 770077.",
}
ROWS = [(1, "one"), (770077, "secret"), (7_000_000_001, "new value 1"), (-7_000_000_001, "new value 2"), (9, "x")]
NAMES = frozenset((*FACTS, "ids", "texts", "any_text", "path", "total", "rich", "crowded", "loop"))


def answers(folder: Path, before: str, after: str, hidden: list[tuple[Any, ...]]) -> list[tuple[int, str]]:
    """What the token is answered in a program with more in front of what it sees, and behind."""
    database = upshot.connect()
    database.define(before + SEEN + after)
    with database.transaction() as tx:
        for name, rows in FACTS.items():
            tx.insert(name, rows)
        if hidden:
            tx.insert("z", hidden)
    file = write_tokens(folder / "tokens.toml", {"low": Scopes("low", NAMES)})

    def prepare(service: Service) -> None:
        service.authenticator.tokens = Tokens(file)

    with Running(database, prepare=prepare) as running:
        return [sent(running, body) for body in REQUESTS]


def sent(running: Running, body: dict[str, Any]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=PATIENCE)
    try:
        head = {**bearer("low"), "content-type": "application/json"}
        connection.request("POST", "/realizations", json.dumps(body), head)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str]]:
    found = answers(tmp_path_factory.mktemp("plain"), "", "", [])
    assert all(status == 200 for status, _ in found), found
    return found


@pytest.mark.parametrize("kind", HIDDEN)
def test_an_answer_is_the_same_without_what_is_hidden(kind: str, plain: list[tuple[int, str]], tmp_path: Path) -> None:
    base = ".decl z(x: number, s: symbol)\n"
    view = ".decl h(x: number)\n"
    assert answers(tmp_path, base, view + HIDDEN[kind], ROWS) == plain


def test_names_and_numbers_of_rules_that_come_before_are_not_told_either(
    plain: list[tuple[int, str]], tmp_path: Path
) -> None:
    many = "".join(f".decl a{n}(x: number) a{n}(X) :- z(X, _), X > {n}.\n" for n in range(30))
    taken = "".join(f".decl {name}(x: number)\n" for name in ("total_sum_rows", "total_sum", "crowded_count", "Any"))
    assert answers(tmp_path, ".decl z(x: number, s: symbol)\n" + many + taken, "", ROWS) == plain
