"""`upshot export`: a program as a script for another database system."""

from __future__ import annotations

import json
from pathlib import Path

from upshot.cli.input.programs import checked_file
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK, ExportTarget
from upshot.core.errors import UsageError
from upshot.export.postgres import postgres_script

_LONGEST_SCHEMA = 40


def export(terminal: Terminal, target: ExportTarget, file: Path, schema: str) -> int:
    """Print the script, or give it as JSON."""
    if not 0 < len(schema.encode()) <= _LONGEST_SCHEMA or "\0" in schema:
        hint = f"use 1 to {_LONGEST_SCHEMA} characters"
        raise UsageError(f"`{schema}` cannot be the name of a schema", code="wrong-argument", help=hint)
    script = postgres_script(checked_file(terminal, file), schema)
    terminal.data(json.dumps({"target": target.value, "script": script}) if terminal.json else script.rstrip("\n"))
    return OK
