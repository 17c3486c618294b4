"""Run a service on a socket. The socket is bound before the service starts; SIGTERM and SIGINT stop it in order.

A process begins with the interpreted kernel and loads machine code after some work, for which a commit would wait a
second or more. A service loads it on a background thread (`warming`). `most_connections` bounds the connections, so
that file descriptors are left for the store and the program.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from upshot.core.errors import UsageError, system_reason
from upshot.core.resources import exhausted, more_of
from upshot.database.database import Database
from upshot.engine.local.kernel.machine import MACHINE
from upshot.service import logs
from upshot.service.app import create_app
from upshot.service.service import Service
from upshot.service.settings import Settings
from upshot.service.wire.wire import bounded_http

_STUCK = 3
"""The exit code of `upshot` when an engine fails."""


class Server(uvicorn.Server):
    """uvicorn's server, which notifies subscribers before it waits for connections, and exits normally on a signal."""

    def __init__(self, config: uvicorn.Config, service: Service, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._service = service
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.ready, self._service.stopping = False, True
        self._service.hub.end_all("shutting-down")
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {each: signal.signal(each, self._stop) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        logs.service.info("stopping", extra={"fields": {"signal": signal.Signals(number).name}})
        self.handle_exit(number, frame)


def listen(settings: Settings) -> socket.socket:
    """Bind the socket; `address-in-use` if that fails."""
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(settings.host).version == 6 else socket.AF_INET
    except ValueError:
        family = socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
    except OSError as error:
        made.close()
        hint = "choose another `--port`, or stop the process that uses it"
        message = f"cannot listen on `{settings.host}:{settings.port}`: {system_reason(error)}"
        raise UsageError(message, code="address-in-use", help=hint) from None
    made.set_inheritable(True)
    return made


def address_of(bound: socket.socket, settings: Settings) -> str:
    """The URL of the service."""
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls else 'http'}://{shown}:{port}/"


def serve(service: Service, bound: socket.socket, listening: Callable[[str], None]) -> bool:
    """Serve until the process is stopped; return true if the server started. `listening` is called with the URL once
    requests are accepted."""
    settings = service.settings
    # A commit switches threads a dozen times; with the default of 5 ms it would wait for the event loop each time.
    sys.setswitchinterval(0.0005)
    config = uvicorn.Config(
        create_app(service),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=bounded_http(most_connections(settings.bounds.subscribers)),
        ws="none",
        lifespan="on",
        backlog=2_048,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, round(settings.grace)),
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
    server = Server(config, service, lambda: listening(address_of(bound, settings)))
    with warming(service.database), asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(server.serve(sockets=[bound]))
        if service.is_stuck:
            # A normal exit would wait for the threads.
            os._exit(_STUCK)
    return server.started


def require_certificate(settings: Settings) -> None:
    """`bad-certificate` if TLS is configured and its files are unusable."""
    if settings.tls_certificate is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.tls_certificate, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        hint = "`--tls-cert` and `--tls-key` must be matching PEM files"
        raise UsageError(f"cannot use TLS: {error}", code="bad-certificate", help=hint) from None


AFTER = 2.0
"""Seconds before machine code is loaded: a process that ends sooner does not need it."""


@contextmanager
def warming(database: Database, after: float = AFTER) -> Iterator[None]:
    """Load the machine code on a background thread, `after` seconds after the block was entered."""
    timer = threading.Timer(after, _warm, (database,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _warm(database: Database) -> None:
    try:
        # The slow part does not need the database; the switch happens while no commit runs.
        MACHINE.load()
        with database.reading():
            MACHINE.compile()
    except UsageError:
        return  # the database was closed in the meantime
    except Exception as error:
        resource_name = exhausted(error)
        if not resource_name:
            raise
        message = "no %s left to load machine code; it is loaded when work needs it; %s"
        logs.service.warning(message, resource_name, more_of(resource_name))


RESERVED = 64
"""Descriptors for the store, webhooks and modules that are loaded later."""
LEAST = 36
"""The file descriptors that a service needs for itself."""


def most_connections(subscribers: int) -> int:
    """The number of connections that may be open. The limit of the process is raised, if allowed, for that many
    subscribers. `too-few-descriptors` if there are not enough for the service itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = subscribers + 4 * RESERVED
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
        if soft < LEAST:
            message = f"a service needs {LEAST} file descriptors; the limit of this process is {soft}"
            raise UsageError(message, code="too-few-descriptors", help="raise the limit: `ulimit -n 1024`")
    return allowed(needed if soft == resource.RLIM_INFINITY else soft)


def allowed(limit: int) -> int:
    """The share of the descriptors for connections.

    >>> allowed(1024), allowed(100)
    (960, 25)
    """
    return max(limit - RESERVED if limit >= 2 * RESERVED else limit // 4, 1)
