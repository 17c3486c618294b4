"""The way in: `upshot.connect()`."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import UsageError
from upshot.database.database import Database
from upshot.database.engines import local_engine

ENGINES = ("auto", "local", "spark")


def connect(
    path: str | os.PathLike[str] | None = None,
    *,
    spark: Any = None,
    engine: str = "auto",
    max_rounds: int | None = None,
) -> Database:
    """A new database in memory. `max_rounds` bounds the recursion of a view before it ends in a `LimitError`.

    >>> with connect() as db:
    ...     _ = db.define(".decl edge(x: number, y: number)")
    """
    if engine not in ENGINES:
        hint = did_you_mean(str(engine), ENGINES) or "the engines are `auto`, `local` and `spark`"
        raise UsageError(f"there is no engine `{engine}`", code="unknown-engine", help=hint)
    if path is not None:
        hint = "call `upshot.connect()` for a database in memory"
        raise UsageError("durable databases are not available yet", code="not-yet", help=hint)
    if spark is not None or engine == "spark":
        hint = "call `upshot.connect()`; the local engine needs no session"
        raise UsageError("the Spark engine is not available yet", code="not-yet", help=hint)
    if max_rounds is not None and (not isinstance(max_rounds, int) or max_rounds < 1):
        hint = "pass a whole number, such as 1_000_000"
        raise UsageError(f"`max_rounds` cannot be {max_rounds!r}", code="wrong-argument", help=hint)
    return Database(partial(local_engine, max_rounds))
