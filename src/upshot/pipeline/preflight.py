"""Check a pipeline before it runs: most of it before Spark is started, which takes ten seconds and more."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upshot.core.errors import EngineError, UsageError
from upshot.core.span import Span
from upshot.database.program.compile import Compiled
from upshot.database.rules.actions import Function
from upshot.pipeline.config.config import PipelineConfig
from upshot.pipeline.config.toml_places import placed
from upshot.pipeline.program import compiled_program, functions_of, refuse_other_columns, stored
from upshot.pipeline.session import delta_support
from upshot.pipeline.sources.jdbc import secret
from upshot.pipeline.sources.reading.listing import is_draft, missing
from upshot.spark.lake_path import AnyPath, LakePath
from upshot.spark.location import runs_here
from upshot.spark.preflight import refuse_unshared_file, refuse_unshared_folder


def preflight(config: PipelineConfig) -> tuple[Compiled, Mapping[str, Function]]:
    """The program and the functions that its rules call; raises the errors in them, in the paths of sinks and in the
    columns of stored relations, as the run would later."""
    compiled = compiled_program(config)
    functions = functions_of(config, compiled)
    _refuse_shared_sinks(config)
    if not isinstance(config.state, LakePath):
        refuse_other_columns(stored(config.state / "store").schemas, compiled.visible)
    return compiled, functions


def refuse_absent_sources(config: PipelineConfig) -> None:
    """Raise if the path or the password of a source is missing, and this is the first run. Later runs may have to bring
    sinks up to date before they read their sources."""
    if isinstance(config.state, LakePath) or (config.state / "store").exists():
        return
    for name, source in config.sources.items():
        with placed(source.span):
            on_disk = source.path and not isinstance(source.path, LakePath)
            if on_disk and not os.path.exists(source.path):
                raise missing(f"path `{source.path}`, the source of `{name}`, does not exist", "check `path`")
            if source.options.get("password_env"):
                secret(source.options["password_env"], name)


def refuse_unshared_paths(config: PipelineConfig, session: Any) -> None:
    """Raise if Spark's executors do not share a local path of the pipeline: the driver would not find their files. A
    disk that all machines mount is as good as a lake."""
    if runs_here(session):
        return
    for path, span in _written(config):
        if path and not isinstance(path, LakePath):
            with placed(span), _with_help():
                refuse_unshared_folder(session, Path(path))
    by_driver = {"delta"} if delta_support(session, config) == "deltalake" else set()
    for source in config.sources.values():
        if source.path and not isinstance(source.path, LakePath) and source.format not in by_driver:
            file = _any_file(Path(source.path))
            with placed(source.span), _with_help():
                if file is not None:
                    refuse_unshared_file(session, file)


def _written(config: PipelineConfig) -> Iterator[tuple[AnyPath | str, Span | None]]:
    """The paths that Spark writes to, and where the pipeline file names them."""
    yield config.state, config.span
    for source in config.sources.values():
        yield source.quarantine, source.span
    for sink in config.sinks.values():
        yield sink.path, sink.span
        yield sink.changes, sink.span


@contextmanager
def _with_help() -> Iterator[None]:
    """Give errors for paths that are not shared the help for pipeline files."""
    try:
        yield
    except EngineError as error:
        if error.code == "location-not-shared":
            error.help = "give a URI such as `s3a://bucket/folder`, or a path that every machine of the cluster mounts"
        raise


def _any_file(path: Path) -> Path | None:
    """A file at or below the path that is no draft; None if there is none."""
    if path.is_file():
        return path
    found = (Path(folder, name) for folder, _, names in os.walk(path) for name in sorted(names))
    return next((file for file in found if not is_draft(file.name)), None)


def _refuse_shared_sinks(config: PipelineConfig) -> None:
    seen: set[str] = set()
    for sink in config.sinks.values():
        tables = (sink.options.get("table"), sink.options.get("changes_table"))
        for path in map(str, filter(None, (sink.path, sink.changes, *tables))):
            if path in seen:
                message, hint = f"two sinks write to `{path}`", "use a different path for each"
                raise UsageError(message, code="sink-path", span=sink.span, help=hint)
            seen.add(path)
