"""What rules change after a commit: commits of their own, which nobody asked for and everybody has to hear of."""

from __future__ import annotations

from upshot.cli.output.deltas import changes_to_json
from upshot.core.json_values import rows_to_json
from upshot.core.schema import Role
from upshot.database.changes import Changes
from upshot.database.database import Database
from upshot.database.watch import Event


class LaterCommits:
    """Listens to all views and rules, from now on."""

    def __init__(self, database: Database) -> None:
        self._database, self._events = database, list[Event]()
        self._rules = frozenset(database.rules)
        views = [name for name, schema in database.schemas.items() if schema.role is not Role.BASE]
        for name in (*views, *self._rules) if self._rules else ():
            database.watch(name, self._events.append, since=database.version)

    def lines(self, version: int) -> list[str]:
        """One line, as `watch` prints it, for each commit after a version."""
        events, later = list(self._events), range(version + 1, self._database.version + 1)
        self._events.clear()
        return [self._line(each, [event for event in events if event.version == each]) for each in later]

    def _line(self, version: int, events: list[Event]) -> str:
        changed = [(e.view, Changes(e.inserted, e.deleted)) for e in events if e.view not in self._rules]
        fired = ", ".join(
            f'{{"rule": "{each.view}", "rows": {rows_to_json(each.inserted.sorted())}}}'
            for each in events
            if each.view in self._rules
        )
        firings = f', "firings": [{fired}]' if fired else ""
        return f'{{"version": {version}, "changes": {changes_to_json(sorted(changed, key=_name))}{firings}}}'


def _name(change: tuple[str, Changes]) -> str:
    return change[0]
