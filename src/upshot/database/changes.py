"""The changes of a transaction: for every relation the inserted and deleted rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from upshot.core.errors import UsageError, unknown_relation
from upshot.core.rows import Rows, row_set

if TYPE_CHECKING:
    from upshot.active.firing import Cause, Firing
    from upshot.active.tasks import Pending
    from upshot.core.diagnostic import Diagnostic
    from upshot.core.rows import Row
    from upshot.core.schema import Schema
    from upshot.engine.work import Work
    from upshot.plan import ProgramPlan
    from upshot.reasons.derivation import Derivation


FindCauses = Callable[["ChangeSet", str], "dict[Row, Cause]"]


@dataclass(frozen=True, slots=True)
class Changes:
    """The net change of one relation: `inserted` was not there before, `deleted` is not there now."""

    inserted: Rows
    deleted: Rows
    find_causes: Callable[[], dict[Row, Cause]] | None = field(default=None, repr=False, compare=False, kw_only=True)
    """The causes of changes that a transaction made."""

    def __bool__(self) -> bool:
        return bool(len(self.inserted) or len(self.deleted))

    def causes(self) -> dict[Row, Cause]:
        """For each inserted or deleted row, the base changes and the changed literals of a derivation that it gained or
        lost. The rules are followed from changed row to changed row, for all rows together, while the states before and
        after the transaction are kept. A nervous view has no cause for a row that it had before, too."""
        if self.find_causes is None:
            hint = "read them from `tx.changes` after the `with` block"
            raise UsageError("these changes belong to no transaction", code="no-causes", help=hint)
        return self.find_causes() if self else {}


def changed_base_rows(trees: Iterable[Derivation]) -> tuple[tuple[tuple[str, Row], ...], tuple[tuple[str, Row], ...]]:
    """The base rows in derivations that came, and those that went."""
    found: dict[str, dict[tuple[str, Row], None]] = {"came": {}, "went": {}}
    for node in chain.from_iterable(tree.nodes for tree in trees):
        if node.kind == "base" and node.change and node.relation is not None and node.row is not None:
            found[node.change][node.relation, node.row] = None
    return tuple(found["came"]), tuple(found["went"])


def reported(plan: ProgramPlan, deltas: Mapping[str, tuple[Rows, Rows]]) -> dict[str, tuple[Rows, Rows]]:
    """The changes that users see, of all that an engine worked out: it may need more, for keys, copies and rules."""
    found = dict(deltas)
    for name, (inserted, deleted) in deltas.items():
        signs = plan.reported(name)
        if len(signs) < 2:
            none = Rows.of(inserted.schema, [])
            found[name] = (inserted if "plus" in signs else none, deleted if "minus" in signs else none)
    return found


class ChangeSet:
    """The changes by relation. Indexing works for every relation there is; iteration visits only those that changed."""

    def __init__(self, schemas: Mapping[str, Schema], deltas: Mapping[str, tuple[Rows, Rows]]) -> None:
        self._schemas = schemas
        found = {name: Changes(*delta) for name, delta in deltas.items() if name in schemas}
        self._changes = {name: changes for name, changes in sorted(found.items()) if changes}
        self.find_causes: FindCauses | None = None

    def __getitem__(self, name: str) -> Changes:
        schema = self._schemas.get(name)
        if schema is None:
            raise unknown_relation(str(name), self._schemas)
        found = self._changes.get(name)
        if found is None:
            found = Changes(Rows.of(schema, []), Rows.of(schema, []))
        if self.find_causes is None:
            return found
        return Changes(found.inserted, found.deleted, find_causes=partial(self.find_causes, self, name))

    def __contains__(self, name: object) -> bool:
        return name in self._changes

    def __iter__(self) -> Iterator[str]:
        return iter(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def items(self) -> Iterator[tuple[str, Changes]]:
        return ((name, self[name]) for name in self._changes)

    def __repr__(self) -> str:
        counts = (f"{name} +{len(c.inserted)} -{len(c.deleted)}" for name, c in self._changes.items())
        return f"<changes: {', '.join(counts) or 'none'}>"


@dataclass(slots=True)
class NetChange:
    """The net effect of several changes: an inserted and deleted row cancels out."""

    inserted: set[Row] = field(default_factory=set)
    deleted: set[Row] = field(default_factory=set)

    def add(self, inserted: Iterable[Row], deleted: Iterable[Row]) -> None:
        """Add the next change."""
        for row in row_set(deleted):
            self.inserted.discard(row) if row in self.inserted else self.deleted.add(row)
        for row in row_set(inserted):
            self.deleted.discard(row) if row in self.deleted else self.inserted.add(row)

    def rows(self, schema: Schema) -> tuple[Rows, Rows]:
        """The inserted and the deleted rows, as those of a relation."""
        return Rows.of(schema, list(self.inserted)), Rows.of(schema, list(self.deleted))


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: the version it made, its exact changes, its work counters and its warnings. `violations` are the
    witnesses it added to constraints that only warn, `repaired` those it removed from any constraint."""

    version: int
    changes: ChangeSet
    stats: Work
    warnings: tuple[Diagnostic, ...] = ()
    firings: tuple[Firing, ...] = ()
    left: tuple[Pending, ...] = ()
    """The tasks that its rules leave for after the commit."""
    violations: Mapping[str, Sequence[tuple[Any, ...]]] = field(default_factory=dict)
    repaired: Mapping[str, Sequence[tuple[Any, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Definition(Commit):
    """The result of a definition: `kept` views were not touched; `followed` ones have other rules, or depend on a view
    that has, and their rows followed the change; `recomputed` ones are new or were computed anew."""

    kept: tuple[str, ...] = ()
    recomputed: tuple[str, ...] = ()
    followed: tuple[str, ...] = ()


def undecided_relation(name: str) -> UsageError:
    """The error for a relation whose rows differ from model to model."""
    return UsageError(
        f"`{name}` depends on a rule with alternatives in its head: it is not maintained",
        code="undecided-relation",
        help="`db.models()`, or `upshot models FILE`, computes its rows in each model",
    )
