"""A program installed in the local engine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from upshot.core.schema import Schema
from upshot.engine.local import queries
from upshot.engine.local.components.component import LocalComponent
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.components.screening import Screening
from upshot.engine.local.components.together import MOST, Together
from upshot.engine.local.storage.collect import TextColumns
from upshot.engine.local.storage.storage import Storage, Table
from upshot.plan.program_plan import ProgramPlan

if TYPE_CHECKING:
    from upshot.engine.local.queries.on_demand import LocalOnDemandViews
    from upshot.engine.local.queries.prepared_queries import PreparedQueries


@dataclass(slots=True)
class LocalProgram:
    """A program with its storage. A definition replaces the whole object; if it fails, the old one is restored."""

    plan: ProgramPlan | None = None
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    components: list[LocalComponent] = field(default_factory=list)
    readers: dict[str, list[int]] = field(default_factory=dict)
    """For each relation the numbers of the components that read it."""
    levels: list[int] = field(default_factory=list)
    """For each component, one more than the highest level of the components that it reads."""
    text_columns: TextColumns | None = None
    on_demand: LocalOnDemandViews | None = None
    screening: Screening | None = None
    redefined: frozenset[str] = frozenset()
    """Views on demand that the open definition added or redefined."""
    prepared: PreparedQueries | None = None
    together: dict[int, dict[str, Together]] = field(default_factory=dict)
    """The group of each component without rounds, by level and by name; made when a change reaches several of them."""

    def lay_out(self, storage: Storage) -> None:
        """Compute the readers of relations, the levels of components, and the text columns."""
        self.text_columns = TextColumns(storage, self.schemas, self.tables)
        level_of: dict[str, int] = {}
        for number, component in enumerate(self.components):
            level = 1 + max((level_of.get(name, 0) for name in component.plan.reads), default=0)
            level_of |= dict.fromkeys(component.plan.views, level)
            self.levels.append(level)
            for name in component.plan.reads:
                self.readers.setdefault(name, []).append(number)

    def together_at(self, level: int, runner: Runner) -> dict[str, Together]:
        """The groups of a level, by the names of their members. Components that read the same relations are in one
        group, since the same changes reach them. Groups are small, so that the cost of a change that reaches few of
        many views does not depend on the others."""
        if level not in self.together:
            members = [
                component
                for component, its_level in zip(self.components, self.levels, strict=True)
                if its_level == level and component.runs_once
            ]
            members.sort(key=lambda component: sorted(component.plan.reads))
            groups = self.together[level] = {}
            for some in (members[i : i + MOST] for i in range(0, len(members), MOST)):
                group = Together(some, self.tables, self.schemas, runner)
                groups |= dict.fromkeys((component.names for component in some), group)
        return self.together[level]

    def groups(self) -> set[Together]:
        return {group for level in self.together.values() for group in level.values()}

    def texts(self) -> Iterator[int]:
        """The codes of text constants in all rules."""
        single = (each for each in (self.on_demand, self.screening, self.prepared) if each is not None)
        for rules in (*self.components, *self.groups(), *single):
            yield from rules.texts()

    def prepared_queries(self, storage: Storage) -> PreparedQueries:
        """The prepared queries of this program."""
        if self.prepared is None:
            self.prepared = queries.prepared_queries.PreparedQueries(storage)
        return self.prepared


def same_shape(one: Schema, other: Schema) -> bool:
    return one.types == other.types


def components_of(
    now: LocalProgram, before: LocalProgram, touched: Collection[str], made: Collection[str], runner: Runner
) -> list[LocalComponent]:
    """The components of a program. A component with the same rules and tables is kept; one with a view among the
    `touched` is computed from nothing; relations `made` have new tables."""
    assert now.plan is not None
    earlier = {component.plan.views: component for component in before.components}
    components = []
    for plan in now.plan.components:
        old = earlier.get(plan.views)
        fresh = old is None or not set(plan.views).isdisjoint(touched)
        if old is not None and not fresh and old.plan == plan and {*plan.views, *plan.reads}.isdisjoint(made):
            components.append(old.moved_to(now.tables))
            continue
        component = LocalComponent(plan, now.tables, now.schemas, runner)
        if old is not None and not fresh:
            component.adopt(old)
        component.fresh = fresh
        components.append(component)
    return components


def drop(installed: LocalProgram, storage: Storage, keep: LocalProgram) -> None:
    """Release a program, except for components and tables that another one uses."""
    kept_components = {id(component) for component in keep.components}
    for component in installed.components:
        if id(component) not in kept_components:
            component.release()
    for group in installed.groups():
        group.release()
    if installed.on_demand is not None:
        installed.on_demand.release()
    if installed.screening is not None:
        installed.screening.release()
    if installed.prepared is not None:
        installed.prepared.release()
    kept = {id(table) for table in keep.tables.values()}
    for table in installed.tables.values():
        if id(table) not in kept:
            storage.drop(table)
