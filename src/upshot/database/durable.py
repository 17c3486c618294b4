"""A database that outlives its process: opened from its folder, as it was after its last commit."""

from __future__ import annotations

import os
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

from upshot.core.errors import UsageError
from upshot.core.schema import Role
from upshot.database.compile import Compiled, compile_text, nothing
from upshot.database.database import Database
from upshot.database.engines import Engine
from upshot.database.journal import Journal, usable
from upshot.database.outbox import recovered_tasks
from upshot.database.state import MAX_FIRINGS, State
from upshot.spark.lake_path import LakePath, located
from upshot.spark.location import has_scheme
from upshot.store import Retention, Store, open_lake_store, open_store
from upshot.store.trouble import damaged

PROGRAM = "<stored program>"
"""What messages call the text that a store gives back."""


def open_durable(
    path: str | os.PathLike[str],
    make_engine: Callable[[], Engine],
    max_firings: int = MAX_FIRINGS,
    retention: Retention = Retention(),  # noqa: B008 - immutable
    session: Any = None,
) -> Database:
    """The database in the folder, with an engine that holds its rows; the folder belongs to it until it is closed. A
    URI is reached through the session."""
    store = _opened(path, retention, session)
    try:
        return Database(make_engine, state=_restored(store, make_engine), max_firings=max_firings)
    except BaseException:
        store.close()
        raise


def _opened(path: str | os.PathLike[str], retention: Retention, session: Any) -> Store:
    if not isinstance(path, str | LakePath) or not has_scheme(path):
        return open_store(path, retention)
    found = located(path)
    if not isinstance(found, LakePath):
        return open_store(found, retention)
    if session is None:
        raise UsageError(
            f"`{path}` is reached by Spark only, and no session was given",
            code="wrong-argument",
            help="pass one, as in `upshot.connect(uri, spark=session)`, or name a folder of this machine",
        )
    return open_lake_store(found.on(session), session, retention)


def _restored(store: Store, make_engine: Callable[[], Engine]) -> State:
    recovered = store.recovered
    compiled = compile_text(recovered.program, nothing(), PROGRAM) if recovered.program else nothing()
    relations = usable(store, compiled)
    _refuse_missing(compiled, relations.keys())
    engine = make_engine()
    try:
        stored = relations.keys() - compiled.plan.on_demand.unstored
        engine.restore(compiled.plan, {name: recovered.saved[name] for name in stored})
        store.tidy()
    except BaseException:
        engine.close()
        raise
    state = State(
        make_engine,
        engine,
        compiled,
        recovered.version,
        journal=Journal(store, relations),
        identity=store.identity,
    )
    state.outbox = recovered_tasks(state)
    return state


def _refuse_missing(compiled: Compiled, stored: AbstractSet[str]) -> None:
    """Views follow from the rest, base relations from nothing."""
    for name, schema in compiled.plan.normal.schemas.items():
        if schema.role is Role.BASE and name not in stored:
            raise damaged(f"there are no rows of `{name}`, which the program declares")
