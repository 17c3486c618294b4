"""The errors of a service, as the exceptions that a database in process raises."""

from __future__ import annotations

import json
from typing import Any

from upshot.client.transport import Reply
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import (
    ConstraintError,
    DataError,
    EngineError,
    Error,
    LimitError,
    OverflowError_,
    ProgramError,
    RuleError,
    UsageError,
    VerifyError,
)

_CLASSES: dict[str, type[Error]] = {
    "DataError": DataError,
    "OverflowError_": OverflowError_,
    "RuleError": RuleError,
    "UsageError": UsageError,
    "EngineError": EngineError,
    "LimitError": LimitError,
    "VerifyError": VerifyError,
}
_DATA = frozenset(
    {"wrong-type", "wrong-row", "wrong-arity", "unknown-column", "null-in-required-column", "reserved-value", "no-key"}
)
"""Codes of invalid rows, which a service checks before a database does."""
_REQUESTS = frozenset({"nervous-view", "not-reported"})
"""Codes for views that cannot be followed."""
_RETRYABLE = (429, 502, 503, 504)


def error_of(reply: Reply) -> Error:
    """The error in an answer; it is `retryable` if the same request may succeed later."""
    fields = _fields(reply.body)
    if fields is None:
        return _foreign(reply)
    error = _rebuilt(reply.status, fields)
    error.retryable = fields.get("retryable") is True
    return error


def unexpected(fault: str) -> EngineError:
    """The error for an answer that is not from a service."""
    return EngineError(
        f"not a response of Upshot: {fault}",
        code="unexpected-answer",
        help="check that `upshot serve` of a matching version runs at the address",
    )


def _fields(body: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return None
    fields = content.get("error") if isinstance(content, dict) else None
    if isinstance(fields, dict) and isinstance(fields.get("code"), str) and isinstance(fields.get("message"), str):
        return fields
    return None


def _foreign(reply: Reply) -> Error:
    """The error for an answer of a proxy or another service."""
    error = unexpected(f"status {reply.status} without an error that says why")
    error.retryable = reply.status in _RETRYABLE
    return error


def _rebuilt(status: int, fields: dict[str, Any]) -> Error:
    code, message, help = fields["code"], fields["message"], str(fields.get("help") or "")
    details = fields.get("details")
    kind = fields.get("kind") or _kind_of(status, code)
    if kind == "ConstraintError":
        found = details.get("violations") if isinstance(details, dict) else None
        violations = {
            name: [tuple(row) for row in rows if isinstance(row, list)]
            for name, rows in (found.items() if isinstance(found, dict) else ())
            if isinstance(rows, list)
        }
        return ConstraintError(message, code=code, violations=violations, help=help)
    if kind == "ProgramError":
        return ProgramError([Diagnostic(code, message, help=help)])
    return _CLASSES.get(kind, EngineError)(message, code=code, help=help)


def _kind_of(status: int, code: str) -> str:
    """The class of an error without `kind`, by its status and code."""
    match status:
        case 409 if code in ("constraint-violated", "key-violation"):
            return "ConstraintError"
        case 409 if code in _REQUESTS:
            return "UsageError"
        case 409:
            return "RuleError"
        case 413 | 422 | 429:
            return "LimitError"
        case 400 if code in _DATA:
            return "DataError"
        case _ if status < 500:
            return "UsageError"
        case _:
            return "EngineError"
