"""The options of `upshot serve` and `upshot token`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from upshot.cli.output.outcome import finish
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import EngineName, Format


def _option(*names: str, **facts: Any) -> Any:
    return typer.Option(*names, **facts)


_Engine = Annotated[EngineName, _option("--engine", help="The engine; auto is local.")]
_Format = Annotated[Format, _option("--format", help="Output format of results and errors.")]
_Program = Annotated[
    Path, typer.Argument(metavar="FILE", show_default=False, help="The program; - reads standard input.")
]
_Store = Annotated[Path | None, _option("--store", metavar="DIR", help="Database directory [default: memory only].")]
_Host = Annotated[str, _option("--host", metavar="ADDRESS", help="Address to listen on.")]
_Port = Annotated[int, _option("--port", "-p", min=0, max=65535, help="Port to listen on; 0 takes a free port.")]
_Tokens = Annotated[Path | None, _option("--tokens", metavar="FILE", help="Token file, written by `upshot token`.")]
_Certificate = Annotated[Path | None, _option("--tls-cert", metavar="FILE", help="TLS certificate chain, PEM.")]
_Key = Annotated[Path | None, _option("--tls-key", metavar="FILE", help="TLS private key, PEM.")]
_Insecure = Annotated[bool, _option("--insecure", help="Allow a public address without tokens or TLS.")]
_Files = Annotated[Path | None, _option("--files", metavar="DIR", help="The only directory .input may read.")]
_Actions = Annotated[
    Path | None,
    _option(
        "--functions",
        "--actions",
        metavar="FILE",
        help="Python file with the functions that rules call, as `@f(…)` or in actions.",
    ),
]
_Hosts = Annotated[list[str] | None, _option("--allow-host", metavar="NAME", help="Accept this Host name. Repeatable.")]
_Origins = Annotated[
    list[str] | None,
    _option("--allow-origin", metavar="ORIGIN", help="Accept browser sessions from this origin. Repeatable."),
]
_Webhooks = Annotated[
    list[str] | None, _option("--webhook-allow", metavar="HOST", help="Allow webhooks to this host. Repeatable.")
]
_InsecureWebhooks = Annotated[
    bool, _option("--webhook-insecure", help="Allow webhooks over http and to private addresses.")
]
_Keep = Annotated[
    str | None,
    _option(
        "--keep",
        metavar="AMOUNT",
        help="History to keep: N commits, all, or commits=N,bytes=N,age=7d [default: 1,000,000 commits, 4 GiB].",
    ),
]
_KeepAnswers = Annotated[
    int, _option("--keep-answers", min=0, help="Maximum rows of repeated queries' answers kept current; 0 keeps none.")
]
_MaxBody = Annotated[int, _option("--max-body", min=1, help="Maximum request size, in bytes.")]
_MaxRows = Annotated[int, _option("--max-rows", min=1, help="Maximum rows per response.")]
_MaxSeconds = Annotated[float, _option("--max-seconds", min=0.01, help="Time limit per request, in seconds.")]
_MaxQueue = Annotated[int, _option("--max-queue", min=1, help="Maximum length of the write queue.")]
_MaxSubscribers = Annotated[int, _option("--max-subscribers", min=1, help="Maximum number of subscribers.")]
_MaxWebhooks = Annotated[int, _option("--max-webhooks", min=0, help="Maximum number of webhook subscriptions.")]


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
    keep_answers: _KeepAnswers = 100_000,
    max_body: _MaxBody = 8 << 20,
    max_rows: _MaxRows = 100_000,
    max_seconds: _MaxSeconds = 10.0,
    max_queue: _MaxQueue = 1_000,
    max_subscribers: _MaxSubscribers = 10_000,
    max_webhooks: _MaxWebhooks = 1_000,
    engine: _Engine = EngineName.AUTO,
    format: _Format = Format.TEXT,
) -> None:
    """Serve views over HTTP: accept transactions and send exact changes to subscribers."""
    bounds = {"body": max_body, "rows": max_rows, "seconds": max_seconds}
    bounds |= {"queue": max_queue, "subscribers": max_subscribers, "webhooks": max_webhooks}

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.serve import Options, serve

        options = Options(
            file, store, host, port, tokens, tls_cert, tls_key, insecure, files, actions, tuple(allow_host or ()),
            tuple(allow_origin or ()), tuple(webhook_allow or ()), webhook_insecure, keep, keep_answers, engine, bounds,
        )  # fmt: skip
        return serve(terminal, options)

    finish(body, format)


_Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="Name of the token, used in logs.")]
_File = Annotated[Path, _option("--tokens", metavar="FILE", show_default=False, help="Token file to add the hash to.")]
_Read = Annotated[
    list[str] | None,
    _option("--read", metavar="NAMES", help="Relations, views, constraints and rules it may read, or *. Repeatable."),
]
_Write = Annotated[
    list[str] | None, _option("--write", metavar="NAMES", help="Relations it may change, or *. Repeatable.")
]
_Subscribe = Annotated[bool, _option("--subscribe/--no-subscribe", help="Allow subscriptions to what it may read.")]
_Admin = Annotated[bool, _option("--admin", help="Allow commit metadata and webhooks of other tokens.")]


def token(
    name: _Name,
    tokens: _File,
    read: _Read = None,
    write: _Write = None,
    subscribe: _Subscribe = True,
    admin: _Admin = False,
    engine: _Engine = EngineName.AUTO,
    format: _Format = Format.TEXT,
) -> None:
    """Create a token for `upshot serve`. It is printed once; the file stores only its hash."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.serve import token

        return token(terminal, name, tokens, read or [], write or [], subscribe=subscribe, admin=admin)

    finish(body, format)
