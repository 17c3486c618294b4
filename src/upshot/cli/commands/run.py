"""`upshot run`: a Soufflé program over Soufflé's files."""

from __future__ import annotations

import json
from pathlib import Path

from upshot.cli.file_options import FileOptions, file_options
from upshot.cli.result_files import block, write_file
from upshot.cli.session import Session, open_session
from upshot.cli.settings import OK
from upshot.cli.terminal import Terminal
from upshot.cli.values import rows_to_json
from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.errors import UsageError
from upshot.core.rows import Rows
from upshot.syntax.ast import Directive

_STDOUT = Path("-")


def run(terminal: Terminal, file: Path, fact_dir: Path | None, output_dir: Path) -> int:
    """Results come in the order of the program's `.output` and `.printsize` directives."""
    if output_dir != _STDOUT and output_dir.exists() and not output_dir.is_dir():
        raise UsageError(f"`{output_dir}` is a file, not a directory", code="not-a-directory", help="check `-D`")
    session = open_session(terminal, file, fact_dir, facts_required=True)
    wanted = [item for item in session.directives if item.kind in ("output", "printsize")]
    for item in wanted:
        if item.kind == "printsize":
            _print_size(terminal, item.relation, len(session.database.rows(item.relation)))
        else:
            _output(terminal, session, item, output_dir)
    if not wanted:
        terminal.report([_nothing_asked(file)])
    return OK


def _output(terminal: Terminal, session: Session, item: Directive, output_dir: Path) -> None:
    options, warnings = file_options(item, output_dir)
    terminal.report(warnings)
    rows = session.database.rows(item.relation)
    if options.standard or output_dir == _STDOUT:
        _print(terminal, rows, options)
        return
    with terminal.progress(f"writing {options.path}"):
        ambiguous = write_file(rows.schema, rows.sorted(), options)
    if ambiguous is not None:
        terminal.report([_ambiguous(item, options, ambiguous)])


def _print(terminal: Terminal, rows: Rows, options: FileOptions) -> None:
    name = rows.schema.name
    if terminal.json:
        columns = json.dumps([column.name for column in rows.schema.columns], ensure_ascii=False)
        terminal.data(
            f'{{"relation": {json.dumps(name)}, "columns": {columns}, "rows": {rows_to_json(rows.sorted())}}}'
        )
        return
    for line in block(rows.schema, rows.sorted(), options):
        terminal.data(line)


def _print_size(terminal: Terminal, relation: str, size: int) -> None:
    if terminal.json:
        terminal.data(json.dumps({"relation": relation, "size": size}))
    else:
        terminal.data(f"{relation}\t{size}")


def _nothing_asked(file: Path) -> Diagnostic:
    return Diagnostic(
        "no-output",
        f"`{file}` asks for no results",
        help="write `.output r` or `.printsize r` for a relation `r`",
        severity=Severity.WARNING,
    )


def _ambiguous(item: Directive, options: FileOptions, line: int) -> Diagnostic:
    return Diagnostic(
        "ambiguous-text",
        f"`{options.path}` line {line}: text with a delimiter or a line end in it does not read back as it was",
        item.span,
        help=f"write `.output {item.relation}(rfc4180=true)` for quoted fields",
        severity=Severity.WARNING,
    )
