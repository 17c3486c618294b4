"""`upshot init`, `backup` and `accept-loss`: create, copy and recover a database directory; `warm`: compile kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from upshot.cli.input.files import read_program
from upshot.cli.options import StoreDir
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import ENGINE_FAILED, OK
from upshot.core.errors import UsageError, counted
from upshot.database.connect import connect
from upshot.engine.local.warm import main as compile_kernels
from upshot.store.backup import back_up_from_outside
from upshot.store.opening import accept_loss as accept


def init(
    terminal: Terminal,
    directory: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="A new or empty directory.")],
    program: Annotated[
        Path | None, typer.Option("--program", metavar="FILE", help="Define this program in the database.")
    ] = None,
) -> int:
    """Create the directory and define the program in it; an error leaves no directory behind."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        message = f"`{directory}` is not empty" if directory.is_dir() else f"`{directory}` is a file"
        raise UsageError(message, code="target-not-empty", help="name a new or empty directory")
    source = None if program is None else read_program(program)
    with connect() as trial:
        if source is not None:
            terminal.report(trial.define(source.text, name=source.name).warnings)
    with connect(directory) as database:
        if source is not None:
            database.define(source.text, name=source.name)
        version, relations = database.version, list(database.schemas)
    if terminal.json:
        terminal.data(json.dumps({"directory": str(directory), "version": version, "relations": relations}))
    else:
        terminal.data(f"{directory}: version {version}, {counted(len(relations), 'relation')}")
        terminal.message(f"next: upshot repl {directory}, or upshot query {directory} QUERY")
    return OK


def warm(terminal: Terminal) -> int:
    """Compile the kernels of the local engine."""
    return OK if compile_kernels() else ENGINE_FAILED


def backup(
    terminal: Terminal,
    store: StoreDir,
    target: Annotated[Path, typer.Argument(metavar="TARGET", show_default=False, help="A new or empty directory.")],
) -> int:
    """Copy the store as of one commit."""
    with terminal.progress(f"copying {store}"):
        version = back_up_from_outside(store, target)
    if terminal.json:
        terminal.data(json.dumps({"ok": True, "version": version, "target": str(target)}))
    else:
        terminal.data(f"ok: copied version {version} to {target}")
    return OK


def accept_loss(terminal: Terminal, store: StoreDir) -> int:
    """Make the last readable version the last one of the store."""
    with terminal.progress(f"reading {store}"):
        version, lost = accept(store)
    if terminal.json:
        terminal.data(json.dumps({"ok": True, "version": version, "lost": lost - version}))
    elif lost > version:
        terminal.data(f"ok: the store is at version {version}; versions up to {lost} are lost")
    else:
        terminal.data(f"ok: the store is at version {version}; no version is lost")
    return OK
