"""`upshot update`: the base changes that would bring about a request to views."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upshot.cli.engines import connected
from upshot.cli.firings import register_actions
from upshot.cli.rows import asked_row
from upshot.cli.session import opened
from upshot.cli.settings import OK, WRONG_INPUT, Engine
from upshot.cli.terminal import Terminal
from upshot.cli.wording import counted
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import UsageError
from upshot.database.database import Database
from upshot.database.realize import Realizations
from upshot.revise.request import Bounds


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line says about how to bring it about."""

    limit: int | None
    frozen: Sequence[str]
    cost: Sequence[str]
    new_values: int
    seconds: float
    side_effect_free_first: bool
    apply: bool


def update(
    terminal: Terminal,
    file: Path,
    request: Sequence[str],
    fact_dir: Path | None,
    wishes: Wishes,
    actions: Path | None,
    engine: Engine,
) -> int:
    """Each realisation with its effects, the cheapest first. A folder is that of a database."""
    if wishes.apply and not file.is_dir():
        raise UsageError(
            f"`{file}` is no database: nothing would be left of what is applied",
            code="nothing-to-apply-to",
            help="name the folder of a database, or leave out `--apply`",
        )
    with _database(terminal, file, fact_dir, actions, engine) as database:
        insert, delete = _rows(request, "+", database), _rows(request, "-", database)
        found = database.realize(
            insert,
            delete,
            limit=1 if wishes.apply else wishes.limit,
            frozen=wishes.frozen,
            cost=_prices(wishes.cost),
            bounds=Bounds(new_constants=wishes.new_values, seconds=wishes.seconds),
            side_effect_free_first=wishes.side_effect_free_first,
        )
        return _tell(terminal, database, found, wishes)


@contextmanager
def _database(
    terminal: Terminal, file: Path, fact_dir: Path | None, actions: Path | None, engine: Engine
) -> Iterator[Database]:
    if not file.is_dir():
        with opened(terminal, file, fact_dir, engine, actions=actions) as database:
            yield database
        return
    if fact_dir is not None:
        message = f"`{file}` is the folder of a database, which has its facts"
        raise UsageError(message, code="wrong-argument", help="leave out `-F`")
    with connected(terminal, engine, file) as database:
        register_actions(database, actions)
        yield database


def _rows(request: Sequence[str], sign: str, database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """The rows asked for with this sign, by relation."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for text in request:
        if text[:1] not in ("+", "-"):
            raise UsageError(
                f"`{text}` does not say what is to become of the row",
                code="sign-needed",
                help=f"write '+{text}' to have it there, '-{text}' to have it not",
            )
        if text[0] == sign:
            name, row = asked_row(text[1:], database)
            found.setdefault(name, []).append(row)
    return found


def _prices(given: Sequence[str]) -> dict[str, float]:
    prices = {}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            prices[name] = float(number)
        except ValueError:
            message = f"`{text}` is no price"
            raise UsageError(
                message, code="wrong-argument", help="as in `--cost granted=5` or `--cost -granted=5`"
            ) from None
    return prices


def _tell(terminal: Terminal, database: Database, found: Realizations, wishes: Wishes) -> int:
    number = 0
    for number, each in enumerate(found, 1):
        if terminal.json:
            terminal.data(each.json())
        else:
            terminal.data(f"// {number}. {counted(each.size, 'change')}, cost {each.cost:g}")
            terminal.data(each.text())
        terminal.out.flush()
        if wishes.apply:
            version = database.apply(each).version
            terminal.message(f"applied as version {version}")
    if terminal.json:
        terminal.data(json.dumps({"status": found.status, "reason": found.reason, "found": number}))
    elif number and found.reason:
        terminal.data(f"// {found.reason}")
    if number:
        return OK
    terminal.report([Diagnostic("no-realization", found.reason, help=_HELP[found.status])])
    return WRONG_INPUT


_HELP = {
    "none exists": "ask for less, or change a rule or a constraint",
    "bounds reached": "allow more with `--new-values` or `--seconds`, or ask for less",
    "only through frozen": "leave out one of `--frozen`",
}
