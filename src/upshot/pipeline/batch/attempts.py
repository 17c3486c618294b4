"""Repeat work that may succeed the next time, as after a lost worker or a conflict with another writer of a table."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from upshot.core.errors import Error

log = logging.getLogger("upshot.pipeline")

ATTEMPTS = 3

Result = TypeVar("Result")


def tried(what: str, attempt: Callable[[], Result]) -> Result:
    """The result of the first successful attempt. Errors that are not `retryable`, and the last one, are raised."""
    for number in range(1, ATTEMPTS):
        try:
            return attempt()
        except Error as error:
            if not error.retryable:
                raise
            log.warning("%s, attempt %d of %d: %s", what, number, ATTEMPTS, error.message)
    return attempt()
