"""Program files: read, parsed and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from upshot.check import check, with_findings
from upshot.check.program import CheckedProgram
from upshot.cli.input.files import read_program
from upshot.cli.output.terminal import Terminal
from upshot.core.diagnostic import Diagnostic, did_you_mean
from upshot.core.errors import ProgramError, UsageError
from upshot.core.schema import Role, Schema
from upshot.core.span import Source, Span
from upshot.sql.either import parse_either
from upshot.syntax.ast import Program


def parse_file(file: Path) -> Program:
    """The program in a file."""
    return parse_source(read_program(file))


def parse_source(source: Source, schemas: Mapping[str, Schema] = MappingProxyType({})) -> Program:
    """Parse a text in Datalog, or in SQL over relations with these schemas. An empty program is an error."""
    try:
        program = parse_either(source.text, source.name, schemas)
    except ProgramError as error:
        raise with_findings(error, error.understood) if error.understood is not None else error from None
    if not program.items:
        message = f"`{source.name}` has no declarations and no rules"
        help = "start with a declaration such as `.decl edge(a: number, b: number)`"
        raise ProgramError([Diagnostic("empty-program", message, Span(source, 0, 0), help=help)])
    return program


def checked_file(terminal: Terminal, file: Path) -> CheckedProgram:
    """Check the program in a file and report its warnings."""
    checked = check(parse_file(file))
    terminal.report(checked.warnings)
    return checked


def known_view(schemas: Mapping[str, Schema], view: str | None, rules: Sequence[str] = ()) -> str | None:
    """The name, if the program has such a view or one of the active `rules`; `UsageError` otherwise."""
    if view is None:
        return None
    views = [name for name, schema in schemas.items() if schema.role is not Role.BASE] + list(rules)
    if view in views:
        return view
    listed = f"views{' and rules' * bool(rules)}: " + (", ".join(f"`{name}`" for name in views) or "none")
    if view in schemas:
        raise UsageError(f"`{view}` is a base relation, not a view", code="not-a-view", help=listed)
    raise UsageError(f"unknown view `{view}`", code="unknown-view", help=did_you_mean(view, views) or listed)
