"""`upshot update` and `upshot repairs`: base changes that satisfy a request to views or remove violations."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from upshot.cli.input.changes import ChangeFacts, ChangeLine, for_each_line, parse_change
from upshot.cli.input.files import refuse_stdin_twice
from upshot.cli.input.rows import constant, parse_row, placeholder_values
from upshot.cli.options import DatabaseOptions, SearchOptions
from upshot.cli.output.changes import witnesses_text
from upshot.cli.output.terminal import Terminal
from upshot.cli.session import opened
from upshot.cli.settings import OK, WRONG_INPUT
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import UsageError, counted
from upshot.core.json_values import rows_to_json
from upshot.core.schema import Role
from upshot.database.constraints import Violations
from upshot.database.database import Database
from upshot.database.realize import FROZEN, NONE, Realizations
from upshot.revise.request import Bounds
from upshot.syntax import parse_query
from upshot.syntax.ast import Atom, Wildcard


def search_arguments(search: SearchOptions) -> dict[str, Any]:
    """The arguments of `db.realize` and `db.repairs`."""
    return {
        "limit": 1 if search.apply else search.limit,
        "frozen": search.frozen or (),
        "cost": _costs(search.cost or ()),
        "bounds": Bounds(
            rounds=search.rounds,
            new_constants=search.new_values,
            size=search.size,
            seconds=search.seconds,
            constants=tuple(map(constant, search.constants or ())),
        ),
        "side_effect_free_first": search.least,
        "prefer": None if search.prefer is None else search.prefer.replace("-", "_"),
    }


def refuse_to_apply(search: SearchOptions, file: Path) -> None:
    """`UsageError` for `--apply` without a database directory, and for `--value` without `--apply`."""
    if search.values and not search.apply:
        message = "`--value` needs `--apply`"
        raise UsageError(message, code="options-conflict", help="add `--apply`, or omit `--value`")
    if search.apply and not file.is_dir():
        raise UsageError(
            f"`--apply` needs a database directory, and `{file}` is not one",
            code="nothing-to-apply-to",
            help="name a database directory, or omit `--apply`",
        )


def signed_rows(
    request: Sequence[str], sign: str, database: Database, *, patterns: bool = False
) -> dict[str, list[Any]]:
    """The requested rows with this sign, by relation. With `patterns`, also patterns, each for all matching rows."""
    found: dict[str, list[Any]] = {}
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
        if text[0] == sign and patterns and (matched := _pattern(text[1:])) is not None:
            found.setdefault(matched, []).append(text[1:])
        elif text[0] == sign:
            name, row = parse_row(text[1:], database)
            found.setdefault(name, []).append(row)
    return found


def _pattern(text: str) -> str | None:
    """The relation of a pattern such as `access("ann", _)`; None for a row."""
    atom = parse_query(text.strip().removesuffix(".")) if "_" in text else None
    is_pattern = isinstance(atom, Atom) and any(isinstance(term, Wildcard) for term in atom.args)
    return atom.relation if is_pattern and isinstance(atom, Atom) else None


def _costs(texts: Sequence[str]) -> dict[str, float]:
    costs = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            costs[name] = float(number)
        except ValueError:
            message = f"`{text}` is not a cost"
            raise UsageError(
                message, code="wrong-argument", help="as in `--cost granted=5` or `--cost -granted=5`"
            ) from None
    return costs


MOST_EFFECTS = 10
"""The number of requested rows, and of side effects, that are printed of a realization."""


def print_realizations(
    terminal: Terminal,
    database: Database,
    found: Realizations,
    search: SearchOptions,
    committed: list[int] | None = None,
) -> int:
    """Print each realization with its effects, and the status of the search; return the exit code. With `--apply`, the
    version of the commit is added to `committed`."""
    number = 0
    for number, each in enumerate(found, 1):
        if terminal.json:
            terminal.data(each.json())
        elif each.size:
            terminal.data(f"// {number}. {counted(each.size, 'change')}, cost {each.cost:g}")
            terminal.data(each.text(MOST_EFFECTS))
        terminal.out.flush()
        if search.apply:
            values = placeholder_values(search.values or (), each)
            if not each.size:
                terminal.message("nothing to apply: the request is already satisfied")
                continue
            version = database.apply(each, values).version
            terminal.message(f"applied as version {version}")
            if committed is not None:
                committed.append(version)
    if terminal.json:
        unbounded = {"unbounded": list(found.unbounded)} if found.unbounded else {}
        terminal.data(json.dumps({"status": found.status, "reason": found.reason, **unbounded, "found": number}))
    elif number and found.reason:
        terminal.data(f"// {found.reason}")
    if number:
        return OK
    terminal.report([Diagnostic("no-realization", found.reason, help=_help(found))])
    return WRONG_INPUT


def _help(found: Realizations) -> str:
    """The help text where no realization was found."""
    if found.status == NONE:
        return "request less, or change a rule or a constraint"
    if found.status == FROZEN:
        return "omit one of the `--frozen` options"
    options = [option for pattern, option in _RAISED.items() if re.search(pattern, found.reason)]
    allow = f"allow more with {' or '.join(f'`{each}`' for each in options)}, or " * bool(options)
    return f"{allow}request less"


_RAISED = {
    r"\d changes?\b": "--size",
    r"\d rounds?\b": "--rounds",
    r"\d fresh values?\b": "--new-values",
    r"\d seconds?\b": "--seconds",
    r"values .*that were tried|no value was found": "--constant",
}
"""A pattern of the reason that names a bound, and the option that raises the bound."""


def update(
    terminal: Terminal,
    source: DatabaseOptions,
    request: Annotated[
        list[str],
        typer.Argument(
            metavar="+ROW|-ROW...",
            show_default=False,
            help="'+p(2)' requests that the row exists, '-q(3)' that it does not, '-q(_)' that q has no rows.",
        ),
    ],
    search: SearchOptions,
) -> int:
    """Print each realization with its effects, the cheapest first."""
    refuse_to_apply(search, source.file)
    with opened(terminal, source) as database:
        return print_update(terminal, database, request, search)


def print_update(terminal: Terminal, database: Database, request: Sequence[str], search: SearchOptions) -> int:
    """Print the realizations of a request; the exit code."""
    delete = signed_rows(request, "-", database, patterns=True)
    found = database.realize(signed_rows(request, "+", database), delete, **search_arguments(search))
    return print_realizations(terminal, database, found, search)


def repairs(
    terminal: Terminal,
    source: DatabaseOptions,
    search: SearchOptions,
    attempted: Annotated[
        list[str] | None,
        typer.Argument(metavar="+ROW|-ROW...", show_default=False, help="Base changes of one rejected transaction."),
    ] = None,
    changes: Annotated[
        Path | None,
        typer.Option("--changes", "-c", metavar="FILE", help="Rejected transactions, one JSON object per line."),
    ] = None,
    constraint: Annotated[
        str | None, typer.Option("--constraint", metavar="NAME", help="Repair only violations of this constraint.")
    ] = None,
) -> int:
    """Repair the violations of a rejected transaction or, without one, those of the stored rows."""
    refuse_to_apply(search, source.file)
    if (changes is not None) + bool(attempted) + (constraint is not None) > 1:
        raise UsageError(
            "rows, `--changes` and `--constraint` cannot be combined",
            code="options-conflict",
            help="use one of them; `--constraint` repairs present violations",
        )
    if changes is not None and search.values:
        message = "`--value` needs one realization, but `--changes` has one per transaction"
        raise UsageError(
            message, code="options-conflict", help="give the rows of one transaction instead: '+p(2)' '-q(3)'"
        )
    refuse_stdin_twice(source.file, changes)
    with opened(terminal, source, keep_violations=True) as database:
        if changes is not None:
            return _of_transactions(terminal, database, changes, search)
        if attempted:
            change = ChangeFacts(signed_rows(attempted, "+", database), signed_rows(attempted, "-", database))
            return _of_change(terminal, database, change, "", search, [])
        return _of_violations(terminal, database, constraint, search)


def _of_violations(terminal: Terminal, database: Database, constraint: str | None, search: SearchOptions) -> int:
    found = database.repairs(constraint, **search_arguments(search))
    names = [name for name, schema in database.schemas.items() if schema.role is Role.CONSTRAINT]
    rows = {name: database.rows(name).sorted() for name in names if constraint in (None, name)}
    _announce(terminal, database, {name: some for name, some in rows.items() if some}, "", "is violated by")
    return print_realizations(terminal, database, found, search) if any(rows.values()) else OK


def _of_transactions(terminal: Terminal, database: Database, changes: Path, search: SearchOptions) -> int:
    """Repair the transaction of each line separately; with `--apply`, in the state that earlier lines left."""
    codes, committed = [OK], list[int]()

    def process(line: ChangeLine) -> None:
        change = parse_change(line, database.schemas)
        codes.append(_of_change(terminal, database, change, line.place, search, committed))

    failed = for_each_line(terminal, changes, process)
    if failed and search.apply:
        terminal.message(_kept(committed))
    return failed or max(codes)


def _kept(committed: Sequence[int]) -> str:
    """Name the transactions that stay committed after a later one failed."""
    if not committed:
        return "nothing was committed"
    versions = f"version {committed[0]}" if len(committed) == 1 else f"versions {', '.join(map(str, committed))}"
    return f"earlier transactions stay committed: {versions}"


def _of_change(
    terminal: Terminal, database: Database, change: ChangeFacts, place: str, search: SearchOptions, committed: list[int]
) -> int:
    found = database.repairs(insert=change.insert, delete=change.delete, **search_arguments(search))
    effects = database.what_if(insert=change.insert, delete=change.delete)
    _announce(terminal, database, effects.violations, place, "would be violated by")
    return print_realizations(terminal, database, found, search, committed)


def _announce(terminal: Terminal, database: Database, violations: Violations, place: str, verb: str) -> None:
    """Print the violations before their repairs."""
    if terminal.json:
        parts = ", ".join(f"{json.dumps(name)}: {rows_to_json(rows)}" for name, rows in violations.items())
        about = f'"transaction": {json.dumps(place)}, ' * bool(place)
        terminal.data(f'{{{about}"violated": {{{parts}}}}}')
        return
    before = f"{place}: " * bool(place)
    for name, rows in violations.items():
        shown = witnesses_text(database.schemas[name], rows)
        kind = "" if database.schemas[name].role is Role.CONSTRAINT else "the key of "
        terminal.data(f"// {before}{kind}`{name}` {verb} {shown}")
    if not violations:
        terminal.data(f"// {before}nothing {verb.removesuffix(' by')}")
