"""Open a database directory: restore the state after its last commit. Back it up."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

from upshot.check.names.variables import fresh_name
from upshot.check.program import Clause
from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.errors import UsageError
from upshot.core.fact_text import fact
from upshot.core.rows import Row
from upshot.core.schema import Role, Schema
from upshot.database.constraints import SHOWN
from upshot.database.database import Database
from upshot.database.durable.journal import Journal, usable
from upshot.database.engines import Engine
from upshot.database.program.compile import Compiled, compile_stored, empty_program, without_activations
from upshot.database.program.redefine import redefine
from upshot.database.rules.outbox import recovered_tasks
from upshot.database.state import MAX_FIRINGS, DatabaseState
from upshot.plan.program_plan import strategy_conflicts
from upshot.rewrite.normalize.term_type import too_long_columns
from upshot.spark.lake_path import LakePath, located
from upshot.spark.location import has_scheme
from upshot.store.backup import back_up, pinned_log
from upshot.store.entries import LoggedRelation
from upshot.store.errors import damaged, not_durable
from upshot.store.opening import open_lake_store, open_store
from upshot.store.retention import Retention
from upshot.store.store import Store
from upshot.syntax.ast import Atom, Comparison, Constant, Variable

log = logging.getLogger(__name__)

PROGRAM = "<stored program>"
"""The name of the stored program in messages."""


def open_durable(
    path: str | os.PathLike[str],
    make_engine: Callable[[], Engine],
    max_firings: int = MAX_FIRINGS,
    retention: Retention = Retention(),  # noqa: B008 - immutable
    session: Any = None,
) -> Database:
    """The database in the directory, locked until it is closed. A URI is reached through the session."""
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
            f"`{path}` needs a Spark session",
            code="wrong-argument",
            help="pass one, as in `upshot.connect(uri, spark=session)`, or use a local path",
        )
    return open_lake_store(found.on(session), session, retention)


def _restored(store: Store, make_engine: Callable[[], Engine]) -> DatabaseState:
    recovered = store.recovered
    written = compile_stored(recovered.program, PROGRAM) if recovered.program else empty_program()
    # Earlier versions stored the values of activations in the text; they become rows below.
    is_older = any(t.name not in recovered.relations for rule in written.checked.rules for t in rule.bindings)
    compiled = compile_stored(without_activations(recovered.program), PROGRAM) if is_older else written
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
    state = DatabaseState(
        make_engine,
        engine,
        compiled,
        recovered.version,
        journal=Journal(store, relations),
        identity=store.identity,
    )
    state.outbox = recovered_tasks(state)
    if is_older:
        redefine(state, written)
    state.warnings = (*store.warnings, *_conflicts(compiled), *_too_many_digits(store, state, relations))
    for warning in state.warnings:
        log.warning("%s", warning)
    return state


def _conflicts(compiled: Compiled) -> Iterator[Diagnostic]:
    """A warning for each pair of views with conflicting strategies, which earlier versions accepted."""
    for problem in strategy_conflicts(compiled.checked, compiled.plan.normal):
        yield replace(problem, severity=Severity.WARNING)


def _too_many_digits(
    store: Store, state: DatabaseState, relations: Mapping[str, LoggedRelation]
) -> Iterator[Diagnostic]:
    """A warning for each view whose decimals have more digits than their column declares, which earlier versions
    accepted."""
    compiled = state.compiled
    for view in compiled.visible:
        clauses = [clause for clause in compiled.checked.clauses if clause.head.relation == view]
        schema = compiled.schema(view)
        columns = {place for clause in clauses for place in too_long_columns(clause, schema)}
        if not columns or view not in relations or view in compiled.plan.on_demand.unstored:
            continue
        rows = state.engine.query(*_longer_than_declared(schema, sorted(columns))).sorted()
        if rows:
            shown = (f"`{fact(schema, row)}` {_since(store, relations[view], row)}" for row in rows[:SHOWN])
            more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
            yield Diagnostic(
                "too-many-digits",
                f"`{view}` has rows with more digits than `{schema}` declares: {', '.join(shown)}{more}",
                schema.span,
                help="define the view with more digits, or delete the base rows they depend on; until then they stay",
                severity=Severity.WARNING,
            )


def _longer_than_declared(schema: Schema, columns: Sequence[int]) -> tuple[Schema, list[Clause]]:
    """A query for the rows that have too many digits in one of these columns."""
    wide = replace(schema.widest(), name=fresh_name("longer", {schema.name}))
    variables = tuple(Variable(f"V{place}") for place in range(schema.arity))
    types = {variable.name: type for variable, type in zip(variables, wide.types, strict=True)}
    clauses = []
    for place in columns:
        type = wide.types[place].required()
        bound = Decimal(10) ** (schema.types[place].precision - type.scale)
        for op, limit in ((">=", bound), ("<=", -bound)):
            test = Comparison(op, variables[place], Constant(limit.quantize(Decimal(1).scaleb(-type.scale)), type))
            body = (Atom(schema.name, variables), test)
            clauses.append(Clause(Atom(wide.name, variables), body, {**types, variables[place].name: type}))
    return wide, clauses


def _since(store: Store, relation: LoggedRelation, row: Row) -> str:
    """The version that inserted the row, as far as the log reaches."""
    found = None
    for change in store.log.changes_of(relation.schema.name, store.oldest, store.recovered.version):
        if row in store.rows(relation, change)[0]:
            found = change.version
    return f"of version {found}" if found is not None else f"of version {store.oldest} or before"


def _refuse_missing(compiled: Compiled, stored: AbstractSet[str]) -> None:
    """Raise if the rows of a base relation are missing; views can be computed."""
    for name, schema in compiled.plan.normal.schemas.items():
        if schema.role is Role.BASE and name not in stored:
            raise damaged(f"there are no rows of `{name}`, which the program declares")


# ---- backup --------------------------------------------------------------------------------------------------------


def backup(state: DatabaseState, target: str | os.PathLike[str]) -> int:
    """Copy the database into a new or empty folder; its version there."""
    state.open()
    if state.journal is None:
        raise not_durable("has nothing to back up")
    store = state.journal.store
    return back_up(store.root, target, _pinned(state, store))


@contextmanager
def _pinned(state: DatabaseState, store: Store) -> Iterator[sqlite3.Connection]:
    """The log between two commits, without records that could still be removed."""
    with store.keeping_folders():
        with state.reading():
            store.fetch_all()
            log = pinned_log(store.root)
        with closing(log):
            yield log
