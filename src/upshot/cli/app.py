"""The commands and their options. What a command does is imported when it runs, so that `--help` stays instant."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from upshot.cli.asking import repairs, update, what_if, why, why_changed, why_not
from upshot.cli.input.requests import RequestCommand
from upshot.cli.options import (
    ActionFile,
    ChangeFile,
    DatabaseFile,
    EngineOption,
    FactDir,
    FormatOption,
    IgnoredEngine,
    ProgramFile,
    ViewName,
)
from upshot.cli.output.outcome import finish
from upshot.cli.output.terminal import Terminal
from upshot.cli.serving import serve, token
from upshot.cli.settings import EngineName, ExportTarget, Format, OnError
from upshot.strategies.names import WITH_RULES

app = typer.Typer(
    help="Keep recursive views exact: every change of your tables returns the exact changes of the views.",
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
def demo(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The demo to run.")] = "permissions",
    list_: Annotated[bool, typer.Option("--list", help="List the demos and exit.")] = False,
    engine: EngineOption = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Run a demo: transactions on generated data and the changes of recursive views."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.demo import demo

        return demo(terminal, name, engine, list_only=list_)

    finish(body, format)


@app.command()
def check(
    file: ProgramFile,
    actions: ActionFile = None,
    engine: IgnoredEngine = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Report all errors and warnings of a program."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.check import check

        return check(terminal, file, actions)

    finish(body, format)


@app.command()
def run(
    file: DatabaseFile,
    fact_dir: FactDir = None,
    output_dir: Annotated[
        Path,
        typer.Option("--output-dir", "-D", metavar="DIR", help="Directory for .output relations; - prints them."),
    ] = Path("."),
    actions: ActionFile = None,
    engine: EngineOption = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Evaluate a program once: read the fact files, write the output relations."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.run import run

        return run(terminal, file, fact_dir, output_dir, actions, engine)

    finish(body, format)


@app.command()
def watch(
    file: DatabaseFile,
    changes: ChangeFile,
    fact_dir: FactDir = None,
    on_error: Annotated[
        OnError, typer.Option("--on-error", help="Stop at an invalid transaction, or continue.")
    ] = OnError.STOP,
    actions: ActionFile = None,
    engine: EngineOption = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Commit transactions one by one and print the view changes of each."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.watch import watch

        return watch(terminal, file, fact_dir, changes, on_error, actions, engine)

    finish(body, format)


@app.command()
def rewrite(
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
        str | None, typer.Option("--query", "-q", metavar="QUERY", help="The query for magic, as in 'closure(1, Y)'.")
    ] = None,
    engine: IgnoredEngine = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Print the rules that compute the changes of views."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.rewrite import rewrite

        return rewrite(terminal, file, strategy, view, query)

    finish(body, format)


@app.command()
def export(
    target: Annotated[ExportTarget, typer.Argument(metavar="TARGET", show_default=False, help="postgres.")],
    file: ProgramFile,
    schema: Annotated[
        str,
        typer.Option(
            "--schema", metavar="NAME", help="The schema of the tables. NAME_changes and NAME_internal are created too."
        ),
    ] = "upshot",
    format: FormatOption = Format.TEXT,
) -> None:
    """Print a script of tables and triggers with which PostgreSQL maintains the views."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.export import export

        return export(terminal, target, file, schema)

    finish(body, format)


@app.command()
def explain(
    file: DatabaseFile,
    view: Annotated[
        str | None, typer.Option("--view", "-v", metavar="VIEW", help="Explain only this view or active rule.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print the rules and plans of every view.")] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the dependency graph as SVG; - prints it.")
    ] = None,
    fact_dir: FactDir = None,
    actions: ActionFile = None,
    engine: EngineOption = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Explain how each view is maintained and why, and when each active rule fires."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.explain import explain

        return explain(terminal, file, fact_dir, view, svg, actions, engine, full=full)

    finish(body, format)


app.command()(why)
app.command("why-not")(why_not)
app.command("why-changed")(why_changed)
app.command("what-if", cls=RequestCommand)(what_if)
app.command(cls=RequestCommand)(update)
app.command(cls=RequestCommand)(repairs)


@app.command()
def models(
    file: ProgramFile,
    fact_dir: FactDir = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Print at most this many models; 0: all.")] = 10,
    functions: ActionFile = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Print the perfect models of a program with rules such as `s(X) | t(X) :- r(X).`"""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.models import models

        return models(terminal, file, fact_dir, limit or None, functions)

    finish(body, format)


@app.command()
def verify(
    file: DatabaseFile,
    fact_dir: FactDir = None,
    changes: Annotated[
        Path | None,
        typer.Option(
            "--changes", "-c", metavar="FILE", help="Commit these transactions first; - reads standard input."
        ),
    ] = None,
    actions: ActionFile = None,
    engine: EngineOption = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Recompute every view and compare it with the stored rows. FILE is a program or a database directory."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.verify import verify

        return verify(terminal, file, fact_dir, changes, actions, engine)

    finish(body, format)


@app.command()
def query(
    file: DatabaseFile,
    text: Annotated[
        str, typer.Argument(metavar="QUERY", show_default=False, help="A rule body with $x, or a SELECT with :x.")
    ],
    values: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="The value of a parameter.")
    ] = None,
    fact_dir: FactDir = None,
    version: Annotated[
        int | None, typer.Option("--at", metavar="VERSION", help="Answer from this version of a database directory.")
    ] = None,
    functions: ActionFile = None,
    engine: EngineOption = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Print the answers to a query. FILE is a program or a database directory."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.query import query

        return query(terminal, file, text, values or (), fact_dir, version, engine, functions)

    finish(body, format)


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="A new or empty directory.")],
    program: Annotated[
        Path | None, typer.Option("--program", metavar="FILE", help="Define this program in the database.")
    ] = None,
    engine: IgnoredEngine = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Create a database directory."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.stores import init

        return init(terminal, directory, program)

    finish(body, format)


@app.command()
def warm(engine: IgnoredEngine = EngineName.AUTO, format: FormatOption = Format.TEXT) -> None:
    """Compile the engine now and keep the machine code for later runs."""

    def body(terminal: Terminal) -> int:
        from upshot.engine.local.warm import main as compile_kernel

        compile_kernel()
        return 0

    finish(body, format)


@app.command()
def backup(
    store: Annotated[Path, typer.Argument(metavar="STORE", show_default=False, help="The database directory.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", show_default=False, help="A new or empty directory.")],
    engine: IgnoredEngine = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Copy a database directory as of one commit. The database may be in use."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.stores import backup

        return backup(terminal, store, target)

    finish(body, format)


@app.command("accept-loss")
def accept_loss(
    store: Annotated[Path, typer.Argument(metavar="STORE", show_default=False, help="The database directory.")],
    engine: IgnoredEngine = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Continue from the last readable version of a damaged database (error `store-damaged`). Later commits are lost."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.stores import accept_loss

        return accept_loss(terminal, store)

    finish(body, format)


@app.command()
def repl(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", show_default=False, help="A program to load first, or a database directory."),
    ] = None,
    fact_dir: FactDir = None,
    actions: ActionFile = None,
    engine: EngineOption = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Start an interactive session: type rules, changes and queries."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.repl import repl

        return repl(terminal, file, fact_dir, actions, engine)

    finish(body, format)


@app.command()
def follow(
    url: Annotated[
        str, typer.Argument(metavar="URL", show_default=False, help="The URL of a service started by `upshot serve`.")
    ],
    view: Annotated[str, typer.Argument(metavar="VIEW", show_default=False, help="The relation or view to follow.")],
    where: Annotated[
        str | None, typer.Option("--where", metavar="LITERAL", help="Only rows that match, as in 'closure(1, Y)'.")
    ] = None,
    since: Annotated[
        int | None,
        typer.Option("--since", min=0, metavar="VERSION", help="Start after this version, without a snapshot."),
    ] = None,
    every: Annotated[
        float | None, typer.Option("--every", metavar="SECONDS", help="Print at most one net change per interval.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", help="Save the copy to this file and resume from it.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the current rows and exit.")] = False,
    ca: Annotated[Path | None, typer.Option("--ca", metavar="FILE", help="Trusted CA certificates, PEM.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow the token to be sent without TLS.")] = False,
    engine: IgnoredEngine = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Print a served view, then the changes of each commit. Set UPSHOT_TOKEN if the service needs a token."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.follow import follow

        options = {"where": where, "since": since, "every": every, "state": state, "ca": ca}
        return follow(terminal, url, view, insecure=insecure, once=once, **options)  # type: ignore[arg-type]

    finish(body, format)


app.command()(serve)
app.command()(token)

_ANYTHING: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command(context_settings=_ANYTHING)
def bench(
    context: typer.Context,
    engine: IgnoredEngine = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Run the benchmarks of a source checkout. Other arguments are passed to them."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.bench import bench

        return bench(context.args)

    finish(body, format)


# ---- pipelines ------------------------------------------------------------------------------------------

pipeline = typer.Typer(
    help="Maintain views over tables of a data lake, on Spark.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(pipeline, name="pipeline")


@pipeline.command("run")
def pipeline_run(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="The pipeline file (TOML).")],
    once: Annotated[bool, typer.Option("--once", help="Exit when the sources have no new data.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the program, sources and sinks, and print the plan. Run nothing.")
    ] = False,
    engine: Annotated[
        EngineName | None, typer.Option("--engine", help="The engine for views [default: from the file].")
    ] = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Run a pipeline until stopped. Each batch is one transaction, applied exactly once."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.pipeline import run

        return run(terminal, file, engine, once=once, dry_run=dry_run)

    finish(body, format)
