"""Spark's exceptions as our errors.

An expression or a Python worker that meets a data error raises a text which carries it; `translated` finds the text
again in the exception of Spark, in this process or on the other side of Spark Connect.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from threading import Lock
from typing import Any

from upshot.core.errors import DataError, EngineError, Error, LimitError, OverflowError_
from upshot.core.span import Span

LONGEST_MESSAGE = 2000
"""Spark Connect cuts long messages, and an error that is cut cannot be read back."""

_MARK = "upshot-error:"
_CLASSES = {kind.__name__: kind for kind in (DataError, OverflowError_, EngineError, LimitError)}

# ---- places ------------------------------------------------------------------------------------------------

_MOST_PLACES = 10_000
_places: OrderedDict[str, Span] = OrderedDict()
_lock = Lock()


def place(span: Span | None) -> str:
    """A short name for a place in a program, which travels to the workers and back instead of the place, whose text
    would be too long. It is valid in this process only, which is where errors are translated."""
    if span is None:
        return ""
    name = f"{span.source.name}:{span.start}:{span.end}:{hash(span.source.text):x}"
    with _lock:
        _places[name] = span
        _places.move_to_end(name)
        if len(_places) > _MOST_PLACES:
            _places.popitem(last=False)
    return name


# ---- texts that carry an error -----------------------------------------------------------------------------


def marked(error: Error, where: str = "") -> str:
    """The text that carries the error; `where` is the name of a place."""
    fields = {
        "class": type(error).__name__,
        "code": error.code,
        "help": error.help,
        "place": where,
        "message": error.message[:LONGEST_MESSAGE],
    }
    return _MARK + json.dumps(fields)


class CarriedError(Exception):
    """A data error on its way from a Python worker; its text is the result of `marked`."""


def _carried(text: str) -> Error | None:
    start = text.find(_MARK + "{")
    if start < 0:
        return None
    fields: dict[str, str] = json.JSONDecoder().raw_decode(text, start + len(_MARK))[0]
    with _lock:
        span = _places.get(fields["place"])
    kind = _CLASSES[fields["class"]]
    return kind(fields["message"], code=fields["code"], span=span, help=fields["help"])


TOO_LARGE_TO_SEND = "too-large-to-send"
OUT_OF_MEMORY = "out-of-memory"

# ---- translation -------------------------------------------------------------------------------------------


def translated(error: BaseException) -> Error:
    """The error for an exception of a Spark job: the data error that it carries, or the failure of the cluster."""
    if isinstance(error, Error):
        return error
    text = _whole_text(error)
    carried = _carried(text)
    if carried is not None:
        return carried
    shown = _first_line(error)
    if _SENT.search(text):
        return EngineError(
            f"a broadcast join exceeded its limit: {shown}",
            code=TOO_LARGE_TO_SEND,
            help="Upshot retries with a shuffle; if you see this error, please report the program",
        )
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(text):
        return EngineError(
            f"Spark ran out of memory: {shown}",
            code=OUT_OF_MEMORY,
            help="raise `spark.driver.memory` or `spark.executor.memory`",
        )
    if _WORKER_ENVIRONMENT.search(text):
        return EngineError(
            f"a Python worker of Spark cannot run Upshot: {_reason(text) or shown}",
            code="worker-environment",
            help="install `upshot` with the same Python on every worker, and point `PYSPARK_PYTHON` at that Python",
        )
    if _GONE.search(text) and (stored := _STORED.search(text)):
        return missing_file(stored[0])
    if _LOST.search(text):
        lost = EngineError(
            f"Spark lost a worker or its data: {shown}",
            code="lost-worker",
            help="nothing was applied; run the transaction again",
        )
        lost.retryable = True
        return lost
    return EngineError(f"Spark failed: {shown}", code="spark-failed", help="see the log of the Spark driver")


def missing_file(uri: str) -> EngineError:
    """The error for a missing file of an engine."""
    error = EngineError(
        f"`{uri}` is gone, with rows that were stored there",
        code="lost-rows",
        help="nothing was applied; keep others from removing files at the location, which `upshot.location` names",
    )
    error.retryable = True
    return error


_OUT_OF_MEMORY = re.compile(
    r"java\.lang\.OutOfMemoryError|SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY"
    r"|exceeding (?:physical |virtual )?memory limits|^MemoryError|ArrowMemoryError|spark\.driver\.maxResultSize",
    re.MULTILINE,
)
_SENT = re.compile(r"Cannot broadcast the table|Not enough memory to build and broadcast")
_WORKER_ENVIRONMENT = re.compile(
    r"No module named ['\"](?:upshot|pyarrow|pandas|numpy|pyspark)|PYTHON_VERSION_MISMATCH"
    r"|Cannot run program|PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION"
)
_GONE = re.compile(r"FILE_NOT_EXIST|FILE_NOT_FOUND|FileNotFoundException|NoSuchFileException|PATH_NOT_FOUND")
_STORED = re.compile(r"[a-z0-9]+:/[^\s'\"`]*/upshot[-_]work[-_][^\s'\"`]+\.parquet")
"""A file of rows in a workspace."""
_LOST = re.compile(
    r"ExecutorLostFailure|FetchFailed|MetadataFetchFailed|ExecutorDeadException|BlockNotFoundException"
    r"|Failed to get broadcast|Could not get block|CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
    rf"|{_GONE.pattern}"
    r"|Python worker exited unexpectedly|Python worker failed to connect back"
    r"|Worker lost|Remote RPC client disassociated"
    r"|Connection reset by peer|Connection refused|java\.io\.EOFException"
)


_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(\S.*)")
"""The exception that a Python worker raised."""


def _whole_text(error: BaseException) -> str:
    """The messages of the exception and its causes."""
    texts = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        texts.append(_message(current))
        texts.append(" ".join(map(str, _parameters(current).values())))
        # The stack trace of the JVM, as captured by pyspark, names the cause of a failed job.
        texts.append(str(getattr(current, "_stackTrace", None) or getattr(current, "_stacktrace", None) or ""))
        current = current.__cause__ or current.__context__
    return "\n".join(texts)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 - a captured exception asks a JVM that may be gone for its text
        return f"{type(error).__name__} ({type(second).__name__} while asking for its text)"


def _parameters(error: BaseException) -> dict[str, Any]:
    ask = getattr(error, "getMessageParameters", None)
    if ask is None:
        return {}
    try:
        return ask() or {}
    except Exception:  # noqa: BLE001 - as above
        return {}


def _first_line(error: BaseException) -> str:
    message = _message(error)
    raised = _RAISED.findall(message)
    lines = [line.strip().removeprefix(": ") for line in message.splitlines()]
    lines = [line for line in lines if line and not line.startswith("An error occurred while calling")]
    line = raised[-1] if raised else lines[0] if lines else type(error).__name__
    line = re.sub(r"^(?:[a-z0-9]+\.)+([A-Z]\w*): ", "", line)
    line = re.sub(r" SQLSTATE: \w+$", "", line)
    return line if len(line) <= 500 else line[:500] + " …"


def _reason(text: str) -> str:
    """The line that says which module or program is missing."""
    found = re.search(r"^.*(?:No module named|Cannot run program|must be installed).*$", text, re.MULTILINE)
    return found.group(0).strip()[:300] if found else ""
