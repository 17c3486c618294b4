"""`upshot explain`: how views are kept up to date and when rules fire, as text, as data, as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from upshot.cli.input.programs import known_view, parse_file
from upshot.cli.options import DatabaseOptions
from upshot.cli.output.terminal import STDOUT, Terminal, draw
from upshot.cli.session import opened, unstored_in_run
from upshot.cli.settings import OK


def explain(
    terminal: Terminal,
    source: DatabaseOptions,
    view: Annotated[
        str | None, typer.Option("--view", "-v", metavar="VIEW", help="Explain only this view or active rule.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print the rules and plans of every view.")] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the dependency graph as SVG; - prints it.")
    ] = None,
) -> int:
    """Print a summary, or the details of one view or, with `full`, of all. Sizes and join orders are those of the
    loaded facts."""
    with opened(terminal, source, goal_directed=True) as database:
        explanation = database.explain(known_view(database.schemas, view, database.rules))
    unstored = unstored_in_run(parse_file(source.file)) if source.file.is_file() else {}
    unstored = {part.name: unstored[part.name] for part in explanation.parts if part.name in unstored}
    if svg is not None:
        draw(terminal, svg, explanation.svg())
    if svg == STDOUT:
        return OK
    if terminal.json:
        terminal.data(json.dumps(explanation.as_dict() | {"run": unstored}, ensure_ascii=False, default=str))
    elif svg is None:
        lines = [f"`upshot run` does not store {name}: {reason}" for name, reason in unstored.items()]
        is_summary = view is None and not full
        text = explanation.summary() if is_summary else str(explanation)
        terminal.data("\n".join([text.rstrip("\n"), *lines]))
        if is_summary and explanation.parts:
            terminal.message("`--view VIEW` prints the rules and plans of one view, `--full` those of all")
    return OK
