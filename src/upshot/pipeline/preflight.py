"""Check a pipeline before Spark is started, which takes ten seconds and more."""

from __future__ import annotations

import os
from collections.abc import Mapping

from upshot.core.errors import UsageError
from upshot.database.program.compile import Compiled
from upshot.database.rules.actions import Function
from upshot.pipeline.config.config import PipelineConfig
from upshot.pipeline.config.toml_places import placed
from upshot.pipeline.program import compiled_program, functions_of, refuse_other_columns, stored
from upshot.pipeline.sources.jdbc import secret
from upshot.pipeline.sources.listing import missing
from upshot.spark.lake_path import LakePath


def preflight(config: PipelineConfig) -> tuple[Compiled, Mapping[str, Function]]:
    """The program and the functions its rules call; raises what is wrong with them, with the paths of sinks and with
    what the store holds, as the run would find it later."""
    compiled = compiled_program(config)
    functions = functions_of(config, compiled)
    _refuse_shared_sinks(config)
    if not isinstance(config.state, LakePath):
        refuse_other_columns(stored(config.state / "store").schemas, compiled.visible)
    return compiled, functions


def refuse_absent_sources(config: PipelineConfig) -> None:
    """Raises if there is nothing at the path of a source, or no password for it, and this is the first run. Later ones
    may have sinks to bring up to date before they look at their sources."""
    if isinstance(config.state, LakePath) or (config.state / "store").exists():
        return
    for name, source in config.sources.items():
        with placed(source.span):
            on_disk = source.path and not isinstance(source.path, LakePath)
            if on_disk and not os.path.exists(source.path):
                raise missing(f"path `{source.path}`, the source of `{name}`, does not exist", "check `path`")
            if source.options.get("password_env"):
                secret(source.options["password_env"], name)


def _refuse_shared_sinks(config: PipelineConfig) -> None:
    seen: set[str] = set()
    for sink in config.sinks.values():
        tables = (sink.options.get("table"), sink.options.get("changes_table"))
        for path in map(str, filter(None, (sink.path, sink.changes, *tables))):
            if path in seen:
                message, hint = f"two sinks write to `{path}`", "use a different path for each"
                raise UsageError(message, code="sink-path", span=sink.span, help=hint)
            seen.add(path)
