"""The components that a change reaches, brought to the new state level by level."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from upshot.core.errors import Error
from upshot.engine.local.components.component import LocalComponent
from upshot.engine.local.components.installed import LocalProgram
from upshot.engine.local.components.together import Together
from upshot.engine.local.storage.out_of_memory import Bounded
from upshot.engine.time_limit import live_seconds, time_limit
from upshot.engine.work import ViewWork, Work


@dataclass(slots=True)
class Visits:
    """`staged` gets the views that changed, or may have if a visit fails; `visited` the components that were looked
    at."""

    installed: LocalProgram
    staged: set[str]
    visited: list[LocalComponent]
    work: Work
    bounded: Callable[[str], Bounded]
    together_at: Callable[[int], dict[str, Together]]
    beside: frozenset[str] = frozenset()
    """The views of live queries."""
    _taken: dict[tuple[str, ...], float] = field(default_factory=dict)
    """The seconds of each component of live queries."""

    def level(self, waiting: list[tuple[int, int]], *, skip_idle: bool) -> list[LocalComponent]:
        """Bring those components of the lowest level to the new state that are waiting, and take them off the heap; the
        answer is those of which rows may have changed."""
        level, begun, shared = waiting[0][0], len(self.visited), list[LocalComponent]()
        while waiting and waiting[0][0] == level:
            component = self.installed.components[heapq.heappop(waiting)[1]]
            if component.is_on_demand or (skip_idle and component.is_idle()):
                continue
            if component.is_shareable() and not (self.beside and self._is_beside(component)):
                shared.append(component)
            else:
                self.one(component)
        touched = self._in_groups(level, shared)
        return [*self.visited[begun:], *touched]

    def _in_groups(self, level: int, components: list[LocalComponent]) -> list[LocalComponent]:
        """Bring components that may run together to the new state; the answer is those of which rows were touched, but
        for those that ran by themselves."""
        touched: list[LocalComponent] = []
        if len(components) < 2:
            for component in components:
                self.one(component)
            return touched
        group_of, groups = self.together_at(level), dict[Together, list[LocalComponent]]()
        for component in components:
            groups.setdefault(group_of[component.names], []).append(component)
        for group, due in groups.items():
            if group.is_worth_it(len(due)):
                touched += self._together(group, due)
            else:
                for component in due:
                    self.one(component)
        return touched

    def one(self, component: LocalComponent) -> None:
        """Bring one component to the new state."""
        self.staged.update(component.plan.views)
        self.visited.append(component)
        with self.bounded(component.names):
            done = self._live(component) if self._is_beside(component) else self._propagated(component)
        self._end(component, done)

    def _propagated(self, component: LocalComponent) -> ViewWork:
        try:
            return component.propagate()
        except Error as error:
            error.views = frozenset(component.plan.views)
            raise

    def _is_beside(self, component: LocalComponent) -> bool:
        return component.plan.views[0] in self.beside

    def _live(self, component: LocalComponent) -> ViewWork:
        """Bring a live query to the new state. An error names its views; if the time of all live queries is over, those
        of every query that took more than an equal share."""
        limit, began, views = live_seconds(), time.monotonic(), component.plan.views
        left = None if limit is None else max(0.0, limit - sum(self._taken.values()))
        try:
            with time_limit(left):
                return component.propagate()
        except Error as error:
            self._taken[views] = time.monotonic() - began
            is_over = limit is not None and sum(self._taken.values()) >= limit
            share = limit / len(self._taken) if limit is not None and is_over else 0.0
            blamed = [each for each, taken in self._taken.items() if taken >= share] if is_over else [views]
            error.views = frozenset(view for each in blamed for view in each)
            raise
        finally:
            self._taken[views] = time.monotonic() - began

    def _together(self, group: Together, components: list[LocalComponent]) -> list[LocalComponent]:
        """Bring components of a group to the new state. None of them is fresh, so that there is nothing to accept or to
        roll back but their tables."""
        try:
            with self.bounded(f"{components[0].names} and others"):
                works, total, touched = group.propagate(components)
            self.staged.update(view for component in touched for view in component.plan.views)
        except BaseException as error:
            views = frozenset(view for component in components for view in component.plan.views)
            self.staged.update(views)
            if isinstance(error, Error):
                error.views = views
            raise
        self.work.components += len(components)
        self.work.add(total)
        self.work.views.update(zip([component.names for component in components], works, strict=True))
        return touched

    @contextmanager
    def on_demand(self, views: Collection[str]) -> Iterator[None]:
        """A block in which these views are computed together: which of them takes how long is not known."""
        limit = None if self.beside.isdisjoint(views) else live_seconds()
        try:
            with time_limit(None if limit is None else max(0.0, limit - sum(self._taken.values()))):
                yield
        except Error as error:
            error.views = frozenset(views)
            raise

    def _end(self, component: LocalComponent, done: ViewWork) -> None:
        for view, table in component.views:
            if table.is_untouched:
                # There is nothing to accept.
                self.staged.discard(view)
        self.work.components += 1
        self.work.add(done)
        self.work.views[component.names] = done
