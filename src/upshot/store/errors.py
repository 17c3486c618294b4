"""The errors of stores."""

from __future__ import annotations

from importlib import metadata

from upshot.core.errors import EngineError, UsageError
from upshot.core.resources import exhausted, more_of


def damaged(what: str, *, help: str = "restore the whole database directory from a backup") -> EngineError:
    return EngineError(f"the store is damaged: {what}", code="store-damaged", help=f"nothing was changed; {help}")


def failed(what: str, why: object, *, help: str = "nothing was committed") -> EngineError:
    """The error of a write that did not reach the disk; nothing of it counts."""
    if lack := exhausted(why if isinstance(why, BaseException) else None):
        cure = more_of(lack)
    elif isinstance(why, metadata.PackageNotFoundError) or getattr(why, "sqlite_errorname", "") == "SQLITE_CANTOPEN":
        cure = f"see that it can be read and written, and {more_of('file descriptors')}"
    else:
        cure = "see that the disk has room and can be written, then try again"
    return EngineError(f"the store could not {what}: {_cause(why)}", code="store-failed", help=f"{help}; {cure}")


def _cause(why: object) -> str:
    """The first line of an error; of a file-system error its message and file."""
    if isinstance(why, OSError) and why.strerror:
        return f"{why.strerror.lower()}: `{why.filename}`" if why.filename else why.strerror.lower()
    return str(why).splitlines()[0] if str(why) else type(why).__name__


def forgotten(since: int, oldest: int) -> UsageError:
    return UsageError(
        f"changes since version {since} are not kept any more; those since {oldest} are",
        code="history-not-kept",
        help="start again from all rows; `keep` in `upshot.connect` says how much is kept",
    )


def not_durable(lacks: str) -> UsageError:
    return UsageError(
        f"a database in memory {lacks}", code="not-durable", help='open one in a directory: upshot.connect("dir/")'
    )
