"""Update the components that a change reaches, level by level."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from upshot.core.errors import Error
from upshot.engine.local.components.component import LocalComponent
from upshot.engine.local.components.installed import LocalProgram
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.components.together import Together
from upshot.engine.local.storage.out_of_memory import Bounded
from upshot.engine.time_limit import live_seconds, time_limit
from upshot.engine.work import ViewWork, Work


@dataclass(slots=True)
class Visits:
    """The visits of one propagation. `staged` gets the views that changed, or may have changed if a visit fails;
    `visited` gets the visited components."""

    installed: LocalProgram
    staged: set[str]
    visited: list[LocalComponent]
    work: Work
    bounded: Callable[[str], Bounded]
    runner: Runner
    live_queries: frozenset[str] = frozenset()
    """The views of live queries."""
    _seconds: dict[tuple[str, ...], float] = field(default_factory=dict)
    """The time of each component of live queries."""

    def level(self, waiting: list[tuple[int, int]], *, skip_idle: bool) -> list[LocalComponent]:
        """Update the waiting components of the lowest level and remove them from the heap. Return those whose rows may
        have changed."""
        level, begun, shared = waiting[0][0], len(self.visited), list[LocalComponent]()
        while waiting and waiting[0][0] == level:
            component = self.installed.components[heapq.heappop(waiting)[1]]
            if component.is_on_demand or (skip_idle and component.is_idle()):
                continue
            if component.is_shareable() and not (self.live_queries and self._is_live(component)):
                shared.append(component)
            else:
                self.one(component)
        touched = self._in_groups(level, shared)
        return [*self.visited[begun:], *touched]

    def _in_groups(self, level: int, components: list[LocalComponent]) -> list[LocalComponent]:
        """Update components that may share a run. Return those with touched rows, without those that ran alone."""
        touched: list[LocalComponent] = []
        if len(components) < 2:
            for component in components:
                self.one(component)
            return touched
        group_of, groups = self.installed.together_at(level, self.runner), dict[Together, list[LocalComponent]]()
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
        """Update one component."""
        self.staged.update(component.plan.views)
        self.visited.append(component)
        with self.bounded(component.names):
            done = self._live(component) if self._is_live(component) else self._propagated(component)
        self._end(component, done)

    def _propagated(self, component: LocalComponent) -> ViewWork:
        try:
            return component.propagate()
        except Error as error:
            error.views = frozenset(component.plan.views)
            raise

    def _is_live(self, component: LocalComponent) -> bool:
        return component.plan.views[0] in self.live_queries

    def _live(self, component: LocalComponent) -> ViewWork:
        """Update a live query. An error names its views or, if the time for all live queries is over, the views of
        every query that took more than an equal share."""
        limit, began, views = live_seconds(), time.monotonic(), component.plan.views
        remaining = None if limit is None else max(0.0, limit - sum(self._seconds.values()))
        try:
            with time_limit(remaining):
                return component.propagate()
        except Error as error:
            self._seconds[views] = time.monotonic() - began
            is_over = limit is not None and sum(self._seconds.values()) >= limit
            share = limit / len(self._seconds) if limit is not None and is_over else 0.0
            slow = [each for each, seconds in self._seconds.items() if seconds >= share] if is_over else [views]
            error.views = frozenset(view for each in slow for view in each)
            raise
        finally:
            self._seconds[views] = time.monotonic() - began

    def _together(self, group: Together, components: list[LocalComponent]) -> list[LocalComponent]:
        """Update components of a group. None of them is fresh, so only their tables have anything to accept or to roll
        back."""
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
        """A block in which these views are computed together; an error names all of them."""
        limit = None if self.live_queries.isdisjoint(views) else live_seconds()
        try:
            with time_limit(None if limit is None else max(0.0, limit - sum(self._seconds.values()))):
                yield
        except Error as error:
            error.views = frozenset(views)
            raise

    def _end(self, component: LocalComponent, done: ViewWork) -> None:
        for view, table in component.views:
            if table.is_untouched:
                self.staged.discard(view)  # nothing to accept
        self.work.components += 1
        self.work.add(done)
        self.work.views[component.names] = done
