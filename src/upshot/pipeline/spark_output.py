"""What Spark's own process prints goes to a file, and leaves the terminal to the pipeline."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

from upshot.core.errors import EngineError, Error

_STREAMS = (1, 2)
_SHOWN = 3


@contextmanager
def spark_prints_to(file: Path) -> Iterator[None]:
    """Within the block, processes that are started print into the file, for as long as they live; this one prints where
    it always did. A start that fails is an error with the last lines of the file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(stream) for stream in _STREAMS]
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        with os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace") as own, redirect_stderr(own):
            for stream in _STREAMS:
                os.dup2(log, stream)
            try:
                yield
            finally:
                for stream, before in zip(_STREAMS, kept, strict=True):
                    os.dup2(before, stream)
    except Error:
        raise
    except Exception as error:
        raise _not_started(error, file) from error
    finally:
        for handle in (*kept, log):
            os.close(handle)


def _not_started(error: Exception, file: Path) -> EngineError:
    told = [line for line in str(error).splitlines() if line.strip()]
    with open(file, encoding="utf-8", errors="replace") as log:
        printed = [line.strip() for line in log if line.strip()][-_SHOWN:]
    why = " / ".join([*(told[:1] or [type(error).__name__]), *printed])
    return EngineError(f"Spark did not start: {why}", code="spark-not-started", help=f"all it printed is in `{file}`")
