"""A firing of a rule, as users see it, and the causes of changed rows and firings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from upshot.core.errors import UsageError
from upshot.core.rows import Rows, row_set
from upshot.core.schema import Schema

if TYPE_CHECKING:
    from upshot.active.turn_log import RuleTurn
    from upshot.check.program import RuleAction
    from upshot.core.rows import Row


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of a changed row or a firing: the base rows that the transaction `inserted` and `deleted` for it, and
    the `literals` of the last rule that changed. Of a firing, `differentials` are these literals as written, after the
    sign of their change: `+low(I)`, `-blocked(I)`, `±N = count : { … }`."""

    inserted: tuple[tuple[str, Row], ...]
    deleted: tuple[tuple[str, Row], ...]
    literals: tuple[str, ...]
    differentials: tuple[str, ...] = ()


@dataclass(slots=True)
class Firing:
    """`rows` are what the rule fired for: the values of its parameters or, without parameters, of all variables of its
    actions; `instances` have the other values that the actions need too. `key` identifies the firing; a function that
    is called gets one that identifies the call, the same when it is repeated after a crash. `error` is the failure
    after the commit, if there was one.

    While a function runs, `query` answers from the state that it sees; otherwise it is None.
    """

    rule: str
    rows: Rows
    instances: Rows = field(repr=False, compare=False)
    coupling: str
    places: tuple[int, ...] = field(default=(), repr=False, compare=False)
    version: int | None = None
    key: str = ""
    error: Exception | None = None
    query: Callable[..., Rows] | None = field(default=None, repr=False, compare=False)
    turn: RuleTurn | None = field(default=None, repr=False, compare=False)
    find_cause: Callable[[Firing], Mapping[Row, Cause]] | None = field(default=None, repr=False, compare=False)
    """Set by the transaction that was committed."""

    @property
    def cause(self) -> Mapping[Row, Cause]:
        """For each of `rows`, the literals that made the rule fire and the base changes below them. Found by a search
        in the states around its turn, while these are kept."""
        if self.find_cause is None:
            hint = "read it from `tx.firings` after the `with` block, or in a function called after the commit"
            raise UsageError(f"the firing of `{self.rule}` belongs to no transaction", code="no-causes", help=hint)
        return self.find_cause(self)


def shown(rule: str, instances: Rows, places: Sequence[int]) -> Rows:
    schema = Schema(rule, tuple(instances.schema.columns[place] for place in places))
    return Rows.of(schema, list(row_set(tuple(row[place] for place in places) for row in instances)))


def arguments(rows: Rows, action: RuleAction) -> list[Row]:
    """The distinct rows of an action's arguments, in order."""
    chosen = [rows.schema.columns[place] for place in action.columns]
    found = row_set(tuple(row[place] for place in action.columns) for row in rows)
    return Rows.of(Schema(action.target, tuple(chosen)), list(found)).sorted()
