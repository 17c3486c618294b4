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
    """The net change of one relation: `inserted` rows were absent before, `deleted` rows are absent now."""

    inserted: Rows
    deleted: Rows
    find_causes: Callable[[], dict[Row, Cause]] | None = field(default=None, repr=False, compare=False, kw_only=True)
    """Finds the causes; set for the changes of a transaction."""

    def __bool__(self) -> bool:
        return bool(len(self.inserted) or len(self.deleted))

    def causes(self) -> dict[Row, Cause]:
        """For each inserted or deleted row, the base changes and the changed literals of a derivation that it gained or
        lost. The rules are followed from changed row to changed row, for all rows together, while the states before and
        after the transaction are kept. A nervous view has no cause for a row that was present before."""
        if self.find_causes is None:
            hint = "read them from `tx.changes` after the `with` block"
            raise UsageError("these changes belong to no transaction", code="no-causes", help=hint)
        return self.find_causes() if self else {}


def changed_base_rows(trees: Iterable[Derivation]) -> tuple[tuple[tuple[str, Row], ...], tuple[tuple[str, Row], ...]]:
    """The base rows in gained derivations, and those in lost ones."""
    found: dict[str, dict[tuple[str, Row], None]] = {"came": {}, "went": {}}
    for node in chain.from_iterable(tree.nodes for tree in trees):
        if node.kind == "base" and node.change and node.relation is not None and node.row is not None:
            found[node.change][node.relation, node.row] = None
    return tuple(found["came"]), tuple(found["went"])


def reported(plan: ProgramPlan, deltas: Mapping[str, tuple[Rows, Rows]]) -> dict[str, tuple[Rows, Rows]]:
    """The changes that users see: the engine may compute more than a view reports, for keys, copies and rules."""
    found = dict(deltas)
    for name, (inserted, deleted) in deltas.items():
        signs = plan.reported(name)
        if len(signs) < 2:
            none = Rows.of(inserted.schema, [])
            found[name] = (inserted if "plus" in signs else none, deleted if "minus" in signs else none)
    return found


class ChangeSet:
    """The changes by relation. Indexing works for every relation; iteration visits the changed ones."""

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
    """The net effect of several changes: a row that is inserted and deleted cancels out."""

    inserted: set[Row] = field(default_factory=set)
    deleted: set[Row] = field(default_factory=set)

    def add(self, inserted: Iterable[Row], deleted: Iterable[Row]) -> None:
        for row in row_set(deleted):
            self.inserted.discard(row) if row in self.inserted else self.deleted.add(row)
        for row in row_set(inserted):
            self.deleted.discard(row) if row in self.deleted else self.inserted.add(row)

    def rows(self, schema: Schema) -> tuple[Rows, Rows]:
        return Rows.of(schema, list(self.inserted)), Rows.of(schema, list(self.deleted))


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its version, exact changes, work counters and warnings. `violations` are the witnesses it inserted for
    constraints that only warn, `repaired` those it deleted for any constraint."""

    version: int
    changes: ChangeSet
    stats: Work
    warnings: tuple[Diagnostic, ...] = ()
    firings: tuple[Firing, ...] = ()
    tasks: tuple[Pending, ...] = ()
    """The tasks of its rules that run after the commit."""
    violations: Mapping[str, Sequence[tuple[Any, ...]]] = field(default_factory=dict)
    repaired: Mapping[str, Sequence[tuple[Any, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Definition(Commit):
    """The result of a definition: `kept` views are unchanged; `followed` views have other rules, or depend on a view
    that has, and were updated with the exact difference; `recomputed` views are new or were computed again."""

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
