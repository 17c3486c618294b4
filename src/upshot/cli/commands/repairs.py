"""`upshot repairs`: ways out of the violations there are, or of those that transactions would make."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from upshot.cli.input.changes import Change, parse_change, read_change_lines
from upshot.cli.input.files import STDIN
from upshot.cli.input.transactions import at_change
from upshot.cli.output.outcome import code_of
from upshot.cli.output.terminal import Terminal
from upshot.cli.realizations import Wishes, database_of, signed_rows, tell
from upshot.cli.settings import OK, Engine
from upshot.core.errors import Error, UsageError
from upshot.core.fact_text import fact
from upshot.core.json_values import rows_to_json
from upshot.core.schema import Role
from upshot.database.database import Database
from upshot.database.program.constraints import Violations

SHOWN = 5
"""Witnesses of a constraint that are named."""


def repairs(
    terminal: Terminal,
    file: Path,
    attempted: Sequence[str],
    changes: Path | None,
    constraint: str | None,
    fact_dir: Path | None,
    wishes: Wishes,
    actions: Path | None,
    engine: Engine,
) -> int:
    """Without rows or transactions that are attempted, repairs of what the data violate. A folder is that of a
    database."""
    wishes.refuse_to_apply(file)
    if (changes is not None) + bool(attempted) + (constraint is not None) > 1:
        raise UsageError(
            "rows, `--changes` and `--constraint` cannot be combined",
            code="options-conflict",
            help="use one of them; `--constraint` repairs present violations",
        )
    if changes is not None and wishes.values:
        message = "`--value` needs one realization, but `--changes` has one per transaction"
        raise UsageError(
            message, code="options-conflict", help="give the rows of one transaction instead: '+p(2)' '-q(3)'"
        )
    if file == STDIN == changes:
        raise UsageError("the program and the changes cannot both come from standard input", code="stdin-twice")
    with database_of(terminal, file, fact_dir, actions, engine, keeps_violations=True) as database:
        if changes is not None:
            return _of_transactions(terminal, database, changes, wishes)
        if attempted:
            change = Change(signed_rows(attempted, "+", database), signed_rows(attempted, "-", database))
            return _of_change(terminal, database, change, "", wishes, [])
        return _of_violations(terminal, database, constraint, wishes)


def _of_violations(terminal: Terminal, database: Database, constraint: str | None, wishes: Wishes) -> int:
    found = database.repairs(constraint, **wishes.options())
    names = [name for name, schema in database.schemas.items() if schema.role is Role.CONSTRAINT]
    rows = {name: database.rows(name).sorted() for name in names if constraint in (None, name)}
    _announce(terminal, database, {name: some for name, some in rows.items() if some}, "", "is violated by")
    return tell(terminal, database, found, wishes) if any(rows.values()) else OK


def _of_transactions(terminal: Terminal, database: Database, changes: Path, wishes: Wishes) -> int:
    """Each line of the change file on its own; with `--apply` against what those before it left."""
    code, committed = OK, list[int]()
    for line in read_change_lines(changes):
        try:
            change = parse_change(line, database.schemas)
            code = max(code, _of_change(terminal, database, change, line.place, wishes, committed))
        except Error as error:
            terminal.out.flush()
            terminal.report(at_change(error, line))
            if wishes.apply:
                terminal.message(_kept(committed))
            return code_of(error)
    return code


def _kept(committed: Sequence[int]) -> str:
    """What stays of transactions that were applied before one that could not be."""
    if not committed:
        return "nothing was committed"
    versions = f"version {committed[0]}" if len(committed) == 1 else f"versions {', '.join(map(str, committed))}"
    return f"earlier transactions stay committed: {versions}"


def _of_change(
    terminal: Terminal, database: Database, change: Change, place: str, wishes: Wishes, committed: list[int]
) -> int:
    found = database.repairs(insert=change.insert, delete=change.delete, **wishes.options())
    effects = database.what_if(insert=change.insert, delete=change.delete)
    _announce(terminal, database, effects.violations, place, "would be violated by")
    return tell(terminal, database, found, wishes, committed)


def _announce(terminal: Terminal, database: Database, violations: Violations, place: str, words: str) -> None:
    """What is to be repaired, before the repairs."""
    if terminal.json:
        parts = ", ".join(f"{json.dumps(name)}: {rows_to_json(rows)}" for name, rows in violations.items())
        about = f'"transaction": {json.dumps(place)}, ' * bool(place)
        terminal.data(f'{{{about}"violated": {{{parts}}}}}')
        return
    before = f"{place}: " * bool(place)
    for name, rows in violations.items():
        shown = ", ".join(fact(database.schemas[name], row) for row in rows[:SHOWN])
        more = f" and {len(rows) - SHOWN} more" * (len(rows) > SHOWN)
        kind = "" if database.schemas[name].role is Role.CONSTRAINT else "the key of "
        terminal.data(f"// {before}{kind}`{name}` {words} {shown}{more}")
    if not violations:
        terminal.data(f"// {before}nothing {words.removesuffix(' by')}")
