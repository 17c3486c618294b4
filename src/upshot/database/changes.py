"""What a transaction meant: for every relation the rows that came and the rows that went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from upshot.active.firing import Firing
from upshot.active.tasks import Pending
from upshot.core.diagnostic import Diagnostic, did_you_mean
from upshot.core.errors import UsageError
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.engine.work import Work
from upshot.plan import ProgramPlan


@dataclass(frozen=True, slots=True)
class Changes:
    """The net change of one relation: `inserted` was not there before, `deleted` is not there now."""

    inserted: Rows
    deleted: Rows

    def __bool__(self) -> bool:
        return bool(len(self.inserted) or len(self.deleted))


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

    def __getitem__(self, name: str) -> Changes:
        if name in self._changes:
            return self._changes[name]
        schema = self._schemas.get(name)
        if schema is None:
            raise unknown_relation(name, self._schemas)
        return Changes(Rows.of(schema, []), Rows.of(schema, []))

    def __contains__(self, name: object) -> bool:
        return name in self._changes

    def __iter__(self) -> Iterator[str]:
        return iter(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def items(self) -> Iterator[tuple[str, Changes]]:
        return iter(self._changes.items())

    def __repr__(self) -> str:
        counts = (f"{name} +{len(c.inserted)} -{len(c.deleted)}" for name, c in self._changes.items())
        return f"<changes: {', '.join(counts) or 'none'}>"


@dataclass(frozen=True, slots=True)
class Commit:
    """What was committed: the version it made, its exact changes, the work it took, the warnings it left. `violations`
    are the witnesses it added to constraints that only warn, `repaired` those it took from any constraint."""

    version: int
    changes: ChangeSet
    stats: Work
    warnings: tuple[Diagnostic, ...] = ()
    firings: tuple[Firing, ...] = ()
    left: tuple[Pending, ...] = ()
    """What its rules have to do after it."""
    violations: Mapping[str, Sequence[tuple[Any, ...]]] = field(default_factory=dict)
    repaired: Mapping[str, Sequence[tuple[Any, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Definition(Commit):
    """What a definition did: `kept` views were not touched; `followed` ones have other rules, or rest on a view that
    has, and their rows followed the change; `recomputed` ones are new or were computed anew."""

    kept: tuple[str, ...] = ()
    recomputed: tuple[str, ...] = ()
    followed: tuple[str, ...] = ()


def unknown_relation(name: object, known: Mapping[str, Schema]) -> UsageError:
    """The error for a name nobody declared."""
    names, name = sorted(known), str(name)
    listed = ", ".join(f"`{each}`" for each in names[:10]) + (", …" if len(names) > 10 else "")
    hint = did_you_mean(name, names) or (f"the relations are {listed}" if names else "define a program first")
    return UsageError(f"unknown relation `{name}`", code="unknown-relation", help=hint)
