"""`upshot why` and `upshot why-not`: how a row is derived, or how near rules come to it, as text, data, a picture."""

from __future__ import annotations

from pathlib import Path

from upshot.cli.drawings import STDOUT, draw
from upshot.cli.rows import asked_row
from upshot.cli.session import opened
from upshot.cli.settings import OK, Engine
from upshot.cli.terminal import Terminal
from upshot.core.errors import UsageError
from upshot.reasons.derivation import Derivation
from upshot.reasons.failure import Failure


def why(
    terminal: Terminal,
    file: Path,
    fact: str,
    fact_dir: Path | None,
    limit: int | None,
    svg: Path | None,
    actions: Path | None,
    engine: Engine,
) -> int:
    """Without a `limit`, all derivations. A picture is drawn of one."""
    if svg is not None and limit != 1:
        message = "a picture shows one derivation"
        raise UsageError(message, code="options-conflict", help="leave out `--svg`, or `--all` and `--limit`")
    with opened(terminal, file, fact_dir, engine, actions=actions) as database:
        relation, row = asked_row(fact, database)
        for number, tree in enumerate(database.why(relation, row, limit=limit)):
            _tell(terminal, tree, svg, "\n" * bool(number))
    return OK


def why_not(
    terminal: Terminal,
    file: Path,
    fact: str,
    fact_dir: Path | None,
    depth: int,
    svg: Path | None,
    actions: Path | None,
    engine: Engine,
) -> int:
    """Rows of views that are missing are looked into as deep as told."""
    with opened(terminal, file, fact_dir, engine, actions=actions) as database:
        relation, row = asked_row(fact, database)
        _tell(terminal, database.why_not(relation, row, depth=depth), svg)
    return OK


def _tell(terminal: Terminal, tree: Derivation | Failure, svg: Path | None, before: str = "") -> None:
    if svg is not None:
        draw(terminal, svg, tree.svg())
    if terminal.json and svg != STDOUT:
        terminal.data(tree.json())
    elif svg is None:
        terminal.data(before + tree.text())
    terminal.out.flush()
