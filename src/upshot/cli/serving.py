"""The options of `upshot serve` and `upshot token`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from upshot.cli.outcome import finish
from upshot.cli.settings import Engine, Format
from upshot.cli.terminal import Terminal

_Engine = Annotated[Engine, typer.Option("--engine", help="Where the work is done; a service works in its process.")]
_Format = Annotated[Format, typer.Option("--format", help="How results and errors are printed.")]
_Tokens = Annotated[
    Path | None, typer.Option("--tokens", metavar="FILE", help="Who may read and change what; see `upshot token`.")
]


def serve(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="The program; - reads standard input.")
    ],
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="Where commits are kept [default: in memory only].")
    ] = None,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="0 takes any that is free.")] = 8000,
    tokens: _Tokens = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificates, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The key, PEM.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this machine without tokens or TLS.")
    ] = False,
    files: Annotated[
        Path | None, typer.Option("--files", metavar="DIR", help="The only folder that .input may read.")
    ] = None,
    actions: Annotated[
        Path | None,
        typer.Option("--actions", metavar="FILE", help="A Python file; rules call its public functions by name."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A name the server is called by; repeatable."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin", metavar="ORIGIN", help="Another origin whose pages may use a session; repeatable."
        ),
    ] = None,
    webhook_allow: Annotated[
        list[str] | None, typer.Option("--webhook-allow", metavar="HOST", help="A host webhooks may go to; repeatable.")
    ] = None,
    webhook_insecure: Annotated[
        bool, typer.Option("--webhook-insecure", help="Webhooks may use http and private addresses.")
    ] = False,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="AMOUNT", help="How much of the past is kept [default: all].")
    ] = None,
    max_body: Annotated[int, typer.Option("--max-body", min=1, help="Bytes of a request.")] = 8 << 20,
    max_rows: Annotated[int, typer.Option("--max-rows", min=1, help="Rows of an answer or page.")] = 100_000,
    max_seconds: Annotated[float, typer.Option("--max-seconds", min=0.01, help="Time for an answer.")] = 10.0,
    max_queue: Annotated[int, typer.Option("--max-queue", min=1, help="Transactions that may wait.")] = 1_000,
    max_subscribers: Annotated[int, typer.Option("--max-subscribers", min=1, help="Clients that may follow.")] = 10_000,
    engine: _Engine = Engine.AUTO,
    format: _Format = Format.TEXT,
) -> None:
    """Serve a program's views over HTTP: transactions in, exact changes out to whoever follows."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.serve import Options, serve

        bounds = {
            "body": max_body,
            "rows": max_rows,
            "seconds": max_seconds,
            "queue": max_queue,
            "subscribers": max_subscribers,
        }
        options = Options(
            file, store, host, port, tokens, tls_cert, tls_key, insecure, files, actions, tuple(allow_host or ()),
            tuple(allow_origin or ()), tuple(webhook_allow or ()), webhook_insecure, keep, engine, bounds,
        )  # fmt: skip
        return serve(terminal, options)

    finish(body, format)


def token(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="What logs call its holder.")],
    tokens: Annotated[
        Path, typer.Option("--tokens", metavar="FILE", show_default=False, help="The file that gets its hash.")
    ],
    read: Annotated[
        list[str] | None,
        typer.Option(
            "--read", metavar="NAME", help="A relation, view, constraint or rule it may read, or *; repeatable."
        ),
    ] = None,
    write: Annotated[
        list[str] | None, typer.Option("--write", metavar="NAME", help="A relation it may change, or *; repeatable.")
    ] = None,
    subscribe: Annotated[
        bool, typer.Option("--subscribe/--no-subscribe", help="Whether it may follow what it may read.")
    ] = True,
    admin: Annotated[
        bool, typer.Option("--admin", help="Whether it sees notes of commits and others' webhooks.")
    ] = False,
    engine: _Engine = Engine.AUTO,
    format: _Format = Format.TEXT,
) -> None:
    """Make a token for `upshot serve`: printed once, kept as a hash only."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.token import token

        return token(terminal, name, tokens, read or [], write or [], subscribe=subscribe, admin=admin)

    finish(body, format)
