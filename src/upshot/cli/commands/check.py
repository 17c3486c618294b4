"""`upshot check`: every diagnostic of a program in one run."""

from __future__ import annotations

from pathlib import Path

from upshot.check import check as check_program
from upshot.check.print_rules import print_rules
from upshot.check.program import CheckedProgram
from upshot.cli.files import shown_name
from upshot.cli.programs import parse_file
from upshot.cli.settings import OK, WRONG_INPUT
from upshot.cli.terminal import Terminal
from upshot.cli.wording import counted
from upshot.core.diagnostic import Severity
from upshot.core.errors import ProgramError
from upshot.core.schema import Role


def check(terminal: Terminal, file: Path) -> int:
    """With `--format json` the findings are the data, so they go to stdout."""
    stream = terminal.out if terminal.json else terminal.err
    try:
        checked = check_program(parse_file(file))
    except ProgramError as error:
        terminal.report(error.diagnostics, to=stream)
        if not terminal.json:
            terminal.message(f"{shown_name(file)}: {_counted_findings(error)}")
        return WRONG_INPUT
    terminal.report(checked.warnings, to=stream)
    if not terminal.json:
        terminal.data(f"{shown_name(file)}: ok, {summary(checked)}")
        if checked.rules:
            terminal.data(print_rules(checked).rstrip("\n"))
    return OK


def summary(checked: CheckedProgram) -> str:
    """How many relations of each role, and how many warnings."""
    hidden = checked.hidden.union(checked.input_part.values())
    roles = [schema.role for name, schema in checked.schemas.items() if name not in hidden]
    parts = [
        counted(roles.count(Role.BASE), "base relation"),
        counted(roles.count(Role.VIEW), "view"),
        counted(roles.count(Role.CONSTRAINT), "constraint"),
    ]
    warnings = sum(warning.severity is Severity.WARNING for warning in checked.warnings)
    told = parts[: 2 + (Role.CONSTRAINT in roles)]
    told += [counted(len(checked.rules), "active rule")] * bool(checked.rules)
    return ", ".join(told + [counted(warnings, "warning")] * bool(warnings))


def _counted_findings(error: ProgramError) -> str:
    errors = sum(found.severity is Severity.ERROR for found in error.diagnostics)
    others = len(error.diagnostics) - errors
    return counted(errors, "error") + (f", {counted(others, 'warning')}" if others else "")
