"""`upshot models`: the perfect models of a program with alternatives in heads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import typer

from upshot.cli.options import ActionFile, DatabaseOptions, FactDir, ProgramFile
from upshot.cli.output.terminal import Terminal
from upshot.cli.session import opened
from upshot.cli.settings import OK, EngineName
from upshot.core.errors import counted
from upshot.core.fact_text import fact
from upshot.core.json_values import rows_to_json
from upshot.core.rows import Rows


def models(
    terminal: Terminal,
    file: ProgramFile,
    fact_dir: FactDir = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=0, help="Print at most N models; 0 prints all.")
    ] = 10,
    functions: ActionFile = None,
) -> int:
    """Print models, then the facts of all models and those of at least one."""
    with opened(terminal, DatabaseOptions(file, fact_dir, functions, EngineName.LOCAL)) as database:
        found = database.models(limit=limit or None)
    if terminal.json:
        fields = {
            "models": [_json(each) for each in found],
            "complete": found.complete,
            "cautious": _json(found.cautious),
            "brave": _json(found.brave),
        }
        terminal.data(json.dumps(fields))
        return OK
    for number, model in enumerate(found, start=1):
        terminal.data(f"model {number}: {_text(model)}")
    terminal.data(f"in all models: {_text(found.cautious)}")
    terminal.data(f"in some model: {_text(found.brave)}")
    terminal.message(counted(len(found), "model") + ("" if found.complete else "; there are more"))
    return OK


def _json(model: Mapping[str, Rows]) -> dict[str, object]:
    return {name: json.loads(rows_to_json(rows)) for name, rows in model.items() if len(rows)}


def _text(model: Mapping[str, Rows]) -> str:
    return ", ".join(fact(rows.schema, row) for rows in model.values() for row in rows) or "nothing"
