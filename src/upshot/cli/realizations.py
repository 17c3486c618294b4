"""Requests to views on the command line: what was wished for, where it is looked for, what was found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upshot.cli.engines import connected
from upshot.cli.input.files import existing_store
from upshot.cli.input.given_values import constant, new_values
from upshot.cli.input.rows import asked_row
from upshot.cli.output.firings import register_actions
from upshot.cli.output.terminal import Terminal
from upshot.cli.output.wording import counted
from upshot.cli.session import opened
from upshot.cli.settings import OK, WRONG_INPUT, Engine
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import UsageError
from upshot.database.database import Database
from upshot.database.realize import FROZEN, NONE, Realizations
from upshot.revise.request import Bounds


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line says about how to bring it about."""

    limit: int | None
    frozen: Sequence[str]
    cost: Sequence[str]
    new_values: int
    seconds: float
    rounds: int
    size: int | None
    constants: Sequence[str]
    side_effect_free_first: bool
    apply: bool
    values: Sequence[str]

    def options(self) -> dict[str, Any]:
        """The same, as `db.realize` and `db.repairs` take it."""
        return {
            "limit": 1 if self.apply else self.limit,
            "frozen": self.frozen,
            "cost": _prices(self.cost),
            "bounds": Bounds(
                rounds=self.rounds,
                new_constants=self.new_values,
                size=self.size,
                seconds=self.seconds,
                constants=tuple(map(constant, self.constants)),
            ),
            "side_effect_free_first": self.side_effect_free_first,
        }

    def refuse_to_apply(self, file: Path) -> None:
        """`UsageError` if something is to be committed and `file` is no database, or values are given for nothing."""
        if self.values and not self.apply:
            message = "`--value` needs `--apply`"
            raise UsageError(message, code="options-conflict", help="add `--apply`, or omit `--value`")
        if self.apply and not file.is_dir():
            raise UsageError(
                f"`--apply` needs a database directory, and `{file}` is not one",
                code="nothing-to-apply-to",
                help="name a database directory, or omit `--apply`",
            )


@contextmanager
def database_of(
    terminal: Terminal,
    file: Path,
    fact_dir: Path | None,
    actions: Path | None,
    engine: Engine,
    *,
    keeps_violations: bool = False,
) -> Iterator[Database]:
    """The database in a folder, or that of a program and its facts, which may violate constraints if told."""
    if not file.is_dir():
        with opened(terminal, file, fact_dir, engine, actions=actions, keeps_violations=keeps_violations) as database:
            yield database
        return
    if fact_dir is not None:
        message = f"`{file}` is a database directory, which has its own facts"
        raise UsageError(message, code="wrong-argument", help="omit `-F`")
    with connected(terminal, engine, existing_store(file, "FILE")) as database:
        register_actions(database, actions)
        yield database


def signed_rows(request: Sequence[str], sign: str, database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """The rows asked for with this sign, by relation."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for text in request:
        if not text.lstrip("+-").strip():
            message = f"`{text}` is not a row" if text.strip() else "the row is empty"
            raise UsageError(message, code="not-a-fact", help="as in '+closure(1, 3)'")
        if text[:1] not in ("+", "-"):
            raise UsageError(
                f"`{text}` has no sign",
                code="sign-needed",
                help=f"write '+{text}' to insert the row, '-{text}' to delete it",
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
            message = f"`{text}` is not a cost"
            raise UsageError(
                message, code="wrong-argument", help="as in `--cost granted=5` or `--cost -granted=5`"
            ) from None
    return prices


def tell(
    terminal: Terminal, database: Database, found: Realizations, wishes: Wishes, committed: list[int] | None = None
) -> int:
    """Prints each realisation with its effects, and how the search ended; the exit code. The version that one is
    applied as joins those that are `committed`."""
    number = 0
    for number, each in enumerate(found, 1):
        if terminal.json:
            terminal.data(each.json())
        elif each.size:
            terminal.data(f"// {number}. {counted(each.size, 'change')}, cost {each.cost:g}")
            terminal.data(each.text())
        terminal.out.flush()
        if wishes.apply:
            values = new_values(wishes.values, each)
            if not each.size:
                terminal.message("nothing to apply: the request is already satisfied")
                continue
            version = database.apply(each, values).version
            terminal.message(f"applied as version {version}")
            if committed is not None:
                committed.append(version)
    if terminal.json:
        terminal.data(json.dumps({"status": found.status, "reason": found.reason, "found": number}))
    elif number and found.reason:
        terminal.data(f"// {found.reason}")
    if number:
        return OK
    terminal.report([Diagnostic("no-realization", found.reason, help=_help(found))])
    return WRONG_INPUT


def _help(found: Realizations) -> str:
    """What to do where none was found."""
    if found.status == NONE:
        return "request less, or change a rule or a constraint"
    if found.status == FROZEN:
        return "omit one of the `--frozen` options"
    options = [option for words, option in _RAISED.items() if re.search(words, found.reason)]
    allow = f"allow more with {' or '.join(f'`{each}`' for each in options)}, or " * bool(options)
    return f"{allow}request less"


_RAISED = {
    r"\d changes?\b": "--size",
    r"\d rounds?\b": "--rounds",
    r"\d new values?\b": "--new-values",
    r"\d seconds?\b": "--seconds",
    r"values .*that were tried|no value was found": "--constant",
}
"""What the reason says of a bound, and the option that raises it."""
