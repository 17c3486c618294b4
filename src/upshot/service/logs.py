"""Logs as JSON lines: request, token, result and duration; never a value of the data."""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

access = logging.getLogger("upshot.service.access")
service = logging.getLogger("upshot.service")

_OWN = ("upshot", "uvicorn.error")


class JsonLines(logging.Formatter):
    """One object per line. `extra={"fields": …}` of a logging call becomes fields of the object."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info is not None and record.exc_info[0] is not None:
            # The message of an exception can contain values of rows; its type and its places cannot.
            line["exception"] = record.exc_info[0].__name__
            line["places"] = _places(record.exc_info[2])
        return json.dumps(line, ensure_ascii=False)


def _places(trace: Any) -> list[str]:
    found = []
    while trace is not None:
        frame = trace.tb_frame
        found.append(f"{frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}")
        trace = trace.tb_next
    return found[-20:]


class WithoutValues(logging.Filter):
    """Removes the arguments of messages by engine, rules and watchers: they can contain values of rows."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.args and not record.name.startswith(("upshot.service", "uvicorn")):
            record.msg, record.args = str(record.msg), ()
        return True


@contextmanager
def log_to(stream: IO[str] | None = None) -> Iterator[None]:
    """Write the logs of Upshot and of the server to a stream, stderr by default, during the block."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(WithoutValues())
    before = [(logger, logger.handlers, logger.level, logger.propagate) for logger in map(logging.getLogger, _OWN)]
    for logger, *_ in before:
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
    # Our log reports every start and stop itself.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, handlers, threshold, propagates in before:
            logger.handlers, logger.propagate = handlers, propagates
            logger.setLevel(threshold)
