"""The arguments and options that several commands share: one declaration each, and records of those that go together.

`command` makes a `typer` command of a function: a parameter that is a record stands for its fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

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
_IgnoredEngine = Annotated[EngineName, typer.Option("--engine", help="Has no effect: this command runs no engine.")]
_FormatOption = Annotated[Format, typer.Option("--format", help="Output format of results and errors.")]
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
    """A program with its fact files, or a database directory; the functions that its rules call; the engine."""

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


def command(body: Callable[..., int]) -> Callable[..., None]:
    """A command for `typer`, made of a function that takes a terminal and options and returns the exit code.

    A record of options stands for its fields. Every command has `--format`, which selects the terminal, and `--engine`,
    which has no effect on a command that does not declare it.
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
    ignores_engine = all(each.name != "engine" for each in parameters)
    if ignores_engine:
        parameters.append(_keyword("engine", _IgnoredEngine, EngineName.AUTO))
    parameters.append(_keyword("format", _FormatOption, Format.TEXT))

    def run(*, format: Format, **values: Any) -> None:
        if ignores_engine:
            del values["engine"]
        options = {
            name: kind(**{each.name: values.pop(each.name) for each in fields(kind)}) for name, kind in records.items()
        }
        finish(lambda terminal: body(terminal, **options, **values), format)

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


_ROW = re.compile(r"\s*[+-]\s*[A-Za-z_?][\w.]*\s*\(.*\)\s*\.?\s*", re.DOTALL)


class RequestCommand(TyperCommand):
    """A command whose arguments may begin with a minus: brackets distinguish rows from options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rows = [text for text in args if _ROW.fullmatch(text)]
        rest = [text for text in args if text != "--" and not _ROW.fullmatch(text)]
        return super().parse_args(ctx, [*rest, *(["--", *rows] if rows else [])])
