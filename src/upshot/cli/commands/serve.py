"""`upshot serve`: a program's views over HTTP; `upshot token`: the tokens of its users."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from upshot.cli.engines import connected
from upshot.cli.input.files import existing_directory, read_program
from upshot.cli.options import ServeOptions, TokenOptions
from upshot.cli.output.firings import register_actions
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import ENGINE_FAILED, OK, EngineName
from upshot.core.errors import UsageError
from upshot.core.time_spans import time_span
from upshot.database.connect import connect
from upshot.database.database import Database
from upshot.database.rules.action_files import read_actions

if TYPE_CHECKING:
    from upshot.service.settings import Settings

PACKAGES = ("fastapi", "uvicorn", "prometheus_client")


def require_service() -> None:
    """A sentence, and not a traceback, where the optional packages are missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        message = f"package `{missing[0].replace('_', '-')}` is not installed"
        raise UsageError(message, code="missing-package", help="run `pip install '.[service]'` in a clone of Upshot")


def serve(terminal: Terminal, options: ServeOptions) -> int:
    """Runs until SIGTERM or SIGINT. Everything that can be wrong is found before the store is touched."""
    require_service()
    # Only now: these need the packages of the service.
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
        # Nothing is kept on Spark: the bound has no use there.
        return connected(terminal, options.engine, options.store)
    functions = read_actions(options.actions) if options.actions is not None else None
    return connect(
        options.store, engine=options.engine.value, keep=kept(options.keep), functions=functions,
        keep_answers=options.keep_answers,
    )  # fmt: skip


def token(terminal: Terminal, options: TokenOptions) -> int:
    """Print the token, once, on stdout. Names may be listed with commas too."""
    require_service()
    from upshot.service.access.tokens import add_token  # noqa: PLC0415 - needs the packages of the service

    name, subscribe, admin = options.name, options.subscribe, options.admin
    scopes = {"read": _names(options.read or []), "write": _names(options.write or [])}
    made = add_token(options.tokens, name, read=scopes["read"], write=scopes["write"], subscribe=subscribe, admin=admin)
    if terminal.json:
        terminal.data(json.dumps({"name": name, "token": made, **scopes, "subscribe": subscribe, "admin": admin}))
    else:
        terminal.data(made)
        terminal.message(f"added its hash to {options.tokens}; the token is not shown again")
    return OK


def _names(given: list[str]) -> list[str]:
    return [name.strip() for each in given for name in each.split(",") if name.strip()]


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
