"""The commands and their options. What a command does is imported when it runs, so that `--help` stays instant."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from upshot.cli.options import (
    ActionFile,
    ChangeFile,
    ChangesOption,
    DatabaseOptions,
    EngineOption,
    FactDir,
    FactText,
    FollowOptions,
    IgnoredEngine,
    Instances,
    Picture,
    ProgramFile,
    SearchOptions,
    ServeOptions,
    StoreDir,
    TokenOptions,
    ViewName,
    WhyNotOptions,
    command,
)
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import ENGINE_FAILED, OK, EngineName, ExportTarget, OnError
from upshot.strategies.names import WITH_RULES

_ROW = re.compile(r"\s*[+-]\s*[A-Za-z_?][\w.]*\s*\(.*\)\s*\.?\s*", re.DOTALL)


class RequestCommand(TyperCommand):
    """A command whose arguments may begin with a minus: brackets distinguish rows from options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rows = [text for text in args if _ROW.fullmatch(text)]
        rest = [text for text in args if text != "--" and not _ROW.fullmatch(text)]
        return super().parse_args(ctx, [*rest, *(["--", *rows] if rows else [])])


app = typer.Typer(
    help="Maintain recursive views: every transaction on your tables returns the exact changes of the views.",
    epilog="Exit codes: 0 success, 1 invalid program or data, 2 wrong usage, 3 engine failure.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of the command line `argv` (without the program's name), by default that of this process."""
    _open_streams()
    try:
        app(args=None if argv is None else list(argv), prog_name="upshot")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _open_streams() -> None:
    """All three streams are there, and what we print is UTF-8 whatever the locale says: the formats are."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"upshot {version('upshot')}")
        except PackageNotFoundError:
            typer.echo("upshot (not installed)")
        raise typer.Exit


@app.callback()
def upshot(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
@command
def demo(
    terminal: Terminal,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The demo to run.")] = "permissions",
    list_: Annotated[bool, typer.Option("--list", help="List the demos and exit.")] = False,
    engine: EngineOption = EngineName.AUTO,
) -> int:
    """Run a demo: commit transactions on generated data."""
    from upshot.cli.commands.demo import demo

    return demo(terminal, name, engine, list_only=list_)


@app.command()
@command
def check(
    terminal: Terminal, file: ProgramFile, actions: ActionFile = None, engine: IgnoredEngine = EngineName.AUTO
) -> int:
    """Report all errors and warnings of a program."""
    from upshot.cli.commands.check import check

    return check(terminal, file, actions)


@app.command()
@command
def run(
    terminal: Terminal,
    source: DatabaseOptions,
    output_dir: Annotated[
        Path,
        typer.Option("--output-dir", "-D", metavar="DIR", help="Directory for .output relations; - prints them."),
    ] = Path("."),
) -> int:
    """Evaluate a program: read fact files, write output relations."""
    from upshot.cli.commands.run import run

    return run(terminal, source, output_dir)


@app.command()
@command
def watch(
    terminal: Terminal,
    source: DatabaseOptions,
    changes: ChangeFile,
    on_error: Annotated[
        OnError, typer.Option("--on-error", help="Stop at an invalid transaction, or continue.")
    ] = OnError.STOP,
) -> int:
    """Commit transactions one by one and print their view changes."""
    from upshot.cli.commands.watch import watch

    return watch(terminal, source, changes, on_error)


@app.command()
@command
def rewrite(
    terminal: Terminal,
    file: ProgramFile,
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            "-s",
            metavar="STRATEGY",
            help=f"{', '.join(WITH_RULES)}, magic or view-update.",
        ),
    ],
    view: ViewName = None,
    query: Annotated[
        str | None,
        typer.Option("--query", "-q", metavar="QUERY", help="With --strategy magic: the query, as in 'closure(1, Y)'."),
    ] = None,
    engine: IgnoredEngine = EngineName.AUTO,
) -> int:
    """Print the rules that compute the changes of views."""
    from upshot.cli.commands.rewrite import rewrite

    return rewrite(terminal, file, strategy, view, query)


@app.command()
@command
def export(
    terminal: Terminal,
    target: Annotated[
        ExportTarget, typer.Argument(metavar="TARGET", show_default=False, help="The target system: postgres.")
    ],
    file: ProgramFile,
    schema: Annotated[
        str,
        typer.Option(
            "--schema", metavar="NAME", help="The schema of the tables. NAME_changes and NAME_internal are created too."
        ),
    ] = "upshot",
) -> int:
    """Print a PostgreSQL script that maintains the views. It creates tables and triggers."""
    from upshot.cli.commands.export import export

    return export(terminal, target, file, schema)


@app.command()
@command
def explain(
    terminal: Terminal,
    source: DatabaseOptions,
    view: Annotated[
        str | None, typer.Option("--view", "-v", metavar="VIEW", help="Explain only this view or active rule.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print the rules and plans of every view.")] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the dependency graph as SVG; - prints it.")
    ] = None,
) -> int:
    """Explain how each view is maintained. Also print when each active rule fires."""
    from upshot.cli.commands.explain import explain

    return explain(terminal, source, view, svg, full=full)


# ---- questions about rows -------------------------------------------------------------------------------


@app.command()
@command
def why(
    terminal: Terminal,
    source: DatabaseOptions,
    row: FactText,
    every: Annotated[bool, typer.Option("--all", help="Print all derivations, the smallest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Print at most N derivations.")] = 1,
    bounds: Instances = None,
    svg: Picture = None,
) -> int:
    """Print the derivation of a row, down to base facts."""
    from upshot.cli.commands.why import WhyOptions, why

    return why(terminal, source, WhyOptions(row, None if every else limit, bounds), svg)


@app.command("why-not")
@command
def why_not(
    terminal: Terminal, source: DatabaseOptions, row: FactText, options: WhyNotOptions, svg: Picture = None
) -> int:
    """Print why a row is missing, and which changes insert it. For each rule, print the literals that fail."""
    from upshot.cli.commands.why import why_not

    return why_not(terminal, source, row, options, svg)


@app.command("why-changed")
@command
def why_changed(
    terminal: Terminal,
    store: StoreDir,
    row: FactText,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", min=1, help="The version of the commit [default: the last].")
    ] = None,
    bounds: Instances = None,
    svg: Picture = None,
    engine: EngineOption = EngineName.AUTO,
) -> int:
    """Print the derivation that a row gained or lost in a commit."""
    from upshot.cli.commands.why import why_changed

    return why_changed(terminal, DatabaseOptions(store, engine=engine), row, version, bounds, svg)


@app.command("what-if", cls=RequestCommand)
@command
def what_if(
    terminal: Terminal,
    source: DatabaseOptions,
    rows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="+ROW|-ROW...", show_default=False, help="One transaction: '+p(2)' inserts, '-q(3)' deletes."
        ),
    ] = None,
    changes: ChangesOption = None,
) -> int:
    """Print the effects of a transaction without committing it. The effects are view changes, violations and rule
    firings."""
    from upshot.cli.commands.what_if import what_if

    return what_if(terminal, source, rows or (), changes)


@app.command(cls=RequestCommand)
@command
def update(
    terminal: Terminal,
    source: DatabaseOptions,
    request: Annotated[
        list[str],
        typer.Argument(
            metavar="+ROW|-ROW...",
            show_default=False,
            help="'+p(2)' requests that the row exists, '-q(3)' that it does not, '-q(_)' that q has no rows.",
        ),
    ],
    search: SearchOptions,
) -> int:
    """Find base changes that insert or delete rows of views."""
    from upshot.cli.commands.realizations import update

    return update(terminal, source, request, search)


@app.command(cls=RequestCommand)
@command
def repairs(
    terminal: Terminal,
    source: DatabaseOptions,
    search: SearchOptions,
    attempted: Annotated[
        list[str] | None,
        typer.Argument(metavar="+ROW|-ROW...", show_default=False, help="Base changes of one rejected transaction."),
    ] = None,
    changes: Annotated[
        Path | None,
        typer.Option("--changes", "-c", metavar="FILE", help="Rejected transactions, one JSON object per line."),
    ] = None,
    constraint: Annotated[
        str | None, typer.Option("--constraint", metavar="NAME", help="Repair only violations of this constraint.")
    ] = None,
) -> int:
    """Find base changes that repair constraint violations. These are the violations of the stored rows, or those of a
    rejected transaction."""
    from upshot.cli.commands.realizations import Violating, repairs

    return repairs(terminal, source, Violating(attempted or (), changes, constraint), search)


@app.command()
@command
def models(
    terminal: Terminal,
    file: ProgramFile,
    fact_dir: FactDir = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=0, help="Print at most N models; 0 prints all.")
    ] = 10,
    functions: ActionFile = None,
) -> int:
    """Print the perfect models of a program. Its rules may have alternatives in heads, as in `s(X) | t(X) :- r(X).`"""
    from upshot.cli.commands.models import models

    return models(terminal, DatabaseOptions(file, fact_dir, functions, EngineName.LOCAL), limit or None)


@app.command()
@command
def verify(
    terminal: Terminal,
    source: DatabaseOptions,
    changes: Annotated[
        Path | None,
        typer.Option(
            "--changes", "-c", metavar="FILE", help="Commit these transactions first; - reads standard input."
        ),
    ] = None,
) -> int:
    """Recompute every view and compare it with the stored rows."""
    from upshot.cli.commands.verify import verify

    return verify(terminal, source, changes)


@app.command()
@command
def query(
    terminal: Terminal,
    source: DatabaseOptions,
    text: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", show_default=False, help="A rule body with parameters such as $x, or a SELECT with :x."
        ),
    ],
    values: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="The value of a parameter. Repeatable."),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--at", metavar="VERSION", help="Read this earlier version of a database directory.")
    ] = None,
) -> int:
    """Print the answers to a query."""
    from upshot.cli.commands.query import query

    return query(terminal, source, text, values or (), version)


# ---- directories, services, pipelines -------------------------------------------------------------------


@app.command()
@command
def init(
    terminal: Terminal,
    directory: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="A new or empty directory.")],
    program: Annotated[
        Path | None, typer.Option("--program", metavar="FILE", help="Define this program in the database.")
    ] = None,
    engine: IgnoredEngine = EngineName.AUTO,
) -> int:
    """Create a database directory."""
    from upshot.cli.commands.stores import init

    return init(terminal, directory, program)


@app.command()
@command
def warm(terminal: Terminal, engine: IgnoredEngine = EngineName.AUTO) -> int:
    """Compile the engine now, so that later runs start faster."""
    from upshot.engine.local.warm import main as compile_kernel

    return OK if compile_kernel() else ENGINE_FAILED


@app.command()
@command
def backup(
    terminal: Terminal,
    store: StoreDir,
    target: Annotated[Path, typer.Argument(metavar="TARGET", show_default=False, help="A new or empty directory.")],
    engine: IgnoredEngine = EngineName.AUTO,
) -> int:
    """Copy a database directory as of one commit. The database may be in use."""
    from upshot.cli.commands.stores import backup

    return backup(terminal, store, target)


@app.command("accept-loss")
@command
def accept_loss(terminal: Terminal, store: StoreDir, engine: IgnoredEngine = EngineName.AUTO) -> int:
    """Continue a damaged database from its last readable version. Later commits are lost. Use it after the error
    `store-damaged`."""
    from upshot.cli.commands.stores import accept_loss

    return accept_loss(terminal, store)


@app.command()
@command
def repl(
    terminal: Terminal,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE|DIR", show_default=False, help="A program to load first, or a database directory."
        ),
    ] = None,
    fact_dir: FactDir = None,
    actions: ActionFile = None,
    engine: EngineOption = EngineName.AUTO,
) -> int:
    """Start an interactive session for rules, changes and queries."""
    from upshot.cli.commands.repl import repl

    return repl(terminal, file, fact_dir, actions, engine)


@app.command()
@command
def follow(
    terminal: Terminal,
    url: Annotated[
        str, typer.Argument(metavar="URL", show_default=False, help="The URL of a service started by `upshot serve`.")
    ],
    view: Annotated[str, typer.Argument(metavar="VIEW", show_default=False, help="The relation or view to follow.")],
    options: FollowOptions,
    engine: IgnoredEngine = EngineName.AUTO,
) -> int:
    """Print a served view, then the changes of each commit. Set UPSHOT_TOKEN if the service needs a token."""
    from upshot.cli.commands.follow import follow

    return follow(terminal, url, view, options)


@app.command()
@command
def serve(terminal: Terminal, options: ServeOptions) -> int:
    """Serve views over HTTP. Accept transactions and send exact changes to subscribers."""
    from upshot.cli.commands.serve import serve

    return serve(terminal, options)


@app.command()
@command
def token(terminal: Terminal, options: TokenOptions, engine: IgnoredEngine = EngineName.AUTO) -> int:
    """Create a token for `upshot serve`. It is printed once; the file stores only its hash."""
    from upshot.cli.commands.serve import token

    return token(terminal, options)


_ANYTHING: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command(context_settings=_ANYTHING)
@command
def bench(terminal: Terminal, context: typer.Context, engine: IgnoredEngine = EngineName.AUTO) -> int:
    """Run the benchmarks of a source checkout. Other arguments are passed to them."""
    from upshot.cli.commands.bench import bench

    return bench(context.args)


class PipelineGroup(TyperGroup):
    """The commands of `pipeline`; a file in the place of a command gets a hint."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0].endswith(".toml"):
            ctx.fail(f"No such command '{args[0]}'. Did you mean 'pipeline run {args[0]}'?")
        return super().resolve_command(ctx, args)


pipeline = typer.Typer(
    cls=PipelineGroup,
    help="Maintain views over tables of a data lake, on Spark.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(pipeline, name="pipeline")


@pipeline.command("run")
@command
def pipeline_run(
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
    """Run a pipeline until stopped. Each batch is one transaction, applied exactly once."""
    from upshot.cli.commands.pipeline import run

    return run(terminal, file, engine, once=once, dry_run=dry_run)
