"""A database made from files: the program defined, the fact files of its `.input` relations loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from upshot.cli.fact_files import Facts, read_facts
from upshot.cli.file_options import FileOptions, file_options
from upshot.cli.files import existing_directory, read_program
from upshot.cli.programs import parse_source
from upshot.cli.terminal import Bar, Terminal
from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.errors import DataError
from upshot.core.schema import Role, Schema
from upshot.database.connect import connect
from upshot.database.database import Database
from upshot.syntax.ast import Directive


@dataclass(frozen=True, slots=True)
class Session:
    """The database and what the program says about files."""

    database: Database
    directives: tuple[Directive, ...]


def open_session(terminal: Terminal, file: Path, fact_dir: Path | None, *, facts_required: bool = False) -> Session:
    """The program of a file over the facts in a directory.

    Without `-F` the current directory is looked at as Soufflé does; a missing fact file is then an error only where
    `facts_required`, and an empty relation otherwise.
    """
    if fact_dir is not None:
        existing_directory(fact_dir, "-F")
    source = read_program(file)
    program = parse_source(source)
    directives = tuple(item for item in program.items if isinstance(item, Directive))
    database = connect()
    with terminal.progress(f"defining {source.name}"):
        terminal.report(database.define(source.text, name=source.name).warnings)
    optional = fact_dir is None and not facts_required
    load_facts(terminal, database, directives, fact_dir or Path("."), optional=optional)
    if fact_dir is not None:
        terminal.report(_unread(database.schemas, directives, fact_dir))
    return Session(database, directives)


def load_facts(
    terminal: Terminal, database: Database, directives: tuple[Directive, ...], folder: Path, *, optional: bool
) -> None:
    """Loads every `.input` relation in one transaction."""
    inputs = [(item, *file_options(item, folder)) for item in directives if item.kind == "input"]
    for _, _, warnings in inputs:
        terminal.report(warnings)
    total = sum(_size(options.path) for _, options, _ in inputs)
    with terminal.progress("reading facts", total or None) as bar:
        tables = {
            item.relation: _read(terminal, database.schemas[item.relation], options, bar, optional=optional)
            for item, options, _ in inputs
        }
        if not any(len(facts.rows) for facts in tables.values()):
            return
        bar.say("computing views")
        with database.transaction() as transaction:
            for relation, facts in tables.items():
                transaction.insert(relation, facts.rows)
    terminal.report(transaction.warnings)


def _read(terminal: Terminal, schema: Schema, options: FileOptions, bar: Bar, *, optional: bool) -> Facts:
    bar.label(f"reading {'<stdin>' if options.standard else options.path}")
    try:
        facts = read_facts(schema, options, bar.advance)
    except DataError as error:
        if optional and error.code == "missing-facts":
            return Facts([])
        raise
    terminal.report(facts.warnings)
    return facts


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _unread(schemas: Mapping[str, Schema], directives: tuple[Directive, ...], folder: Path) -> list[Diagnostic]:
    """A warning for each fact file that is named like a base relation and is not read."""
    read = {item.relation for item in directives if item.kind == "input"}
    return [
        Diagnostic(
            "facts-not-read",
            f"`{folder / name}.facts` is not read",
            schema.span,
            help=f"write `.input {name}` to read it",
            severity=Severity.WARNING,
        )
        for name, schema in schemas.items()
        if schema.role is Role.BASE and name not in read and (folder / f"{name}.facts").is_file()
    ]
