"""Open the engine of a command: in this process, or on a Spark session that is started for it and ends with it."""

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
    "spark.ui.enabled": "false",  # its address is not published
    "spark.ui.showConsoleProgress": "false",  # it would be drawn over our own
    "spark.log.level": "ERROR",
}

_JAVA = 17

_LAST_LINES = 5
"""The most lines shown of Spark's output before it failed to start."""


def missing_for_spark() -> str:
    """Describe what is missing on this machine to run Spark; empty if nothing is."""
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
    """An empty database, or the one in the directory `store`, on the engine that the user names; without a session the
    local one, unless Spark is named."""
    if engine is not EngineName.SPARK:
        with connect(store, engine=engine.value) as database:
            yield database
        return
    with spark_session(terminal) as session, connect(store, spark=session, engine="spark") as database:
        yield database


@contextmanager
def spark_session(terminal: Terminal) -> Iterator[Any]:
    """A session that says nothing on our streams; the one that is running already, if there is one."""
    running = running_session()
    if running is not None:
        yield running
        return
    with terminal.progress("starting Spark"), _aside() as said:
        try:
            session = own_session(**SETTINGS)
        except EngineError as error:
            raise _with_words(error, said) from error
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _aside() -> Iterator[IO[bytes] | None]:
    """Redirect the errors of processes started inside to a file: warnings of Java and Spark would otherwise stand
    between ours. Our own stream is unchanged. With debugging on, nothing is redirected."""
    if os.environ.get("UPSHOT_TRACEBACK"):
        yield None
        return
    sys.stderr.flush()
    ours, theirs = os.dup(2), tempfile.TemporaryFile()  # noqa: SIM115 - Spark goes on writing after we are done
    stream = sys.stderr
    sys.stderr = os.fdopen(os.dup(ours), "w", encoding="utf-8", errors="backslashreplace")
    try:
        os.dup2(theirs.fileno(), 2)
        yield theirs
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        sys.stderr.close()
        sys.stderr = stream


def _with_words(error: EngineError, said: IO[bytes] | None) -> EngineError:
    """The error with the last of what Spark said."""
    lines = [error.message]
    if said is not None:
        said.seek(0)
        lines += said.read().decode("utf-8", "replace").strip().splitlines()[-_LAST_LINES:]
    return EngineError(
        "\n  ".join(lines),
        code=error.code,
        help="`--engine local` needs no Spark; `UPSHOT_TRACEBACK=1` shows the output of Spark",
    )
