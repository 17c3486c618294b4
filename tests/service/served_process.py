"""`upshot serve` as a process of its own, to be killed and started again on the same store and port."""

from __future__ import annotations

import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parent.parent.parent


PATIENCE = 120.0
"""Seconds to wait for what has to happen: on a busy machine too, only what never happens is missed."""
_FREE = range(20_000, 32_000)


def free_port() -> int:
    """A port that stays free until it is wanted, and while a server is down: the system gives none of these to whoever
    asks for any port, nor to a client, which might even connect to itself."""
    chance = random.Random(os.urandom(8))
    while True:
        port = chance.choice(_FREE)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port


class ServedProcess:
    """A server that can be killed. What it writes to stderr goes to a file beside the store."""

    def __init__(self, program: Path, store: Path, *options: str, port: int = 0, **environment: str) -> None:
        self.port = port or free_port()
        self._command = [sys.executable, "-m", "upshot", "serve", str(program), "--store", str(store)]
        self._command += ["--port", str(self.port), *options]
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
        self.log = store.parent / f"{store.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "started"
        return self._process.pid

    def start(self) -> ServedProcess:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)
        return self

    def wait_until_ready(self, timeout: float = PATIENCE) -> None:
        deadline = time.monotonic() + timeout
        while not self._is_ready():
            assert self._process is not None, "started"
            assert self._process.poll() is None, self.log.read_text()[-4000:]
            assert time.monotonic() < deadline, self.log.read_text()[-4000:]
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def kill(self) -> None:
        """As if the machine had lost power under it, but for what the system has in its caches."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """The exit code of a server that is asked to end."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        return process.wait(PATIENCE)

    def __enter__(self) -> ServedProcess:
        self.start().wait_until_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
