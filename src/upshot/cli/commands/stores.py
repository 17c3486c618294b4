"""`upshot init`, `backup` and `accept-loss`: create, copy and recover a database directory."""

from __future__ import annotations

import json
from pathlib import Path

from upshot.cli.input.files import read_program
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK
from upshot.core.errors import UsageError
from upshot.database.connect import connect
from upshot.store import accept_loss as accept
from upshot.store import back_up_from_outside


def init(terminal: Terminal, directory: Path, program: Path | None) -> int:
    """The directory is made, and the program defined in it if one is named; an error leaves no directory behind."""
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
        terminal.data(f"{directory}: version {version}, {len(relations)} relation{'s' * (len(relations) != 1)}")
        terminal.message(f"next: upshot repl {directory}, or upshot query {directory} QUERY")
    return OK


def backup(terminal: Terminal, store: Path, target: Path) -> int:
    """Copies the store as it is after one commit."""
    with terminal.progress(f"copying {store}"):
        version = back_up_from_outside(store, target)
    if terminal.json:
        terminal.data(json.dumps({"ok": True, "version": version, "target": str(target)}))
    else:
        terminal.data(f"ok: copied version {version} to {target}")
    return OK


def accept_loss(terminal: Terminal, store: Path) -> int:
    """Makes the last version that can be read the last one of the store."""
    with terminal.progress(f"reading {store}"):
        version, lost = accept(store)
    if terminal.json:
        terminal.data(json.dumps({"ok": True, "version": version, "lost": lost - version}))
    elif lost > version:
        terminal.data(f"ok: the store is at version {version}; versions up to {lost} are lost")
    else:
        terminal.data(f"ok: the store is at version {version}; no version is lost")
    return OK
