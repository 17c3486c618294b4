"""Plan a pipeline without running it: nothing is made or changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from upshot.core.errors import DataError, Error
from upshot.core.schema import Role, Schema
from upshot.database.budget import memory_budget
from upshot.database.program.compile import Compiled
from upshot.engine.limits import in_bytes
from upshot.pipeline.config.config import PipelineConfig
from upshot.pipeline.config.toml_places import placed
from upshot.pipeline.program import compiled_program, refuse_other_columns, stored
from upshot.pipeline.session import delta_support
from upshot.pipeline.sinks import open_sinks
from upshot.pipeline.sinks.catch_up import held_version, read_standings
from upshot.pipeline.sinks.console import print_lines
from upshot.pipeline.sinks.sink import refuse_schema
from upshot.pipeline.sources import open_sources
from upshot.plan.pivot import decomposition


@dataclass(frozen=True, slots=True)
class PlannedView:
    name: str
    recursive: bool
    strategy: str
    reasons: tuple[str, ...]
    decomposition: str
    """how Spark cuts the recursion into parts, or why it does not; empty for views that are not recursive"""


@dataclass(frozen=True, slots=True)
class PlannedSink:
    view: str
    place: str
    holds: int | None
    """the version that is there; None for a sink that will be created"""


@dataclass(frozen=True, slots=True)
class DryRun:
    """The plan of a pipeline: its views with their strategies, its sources and its sinks."""

    pipeline: str
    engine: str
    delta: str
    """the reader and writer of Delta tables, if there are any: spark or deltalake"""
    sources: Mapping[str, tuple[str, ...]]
    """notes by relation"""
    views: tuple[PlannedView, ...]
    sinks: tuple[PlannedSink, ...]
    unfed: tuple[str, ...]
    """base relations that no source feeds"""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"pipeline {self.pipeline}: ok", f"engine {self.engine}"]
        lines += [f"delta tables through {self.delta}"] if self.delta else []
        for name, notes in self.sources.items():
            lines.append(f"source {name}: ok")
            lines += [f"  {note}" for note in notes]
        lines += [f"relation {name}: no source, only facts from the program" for name in self.unfed]
        for view in self.views:
            lines.append(f"view {view.name}: {'recursive, ' * view.recursive}strategy {view.strategy}")
            lines += [f"  because {reason}" for reason in view.reasons]
            how = view.decomposition.rstrip().splitlines()
            lines += [f"  on Spark {how[0]}", *(f"    {line.strip()}" for line in how[1:])] if how else []
        for sink in self.sinks:
            there = "will be created" if sink.holds is None else f"has version {sink.holds}"
            lines.append(f"sink {sink.view}: {sink.place}, {there}")
        return "\n".join(lines)


def dry_run(config: PipelineConfig, session: Any) -> DryRun:
    """Check program, sources and sinks as a run would, and plan the views. Raises the errors that a run would raise."""
    compiled = compiled_program(config)
    schemas = compiled.visible
    # Before the sources: so their journals are at least as long as the store has read.
    before = stored(config.state / "store", session)
    refuse_other_columns(before.schemas, schemas)
    delta = delta_support(session, config)
    mistakes: list[Error] = []
    sources: dict[str, tuple[str, ...]] = {}
    for name, source in open_sources(config, schemas, delta, before.records).items():
        with _noted(mistakes):
            sources[name] = source.check(session, before.positions.get(name))
    standings = read_standings(config.state / "sinks.json")
    sinks = []
    for sink in open_sinks(config, session, config.delta, standings, print_lines):
        with _noted(mistakes), placed(config.sinks[sink.view].span):
            refuse_schema(sink, schemas[sink.view])
            sinks.append(PlannedSink(sink.view, sink.place, held_version(sink, standings.get(sink.place))))
    _refuse(mistakes)
    return DryRun(
        config.name,
        _engine(config),
        delta if _has_delta(config) else "",
        sources,
        _views(compiled),
        tuple(sinks),
        _unfed(config, schemas),
    )


@contextmanager
def _noted(mistakes: list[Error]) -> Iterator[None]:
    """Collect the errors of the block, so that the other checks run all the same."""
    try:
        yield
    except Error as error:
        mistakes.append(error)


def _refuse(mistakes: list[Error]) -> None:
    if len(mistakes) == 1:
        raise mistakes[0]
    if mistakes:
        raise DataError(
            f"{len(mistakes)} errors\n" + "\n".join(map(str, mistakes)),
            code="several-mistakes",
            help="fix them all, then try again",
        )


def _has_delta(config: PipelineConfig) -> bool:
    return "delta" in {source.format for source in config.sources.values()} | {
        sink.format for sink in config.sinks.values()
    }


def _engine(config: PipelineConfig) -> str:
    if config.engine != "auto":
        return config.engine
    return f"auto: local up to {in_bytes(memory_budget(config.memory))}, Spark beyond"


def _views(compiled: Compiled) -> tuple[PlannedView, ...]:
    """The views in the order in which they are brought up to date."""
    plan = compiled.plan
    return tuple(
        PlannedView(
            view, component.recursive, plan.strategies[view].strategy, tuple(plan.strategies[view].reasons), how
        )
        for component in plan.components
        for how in (str(decomposition(component, plan.normal)) if component.recursive else "",)
        for view in component.views
        if view in compiled.visible
    )


def _unfed(config: PipelineConfig, schemas: Mapping[str, Schema]) -> tuple[str, ...]:
    base = [name for name, schema in schemas.items() if schema.role is Role.BASE]
    return tuple(name for name in base if name not in config.sources)
