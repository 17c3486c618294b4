"""Server processes of the tests: started with a log file each, waited for, ended one by one by their process id."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

HOST = "127.0.0.1"
PATIENCE = 120.0
"""Seconds that a process has to come up; a quiet machine takes three."""


class Processes:
    """Processes that write their logs to `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with self._log(name).open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self.folder,
            )
        self._running.append(process)
        return process

    def wait_for_log(self, name: str, pattern: str) -> None:
        self.wait_until(name, lambda: bool(re.search(pattern, self.printed(name))))

    def wait_until(self, name: str, true: Callable[[], bool]) -> None:
        try:
            eventually(true, f"the {name} to start")
        except TimeoutError as error:
            raise TimeoutError(f"{error}:\n{self.printed(name)[-2000:]}") from None

    def printed(self, name: str) -> str:
        return self._log(name).read_text(errors="replace")

    def stop(self) -> None:
        """Last started, first ended; those that do not end when asked are killed."""
        for process in reversed(self._running):
            process.terminate()
        for process in reversed(self._running):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def eventually(true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def java() -> str:
    """The Java that Spark's scripts would take."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"
