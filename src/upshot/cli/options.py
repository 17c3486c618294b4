"""The arguments and options that many commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from upshot.cli.settings import EngineName, Format

ProgramFile = Annotated[
    Path, typer.Argument(metavar="FILE", show_default=False, help="The program; - reads standard input.")
]
FactDir = Annotated[
    Path | None,
    typer.Option("--fact-dir", "-F", metavar="DIR", help="Directory of the .input fact files [default: .]."),
]
ChangeFile = Annotated[
    Path,
    typer.Option(
        "--changes", "-c", metavar="FILE", help="Transactions, one JSON object per line; - reads standard input."
    ),
]
ViewName = Annotated[
    str | None, typer.Option("--view", "-v", metavar="VIEW", help="Print only the rules of this view.")
]
ActionFile = Annotated[
    Path | None,
    typer.Option(
        "--functions",
        "--actions",
        metavar="FILE",
        help="Python file with the functions that rules call, as `@f(…)` or in actions.",
    ),
]
EngineOption = Annotated[EngineName, typer.Option("--engine", help="The engine; auto is local, except for demo.")]
IgnoredEngine = Annotated[EngineName, typer.Option("--engine", help="Has no effect: this command runs no engine.")]
FormatOption = Annotated[Format, typer.Option("--format", help="Output format of results and errors.")]
DatabaseFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", show_default=False, help="The program (- for standard input) or a database directory."
    ),
]
