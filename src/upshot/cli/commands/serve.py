"""`upshot serve`: serve the views of a program over HTTP; `upshot token`: create the tokens of its users."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from upshot.cli.engines import connected
from upshot.cli.input.files import existing_directory, read_program
from upshot.cli.options import ActionFile, ProgramFile
from upshot.cli.output.terminal import Terminal
from upshot.cli.session import register_actions
from upshot.cli.settings import ENGINE_FAILED, OK, EngineName
from upshot.core.errors import UsageError
from upshot.core.time_spans import time_span
from upshot.database.connect import connect
from upshot.database.database import Database
from upshot.database.rules.action_files import read_actions

if TYPE_CHECKING:
    from upshot.service.settings import Settings


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """A service: its program, address, access rules, history and limits."""

    file: ProgramFile
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="Database directory [default: memory only].")
    ] = None
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, typer.Option("--port", "-p", metavar="N", min=0, max=65535, help="Port to listen on; 0 takes a free port.")
    ] = 8000
    tokens: Annotated[
        Path | None, typer.Option("--tokens", metavar="FILE", help="Token file, written by `upshot token`.")
    ] = None
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="TLS certificate chain, PEM.")] = (
        None
    )
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="TLS private key, PEM.")] = None
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow a public address without tokens or TLS.")] = False
    files: Annotated[
        Path | None, typer.Option("--files", metavar="DIR", help="The only directory that .input may read from.")
    ] = None
    actions: ActionFile = None
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", metavar="NAME", help="Accept this Host name. Repeatable.")
    ] = None
    allow_origin: Annotated[
        list[str] | None,
        typer.Option("--allow-origin", metavar="ORIGIN", help="Accept browser sessions from this origin. Repeatable."),
    ] = None
    webhook_allow: Annotated[
        list[str] | None,
        typer.Option("--webhook-allow", metavar="HOST", help="Allow webhooks to this host. Repeatable."),
    ] = None
    webhook_insecure: Annotated[
        bool, typer.Option("--webhook-insecure", help="Allow webhooks over http and to private addresses.")
    ] = False
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            metavar="AMOUNT",
            help="History to keep: N commits, all, or commits=N,bytes=N,age=7d [default: 1,000,000 commits, 4 GiB].",
        ),
    ] = None
    keep_answers: Annotated[
        int,
        typer.Option(
            "--keep-answers",
            metavar="N",
            min=0,
            help="Keep answers of repeated queries current, at most N rows; 0 keeps none.",
        ),
    ] = 100_000
    max_body: Annotated[int, typer.Option("--max-body", metavar="N", min=1, help="Maximum request size, in bytes.")] = (
        8 << 20
    )
    max_rows: Annotated[int, typer.Option("--max-rows", metavar="N", min=1, help="Maximum rows per response.")] = (
        100_000
    )
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", metavar="S", min=0.01, help="Time limit per request, in seconds.")
    ] = 10.0
    max_queue: Annotated[
        int, typer.Option("--max-queue", metavar="N", min=1, help="Maximum length of the write queue.")
    ] = 1_000
    max_subscribers: Annotated[
        int, typer.Option("--max-subscribers", metavar="N", min=1, help="Maximum number of subscribers.")
    ] = 10_000
    max_webhooks: Annotated[
        int, typer.Option("--max-webhooks", metavar="N", min=0, help="Maximum number of webhook subscriptions.")
    ] = 1_000
    engine: Annotated[EngineName, typer.Option("--engine", help="The engine; auto is local.")] = EngineName.AUTO


@dataclass(frozen=True, slots=True)
class TokenOptions:
    """A token: the rights it gives, and the file that has its hash."""

    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="Name of the token, used in logs.")]
    tokens: Annotated[
        Path, typer.Option("--tokens", metavar="FILE", show_default=False, help="Token file to add the hash to.")
    ]
    read: Annotated[
        list[str] | None,
        typer.Option(
            "--read",
            metavar="NAMES",
            help="Relations, views, constraints and rules that it may read, or * for all. Repeatable.",
        ),
    ] = None
    write: Annotated[
        list[str] | None,
        typer.Option("--write", metavar="NAMES", help="Relations that it may change, or * for all. Repeatable."),
    ] = None
    subscribe: Annotated[
        bool, typer.Option("--subscribe/--no-subscribe", help="Allow subscriptions to what it may read.")
    ] = True
    admin: Annotated[bool, typer.Option("--admin", help="Allow commit metadata and webhooks of other tokens.")] = False


PACKAGES = ("fastapi", "uvicorn", "prometheus_client")


def require_service() -> None:
    """`UsageError` if an optional package of the service is not installed."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        message = f"package `{missing[0].replace('_', '-')}` is not installed"
        raise UsageError(message, code="missing-package", help="run `pip install '.[service]'` in a clone of Upshot")


def serve(terminal: Terminal, options: ServeOptions) -> int:
    """Run until SIGTERM or SIGINT. Arguments are checked before the store is opened."""
    require_service()
    # Imported here, since these need the packages of the service.
    from upshot.service.access.hosts import refuse_unsafe  # noqa: PLC0415
    from upshot.service.access.tokens import Tokens  # noqa: PLC0415
    from upshot.service.logs import log_to, service  # noqa: PLC0415
    from upshot.service.program_file import serve_program  # noqa: PLC0415
    from upshot.service.server import listen, require_certificate, serve  # noqa: PLC0415
    from upshot.service.service import Service  # noqa: PLC0415

    if options.files is not None:
        existing_directory(options.files, "--files")
    settings = _settings(options)
    refuse_unsafe(settings, has_tokens=options.tokens is not None)
    require_certificate(settings)
    tokens = Tokens(options.tokens) if options.tokens is not None else None
    source = read_program(options.file)
    with listen(settings) as bound, _opened(terminal, options) as database:

        def register() -> None:
            register_actions(database, options.actions)

        with terminal.progress(f"defining {source.name}"):
            serve_program(database, source.text, source.name, options.files, terminal.report, register)
        running = Service(database, settings, tokens)

        def listening(address: str) -> None:
            fields = {"address": address, "version": database.version, "durable": database.is_durable}
            service.info("listening", extra={"fields": fields})
            if terminal.err.isatty():
                terminal.message(f"serving {source.name} at {address}")

        with log_to(terminal.err):
            return OK if serve(running, bound, listening) else ENGINE_FAILED


def _settings(options: ServeOptions) -> Settings:
    from upshot.service.settings import RequestBounds, Settings  # noqa: PLC0415

    return Settings(
        options.host,
        options.port,
        options.tls_cert,
        options.tls_key,
        options.insecure,
        options.files,
        tuple(options.allow_host or ()),
        tuple(options.allow_origin or ()),
        tuple(options.webhook_allow or ()),
        options.webhook_insecure,
        bounds=RequestBounds(
            body=options.max_body,
            rows=options.max_rows,
            seconds=options.max_seconds,
            queue=options.max_queue,
            subscribers=options.max_subscribers,
            webhooks=options.max_webhooks,
        ),
    )


def _opened(terminal: Terminal, options: ServeOptions) -> AbstractContextManager[Database]:
    """The database of the store, or one in memory."""
    if options.engine is EngineName.SPARK:
        # On Spark no answers are kept, so the bound is not used.
        return connected(terminal, options.engine, options.store)
    functions = read_actions(options.actions) if options.actions is not None else None
    return connect(
        options.store, engine=options.engine.value, keep=kept(options.keep), functions=functions,
        keep_answers=options.keep_answers,
    )  # fmt: skip


def token(terminal: Terminal, options: TokenOptions) -> int:
    """Print the token once, on stdout. Names may also be separated by commas."""
    require_service()
    from upshot.service.access.tokens import add_token  # noqa: PLC0415 - needs the packages of the service

    name, subscribe, admin = options.name, options.subscribe, options.admin
    scopes = {"read": _names(options.read or []), "write": _names(options.write or [])}
    token = add_token(options.tokens, name, **scopes, subscribe=subscribe, admin=admin)
    if terminal.json:
        terminal.data(json.dumps({"name": name, "token": token, **scopes, "subscribe": subscribe, "admin": admin}))
    else:
        terminal.data(token)
        terminal.message(f"added its hash to {options.tokens}; the token is not shown again")
    return OK


def _names(texts: list[str]) -> list[str]:
    return [name.strip() for each in texts for name in each.split(",") if name.strip()]


_HINT = "as in `--keep 100000`, `--keep all` or `--keep commits=100000,bytes=1GiB,age=7d`"


def kept(text: str | None) -> Any:
    """The value of `--keep` as `connect(keep=…)` takes it.

    >>> kept("100000"), kept("all")
    (100000, 'all')
    >>> kept("bytes=1GiB,age=7d")
    {'bytes': '1GiB', 'age': datetime.timedelta(days=7)}
    """
    if text is None or text == "all":
        return text
    if "=" not in text:
        return _commits(text)
    bounds: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = (each.strip() for each in part.partition("="))
        bounds[name] = _commits(value) if name == "commits" else _age(value) if name == "age" else value
    return bounds


def _commits(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"invalid `--keep` value `{text}`", code="wrong-argument", help=_HINT)
    return int(text)


def _age(text: str) -> dt.timedelta:
    found = time_span(text)
    if found is None:
        raise UsageError(f"invalid age `{text}` in `--keep`", code="wrong-argument", help=_HINT)
    return found
