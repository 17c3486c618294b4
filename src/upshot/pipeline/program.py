"""The pipeline's program, and its definition in a store that may have another one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from upshot.core.errors import DataError, UsageError, unknown_relation
from upshot.core.schema import Role, Schema
from upshot.database.changes import Definition
from upshot.database.database import Database
from upshot.database.durable.records import Records, in_memory
from upshot.database.program.compile import Compiled, compile_text, empty_program
from upshot.database.rules.action_files import read_actions
from upshot.database.rules.actions import Actions, Function
from upshot.pipeline.batch.positions import Positions
from upshot.pipeline.batch.record import recorded_in
from upshot.pipeline.config.config import PipelineConfig
from upshot.pipeline.config.toml_places import placed
from upshot.spark.lake_path import AnyPath, LakePath
from upshot.store.entries import relations_from
from upshot.store.folders import LOG
from upshot.store.log import Log


def compiled_program(config: PipelineConfig) -> Compiled:
    """The program file, compiled on its own, with the pipeline's sources and sinks found among its relations."""
    compiled = compile_text(config.program, empty_program())
    schemas = compiled.visible
    for name, source in config.sources.items():
        if name not in schemas:
            with placed(source.span):
                raise unknown_relation(name, schemas)
        if schemas[name].role is not Role.BASE:
            message = f"`{name}` is a view and cannot have a source"
            raise UsageError(message, code="not-a-base-relation", span=source.span, help="name a base relation")
    for name, sink in config.sinks.items():
        if name not in schemas:
            with placed(sink.span):
                raise unknown_relation(name, schemas)
        if sink.path and sink.format != "console" and name in compiled.plan.on_demand.nervous:
            message = f"`{name}` is nervous: it reports more than its net changes, so no table can store it"
            raise UsageError(
                message, code="nervous-not-applicable", span=sink.span, help="write its `changes`, or make it strict"
            )
    return compiled


def functions_of(config: PipelineConfig, compiled: Compiled) -> dict[str, Function]:
    """The functions of the file of actions; raises if one that an active rule calls is missing."""
    found = read_actions(config.actions) if config.actions else {}
    actions = Actions()
    for name, function in found.items():
        actions.register(name, function)
    for rule in compiled.rules.rules.values():
        actions.require(rule)
    return found


def take_on(database: Database, config: PipelineConfig, compiled: Compiled) -> Definition:
    """Make the file the store's program. Views and active rules that it no longer has are dropped; base relations stay,
    with their rows, so that a source that is added again continues at its position."""
    schemas = compiled.visible
    refuse_other_columns(database.schemas, schemas)
    rules = {rule.name for rule in compiled.checked.rules}
    # First: the rules may not fit the new views.
    _drop(database, [name for name in database.rules if name not in rules])
    definition = database.define(config.program)
    _drop(database, [n for n, each in database.schemas.items() if n not in schemas and each.role is not Role.BASE])
    return definition


def _drop(database: Database, names: list[str]) -> None:
    """Drop the relations, those first that nothing else uses."""
    while names:
        remaining = [name for name in names if not _dropped(database, name)]
        if len(remaining) == len(names):
            break
        names = remaining


def refuse_other_columns(before: Mapping[str, Schema], after: Mapping[str, Schema]) -> None:
    """Raise if a base relation of the store would get other columns, with all differences."""
    differ = [
        f"{before[name]} becomes {schema}"
        for name, schema in after.items()
        if name in before and before[name].role is Role.BASE and before[name].columns != schema.columns
    ]
    if differ:
        raise DataError(
            f"the program changes stored base relations: {'; '.join(differ)}",
            code="schema-change",
            help="use another relation name, or start with an empty `state`",
        )


def _dropped(database: Database, name: str) -> bool:
    try:
        database.drop(name)
    except UsageError as error:
        if error.code != "relation-in-use":
            raise
        return False
    return True


@dataclass(frozen=True, slots=True)
class StoredRelations:
    """The relations of a store, and the positions of its sources."""

    schemas: Mapping[str, Schema]
    positions: Positions
    records: Callable[[str], Records] | None = None
    """the records of a store on a lake, by kind; the journals of sources are among them"""


def stored(store: AnyPath, session: Any = None) -> StoredRelations:
    """The contents of a store, which may be in use meanwhile; empty if there is no store."""
    if not isinstance(store, LakePath):
        return _stored_in(store) if (store / LOG).exists() else StoredRelations({}, {})
    from upshot.store.lake import RECORDS, load  # noqa: PLC0415 - imports Arrow

    with TemporaryDirectory() as folder:
        if not (store / RECORDS / "_delta_log").exists():
            return StoredRelations({}, {}, lambda kind: Records(kind, *in_memory()))
        load(session, store, Path(folder))
        found, log = _stored_in(Path(folder)), Log(Path(folder), read_only=True)
        try:
            kept = {kind: log.records(kind) for kind in log.kinds_of_records()}
        finally:
            log.close()
    write, _ = in_memory()
    return replace(found, records=lambda kind: Records(kind, write, lambda kind: kept.get(kind, {})))


def _stored_in(store: Path) -> StoredRelations:
    log = Log(store, read_only=True)
    try:
        definition, meta = log.definition_at(log.last_version()), log.last_meta()
    finally:
        log.close()
    found = relations_from(definition.relations) if definition else {}
    schemas = {name: relation.schema for name, relation in found.items() if relation.visible}
    last = recorded_in(None if meta is None else json.loads(meta))
    return StoredRelations(schemas, last.positions if last else {})
