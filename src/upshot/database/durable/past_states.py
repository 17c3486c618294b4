"""Past states, restored for a query: the base changes since then are undone in an open change that is rolled back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from upshot.core.errors import UsageError
from upshot.core.rows import Rows
from upshot.core.schema import Role
from upshot.database.durable.history import moment
from upshot.database.engines import Deltas, Engine, EngineQuery
from upshot.database.explain.dependencies import everything_below, inputs
from upshot.database.placement import placement_of
from upshot.database.program.compile import Compiled, compile_stored, difference, empty_program
from upshot.database.state import DatabaseState
from upshot.reasons.derivation import Moment
from upshot.reasons.search import QueryState

UNCHANGED: Deltas = {}


class PastStates:
    """The states of a database at several versions. At most one past state is staged in the engine at a time; the
    current one can be queried at any time. The caller holds the write lock, and calls `close` at the end."""

    def __init__(self, state: DatabaseState, engine: Engine) -> None:
        self._state, self._engine = state, engine
        self._staged: tuple[int, int] | None = None

    def stage(self, version: int, later: Deltas = UNCHANGED) -> None:
        """Stage the state of a version with `later` base changes; `query_open` answers from it."""
        if self._staged == (version, id(later)):
            return
        self.close()
        self._staged = version, id(later)
        resets = dict(_resets(self._state, version))
        defined_later: set[str] = set()
        for number in range(self._state.version, version, -1):
            for name, (inserted, deleted) in self._changes(number):
                if name not in defined_later:
                    self._engine.delete(name, list(inserted))
                    self._engine.insert(name, list(deleted))
            # A relation that this version resets was another relation before, if it existed.
            defined_later |= resets.get(number, frozenset())
        for name, (inserted, deleted) in later.items():
            self._engine.delete(name, list(deleted))
            self._engine.insert(name, list(inserted))
        self._engine.propagate()

    def close(self) -> None:
        """Return to the current state."""
        if self._staged is not None:
            self._staged = None
            self._engine.rollback()

    def _changes(self, version: int) -> Iterator[tuple[str, tuple[Rows, Rows]]]:
        known = self._state.compiled.checked.schemas
        for name, delta in base_changes(self._state, version).items():
            if name in known and known[name].role is Role.BASE:
                yield name, delta

    def world(self, version: int, later: Deltas = UNCHANGED) -> PastState:
        current = version == self._state.version and later is UNCHANGED
        return PastState(self, self._engine, (version, later), current=current)


class PastState(QueryState):
    """The state of one version, for explanations."""

    def __init__(self, states: PastStates, engine: Engine, place: tuple[int, Deltas], *, current: bool) -> None:
        self._states, self._engine, self._place, self._current = states, engine, place, current
        self.tag = "old" if current else "new"
        self.is_local = placement_of(engine).engine == "local"

    def answers(self, queries: Sequence[EngineQuery]) -> list[Rows]:
        if not self._current:
            self._states.stage(*self._place)
        return self._engine.query_many(queries, is_open=not self._current)


def base_changes(state: DatabaseState, version: int) -> Deltas:
    """The changes of a version in the log, at least of base relations."""
    if state.last_commit is not None and state.last_commit.version == version:
        return state.last_commit.deltas
    assert state.journal is not None, "without a journal the last commit is the only one"
    return {name: delta[1:] for name, delta in state.journal.store.changes(version).items()}


def refuse_unknown(state: DatabaseState, version: int) -> None:
    """`UsageError` unless the states before and after a version can be restored: the changes since then are kept, and
    the program is the same."""
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise UsageError("`version` must be the number of a commit", code="wrong-argument", help="as in version=7")
    last = (
        state.last_commit
        if state.last_commit is not None and state.last_commit.version == version == state.version
        else None
    )
    if version > state.version:
        raise _no_such_version(state, version)
    if last is not None:
        changed = not last.same_program
    elif state.journal is not None:
        store = state.journal.store
        if version <= store.oldest:
            raise _no_such_version(state, version)
        changed = bool(store.log.definitions(version - 1, state.version))
    else:
        large = ": too many rows" * (version == state.version)
        raise UsageError(
            f"the changes of version {version} are not kept{large}",
            code="history-not-kept",
            help=f"without a store only the last commit is kept, version {state.version}",
        )
    if changed:
        raise UsageError(
            f"the program was changed in version {version} or since",
            code="program-changed",
            help=f"both versions must have the same program; {_available_versions(state)}",
        )


def version_number(version: object, example: str = "db.at(7)") -> int:
    """The version, if it is a non-negative integer."""
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise UsageError("a version must be a non-negative integer", code="wrong-argument", help=f"as in {example}")
    return version


def refuse_unreachable(state: DatabaseState, version: object, names: Collection[str] | None = None) -> None:
    """`UsageError` unless the state of a version can be restored: it is the current one, or the changes since then are
    kept and the program is the same. With `names`, only these relations and their inputs must be the same."""
    version = version_number(version)
    if version == state.version:
        return
    if version > state.version:
        raise _no_such_version(state, version)
    if state.journal is None:
        last = state.last_commit
        if last is not None and last.version == state.version == version + 1 and last.same_program:
            return
        message = f"version {version} is not kept; the last one is {state.version}"
        hint = "open a durable database with `upshot.connect(path)` to look further back"
        raise UsageError(message, code="history-not-kept", help=hint)
    store = state.journal.store
    if version < store.oldest:
        raise _no_such_version(state, version)
    if changed := _changed_since(state, version, names):
        raise UsageError(
            f"{changed} was changed since version {version}",
            code="program-changed",
            help=_available_versions(state, before=True, names=names),
        )


def _changed_since(state: DatabaseState, version: int, names: Collection[str] | None) -> str:
    """The relation among `names` whose definition, or that of an input, has changed since a version; without names the
    program. Empty if nothing has changed."""
    resets = _resets(state, version)
    if not resets:
        return ""
    if names is None:
        return "the program"
    assert state.journal is not None, "only a log has definitions"
    before = state.journal.store.log.definition_at(version)
    changed = difference(_compiled_then(before.program if before else ""), state.compiled).changed
    checked = state.compiled.checked
    below, reset = inputs(checked), frozenset[str]().union(*(names for _, names in resets))
    for name in names:
        read = everything_below(name, below)
        if read & changed or any(each in reset and checked.schemas[each].role is Role.BASE for each in read):
            return f"`{name}`, or what it depends on,"
    return ""


def _resets(state: DatabaseState, version: int) -> list[tuple[int, frozenset[str]]]:
    """The definitions since a version, each with the relations that it resets."""
    if state.journal is None:
        return []
    found = state.journal.store.log.definitions(version, state.version)
    return [(each.version, frozenset(json.loads(each.reset))) for each in found]


@lru_cache(maxsize=8)
def _compiled_then(program: str) -> Compiled:
    return compile_stored(program, "<stored program>") if program else empty_program()


def _no_such_version(state: DatabaseState, version: int) -> UsageError:
    """The error for a version in the future, or no longer in the log."""
    words = f"there is no version {version} yet" if version > state.version else f"version {version} is not kept"
    message = f"{words}; the last one is {state.version}"
    return UsageError(message, code="history-not-kept", help=_available_versions(state))


def _available_versions(state: DatabaseState, *, before: bool = False, names: Collection[str] | None = None) -> str:
    """The versions that can be queried: those after the last definition in the log; that one too unless the state
    `before` a commit is needed."""
    last = state.version
    if names:
        first = max(first_version(state, name) for name in names)
    elif state.journal is None:
        first = last if state.last_commit is not None and state.last_commit.same_program else last + 1
    else:
        store = state.journal.store
        defined = store.log.definitions(store.oldest, last)
        first = (not before) + (defined[-1].version if defined else store.oldest)
    if first > last:
        return "there is no later commit"
    return f"give a version from {first} to {last}" if first < last else f"give {last}"


def first_version(state: DatabaseState, name: str) -> int:
    """The earliest version in which a relation can be read."""
    if state.journal is None:
        return state.version - bool(state.last_commit is not None and state.last_commit.same_program)
    store = state.journal.store
    first = state.version
    for defined in reversed(store.log.definitions(store.oldest, state.version)):
        if _changed_since(state, defined.version, (name,)):
            return first
        first = defined.version
    before = store.log.definition_at(store.oldest)
    return first if before is None or _changed_since(state, store.oldest, (name,)) else store.oldest


def moment_of(state: DatabaseState, version: int) -> Moment:
    """The commit of a version, with its time and meta if they are kept."""
    return Moment(version) if state.journal is None else moment(state.journal.store, version)
