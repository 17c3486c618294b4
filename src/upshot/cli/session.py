"""A database made from files: the program is defined, the fact files of its `.input` relations are loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from upshot.check import check
from upshot.cli.engines import connected
from upshot.cli.input.files import existing_directory, existing_store, read_program
from upshot.cli.input.programs import parse_source
from upshot.cli.options import DatabaseOptions
from upshot.cli.output.changes import report_failures, without_log
from upshot.cli.output.terminal import Bar, Terminal
from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.errors import DataError, UsageError, counted
from upshot.core.schema import Role, Schema
from upshot.database.database import Database
from upshot.database.files.souffle_options import FileOptions, file_options
from upshot.database.files.souffle_reader import read_facts
from upshot.database.rules.action_files import read_actions
from upshot.engine.limits import loaded_once
from upshot.plan.goals import magic_pragma, unstored_views
from upshot.syntax.ast import Directive, Program


@contextmanager
def opened(
    terminal: Terminal,
    source: DatabaseOptions,
    *,
    facts_required: bool = False,
    keep_violations: bool = False,
    goal_directed: bool = False,
) -> Iterator[Database]:
    """Open the database of a program file with its facts, or a database directory.

    Facts that violate a constraint are an error. With `keep_violations` they are accepted, and the constraints apply to
    later changes. Without `-F`, fact files are read from the current directory, as Soufflé does; a missing one is an
    error with `facts_required`, and otherwise a warning. With `goal_directed`, only the rows are computed that outputs,
    constraints and rules need.
    """
    fact_dir = source.fact_dir
    if source.file.is_dir():
        with _opened_store(terminal, source) as database:
            register_actions(database, source.actions)
            yield database
        return
    text = read_program(source.file)
    program = parse_source(text)
    if fact_dir is not None and any(isinstance(item, Directive) and item.kind == "input" for item in program.items):
        existing_directory(fact_dir, "-F")
    rejecting = _rejecting(program) if keep_violations else []
    with connected(terminal, source.engine) as database:
        register_actions(database, source.actions)
        with terminal.progress(f"defining {text.name}"):
            definition = text.text + "".join(f"\n.deny {name} on_violation=warn" for name in rejecting)
            for view in unstored_in_run(program) if goal_directed else ():
                definition += f"\n.view {view} materialized=false events=none"
            terminal.report(_without_violations(database.define(definition, name=text.name).warnings, rejecting))
        with loaded_once() if goal_directed else nullcontext():
            load_facts(
                terminal, database, fact_dir or Path(), optional=fact_dir is None and not facts_required, kept=rejecting
            )
        if rejecting:
            database.define("".join(f".deny {name} existing=keep\n" for name in rejecting), name=text.name)
        if fact_dir is not None and fact_dir.is_dir():
            terminal.report(_unread(database, fact_dir))
        yield database


def _opened_store(terminal: Terminal, source: DatabaseOptions) -> AbstractContextManager[Database]:
    if source.fact_dir is not None:
        message = f"`{source.file}` is a database directory, which has its own facts"
        raise UsageError(message, code="wrong-argument", help="omit `-F`")
    return connected(terminal, source.engine, existing_store(source.file, "DIR"))


def _rejecting(program: Program) -> list[str]:
    """The constraints that reject violations."""
    return [name for name, each in check(program).constraints.items() if each.on_violation == "reject"]


def unstored_in_run(program: Program) -> dict[str, str]:
    """The views that `upshot run` does not store, since the outputs need only some of their rows; with the reason."""
    return unstored_views(check(program), magic_pragma(program.items))


def _without_violations(warnings: Iterable[Diagnostic], kept: Sequence[str]) -> list[Diagnostic]:
    """The warnings without violations, if there are constraints whose violations are kept."""
    return [each for each in warnings if not (kept and each.slug == "constraint-violated")]


def register_actions(database: Database, file: Path | None) -> None:
    """Register the functions of a file for calls in rules."""
    without_log()
    for name, function in read_actions(file).items() if file is not None else ():
        database.action(name, function)
        database.function(name, function)


def load_facts(
    terminal: Terminal, database: Database, folder: Path, *, optional: bool, kept: Sequence[str] = ()
) -> None:
    """Load every `.input` relation in one transaction. Violations of the constraints `kept` are not reported."""
    inputs = [file_options(item, folder) for item in database.directives if item.kind == "input"]
    schemas = database.schemas
    with terminal.progress("reading facts", len(inputs)) as bar:
        tables = {each.relation: _read(schemas[each.relation], each, bar, optional=optional) for each in inputs}
        terminal.report(_missing([relation for relation, rows in tables.items() if rows is None]))
        tables = {relation: rows for relation, rows in tables.items() if rows is not None}
        if not any(map(len, tables.values())):
            return
        bar.restart("computing views")
        with _progress(database, bar), database.transaction() as transaction:
            for relation, rows in tables.items():
                transaction.insert(relation, rows)
    terminal.report(_without_violations(transaction.warnings, kept))
    report_failures(terminal, transaction.firings)


@contextmanager
def _progress(database: Database, bar: Bar) -> Iterator[None]:
    """Label the bar with the view that is being computed and its number of rows."""
    database.report_progress(lambda view, rows: bar.label(f"computing {view}: {counted(rows, 'row')}"))
    try:
        yield
    finally:
        database.report_progress(None)


def _read(schema: Schema, options: FileOptions, bar: Bar, *, optional: bool) -> Any:
    bar.label(f"reading {'<stdin>' if options.device == 'stdin' else options.path}")
    try:
        return read_facts(schema, options)
    except DataError as error:
        if optional and error.code == "missing-facts":
            return None
        raise
    finally:
        bar.advance()


def _missing(relations: Sequence[str]) -> list[Diagnostic]:
    """A warning for relations without a fact file."""
    if not relations:
        return []
    names = ", ".join(f"`{name}`" for name in relations)
    message = f"no fact files for {names}: the relations are empty"
    return [
        Diagnostic(
            "missing-facts", message, help="name the directory of the fact files with `-F`", severity=Severity.WARNING
        )
    ]


def _unread(database: Database, folder: Path) -> list[Diagnostic]:
    """A warning for each fact file that has the name of a base relation and is not read."""
    read = {item.relation for item in database.directives if item.kind == "input"}
    return [
        Diagnostic(
            "facts-not-read",
            f"`{folder / name}.facts` is not read",
            schema.span,
            help=f"write `.input {name}` to read it",
            severity=Severity.WARNING,
        )
        for name, schema in database.schemas.items()
        if schema.role is Role.BASE and name not in read and (folder / f"{name}.facts").is_file()
    ]
