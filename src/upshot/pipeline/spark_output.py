"""Redirect the output of Spark's own process to a file, so that the terminal belongs to the pipeline."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

from upshot.core.errors import EngineError
from upshot.pipeline.lock import writing
from upshot.spark.session import NOT_STARTED

_STREAMS = (1, 2)
_SHOWN = 3


@contextmanager
def spark_prints_to(file: Path) -> Iterator[None]:
    """Within the block, processes that are started print into the file, for as long as they live; this one prints where
    it always did. A start that fails is an error with the last lines of the file."""
    sys.stdout.flush()
    sys.stderr.flush()
    with writing(file.parent):
        log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    kept = [os.dup(stream) for stream in _STREAMS]
    try:
        with os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace") as own, redirect_stderr(own):
            for stream in _STREAMS:
                os.dup2(log, stream)
            try:
                yield
            finally:
                for stream, before in zip(_STREAMS, kept, strict=True):
                    os.dup2(before, stream)
    except EngineError as error:
        raise _with_words(error, file) if error.code == NOT_STARTED else error from error
    finally:
        for handle in (*kept, log):
            os.close(handle)


def _with_words(error: EngineError, file: Path) -> EngineError:
    """The error with the last of what Spark printed."""
    with open(file, encoding="utf-8", errors="replace") as log:
        printed = [line.strip() for line in log if line.strip()][-_SHOWN:]
    return EngineError(" / ".join([error.message, *printed]), code=error.code, help=f"all it printed is in `{file}`")
