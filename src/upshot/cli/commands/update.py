"""`upshot update`: the base changes that would bring about a request to views."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from upshot.cli.output.terminal import Terminal
from upshot.cli.realizations import Wishes, database_of, signed_rows, tell
from upshot.cli.settings import Engine


def update(
    terminal: Terminal,
    file: Path,
    request: Sequence[str],
    fact_dir: Path | None,
    wishes: Wishes,
    actions: Path | None,
    engine: Engine,
) -> int:
    """Each realisation with its effects, the cheapest first. A folder is that of a database."""
    wishes.refuse_to_apply(file)
    with database_of(terminal, file, fact_dir, actions, engine) as database:
        found = database.realize(
            signed_rows(request, "+", database),
            signed_rows(request, "-", database),
            **wishes.options(),
        )
        return tell(terminal, database, found, wishes)
