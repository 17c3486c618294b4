"""The arguments and options that many commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from upshot.cli.settings import Engine, Format

ProgramFile = Annotated[
    Path, typer.Argument(metavar="FILE", show_default=False, help="The program; - reads standard input.")
]
FactDir = Annotated[
    Path | None,
    typer.Option("--fact-dir", "-F", metavar="DIR", help="Where the files of .input relations are [default: .]."),
]
ChangeFile = Annotated[
    Path,
    typer.Option(
        "--changes", "-c", metavar="FILE", help="Transactions, one JSON object a line; - reads standard input."
    ),
]
ViewName = Annotated[str | None, typer.Option("--view", "-v", metavar="VIEW", help="Only this view.")]
ActionFile = Annotated[
    Path | None,
    typer.Option("--actions", metavar="FILE", help="A Python file; rules call its public functions by name."),
]
EngineOption = Annotated[Engine, typer.Option("--engine", help="Where the work is done; auto is local but for demo.")]
FormatOption = Annotated[Format, typer.Option("--format", help="How results and errors are printed.")]
DatabaseFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", show_default=False, help="The program, - for standard input; or the folder of a database."
    ),
]
