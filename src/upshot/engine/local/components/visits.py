"""The components that a change reaches, brought to the new state level by level."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from upshot.engine.local.components.component import LocalComponent
from upshot.engine.local.components.installed import LocalProgram
from upshot.engine.local.components.together import FEWEST, Together
from upshot.engine.local.storage.out_of_memory import Bounded
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

    def level(self, waiting: list[tuple[int, int]], *, skip_idle: bool) -> list[LocalComponent]:
        """Bring those components of the lowest level to the new state that are waiting, and take them off the heap; the
        answer is those of which rows may have changed."""
        level, begun, counted = waiting[0][0], len(self.visited), []
        while waiting and waiting[0][0] == level:
            component = self.installed.components[heapq.heappop(waiting)[1]]
            if component.is_on_demand or (skip_idle and component.is_idle()):
                continue
            if component.is_countable():
                counted.append(component)
            else:
                self.one(component)
        if len(counted) < FEWEST:
            for component in counted:
                self.one(component)
            return self.visited[begun:]
        reached, group_of, groups = (
            self.visited[begun:],
            self.together_at(level),
            dict[Together, list[LocalComponent]](),
        )
        for component in counted:
            groups.setdefault(group_of[component.names], []).append(component)
        for group, due in groups.items():
            if len(due) >= FEWEST:
                reached += self._together(group, due)
            else:
                for component in due:
                    self.one(component)
                reached += due
        return reached

    def one(self, component: LocalComponent) -> None:
        """Bring one component to the new state."""
        self._begin([component])
        with self.bounded(component.names):
            done = component.propagate()
        self._end(component, done)

    def _together(self, group: Together, components: list[LocalComponent]) -> list[LocalComponent]:
        self._begin(components)
        with self.bounded(f"{components[0].names} and others"):
            works, total, touched = group.propagate(components)
        self.staged.difference_update(view for component in components for view in component.plan.views)
        self.staged.update(view for component in touched for view in component.plan.views)
        self.work.components += len(components)
        self.work.add(total)
        for component, done in zip(components, works, strict=True):
            self.work.views[component.names] = done
        return touched

    def _begin(self, components: list[LocalComponent]) -> None:
        for component in components:
            self.staged.update(component.plan.views)
        self.visited += components

    def _end(self, component: LocalComponent, done: ViewWork) -> None:
        for view, table in component.views:
            if table.is_untouched:
                # There is nothing to accept.
                self.staged.discard(view)
        self.work.components += 1
        self.work.add(done)
        self.work.views[component.names] = done
