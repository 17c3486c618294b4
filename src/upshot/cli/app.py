"""The table of commands. The module of a command is imported when it runs, so that `upshot --help` stays instant."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from upshot.cli.options import RequestCommand, command


class CommandEntry(NamedTuple):
    """A command: its function as `module.function` in `cli.commands`, its help, and the class that parses it."""

    function: str
    help: str
    cls: type[TyperCommand] = TyperCommand
    settings: Mapping[str, Any] = {}


COMMANDS = {
    "demo": CommandEntry("demo.demo", "Run a demo: commit transactions on generated data."),
    "check": CommandEntry("check.check", "Report all errors and warnings of a program."),
    "run": CommandEntry("run.run", "Evaluate a program: read fact files, write output relations."),
    "watch": CommandEntry("watch.watch", "Commit transactions one by one and print their view changes."),
    "rewrite": CommandEntry("rewrite.rewrite", "Print the rules that compute the changes of views."),
    "export": CommandEntry(
        "export.export", "Print a PostgreSQL script that maintains the views. It creates tables and triggers."
    ),
    "explain": CommandEntry(
        "explain.explain", "Explain how each view is maintained. Also print when each active rule fires."
    ),
    "why": CommandEntry("why.why", "Print the derivation of a row, down to base facts."),
    "why-not": CommandEntry(
        "why.why_not",
        "Print why a row is missing, and which changes insert it. For each rule, print the literals that fail.",
    ),
    "why-changed": CommandEntry("why.why_changed", "Print the derivation that a row gained or lost in a commit."),
    "what-if": CommandEntry(
        "what_if.what_if",
        "Print the effects of a transaction without committing it. The effects are view changes, violations and rule "
        "firings.",
        RequestCommand,
    ),
    "update": CommandEntry(
        "realizations.update", "Find base changes that insert or delete rows of views.", RequestCommand
    ),
    "repairs": CommandEntry(
        "realizations.repairs",
        "Find base changes that repair constraint violations. These are the violations of the stored rows, or those of "
        "a rejected transaction.",
        RequestCommand,
    ),
    "models": CommandEntry(
        "models.models",
        "Print the perfect models of a program. Its rules may have alternatives in heads, as in `s(X) | t(X) :- r(X).`",
    ),
    "verify": CommandEntry("verify.verify", "Recompute every view and compare it with the stored rows."),
    "query": CommandEntry("query.query", "Print the answers to a query."),
    "init": CommandEntry("stores.init", "Create a database directory."),
    "warm": CommandEntry("stores.warm", "Compile the engine now, so that later runs start faster."),
    "backup": CommandEntry("stores.backup", "Copy a database directory as of one commit. The database may be in use."),
    "accept-loss": CommandEntry(
        "stores.accept_loss",
        "Continue a damaged database from its last readable version. Later commits are lost. Use it after the error "
        "`store-damaged`.",
    ),
    "repl": CommandEntry("repl.repl", "Start an interactive session for rules, changes and queries."),
    "follow": CommandEntry(
        "follow.follow",
        "Print a served view, then the changes of each commit. Set UPSHOT_TOKEN if the service needs a token.",
    ),
    "serve": CommandEntry(
        "serve.serve", "Serve views over HTTP. Accept transactions and send exact changes to subscribers."
    ),
    "token": CommandEntry(
        "serve.token", "Create a token for `upshot serve`. It is printed once; the file stores only its hash."
    ),
    "bench": CommandEntry(
        "bench.bench",
        "Run the benchmarks of a source checkout. Other arguments are passed to them.",
        settings={"allow_extra_args": True, "ignore_unknown_options": True},
    ),
}
PIPELINE_COMMANDS = {
    "run": CommandEntry(
        "pipeline.run", "Run a pipeline until stopped. Each batch is one transaction, applied exactly once."
    ),
}

_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
_OPTIONS: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": None}


class LazyCommand(TyperCommand):
    """A command whose module is imported when it runs or prints its own help."""

    def __init__(self, name: str, entry: CommandEntry) -> None:
        super().__init__(name, help=entry.help)
        self._entry = entry

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        module, _, function = self._entry.function.partition(".")
        body = getattr(import_module(f"upshot.cli.commands.{module}"), function)
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        settings = {**_SETTINGS, **self._entry.settings}
        add = single.command(self.name, cls=self._entry.cls, help=self._entry.help, context_settings=settings)
        add(command(body))
        return get_command(single).make_context(info_name, args, parent, **extra)


class Commands(TyperGroup):
    """The commands of the program."""

    entries = COMMANDS

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {**{name: LazyCommand(name, each) for name, each in self.entries.items()}, **self.commands}


class PipelineCommands(Commands):
    """The commands of `pipeline`; a file in the place of a command gets a hint."""

    entries = PIPELINE_COMMANDS

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0].endswith(".toml"):
            ctx.fail(f"No such command '{args[0]}'. Did you mean 'pipeline run {args[0]}'?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Commands,
    help="Maintain recursive views: every transaction on your tables returns the exact changes of the views.",
    epilog="Exit codes: 0 success, 1 invalid program or data, 2 wrong usage, 3 engine failure.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
    **_OPTIONS,
)
pipeline = typer.Typer(
    cls=PipelineCommands,
    help="Maintain views over tables of a data lake, on Spark.",
    context_settings=_SETTINGS,
    **_OPTIONS,
)
app.add_typer(pipeline, name="pipeline")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name, by default that of this process); return the exit
    code."""
    _open_streams()
    try:
        app(args=None if argv is None else list(argv), prog_name="upshot")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _open_streams() -> None:
    """Open missing streams, and write UTF-8 whatever the locale is: the formats are UTF-8."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"upshot {version('upshot')}")
        except PackageNotFoundError:
            typer.echo("upshot (not installed)")
        raise typer.Exit


@app.callback()
def upshot(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@pipeline.callback()
def _pipeline() -> None:
    pass
