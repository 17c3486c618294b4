"""`upshot serve`: a program's views over HTTP."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upshot.cli.engines import connected
from upshot.cli.input.files import existing_directory, read_program
from upshot.cli.output.firings import register_actions
from upshot.cli.output.terminal import Terminal
from upshot.cli.retention import kept
from upshot.cli.settings import ENGINE_FAILED, OK, Engine
from upshot.core.errors import UsageError
from upshot.database.connect import connect
from upshot.database.database import Database

PACKAGES = ("fastapi", "uvicorn", "prometheus_client")


@dataclass(frozen=True, slots=True)
class Options:
    """What was said on the command line."""

    file: Path
    store: Path | None
    host: str
    port: int
    tokens: Path | None
    tls_certificate: Path | None
    tls_key: Path | None
    insecure: bool
    files: Path | None
    actions: Path | None
    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    webhook_hosts: tuple[str, ...]
    webhook_insecure: bool
    keep: str | None
    engine: Engine
    bounds: Mapping[str, Any]


def require_service() -> None:
    """A sentence, and not a traceback, where the optional packages are missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        message = f"package `{missing[0].replace('_', '-')}` is not installed"
        raise UsageError(message, code="missing-package", help="pip install 'upshot[service]'")


def serve(terminal: Terminal, options: Options) -> int:
    """Runs until SIGTERM or SIGINT. Everything that can be wrong is found before the store is touched."""
    require_service()
    # Only now: these need the packages of the service.
    from upshot.service.access.hosts import refuse_unsafe  # noqa: PLC0415
    from upshot.service.access.tokens import Tokens  # noqa: PLC0415
    from upshot.service.logs import log_to, service  # noqa: PLC0415
    from upshot.service.program_file import serve_program  # noqa: PLC0415
    from upshot.service.server import listen, require_certificate, serve  # noqa: PLC0415
    from upshot.service.service import Service  # noqa: PLC0415
    from upshot.service.settings import Bounds, Settings  # noqa: PLC0415

    if options.files is not None:
        existing_directory(options.files, "--files")
    settings = Settings(
        options.host,
        options.port,
        options.tls_certificate,
        options.tls_key,
        options.insecure,
        options.files,
        options.hosts,
        options.origins,
        options.webhook_hosts,
        options.webhook_insecure,
        bounds=Bounds(**options.bounds),
    )
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


def _opened(terminal: Terminal, options: Options) -> AbstractContextManager[Database]:
    """The database of the store, or one in memory."""
    if options.engine is Engine.SPARK:
        return connected(terminal, options.engine, options.store)
    return connect(options.store, engine=options.engine.value, keep=kept(options.keep))
