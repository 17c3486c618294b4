"""Define the program of a file in the served store, if it is new or changed. An invalid program changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.errors import DataError, Error, UsageError
from upshot.core.schema import Role
from upshot.database.database import Database
from upshot.database.files.souffle_options import FileOptions, file_options
from upshot.database.files.souffle_reader import read_facts
from upshot.service.feed.standing import drop_standing

Report = Callable[[list[Diagnostic]], None]


def serve_program(
    database: Database, text: str, name: str, files: Path | None, report: Report, register: Callable[[], None]
) -> None:
    """Make the text the program of the database. Relations that it no longer has are dropped, except base relations
    with rows. `register` registers the functions of its rules; then the facts of a new store are read. After an error
    of program or facts the store is unchanged."""
    is_new = database.version == 0
    drop_standing(database)
    with Database() as scratch:
        scratch.define(text, name=name)
        names = {*scratch.schemas, *scratch.rules}
        is_same = scratch.program == database.program
        tables = _facts(scratch, files) if is_new else {}
        if tables and not scratch.rules:
            # Errors of the facts must be raised before the store has the program.
            _insert(scratch, tables)
    if not is_same:
        report(list(database.define(text, name=name).warnings))
        report(_drop_others(database, names))
    register()
    if tables:
        report(_insert(database, tables))


def _facts(defined: Database, files: Path | None) -> dict[str, Any]:
    """The rows of every `.input`, by relation."""
    found = [file_options(item, files or Path()) for item in defined.directives if item.kind == "input"]
    confined = [_confined(each, files) for each in found]
    return {each.relation: read_facts(defined.schemas[each.relation], each) for each in confined}


def _insert(database: Database, tables: Mapping[str, Any]) -> list[Diagnostic]:
    with database.transaction() as transaction:
        for relation, rows in tables.items():
            transaction.insert(relation, rows)
    return list(transaction.warnings)


def _confined(options: FileOptions, folder: Path | None) -> FileOptions:
    """The options with the real path of the file, which must be inside the folder."""
    if folder is None:
        raise UsageError(
            f"`.input {options.relation}`: a served program reads files of one directory only, and none is given",
            code="files-refused",
            help=f"give `--files DIR`, or remove `.input {options.relation}` and send the rows as transactions",
        )
    if options.device == "stdin":
        raise _outside(options, "a service has no standard input")
    try:
        home, path = folder.resolve(strict=True), options.path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise DataError(
            f"`.input {options.relation}`: file `{options.path.name}` does not exist in `--files`",
            code="missing-facts",
            help="create it, or remove the `.input`",
        ) from None
    if not path.is_relative_to(home) or not path.is_file():
        raise _outside(options, "its file is not inside `--files`")
    return replace(options, path=path)


def _outside(options: FileOptions, why: str) -> UsageError:
    hint = "a served program reads only inside `--files DIR`, also through `..` and links"
    return UsageError(f"`.input {options.relation}`: {why}", code="files-refused", help=hint)


def _drop_others(database: Database, names: set[str]) -> list[Diagnostic]:
    """Drop the relations and rules with other names, dependents first; warn of each that cannot be dropped."""
    remaining = [name for name in (*database.rules, *database.schemas) if name not in names]
    while remaining:
        failed = []
        for name in remaining:
            try:
                database.drop(name)
            except Error:
                failed.append(name)
        if len(failed) == len(remaining):
            return [_stays(name, database) for name in failed]
        remaining = failed
    return []


def _stays(name: str, database: Database) -> Diagnostic:
    schema = database.schemas.get(name)
    kind = "base relation" if schema is not None and schema.role is Role.BASE else "relation"
    return Diagnostic(
        "relation-stays",
        f"the {kind} `{name}` is no longer in the program but stays in the store",
        help="to drop it, delete its rows and restart",
        severity=Severity.WARNING,
    )
