"""The engine of a command: in this process, or on a Spark session that starts and ends with the command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import EngineName
from upshot.core.errors import EngineError, UsageError
from upshot.core.running_spark import running_session
from upshot.database.connect import connect
from upshot.database.database import Database
from upshot.spark.session import own_session, require_java, require_spark

SETTINGS = {
    "spark.app.name": "upshot",
    "spark.ui.enabled": "false",  # nobody knows its address
    "spark.ui.showConsoleProgress": "false",  # it would overwrite the progress bar of the command
    "spark.log.level": "ERROR",
}

_JAVA = 17

_LAST_LINES = 5
"""The number of lines shown of the output of a Spark session that failed to start."""


def missing_for_spark() -> str:
    """The reason why Spark cannot run on this machine, or an empty text."""
    try:
        require_spark()
        require_java({})
    except UsageError as error:
        return error.message
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', printed.stderr + printed.stdout)
    if version is None or int(version[1]) < _JAVA:
        return f"Spark needs Java {_JAVA} or newer, found {version[1] if version else 'an unknown version'}"
    return ""


@contextmanager
def connected(terminal: Terminal, engine: EngineName, store: Path | None = None) -> Iterator[Database]:
    """Open an empty database, or the one in the directory `store`, on the requested engine; `auto` is the local one."""
    if engine is not EngineName.SPARK:
        with connect(store, engine=engine.value) as database:
            yield database
        return
    with spark_session(terminal) as session, connect(store, spark=session, engine="spark") as database:
        yield database


@contextmanager
def spark_session(terminal: Terminal) -> Iterator[Any]:
    """The running session, or a new one that prints nothing."""
    running = running_session()
    if running is not None:
        yield running
        return
    with terminal.progress("starting Spark"), _captured_errors() as output:
        try:
            session = own_session(**SETTINGS)
        except EngineError as error:
            raise _with_output(error, output) from error
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _captured_errors() -> Iterator[IO[bytes] | None]:
    """Redirect the standard error of processes started in the block to a file, which keeps warnings of Java and Spark
    off the terminal. `sys.stderr` of this process is unchanged. With `UPSHOT_TRACEBACK`, nothing is redirected."""
    if os.environ.get("UPSHOT_TRACEBACK"):
        yield None
        return
    sys.stderr.flush()
    ours, captured = os.dup(2), tempfile.TemporaryFile()  # noqa: SIM115 - Spark keeps writing after the block
    stream = sys.stderr
    sys.stderr = os.fdopen(os.dup(ours), "w", encoding="utf-8", errors="backslashreplace")
    try:
        os.dup2(captured.fileno(), 2)
        yield captured
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        sys.stderr.close()
        sys.stderr = stream


def _with_output(error: EngineError, output: IO[bytes] | None) -> EngineError:
    """The error with the last lines of Spark's output."""
    lines = [error.message]
    if output is not None:
        output.seek(0)
        lines += output.read().decode("utf-8", "replace").strip().splitlines()[-_LAST_LINES:]
    return EngineError(
        "\n  ".join(lines),
        code=error.code,
        help="`--engine local` needs no Spark; `UPSHOT_TRACEBACK=1` shows the output of Spark",
    )
