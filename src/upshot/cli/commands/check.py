"""`upshot check`: every diagnostic of a program in one run."""

from __future__ import annotations

from pathlib import Path

from upshot.check import check as check_program
from upshot.check.printing import print_rules
from upshot.check.program import CheckedProgram
from upshot.cli.input.files import shown_name
from upshot.cli.input.programs import parse_file
from upshot.cli.options import ActionFile, ProgramFile
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK, WRONG_INPUT
from upshot.core.diagnostic import Severity
from upshot.core.errors import ProgramError, counted
from upshot.core.schema import Role


def check(terminal: Terminal, file: ProgramFile, actions: ActionFile = None) -> int:
    """With `--format json` the findings are the data, so they go to stdout. With a file of `actions`, calls in rules
    are checked too."""
    stream = terminal.out if terminal.json else terminal.err
    try:
        checked = check_program(parse_file(file))
        if actions is not None:
            _check_calls(checked, actions)
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


def _check_calls(checked: CheckedProgram, file: Path) -> None:
    """Raise if rules call functions that the file does not define with these parameters."""
    # Imported here, since checking a program alone needs no engine.
    from upshot.database.rules.action_files import read_actions  # noqa: PLC0415
    from upshot.database.rules.actions import Actions  # noqa: PLC0415

    known = Actions()
    for name, function in read_actions(file).items():
        known.register(name, function)
    faults = [fault.diagnostic() for rule in checked.rules for fault in known.faults(rule)]
    if faults:
        raise ProgramError([*faults, *checked.warnings])


def summary(checked: CheckedProgram) -> str:
    """The number of relations of each role, and of warnings."""
    hidden = checked.hidden.union(checked.input_part.values(), checked.parts)
    roles = [schema.role for name, schema in checked.schemas.items() if name not in hidden]
    parts = [
        counted(roles.count(Role.BASE), "base relation"),
        counted(roles.count(Role.VIEW), "view"),
        counted(roles.count(Role.CONSTRAINT), "constraint"),
    ]
    warnings = sum(warning.severity is Severity.WARNING for warning in checked.warnings)
    shown = parts[: 2 + (Role.CONSTRAINT in roles)]
    shown += [counted(len(checked.rules), "active rule")] * bool(checked.rules)
    return ", ".join(shown + [counted(warnings, "warning")] * bool(warnings))


def _counted_findings(error: ProgramError) -> str:
    errors = sum(found.severity is Severity.ERROR for found in error.diagnostics)
    others = len(error.diagnostics) - errors
    return counted(errors, "error") + (f", {counted(others, 'warning')}" if others else "")
