"""The options of `upshot serve` and `upshot token`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from upshot.cli.output.outcome import finish
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import Engine, Format


def _option(*names: str, **facts: Any) -> Any:
    return typer.Option(*names, **facts)


_Engine = Annotated[Engine, _option("--engine", help="Where the work is done.")]
_Format = Annotated[Format, _option("--format", help="How results and errors are printed.")]
_Program = Annotated[
    Path, typer.Argument(metavar="FILE", show_default=False, help="The program; - reads standard input.")
]
_Store = Annotated[Path | None, _option("--store", metavar="DIR", help="Where commits are kept [default: memory].")]
_Host = Annotated[str, _option("--host", metavar="ADDRESS", help="The address to listen on.")]
_Port = Annotated[int, _option("--port", "-p", min=0, max=65535, help="0 takes any that is free.")]
_Tokens = Annotated[Path | None, _option("--tokens", metavar="FILE", help="Who may read and change what.")]
_Certificate = Annotated[Path | None, _option("--tls-cert", metavar="FILE", help="Certificates, PEM.")]
_Key = Annotated[Path | None, _option("--tls-key", metavar="FILE", help="The key, PEM.")]
_Insecure = Annotated[bool, _option("--insecure", help="Listen beyond this machine without tokens or TLS.")]
_Files = Annotated[Path | None, _option("--files", metavar="DIR", help="The only folder that .input may read.")]
_Actions = Annotated[
    Path | None, _option("--actions", metavar="FILE", help="A Python file; rules call its public functions by name.")
]
_Hosts = Annotated[
    list[str] | None, _option("--allow-host", metavar="NAME", help="A name the server is called by; repeatable.")
]
_Origins = Annotated[
    list[str] | None,
    _option("--allow-origin", metavar="ORIGIN", help="Another origin whose pages may use a session; repeatable."),
]
_Webhooks = Annotated[
    list[str] | None, _option("--webhook-allow", metavar="HOST", help="A host webhooks may go to; repeatable.")
]
_InsecureWebhooks = Annotated[bool, _option("--webhook-insecure", help="Webhooks may use http and private addresses.")]
_Keep = Annotated[
    str | None, _option("--keep", metavar="AMOUNT", help="How much of the past is kept: commits, or all.")
]
_MaxBody = Annotated[int, _option("--max-body", min=1, help="Bytes of a request.")]
_MaxRows = Annotated[int, _option("--max-rows", min=1, help="Rows of an answer or page.")]
_MaxSeconds = Annotated[float, _option("--max-seconds", min=0.01, help="Time for an answer.")]
_MaxQueue = Annotated[int, _option("--max-queue", min=1, help="Transactions that may wait.")]
_MaxSubscribers = Annotated[int, _option("--max-subscribers", min=1, help="Clients that may follow.")]


def serve(
    file: _Program,
    store: _Store = None,
    host: _Host = "127.0.0.1",
    port: _Port = 8000,
    tokens: _Tokens = None,
    tls_cert: _Certificate = None,
    tls_key: _Key = None,
    insecure: _Insecure = False,
    files: _Files = None,
    actions: _Actions = None,
    allow_host: _Hosts = None,
    allow_origin: _Origins = None,
    webhook_allow: _Webhooks = None,
    webhook_insecure: _InsecureWebhooks = False,
    keep: _Keep = None,
    max_body: _MaxBody = 8 << 20,
    max_rows: _MaxRows = 100_000,
    max_seconds: _MaxSeconds = 10.0,
    max_queue: _MaxQueue = 1_000,
    max_subscribers: _MaxSubscribers = 10_000,
    engine: _Engine = Engine.AUTO,
    format: _Format = Format.TEXT,
) -> None:
    """Serve a program's views over HTTP: transactions in, exact changes out to whoever follows."""
    bounds = {"body": max_body, "rows": max_rows, "seconds": max_seconds}
    bounds |= {"queue": max_queue, "subscribers": max_subscribers}

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.serve import Options, serve

        options = Options(
            file, store, host, port, tokens, tls_cert, tls_key, insecure, files, actions, tuple(allow_host or ()),
            tuple(allow_origin or ()), tuple(webhook_allow or ()), webhook_insecure, keep, engine, bounds,
        )  # fmt: skip
        return serve(terminal, options)

    finish(body, format)


_Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="What logs call its holder.")]
_File = Annotated[Path, _option("--tokens", metavar="FILE", show_default=False, help="The file that gets its hash.")]
_Read = Annotated[
    list[str] | None,
    _option("--read", metavar="NAMES", help="Relations, views, constraints and rules it may read, or *; repeatable."),
]
_Write = Annotated[
    list[str] | None, _option("--write", metavar="NAMES", help="Relations it may change, or *; repeatable.")
]
_Subscribe = Annotated[bool, _option("--subscribe/--no-subscribe", help="Whether it may follow what it may read.")]
_Admin = Annotated[bool, _option("--admin", help="Whether it sees notes of commits and others' webhooks.")]


def token(
    name: _Name,
    tokens: _File,
    read: _Read = None,
    write: _Write = None,
    subscribe: _Subscribe = True,
    admin: _Admin = False,
    engine: _Engine = Engine.AUTO,
    format: _Format = Format.TEXT,
) -> None:
    """Make a token for `upshot serve`: printed once, kept as a hash only."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.token import token

        return token(terminal, name, tokens, read or [], write or [], subscribe=subscribe, admin=admin)

    finish(body, format)
