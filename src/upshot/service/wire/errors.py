"""The JSON format of all errors:

{"error": {"code": "…", "message": "…", "help": "…", "retryable": false, "details": {…}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upshot.core.errors import (
    ConstraintError,
    DataError,
    EngineError,
    Error,
    LimitError,
    ProgramError,
    RuleError,
    UsageError,
)


class RequestError(Error):
    """An error of a request, with its HTTP status and headers."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        help: str = "",
        retryable: bool = False,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, code=code, help=help)
        self.status = status
        self.retryable = retryable
        self.details = details
        self.headers = dict(headers or {})


def not_found(kind: str = "relation") -> RequestError:
    """The error for a missing object, and for one that the token may not read."""
    hint = "`GET /program` lists what this token may read"
    return RequestError(404, "not-found", f"unknown {kind}, or this token may not read it", help=hint)


def too_busy(message: str, help: str = "try again later", *, retry_after: bool = False) -> RequestError:
    """The error for a request beyond a limit on concurrent work."""
    headers = {"Retry-After": "1"} if retry_after else {}
    return RequestError(503, "too-busy", message, help=help, retryable=True, headers=headers)


def nervous_view(name: str) -> RequestError:
    """The error for a subscription to a nervous view."""
    message = f"`{name}` is nervous: it reports more than its net changes, so no copy can follow it"
    return RequestError(409, "nervous-view", message, help="remove `semantics=nervous`, or use an active rule")


def not_reported(name: str) -> RequestError:
    """The error for a subscription to a whole view whose changes are not computed."""
    hint = f'follow a part of it, as in `?where={name}("a",Y)`, or define it with `events=all`'
    return RequestError(409, "not-reported", f"changes of `{name}` as a whole are not reported", help=hint)


def status_of(error: Error) -> int:
    """The HTTP status of an error."""
    match error:
        case RequestError():
            return error.status
        case ConstraintError() | RuleError() | DataError(code="not-as-expected"):
            return 409
        case LimitError():
            return 422
        case EngineError():
            return 503 if error.retryable else 500
        case UsageError(code="closed"):
            return 503
        case UsageError(code="history-not-kept"):
            return 410
        case ProgramError() | DataError() | UsageError():
            return 400
        case _:
            return 409 if error.code == "vetoed" else 500


def over_http(help: str) -> str:
    """The help text with routes instead of Python calls and commands.

    >>> over_http("`db.realize`, or `upshot update`, finds the base changes for rows of views")
    '`POST /realizations` finds the base changes for rows of views'
    """
    help = help.replace("`db.realize`, or `upshot update`,", "`POST /realizations`")
    return help.replace("`db.repairs` or `upshot repairs`", "`POST /realizations` with the same rows")


def error_body(error: Error, details: Mapping[str, Any] | None = None, kind: str = "") -> dict[str, Any]:
    """The body of an answer with the error; `kind` replaces the name of its class."""
    found: dict[str, Any] = {
        "code": error.code,
        "message": error.message,
        "help": over_http(error.help),
        "retryable": error.retryable,
    }
    if not isinstance(error, RequestError):
        found["kind"] = kind or type(error).__name__
    if details is None and isinstance(error, RequestError):
        details = error.details
    if details is not None:
        found["details"] = dict(details)
    return {"error": found}
