"""`upshot demo`: transactions on generated data, the same in every run except for the times."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated

import typer
from rich.text import Text

from upshot.cli.demo.dependencies import SUMMARY as DEPENDENCIES
from upshot.cli.demo.dependencies import dependencies
from upshot.cli.demo.inventory import SUMMARY as INVENTORY
from upshot.cli.demo.inventory import inventory
from upshot.cli.demo.permissions import SUMMARY as PERMISSIONS
from upshot.cli.demo.permissions import permissions
from upshot.cli.demo.run import run_demo
from upshot.cli.demo.story import DemoEntry
from upshot.cli.demo.trains import SUMMARY as TRAINS
from upshot.cli.demo.trains import trains
from upshot.cli.engines import missing_for_spark, spark_session
from upshot.cli.options import EngineOption
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK, EngineName
from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import EngineError, UsageError

STORIES = (
    DemoEntry("permissions", PERMISSIONS, permissions, partial(permissions, people=400, documents=5)),
    DemoEntry("dependencies", DEPENDENCIES, dependencies, partial(dependencies, size=2000)),
    DemoEntry("trains", TRAINS, trains, trains),
    DemoEntry("inventory", INVENTORY, inventory, inventory),
)
"""All demos; the first one is the default."""


def demo(
    terminal: Terminal,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The demo to run.")] = "permissions",
    list_: Annotated[bool, typer.Option("--list", help="List the demos and exit.")] = False,
    engine: EngineOption = EngineName.AUTO,
) -> int:
    """With `--engine auto` the demo runs on the local engine, then on Spark if it is available."""
    if list_:
        _list(terminal)
        return OK
    known = {story.name: story for story in STORIES}
    if name not in known:
        listed = ", ".join(f"`{story}`" for story in known)
        raise UsageError(
            f"unknown demo `{name}`", code="unknown-demo", help=did_you_mean(name, known) or f"demos: {listed}"
        )
    story = known[name]
    if engine is EngineName.AUTO:
        return _on_each_engine(terminal, story)
    run_demo(terminal, story.build_for_spark() if engine is EngineName.SPARK else story.build(), engine)
    return OK


def _on_each_engine(terminal: Terminal, story: DemoEntry) -> int:
    run_demo(terminal, story.build(), EngineName.LOCAL)
    missing = missing_for_spark()
    if not missing:
        try:
            with spark_session(terminal):
                run_demo(terminal, story.build_for_spark(), EngineName.SPARK)
                return OK
        except EngineError as error:
            if error.code != "spark-not-started":
                raise
            missing = error.message
    terminal.show(Text(f"Spark is not used: {missing}", style="dim"))
    return OK


def _list(terminal: Terminal) -> None:
    for story in STORIES:
        if terminal.json:
            terminal.data(json.dumps({"name": story.name, "summary": story.summary}))
        else:
            terminal.data(f"{story.name:<14}{story.summary}")
