"""`upshot why`, `why-not` and `why-changed`: the derivation of a row, the reasons why a row is missing, the derivation
that it gained or lost in a commit; as text, JSON or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from upshot.cli.engines import connected
from upshot.cli.input.files import existing_store
from upshot.cli.input.rows import parse_row
from upshot.cli.options import DatabaseOptions, EngineOption, FactText, Instances, Picture, StoreDir, WhyNotOptions
from upshot.cli.output.terminal import STDOUT, Terminal, draw
from upshot.cli.session import opened
from upshot.cli.settings import OK, EngineName
from upshot.database.database import Database
from upshot.reasons.changed import RowChange
from upshot.reasons.derivation import Derivation, pictures
from upshot.reasons.failure import Failure


def why(
    terminal: Terminal,
    source: DatabaseOptions,
    row: FactText,
    every: Annotated[bool, typer.Option("--all", help="Print all derivations, the smallest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Print at most N derivations.")] = 1,
    bounds: Instances = None,
    svg: Picture = None,
) -> int:
    """The derivations come smallest first. A picture has them one below the other."""
    with opened(terminal, source) as database:
        print_why(terminal, database, row, limit=None if every else limit, bounds=bounds, svg=svg)
    return OK


def print_why(
    terminal: Terminal,
    database: Database,
    fact: str,
    *,
    limit: int | None = 1,
    bounds: int | None = None,
    svg: Path | None = None,
) -> None:
    """Print or draw the derivations of a row, at most `limit`, among at most `bounds` rule instances."""
    relation, row = parse_row(fact, database)
    drawn: list[Derivation] = []
    for number, tree in enumerate(database.why(relation, row, limit=limit, bounds=bounds)):
        if svg is None or (terminal.json and svg != STDOUT):
            _print(terminal, tree, "\n" * bool(number))
        drawn += [tree] * (svg is not None)
    if svg is not None:
        draw(terminal, svg, pictures(drawn))


def why_not(
    terminal: Terminal, source: DatabaseOptions, row: FactText, options: WhyNotOptions, svg: Picture = None
) -> int:
    """Missing premises in views are explained to the given depth; changes that insert the row come last."""
    with opened(terminal, source) as database:
        print_why_not(terminal, database, row, options, svg)
    return OK


def print_why_not(
    terminal: Terminal, database: Database, fact: str, options: WhyNotOptions, svg: Path | None = None
) -> None:
    """Print or draw why a row is missing."""
    relation, row = parse_row(fact, database)
    answer = database.why_not(relation, row, depth=options.depth, bounds=options.bounds)
    _print_or_draw(terminal, answer.with_fixes(options.fixes, options.seconds), svg)


def why_changed(
    terminal: Terminal,
    store: StoreDir,
    row: FactText,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", min=1, help="The version of the commit [default: the last].")
    ] = None,
    bounds: Instances = None,
    svg: Picture = None,
    engine: EngineOption = EngineName.AUTO,
) -> int:
    """Explain the effect of a commit on a row; by default of the last commit."""
    with connected(terminal, engine, existing_store(store, "DIR")) as database:
        relation, values = parse_row(row, database)
        _print_or_draw(terminal, database.why_changed(relation, values, version, bounds=bounds), svg)
    return OK


def _print_or_draw(terminal: Terminal, tree: Failure | RowChange, svg: Path | None) -> None:
    if svg is not None:
        draw(terminal, svg, tree.svg())
    if svg is None or (terminal.json and svg != STDOUT):
        _print(terminal, tree)


def _print(terminal: Terminal, tree: Derivation | Failure | RowChange, before: str = "") -> None:
    terminal.data(tree.json() if terminal.json else before + tree.text())
    terminal.out.flush()
