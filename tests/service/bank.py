"""A program with something of everything, and values that occur nowhere else, so that a leak is found by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import upshot
from tests.service.serving import Running
from upshot.service.access.scopes import Scopes
from upshot.service.access.tokens import Tokens, hash_of
from upshot.service.service import Service
from upshot.service.settings import Settings

PROGRAM = """
.decl account(holder: symbol, iban: symbol) key(holder)
.decl transfer(source: symbol, target: symbol, amount: number)
.decl blacklisted(holder: symbol)
.decl public_note(id: number, text: symbol)
.decl reached(source: symbol, target: symbol)
reached(X, Y) :- transfer(X, Y, _).
reached(X, Z) :- reached(X, Y), transfer(Y, Z, _).
.decl note_count(count: number)
note_count(N) :- N = count : { public_note(_, _) }.
.decl tainted(holder: symbol)
tainted(X) :- reached(X, Y), blacklisted(Y).
.decl noted_reach(id: number)
noted_reach(I) :- public_note(I, T), reached(T, _).
.decl noted(text: symbol)
noted(T) :- public_note(_, T).
.decl dear(holder: symbol)
dear(X) :- transfer(X, Y, A), A >= 770077, Y > "bob-secret".
.deny launderer(X) :- reached(X, Y), blacklisted(Y), account(X, _), X = "mallory-secret".
.deny suspicious(X) :- tainted(X).
.deny suspicious on_violation=warn
.decl alarm(holder: symbol)
.rule raise_alarm(X) when tainted(X) do insert alarm(X).
"""

HIDDEN_NAMES = (
    "account", "transfer", "blacklisted", "reached", "tainted", "launderer", "suspicious", "alarm", "raise_alarm",
    "noted_reach", "dear", "holder", "iban", "amount",
)  # fmt: skip
HIDDEN_VALUES = ("alice-secret", "bob-secret", "mallory-secret", "DE-secret", "770077")


def filled() -> upshot.Database:
    database = upshot.connect()
    database.define(PROGRAM, name="bank.dl")
    with database.transaction() as tx:
        tx.insert("account", [("alice-secret", "DE-secret-1"), ("bob-secret", "DE-secret-2")])
        tx.insert("transfer", [("alice-secret", "bob-secret", 770077)])
        tx.insert("public_note", [(1, "hello")])
        tx.insert("blacklisted", [("bob-secret",)])
    return database


TOKENS = {
    "everything": Scopes("everything", frozenset("*"), frozenset("*"), subscribe=True, admin=True),
    "nothing": Scopes("nothing"),
    "reader": Scopes("reader", frozenset(("public_note", "note_count", "noted")), subscribe=True),
    "noter": Scopes(
        "noter", frozenset(("public_note", "note_count", "noted")), frozenset(("public_note",)), subscribe=True
    ),
    "blind": Scopes("blind", frozenset(), frozenset(("account", "transfer", "public_note"))),
}


def write_tokens(path: Path, tokens: Mapping[str, Scopes] = TOKENS) -> Path:
    lines = []
    for name, scopes in tokens.items():
        lines += [
            f"[token.{name}]",
            f'hash = "{hash_of(f"secret-of-{name}")}"',
            f"read = {sorted(scopes.read)}".replace("'", '"'),
            f"write = {sorted(scopes.write)}".replace("'", '"'),
            f"subscribe = {str(scopes.subscribe).lower()}",
            f"admin = {str(scopes.admin).lower()}",
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer secret-of-{name}"}


@contextmanager
def served(folder: Path, settings: Settings | None = None, database: Any = None) -> Iterator[Running]:
    """The bank behind tokens."""
    tokens = Tokens(write_tokens(folder / "tokens.toml"))

    def prepare(service: Service) -> None:
        service.authenticator.tokens = tokens

    with Running(database or filled(), settings, prepare=prepare) as running:
        yield running
