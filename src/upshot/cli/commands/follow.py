"""`upshot follow`: the rows of a served view, then the changes of each commit."""

from __future__ import annotations

import json
import queue
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from upshot.cli.output.changes import commit_to_json
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK
from upshot.client import Change, Client, Copy
from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.errors import Error
from upshot.core.rows import Rows, row_set
from upshot.core.schema import Schema
from upshot.database.changes import Changes

_WAITING = 1_000
"""Changes that wait to be printed. When the queue is full, nothing is read and the service ends the connection; the
client resumes later."""
_POLL = 0.5
"""Seconds between two checks whether the copy has ended."""


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """A connection to a service and a copy of one of its views."""

    where: Annotated[
        str | None,
        typer.Option("--where", metavar="LITERAL", help="Follow only rows that match, as in 'closure(1, Y)'."),
    ] = None
    since: Annotated[
        int | None,
        typer.Option("--since", min=0, metavar="VERSION", help="Start after this version, without a snapshot."),
    ] = None
    every: Annotated[
        float | None, typer.Option("--every", metavar="SECONDS", help="Print at most one net change per interval.")
    ] = None
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", help="Save the copy to this file and resume from it.")
    ] = None
    once: Annotated[bool, typer.Option("--once", help="Print the current rows and exit.")] = False
    ca: Annotated[Path | None, typer.Option("--ca", metavar="FILE", help="Trusted CA certificates, PEM.")] = None
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow the token to be sent without TLS.")] = False


def follow(
    terminal: Terminal,
    url: Annotated[
        str, typer.Argument(metavar="URL", show_default=False, help="The URL of a service started by `upshot serve`.")
    ],
    view: Annotated[str, typer.Argument(metavar="VIEW", show_default=False, help="The relation or view to follow.")],
    options: FollowOptions,
) -> int:
    """Print one line with the current rows, then one for each change, until interrupted. With `once` only the first."""
    with Client(url, ca=options.ca, insecure=options.insecure) as client:
        if options.once:
            terminal.data(_now(client, view, options.where, options.since))
        else:
            _follow(terminal, client, view, options)
    return OK


def _now(client: Client, view: str, where: str | None, since: int | None) -> str:
    if since is not None:
        version, inserted, deleted = client.changes(view, since, where)
        return _line(view, Change(version, row_set(inserted), row_set(deleted)))
    rows = client.rows(view, where)
    return _line(view, Change(rows.version, row_set(rows), frozenset(), snapshot=True))


def _follow(terminal: Terminal, client: Client, view: str, options: FollowOptions) -> None:
    arguments: dict[str, Any] = {name: getattr(options, name) for name in ("where", "since", "every", "state")}
    waiting: queue.Queue[Change] = queue.Queue(_WAITING)
    leaving = threading.Event()

    def enqueue(change: Change) -> None:
        while not leaving.is_set():
            try:
                waiting.put(change, timeout=_POLL)
            except queue.Full:
                continue
            return

    def trouble(error: Error) -> None:
        note = Diagnostic(error.code, error.message, help="the client reconnects automatically", severity=Severity.NOTE)
        terminal.report([note])

    try:
        with client.follow(view, on_change=enqueue, on_trouble=trouble, **arguments) as copy:
            try:
                _print_all(terminal, copy, waiting)
            finally:
                leaving.set()
    finally:
        leaving.set()


def _print_all(terminal: Terminal, copy: Copy, waiting: queue.Queue[Change]) -> None:
    """Print changes until an exception: an interruption, a closed pipe, or the error that ended the copy."""
    while True:
        try:
            change = waiting.get(timeout=_POLL)
        except queue.Empty:
            if not copy.is_open:
                copy.wait(copy.version + 1)
            continue
        terminal.data(_line(copy.view, change))
        terminal.out.flush()


def _line(view: str, change: Change) -> str:
    """The line of a commit, as `upshot watch` prints it. Snapshots and differences between snapshots are marked."""
    marks = ', "snapshot": true' * change.snapshot + ', "renewed": true' * change.renewed
    marks += f', "reason": {json.dumps(change.reason)}' if change.reason else ""
    changes = Changes(*(Rows.of(Schema(view, ()), list(rows)) for rows in (change.inserted, change.deleted)))
    return commit_to_json(change.version, [(view, changes)])[:-1] + marks + "}"
