"""`upshot explain`: how views are kept up to date and when rules fire, as text, as data, as a picture."""

from __future__ import annotations

import json
from pathlib import Path

from upshot.cli.programs import known_view
from upshot.cli.session import opened
from upshot.cli.settings import OK, Engine
from upshot.cli.terminal import Terminal
from upshot.core.errors import UsageError

_STDOUT = Path("-")


def explain(
    terminal: Terminal,
    file: Path,
    fact_dir: Path | None,
    view: str | None,
    svg: Path | None,
    actions: Path | None,
    engine: Engine,
) -> int:
    """With `-F` sizes and join orders are those of the loaded facts."""
    with opened(terminal, file, fact_dir, engine, actions=actions) as database:
        explanation = database.explain(known_view(database.schemas, view, database.rules))
    if svg == _STDOUT:
        terminal.data(explanation.svg().rstrip("\n"))
        return OK
    if svg is not None:
        _write(svg, explanation.svg())
        terminal.message(f"drew {svg}")
    if terminal.json:
        terminal.data(json.dumps(explanation.as_dict(), ensure_ascii=False, default=str))
    elif svg is None:
        terminal.data(str(explanation).rstrip("\n"))
    return OK


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot write `{path}`: {reason}", code="cannot-write", help="check `--svg`") from None
