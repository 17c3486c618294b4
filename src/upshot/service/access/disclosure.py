"""The errors that a client may see, by the scopes of its token.

Messages of the database name relations, suggest similar names and list rows. A token that may read everything gets them
unchanged, except errors about files of the server. Other tokens get messages of the service, which contain only names
that were sent or may be read; of a rejected transaction, the witnesses that they may read; and of any other error, its
code and a general message.
"""

from __future__ import annotations

from typing import Any

from upshot.core.diagnostic import Diagnostic
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
from upshot.core.json_values import to_json
from upshot.service.access.scopes import Scopes
from upshot.service.wire.errors import RequestError, error_body

NOBODY = Scopes("nobody")

MOST_WITNESSES = 100
_OF_THE_STORE = ("store-failed", "store-damaged")
"""Errors that name files of the server. Only the log has their messages."""


def disclosed(error: Error, scopes: Scopes) -> dict[str, Any]:
    """The body of the answer with the error."""
    if isinstance(error, ConstraintError):
        return _violations(error, scopes)
    if isinstance(error, ProgramError):
        # The query was checked against the readable relations only.
        return error_body(error, {"diagnostics": [_fields(each) for each in error.diagnostics]})
    if (
        (scopes.reads_everything and error.code not in _OF_THE_STORE)
        or isinstance(error, RequestError)
        or error.code == "not-as-expected"
    ):
        # The expected rows were sent, and their relations may be read.
        return error_body(error)
    message, hint = _in_general(error)
    hidden = Error(message, code=error.code, help=hint)
    hidden.retryable = error.retryable
    return error_body(hidden, kind=type(error).__name__)


def _violations(error: ConstraintError, scopes: Scopes) -> dict[str, Any]:
    shown = {name: rows for name, rows in error.violations.items() if scopes.may_read(name)}
    details = {
        "violations": {name: [list(map(to_json, row)) for row in rows[:MOST_WITNESSES]] for name, rows in shown.items()}
    }
    if len(shown) == len(error.violations):
        return error_body(error, details)
    what = "a key" if error.code == "key-violation" else "a constraint"
    hint = "nothing was committed; the witnesses that this token may read are in `details`"
    hidden = Error(f"the transaction violates {what}", code=error.code, help=hint)
    return error_body(hidden, details, kind=type(error).__name__)


def _in_general(error: Error) -> tuple[str, str]:
    """A message and a help text for the class of an error, without details."""
    nothing = "nothing was committed"
    match error:
        case LimitError(code="timeout" | "too-many-rows"):
            return error.message, error.help
        case LimitError():
            return "a limit of the server was reached", "request less"
        case EngineError(code="store-failed"):
            return "the server could not write to its store", "try again, or contact the operator of the server"
        case EngineError():
            return "the server failed", "try again" if error.retryable else "contact the operator of the server"
        case RuleError():
            return "a rule rejected the transaction or failed", nothing
        case DataError():
            return "the data is invalid", nothing
        case UsageError() | ProgramError():
            return "the request does not match the program", "`GET /program` lists what this token may read"
        case _:
            return "the request was rejected", nothing


def _fields(diagnostic: Diagnostic) -> dict[str, Any]:
    span = diagnostic.span
    return {
        "code": diagnostic.slug,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "line": span.line if span else None,
        "column": span.column if span else None,
    }
