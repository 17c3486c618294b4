"""`upshot run`: evaluate a program on fact files, as Soufflé does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from upshot.cli.input.files import shown_name
from upshot.cli.options import DatabaseOptions
from upshot.cli.output.changes import code_of_failures
from upshot.cli.output.terminal import Terminal
from upshot.cli.session import opened
from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.errors import UsageError
from upshot.core.json_values import rows_to_json
from upshot.core.rows import Rows
from upshot.database.database import Database
from upshot.database.files.souffle_options import FileOptions, file_options
from upshot.database.files.souffle_writer import block, refuse_unwritable, size_line, write_rows

_STDOUT = Path("-")


def run(
    terminal: Terminal,
    source: DatabaseOptions,
    output_dir: Annotated[
        Path,
        typer.Option("--output-dir", "-D", metavar="DIR", help="Directory for .output relations; - prints them."),
    ] = Path("."),
) -> int:
    """Results come in the order of the program's `.output` and `.printsize` directives."""
    if output_dir != _STDOUT and output_dir.exists() and not output_dir.is_dir():
        raise UsageError(f"`{output_dir}` is a file, not a directory", code="not-a-directory", help="check `-D`")
    with opened(terminal, source, facts_required=True, goal_directed=True) as database:
        outputs = _write(terminal, database, output_dir)
        code = code_of_failures(database)
    if not outputs:
        terminal.report([_no_output(source.file)])
    return code


def _write(terminal: Terminal, database: Database, output_dir: Path) -> list[FileOptions]:
    """Write the outputs of the program; return their options."""
    outputs = [file_options(item, output_dir) for item in database.directives if item.kind != "input"]
    if output_dir != _STDOUT:
        # Write no file if one of them could not be read back.
        for options in outputs:
            if options.device == "file":
                refuse_unwritable(database.rows(options.relation), options)
    for options in outputs:
        rows = database.rows(options.relation)
        if options.device == "stdoutprintsize":
            _print_size(terminal, options.relation, len(rows))
        elif options.device == "stdout" or output_dir == _STDOUT:
            _print(terminal, rows, options)
        else:
            with terminal.progress(f"writing {options.path}"):
                write_rows(rows, options)
    return outputs


def _print(terminal: Terminal, rows: Rows, options: FileOptions) -> None:
    if terminal.json:
        name, columns = json.dumps(rows.schema.name), json.dumps(rows.columns, ensure_ascii=False)
        terminal.data(f'{{"relation": {name}, "columns": {columns}, "rows": {rows_to_json(rows.sorted())}}}')
        return
    terminal.out.writelines(line + "\n" for line in block(rows, options))


def _print_size(terminal: Terminal, relation: str, size: int) -> None:
    terminal.data(json.dumps({"relation": relation, "size": size}) if terminal.json else size_line(relation, size))


def _no_output(file: Path) -> Diagnostic:
    return Diagnostic(
        "no-output",
        f"`{shown_name(file)}` has no output",
        help="add `.output r` or `.printsize r` for a relation `r`",
        severity=Severity.WARNING,
    )
