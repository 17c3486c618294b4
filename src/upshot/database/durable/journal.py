"""The journal of a durable database: a record of each commit before it takes effect, and snapshots when one is due."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from upshot.active.tasks import as_task, logged
from upshot.check.program import Clause
from upshot.core.errors import UsageError
from upshot.core.rows import Rows, row_set
from upshot.core.schema import Role
from upshot.database.engines import Deltas, Engine
from upshot.database.program.compile import Compiled
from upshot.database.program.stored_text import stored_text
from upshot.plan import ProgramPlan
from upshot.store.entries import Encoded, Entry, LoggedRelation, NewProgram
from upshot.store.store import Store
from upshot.syntax import print_item
from upshot.syntax.ast import And, Rule

if TYPE_CHECKING:
    from upshot.database.commit import Proposal

log = logging.getLogger("upshot.store")

WORTH_A_LOOK = 50_000
"""Rows of changes between two checks whether a snapshot pays."""
WORTH_DROPPING = 10_000
"""A snapshot that lets old commits be dropped pays from this many rows of changes beyond the stored rows."""
MOST_SMALL_BYTES = 256 << 20
MOST_SMALL_ROWS = 2_000_000
"""Bounds on the replay at opening, however large the relations are."""


@runtime_checkable
class KeepsHidden(Protocol):
    """An engine that needs the rows of some hidden relations in the store. `keeps` are those of the installed program,
    an open definition included; the engine reports their changes too."""

    @property
    def keeps(self) -> Collection[str]: ...


class Journal:
    """Writes the commits of a database to its store.

    `relations` are those whose changes are written: all base relations, hidden ones included, all views, and those that
    the engine keeps. The store has their rows too, except those of unstored views. The set changes with a program, and
    with a snapshot.
    """

    def __init__(self, store: Store, relations: Mapping[str, LoggedRelation]) -> None:
        self.store = store
        self.relations = dict(relations)
        self._looked_at = 0
        self._group: list[Encoded] | None = None

    def close(self) -> None:
        self.store.close()

    # ---- commits ------------------------------------------------------------------------------------

    def recorded(
        self, engine: Engine, version: int, old: Compiled, deltas: Deltas, proposal: Proposal
    ) -> AbstractContextManager[None]:
        """A block that makes the commit visible: its record is durable when the block is entered, and removed if the
        block fails. Large changes are written before this returns."""
        program, new, meta = None, proposal.program, proposal.meta
        tasks = tuple(map(as_task, proposal.tasks))
        firings = tuple(map(logged, proposal.firings))
        done = () if proposal.completed_task is None else (proposal.completed_task.place,)
        if new.program != old.program:
            program, deltas = self._new_program(engine, old, new, deltas)
        relations = self.relations if program is None else program.relations
        changes = {name: delta for name, delta in deltas.items() if name in relations}
        return self._recorded(
            self.store.prepare(Entry(version, changes, meta, program, tasks, done, firings)), relations
        )

    @contextmanager
    def _recorded(self, encoded: Encoded, relations: Mapping[str, LoggedRelation]) -> Iterator[None]:
        if self._group is not None:
            try:
                yield
            except BaseException:
                self.store.discard([encoded])
                raise
            self._group.append(encoded)
            return
        self.store.append([encoded])
        try:
            yield
        except BaseException:
            self.store.retract(encoded)
            raise
        self.relations = dict(relations)

    def begin_group(self) -> None:
        """From here on, records wait until `write_group`."""
        self._group = []

    def write_group(self) -> None:
        """Make the commits since `begin_group` durable with one write: all of them or, if it fails, none."""
        group, self._group = self._group or [], None
        if group:
            self.store.append(group)

    def drop_group(self) -> None:
        """Forget the commits since `begin_group`."""
        group, self._group = self._group or [], None
        self.store.discard(group)

    def _new_program(
        self, engine: Engine, old: Compiled, new: Compiled, deltas: Deltas
    ) -> tuple[NewProgram, dict[str, tuple[Rows, Rows]]]:
        """The program for the log, and the changes, with all rows of each relation that is new in the log."""
        before, after = self.relations, _logged_relations(engine, new)
        changes = dict(deltas)
        known = old.plan.normal.schemas
        for name, relation in list(after.items()):
            same_types = name in known and known[name].types == relation.schema.types
            if name in before or not same_types:
                continue
            if relation.visible:
                # A hidden relation had its name before: the engine reports only the difference.
                changes[name] = _whole(engine, name, changes.get(name), relation)
            else:
                del after[name]
        restarted = _restarted(old.plan, new.plan) & before.keys() & after.keys()
        for name in restarted:
            changes[name] = _whole(engine, name, changes.get(name), after[name])
        reset = frozenset(
            name
            for name, relation in after.items()
            if name not in before or before[name].schema.types != relation.schema.types or name in restarted
        )
        return NewProgram(stored_text(new.program), after, reset, _normal_form(new.plan, after)), changes

    # ---- snapshots ----------------------------------------------------------------------------------

    def snapshot(self, engine: Engine, version: int, compiled: Compiled) -> None:
        """Write a snapshot of all rows, so that the next opening does not replay the changes before it."""
        relations = _logged_relations(engine, compiled)
        unstored = compiled.plan.on_demand.unstored
        sizes = {name: 0 if name in unstored else engine.size(name) for name in relations}
        self.store.snapshot(version, relations, sizes, engine.save, _normal_form(compiled.plan, relations))
        self.relations, self._looked_at = relations, 0

    def after_change(self, engine: Engine, version: int, compiled: Compiled) -> None:
        """The work between two commits: write a due snapshot, drop a slice of old commits."""
        self.snapshot_if_due(engine, version, compiled)
        self.store.trim_if_due()

    def snapshot_if_due(self, engine: Engine, version: int, compiled: Compiled) -> None:
        """Write a snapshot if opening the store would replay more than three times the stored rows, or very many, or if
        it lets more commits be dropped than it writes rows. The commit is made already, so a failure is only logged."""
        tail = self.store.tail
        blocks = self.store.wants_snapshot and tail.rows >= WORTH_DROPPING
        if tail.rows < self._looked_at + WORTH_A_LOOK and tail.small_bytes < MOST_SMALL_BYTES and not blocks:
            return
        self._looked_at = self._looked_at if blocks else tail.rows
        unstored = compiled.plan.on_demand.unstored
        stored = sum(engine.size(name) for name in self.relations if name not in unstored)
        many = tail.small_rows > MOST_SMALL_ROWS or tail.small_bytes > MOST_SMALL_BYTES
        costly = tail.snapshot_rows + tail.rows > 3 * stored + WORTH_A_LOOK
        if not (many or costly or (blocks and tail.rows > stored + WORTH_DROPPING)):
            return
        try:
            self.snapshot(engine, version, compiled)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not look like a commit that failed
            log.warning("no snapshot of version %d was written: %s", version, error)


def _logged_relations(engine: Engine, compiled: Compiled) -> dict[str, LoggedRelation]:
    """The relations to write to the store: a database can be restored from their rows."""
    kept = set(engine.keeps) if isinstance(engine, KeepsHidden) else set()
    return {
        name: LoggedRelation(schema, name in compiled.visible)
        for name, schema in compiled.plan.normal.schemas.items()
        if name in compiled.visible or schema.role is Role.BASE or name in kept
    }


def _restarted(old: ProgramPlan, new: ProgramPlan) -> frozenset[str]:
    """The views whose logged changes do not lead to their rows: they were unstored, or were or become nervous."""
    before, after = old.on_demand, new.on_demand
    return (before.unstored - after.unstored) | (before.nervous ^ after.nervous)


def _whole(engine: Engine, name: str, delta: tuple[Rows, Rows] | None, relation: LoggedRelation) -> tuple[Rows, Rows]:
    """All rows after the open change; the engine still returns those before it."""
    inserted, deleted = (row_set(rows) for rows in delta) if delta else (frozenset(), frozenset())
    rows = row_set(engine.rows(name)) - deleted | inserted
    return Rows.of(relation.schema, list(rows)), Rows.of(relation.schema, [])


def _normal_form(plan: ProgramPlan, relations: Mapping[str, LoggedRelation]) -> str:
    """A checksum of the definitions of hidden views; empty if none is stored."""
    if not any(not each.visible and each.schema.role is not Role.BASE for each in relations.values()):
        return ""
    return format(zlib.crc32("\n".join(sorted(map(_printed, plan.normal.clauses))).encode()), "08x")


def _printed(clause: Clause) -> str:
    return print_item(Rule((clause.head,), And(clause.body) if clause.body else None))


def usable(store: Store, compiled: Compiled) -> dict[str, LoggedRelation]:
    """The stored relations whose rows the program can use: hidden views only under the same normal form."""
    recovered, schemas = store.recovered, compiled.plan.normal.schemas
    same = recovered.hidden == _normal_form(compiled.plan, recovered.relations)
    return {
        name: relation
        for name, relation in recovered.relations.items()
        if name in schemas
        and schemas[name].types == relation.schema.types
        and (same or relation.visible or relation.schema.role is Role.BASE)
    }


def meta_text(meta: object) -> str | None:
    """The metadata of a commit as JSON text; None without metadata."""
    if meta is None or meta == {}:
        return None
    if not isinstance(meta, Mapping) or not all(isinstance(key, str) for key in meta):
        raise UsageError(
            "`meta` must be a mapping with names as keys", code="wrong-argument", help='as in meta={"source": "import"}'
        )
    try:
        text = json.dumps(dict(meta), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # Raise here: the write is of a whole group, and would fail all of it.
        text.encode()
        return text
    except (TypeError, ValueError, RecursionError) as error:
        message = f"`meta` cannot be written as JSON: {error}"
        raise UsageError(message, code="wrong-argument", help="use text, numbers, lists and mappings") from None
