"""`upshot why`, `why-not` and `why-changed`: how a row is derived, how near rules come to it, what it gained or lost;
as text, data, a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upshot.cli.engines import connected
from upshot.cli.input.files import existing_store
from upshot.cli.input.transactions import asked_row
from upshot.cli.options import DatabaseOptions, WhyNotOptions
from upshot.cli.output.terminal import STDOUT, Terminal, draw
from upshot.cli.session import opened
from upshot.cli.settings import OK
from upshot.database.database import Database
from upshot.reasons.changed import RowChange
from upshot.reasons.derivation import Derivation, pictures
from upshot.reasons.failure import Failure


@dataclass(frozen=True, slots=True)
class WhyOptions:
    """A row, how many of its derivations, all if nothing is said, and how many rule instances are looked at."""

    fact: str
    limit: int | None
    bounds: int | None


def why(terminal: Terminal, source: DatabaseOptions, asked: WhyOptions, svg: Path | None) -> int:
    """The derivations, the smallest first. A picture has them one below the other."""
    with opened(terminal, source) as database:
        print_why(terminal, database, asked, svg)
    return OK


def print_why(terminal: Terminal, database: Database, asked: WhyOptions, svg: Path | None = None) -> None:
    """Print or draw the derivations of a row."""
    relation, row = asked_row(asked.fact, database)
    drawn: list[Derivation] = []
    for number, tree in enumerate(database.why(relation, row, limit=asked.limit, bounds=asked.bounds)):
        if svg is None or (terminal.json and svg != STDOUT):
            _print(terminal, tree, "\n" * bool(number))
        drawn += [tree] * (svg is not None)
    if svg is not None:
        draw(terminal, svg, pictures(drawn))


def why_not(terminal: Terminal, source: DatabaseOptions, fact: str, showing: WhyNotOptions, svg: Path | None) -> int:
    """Absent premises in views are explained to the given depth; changes that would insert the row come last."""
    with opened(terminal, source) as database:
        print_why_not(terminal, database, fact, showing, svg)
    return OK


def print_why_not(
    terminal: Terminal, database: Database, fact: str, showing: WhyNotOptions, svg: Path | None = None
) -> None:
    """Print or draw why a row is missing."""
    relation, row = asked_row(fact, database)
    answer = database.why_not(relation, row, depth=showing.depth, bounds=showing.bounds)
    _tell(terminal, answer.told(showing.fixes, showing.seconds), svg)


def why_changed(
    terminal: Terminal, store: DatabaseOptions, fact: str, version: int | None, bounds: int | None, svg: Path | None
) -> int:
    """Explain the effect of a commit on a row; by default of the last commit."""
    with connected(terminal, store.engine, existing_store(store.file, "DIR")) as database:
        relation, row = asked_row(fact, database)
        _tell(terminal, database.why_changed(relation, row, version, bounds=bounds), svg)
    return OK


def _tell(terminal: Terminal, tree: Failure | RowChange, svg: Path | None) -> None:
    if svg is not None:
        draw(terminal, svg, tree.svg())
    if svg is None or (terminal.json and svg != STDOUT):
        _print(terminal, tree)


def _print(terminal: Terminal, tree: Derivation | Failure | RowChange, before: str = "") -> None:
    terminal.data(tree.json() if terminal.json else before + tree.text())
    terminal.out.flush()
