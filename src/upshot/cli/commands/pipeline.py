"""`upshot pipeline run`: run a pipeline file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from upshot.cli.output.changes import commit_to_json, without_log
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK, EngineName
from upshot.database.changes import Changes
from upshot.spark.session import require_spark


def run(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="The pipeline file (TOML).")],
    once: Annotated[bool, typer.Option("--once", help="Exit when the sources have no new data.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the program, sources and sinks, and print the plan. Run nothing.")
    ] = False,
    engine: Annotated[
        EngineName | None, typer.Option("--engine", help="The engine for views [default: from the file].")
    ] = None,
) -> int:
    """With `--format json` the metrics go to stdout; otherwise only the output of console sinks does."""
    require_spark()
    without_log()
    # Imported here, since these need the package `pyspark`.
    from upshot.pipeline.metrics import BatchMetrics  # noqa: PLC0415
    from upshot.pipeline.progress import Display  # noqa: PLC0415
    from upshot.pipeline.run import Pipeline, Watchers  # noqa: PLC0415
    from upshot.pipeline.sinks.console import print_lines  # noqa: PLC0415

    pipeline = Pipeline(file, engine=engine.value if engine is not None else None)
    with Display(terminal.err, moving=not terminal.json and terminal.err.isatty()) as display:
        if dry_run:
            found = pipeline.check()
            terminal.data(json.dumps(found.as_dict(), ensure_ascii=False) if terminal.json else str(found))
            return OK

        def batch(metrics: BatchMetrics) -> None:
            if terminal.json:
                terminal.data(metrics.as_json())
                terminal.out.flush()
            else:
                display.batch(metrics)

        def note(words: str) -> None:
            if not terminal.json:
                display.note(f"note: {words}")

        def console(view: str, version: int, changes: Changes) -> None:
            terminal.data(commit_to_json(version, [(view, changes)]))
            terminal.out.flush()

        print_changes = console if terminal.json else print_lines
        ended = pipeline.run(once=once, watchers=Watchers(batch, display.step, note, print_changes))
        if not terminal.json and not ended.batches:
            display.note(f"no new data; version {ended.version}")
    return OK
