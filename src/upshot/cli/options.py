"""The arguments and options of the commands: one declaration each, and records of those that go together.

`command` takes them to `typer`: a parameter that is a record stands for its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from upshot.cli.output.outcome import finish
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import EngineName, Format
from upshot.core.search_bounds import Bounds

_BOUNDS = Bounds()

ProgramFile = Annotated[
    Path, typer.Argument(metavar="FILE", show_default=False, help="The program; - reads standard input.")
]
FactDir = Annotated[
    Path | None,
    typer.Option("--fact-dir", "-F", metavar="DIR", help="Directory of the .input fact files [default: .]."),
]
ChangeFile = Annotated[
    Path,
    typer.Option(
        "--changes", "-c", metavar="FILE", help="Transactions, one JSON object per line; - reads standard input."
    ),
]
ViewName = Annotated[
    str | None, typer.Option("--view", "-v", metavar="VIEW", help="Print only the rules of this view.")
]
ActionFile = Annotated[
    Path | None,
    typer.Option(
        "--functions",
        "--actions",
        metavar="FILE",
        help="Python file with the functions that rules call, in `@f(…)` or `do call f(…)`.",
    ),
]
EngineOption = Annotated[
    EngineName, typer.Option("--engine", help="The engine. auto is local; for demo, local and then Spark.")
]
IgnoredEngine = Annotated[EngineName, typer.Option("--engine", help="Has no effect: this command runs no engine.")]
FormatOption = Annotated[Format, typer.Option("--format", help="Output format of results and errors.")]
DatabaseFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE|DIR", show_default=False, help="The program (- for standard input) or a database directory."
    ),
]
ChangesOption = Annotated[
    Path | None,
    typer.Option(
        "--changes", "-c", metavar="FILE", help="Transactions, one JSON object per line; - reads standard input."
    ),
]
StoreDir = Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="The database directory.")]
Picture = Annotated[
    Path | None, typer.Option("--svg", metavar="FILE", help="Write the explanation as an SVG picture; - prints it.")
]
Instances = Annotated[
    int | None,
    typer.Option("--bounds", metavar="N", min=1, help="Search at most N rule instances [default: 250,000]."),
]
FactText = Annotated[
    str, typer.Argument(metavar="ROW", show_default=False, help="The row, written as a fact: 'closure(1, 3)'.")
]


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """A program over its fact files, or a database directory; the functions that its rules call; its engine."""

    file: DatabaseFile
    fact_dir: FactDir = None
    actions: ActionFile = None
    engine: EngineOption = EngineName.AUTO


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """A search for realizations."""

    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Print at most N realizations [default: all].")
    ] = None
    frozen: Annotated[
        list[str] | None,
        typer.Option(
            "--frozen",
            metavar="RELATION",
            help="Do not change this relation. +R forbids inserts only, -R deletes only. Repeatable.",
        ),
    ] = None
    cost: Annotated[
        list[str] | None,
        typer.Option(
            "--cost",
            metavar="RELATION=N",
            help="Cost of one change [default: 1]. +R=N for inserts only, -R=N for deletes only. Repeatable.",
        ),
    ] = None
    new_values: Annotated[
        int, typer.Option("--new-values", metavar="N", min=0, help="At most N fresh values per realization.")
    ] = _BOUNDS.new_constants
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0, help="Time limit of the search, in seconds.")
    ] = _BOUNDS.seconds
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", min=0, help="Follow at most N nested rules or repairs.")
    ] = _BOUNDS.rounds
    size: Annotated[
        int | None,
        typer.Option("--size", metavar="N", min=0, help="At most N base changes per realization [default: no limit]."),
    ] = None
    constants: Annotated[
        list[str] | None,
        typer.Option("--constant", metavar="VALUE", help="Also try this value where any value is allowed. Repeatable."),
    ] = None
    least: Annotated[
        bool,
        typer.Option("--least-side-effects", hidden=True, help="Like --prefer, but find all realizations first."),
    ] = False
    prefer: Annotated[
        str | None,
        typer.Option(
            "--prefer",
            metavar="OBJECTIVE",
            help="least_side_effects: print the realizations that change the fewest other rows of views first.",
        ),
    ] = None
    apply: Annotated[
        bool, typer.Option("--apply", help="Commit the first realization. Requires a database directory.")
    ] = False
    values: Annotated[
        list[str] | None,
        typer.Option("--value", metavar="?N=VALUE", help="With --apply: the value for placeholder ?N. Repeatable."),
    ] = None


@dataclass(frozen=True, slots=True)
class WhyNotOptions:
    """The bounds of an explanation of a missing row."""

    depth: Annotated[
        int, typer.Option("--depth", metavar="N", min=1, help="Explain missing rows of views up to this depth.")
    ] = 1
    fixes: Annotated[
        int, typer.Option("--fixes", metavar="N", min=0, help="Find at most N realizations that insert the row.")
    ] = 3
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="S", min=0, help="Time limit for --fixes [default: 2, 30 on Spark]."),
    ] = None
    bounds: Instances = None


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """A connection to a service and a copy of one of its views."""

    where: Annotated[
        str | None,
        typer.Option("--where", metavar="LITERAL", help="Follow only rows that match, as in 'closure(1, Y)'."),
    ] = None
    since: Annotated[
        int | None,
        typer.Option("--since", min=0, metavar="VERSION", help="Start after this version, without a snapshot."),
    ] = None
    every: Annotated[
        float | None, typer.Option("--every", metavar="SECONDS", help="Print at most one net change per interval.")
    ] = None
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", help="Save the copy to this file and resume from it.")
    ] = None
    once: Annotated[bool, typer.Option("--once", help="Print the current rows and exit.")] = False
    ca: Annotated[Path | None, typer.Option("--ca", metavar="FILE", help="Trusted CA certificates, PEM.")] = None
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow the token to be sent without TLS.")] = False


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """A service: its program, its addresses, who may reach it, what it keeps and what it accepts."""

    file: ProgramFile
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="Database directory [default: memory only].")
    ] = None
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, typer.Option("--port", "-p", metavar="N", min=0, max=65535, help="Port to listen on; 0 takes a free port.")
    ] = 8000
    tokens: Annotated[
        Path | None, typer.Option("--tokens", metavar="FILE", help="Token file, written by `upshot token`.")
    ] = None
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="TLS certificate chain, PEM.")] = (
        None
    )
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="TLS private key, PEM.")] = None
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow a public address without tokens or TLS.")] = False
    files: Annotated[
        Path | None, typer.Option("--files", metavar="DIR", help="The only directory that .input may read from.")
    ] = None
    actions: ActionFile = None
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", metavar="NAME", help="Accept this Host name. Repeatable.")
    ] = None
    allow_origin: Annotated[
        list[str] | None,
        typer.Option("--allow-origin", metavar="ORIGIN", help="Accept browser sessions from this origin. Repeatable."),
    ] = None
    webhook_allow: Annotated[
        list[str] | None,
        typer.Option("--webhook-allow", metavar="HOST", help="Allow webhooks to this host. Repeatable."),
    ] = None
    webhook_insecure: Annotated[
        bool, typer.Option("--webhook-insecure", help="Allow webhooks over http and to private addresses.")
    ] = False
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            metavar="AMOUNT",
            help="History to keep: N commits, all, or commits=N,bytes=N,age=7d [default: 1,000,000 commits, 4 GiB].",
        ),
    ] = None
    keep_answers: Annotated[
        int,
        typer.Option(
            "--keep-answers",
            metavar="N",
            min=0,
            help="Keep answers of repeated queries current, at most N rows; 0 keeps none.",
        ),
    ] = 100_000
    max_body: Annotated[int, typer.Option("--max-body", metavar="N", min=1, help="Maximum request size, in bytes.")] = (
        8 << 20
    )
    max_rows: Annotated[int, typer.Option("--max-rows", metavar="N", min=1, help="Maximum rows per response.")] = (
        100_000
    )
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", metavar="S", min=0.01, help="Time limit per request, in seconds.")
    ] = 10.0
    max_queue: Annotated[
        int, typer.Option("--max-queue", metavar="N", min=1, help="Maximum length of the write queue.")
    ] = 1_000
    max_subscribers: Annotated[
        int, typer.Option("--max-subscribers", metavar="N", min=1, help="Maximum number of subscribers.")
    ] = 10_000
    max_webhooks: Annotated[
        int, typer.Option("--max-webhooks", metavar="N", min=0, help="Maximum number of webhook subscriptions.")
    ] = 1_000
    engine: Annotated[EngineName, typer.Option("--engine", help="The engine; auto is local.")] = EngineName.AUTO


@dataclass(frozen=True, slots=True)
class TokenOptions:
    """A token: the rights it gives, and the file that has its hash."""

    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="Name of the token, used in logs.")]
    tokens: Annotated[
        Path, typer.Option("--tokens", metavar="FILE", show_default=False, help="Token file to add the hash to.")
    ]
    read: Annotated[
        list[str] | None,
        typer.Option(
            "--read",
            metavar="NAMES",
            help="Relations, views, constraints and rules that it may read, or * for all. Repeatable.",
        ),
    ] = None
    write: Annotated[
        list[str] | None,
        typer.Option("--write", metavar="NAMES", help="Relations that it may change, or * for all. Repeatable."),
    ] = None
    subscribe: Annotated[
        bool, typer.Option("--subscribe/--no-subscribe", help="Allow subscriptions to what it may read.")
    ] = True
    admin: Annotated[bool, typer.Option("--admin", help="Allow commit metadata and webhooks of other tokens.")] = False


def command(body: Callable[..., int]) -> Callable[..., None]:
    """A command for `typer` of a function that takes a terminal and options and returns the exit code.

    A record of options stands for its fields. Every command has `--format`, which makes the terminal.
    """
    hints = get_type_hints(body, include_extras=True)
    records: dict[str, type] = {}
    parameters: list[Parameter] = []
    for name, parameter in signature(body).parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and is_dataclass(kind):
            records[name] = kind
            parameters += _fields(kind)
        elif kind is not Terminal:
            parameters.append(_keyword(name, kind, parameter.default))
    parameters.append(_keyword("format", FormatOption, Format.TEXT))

    def run(*, format: Format, **values: Any) -> None:
        options = {
            name: kind(**{each.name: values.pop(each.name) for each in fields(kind)}) for name, kind in records.items()
        }
        finish(lambda terminal: body(terminal, **options, **values), format)

    run.__name__, run.__doc__ = body.__name__, body.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _fields(record: type) -> list[Parameter]:
    hints = get_type_hints(record, include_extras=True)
    return [
        _keyword(each.name, hints[each.name], Parameter.empty if each.default is MISSING else each.default)
        for each in fields(record)
    ]


def _keyword(name: str, kind: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
