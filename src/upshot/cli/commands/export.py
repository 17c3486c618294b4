"""`upshot export`: a program as a script for another database system."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from upshot.cli.input.programs import checked_file
from upshot.cli.options import ProgramFile
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK, ExportTarget
from upshot.core.errors import UsageError
from upshot.export.postgres import postgres_script

_LONGEST_SCHEMA = 40


def export(
    terminal: Terminal,
    target: Annotated[
        ExportTarget, typer.Argument(metavar="TARGET", show_default=False, help="The target system: postgres.")
    ],
    file: ProgramFile,
    schema: Annotated[
        str,
        typer.Option(
            "--schema", metavar="NAME", help="The schema of the tables. NAME_changes and NAME_internal are created too."
        ),
    ] = "upshot",
) -> int:
    """Print the script, as text or in a JSON object."""
    if not 0 < len(schema.encode()) <= _LONGEST_SCHEMA or "\0" in schema:
        hint = f"use 1 to {_LONGEST_SCHEMA} characters"
        raise UsageError(f"`{schema}` cannot be the name of a schema", code="wrong-argument", help=hint)
    script = postgres_script(checked_file(terminal, file), schema)
    terminal.data(json.dumps({"target": target.value, "script": script}) if terminal.json else script.rstrip("\n"))
    return OK
