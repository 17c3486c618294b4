"""One turn of a rule that found instances, as users see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from upshot.check.program import RuleAction
from upshot.core.row_sets import row_set
from upshot.core.rows import Row, Rows
from upshot.core.schema import Schema


@dataclass(slots=True)
class Firing:
    """`rows` are the instances, parameters first. `key` names this firing for good: a call that is made again after a
    crash has the same one. `error` is what went wrong after the commit, if something did.

    While a transaction is open, `query` answers from the state that the rule sees; afterwards it is None.
    """

    rule: str
    rows: Rows
    coupling: str
    version: int | None = None
    key: str = ""
    error: Exception | None = None
    query: Callable[..., Rows] | None = field(default=None, repr=False, compare=False)


def arguments(rows: Rows, action: RuleAction) -> list[Row]:
    """The distinct rows that an action is given, in order."""
    chosen = [rows.schema.columns[place] for place in action.columns]
    found = row_set(tuple(row[place] for place in action.columns) for row in rows)
    return Rows.of(Schema(action.target, tuple(chosen)), list(found)).sorted()
