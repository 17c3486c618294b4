"""`upshot repl`: an interactive session with prompt, history and completion, or statements from a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from upshot.cli.engines import connected
from upshot.cli.input.files import existing_store
from upshot.cli.options import ActionFile, EngineOption, FactDir
from upshot.cli.output.changes import code_of_failures
from upshot.cli.output.terminal import Terminal
from upshot.cli.repl.session import Quit, ReplSession
from upshot.cli.repl.statements import Input
from upshot.cli.session import register_actions
from upshot.cli.settings import OK, EngineName
from upshot.values.aggregates import AGGREGATES
from upshot.values.conditions import TESTS
from upshot.values.functions import FUNCTIONS

try:
    import readline as _readline
except ImportError:
    readline: ModuleType | None = None
else:
    readline = _readline

_PROMPT, _MORE = "upshot> ", "   ...> "
_HISTORY_LENGTH = 2000


def repl(
    terminal: Terminal,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE|DIR", show_default=False, help="A program to load first, or a database directory."
        ),
    ] = None,
    fact_dir: FactDir = None,
    actions: ActionFile = None,
    engine: EngineOption = EngineName.AUTO,
) -> int:
    """Run until `:quit` or the end of input. Errors are reported and the session continues; only a script gets an exit
    code for them."""
    store = existing_store(file, "DIR") if file is not None and file.is_dir() else None
    with connected(terminal, engine, store) as database:
        register_actions(database, actions)
        return _session(terminal, ReplSession(terminal, fact_dir, database), file if store is None else None)


def _session(terminal: Terminal, session: ReplSession, file: Path | None) -> int:
    if file is not None:
        session.load(file)
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    try:
        if interactive:
            with _line_editing(session):
                _converse(terminal, session)
        else:
            _read(session)
    except Quit:
        pass
    return OK if interactive else session.code or code_of_failures(session.database)


def _read(session: ReplSession) -> None:
    lines = Input()
    for line in sys.stdin:
        for statement in lines.feed(line.rstrip("\n")):
            session.execute(statement)
    for statement in lines.finish():
        session.execute(statement)


def _converse(terminal: Terminal, session: ReplSession) -> None:
    terminal.message("Type rules, +facts, -facts, ? queries or SQL. :help lists commands, :quit exits.")
    lines = Input()
    while True:
        try:
            line = input(_MORE if lines.waiting else _PROMPT)
        except EOFError:
            terminal.message("")
            for statement in lines.finish():
                session.execute(statement)
            return
        except KeyboardInterrupt:
            lines.clear()
            terminal.message("")
            continue
        for statement in lines.feed(line):
            try:
                session.execute(statement)
            except KeyboardInterrupt:
                terminal.message("interrupted; nothing was changed")


@contextmanager
def _line_editing(session: ReplSession) -> Iterator[None]:
    """Set up the saved history, and completion of commands, relations and built-ins."""
    if readline is None:
        yield
        return
    history = _history_file()
    with suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LENGTH)
    readline.set_completer(Completer(session))
    readline.set_completer_delims(" \t\n(),.;!?+")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)


def _history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "upshot" / "history"


class Completer:
    def __init__(self, session: ReplSession) -> None:
        self._session = session

    def __call__(self, text: str, state: int) -> str | None:
        words = [
            *(f":{name}" for name in self._session.commands),
            *self._session.database.schemas,
            *self._session.database.rules,
            *(name for name in (*FUNCTIONS, *TESTS, *AGGREGATES) if name.isidentifier()),
        ]
        # A minus is the sign of a row, or part of the name of a command.
        sign = "-" * text.startswith("-")
        matching = [word for word in words if word.startswith(text.removeprefix(sign))]
        return sign + matching[state] if state < len(matching) else None
