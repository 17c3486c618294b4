"""The options of the query commands: why, why-not, why-changed, what-if, update, repairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from upshot.cli.options import ActionFile, DatabaseFile, EngineOption, FactDir, FormatOption
from upshot.cli.output.outcome import finish
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import EngineName, Format

MostShown = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Show at most N [default: all].")]
Frozen = Annotated[
    list[str] | None,
    typer.Option(
        "--frozen",
        metavar="RELATION",
        help="Do not change this relation. +R forbids inserts only, -R deletes only. Repeatable.",
    ),
]
Cost = Annotated[
    list[str] | None,
    typer.Option(
        "--cost",
        metavar="RELATION=N",
        help="Cost of one change [default: 1]. +R=N for inserts only, -R=N for deletes only. Repeatable.",
    ),
]
NewValues = Annotated[
    int, typer.Option("--new-values", metavar="N", min=0, help="At most N fresh values per realization.")
]
Seconds = Annotated[float, typer.Option("--seconds", metavar="S", min=0, help="Time limit of the search, in seconds.")]
Rounds = Annotated[int, typer.Option("--rounds", metavar="N", min=0, help="At most N nested rules or repairs.")]
Size = Annotated[
    int | None,
    typer.Option("--size", metavar="N", min=0, help="At most N base changes per realization [default: no limit]."),
]
Constants = Annotated[
    list[str] | None,
    typer.Option("--constant", metavar="VALUE", help="Also try this value where any value is allowed. Repeatable."),
]
LeastSideEffects = Annotated[
    bool,
    typer.Option(
        "--least-side-effects", help="Find all realizations, then print those with the fewest side effects first."
    ),
]
Prefer = Annotated[
    str | None,
    typer.Option(
        "--prefer",
        metavar="OBJECTIVE",
        help="least_side_effects: first those whose changes affect the fewest other rows of views.",
    ),
]
Values = Annotated[
    list[str] | None,
    typer.Option("--value", metavar="?N=VALUE", help="With --apply: the value of placeholder ?N. Repeatable."),
]
Apply = Annotated[
    bool, typer.Option("--apply", help="Commit the first realization. FILE must be a database directory.")
]
Picture = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw it as SVG; - prints it.")]
Instances = Annotated[
    int | None,
    typer.Option("--bounds", metavar="N", min=1, help="Search at most N rule instances [default: 250,000]."),
]
FactText = Annotated[
    str, typer.Argument(metavar="ROW", show_default=False, help="The row, written as a fact: 'closure(1, 3)'.")
]


def why(
    file: DatabaseFile,
    row: FactText,
    fact_dir: FactDir = None,
    every: Annotated[bool, typer.Option("--all", help="Print all derivations, smallest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="At most N derivations.")] = 1,
    bounds: Instances = None,
    svg: Picture = None,
    actions: ActionFile = None,
    engine: EngineOption = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Print the derivation of a row, down to base facts."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.why import WhyOptions, why

        asked = WhyOptions(row, None if every else limit, bounds)
        return why(terminal, file, asked, fact_dir, svg, actions, engine)

    finish(body, format)


def why_not(
    file: DatabaseFile,
    row: FactText,
    fact_dir: FactDir = None,
    depth: Annotated[
        int, typer.Option("--depth", metavar="N", min=1, help="Explain missing rows of views up to this depth.")
    ] = 1,
    fixes: Annotated[
        int, typer.Option("--fixes", metavar="N", min=0, help="Find at most N realizations that insert the row.")
    ] = 3,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="S", min=0, help="Time limit for --fixes [default: 2, 30 on Spark]."),
    ] = None,
    bounds: Instances = None,
    svg: Picture = None,
    actions: ActionFile = None,
    engine: EngineOption = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Print why a row is missing: the literals that fail in each rule, and base changes that would insert it."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.why import Showing, why_not

        showing = Showing(depth, fixes, seconds, bounds)
        return why_not(terminal, file, row, fact_dir, showing, svg, actions, engine)

    finish(body, format)


def why_changed(
    store: Annotated[Path, typer.Argument(metavar="STORE", show_default=False, help="The database directory.")],
    row: FactText,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", min=1, help="The version of the commit [default: the last].")
    ] = None,
    bounds: Instances = None,
    svg: Picture = None,
    engine: EngineOption = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Print the derivation that a row gained or lost in a commit, down to the base changes."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.why import why_changed

        return why_changed(terminal, store, row, version, bounds, svg, engine)

    finish(body, format)


def what_if(
    file: DatabaseFile,
    rows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="+ROW|-ROW...", show_default=False, help="One transaction: '+p(2)' inserts, '-q(3)' deletes."
        ),
    ] = None,
    changes: Annotated[
        Path | None,
        typer.Option(
            "--changes", "-c", metavar="FILE", help="Transactions, one JSON object per line; - reads standard input."
        ),
    ] = None,
    fact_dir: FactDir = None,
    actions: ActionFile = None,
    engine: EngineOption = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Print the changes, violations and rule firings of a transaction without committing it."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.what_if import what_if

        return what_if(terminal, file, rows or (), fact_dir, changes, actions, engine)

    finish(body, format)


def update(
    file: DatabaseFile,
    request: Annotated[
        list[str],
        typer.Argument(
            metavar="+ROW|-ROW...",
            show_default=False,
            help="'+p(2)' must be true, '-q(3)' must be false; '-q(_)': all rows of q.",
        ),
    ],
    fact_dir: FactDir = None,
    limit: MostShown = None,
    frozen: Frozen = None,
    cost: Cost = None,
    new_values: NewValues = 2,
    seconds: Seconds = 10,
    rounds: Rounds = 40,
    size: Size = None,
    constants: Constants = None,
    least: LeastSideEffects = False,
    prefer: Prefer = None,
    apply: Apply = False,
    values: Values = None,
    actions: ActionFile = None,
    engine: EngineOption = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Find base changes that insert or delete rows of views."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.realizations import Wishes, update

        bounds = new_values, seconds, rounds, size, constants or ()
        wishes = Wishes(limit, frozen or (), cost or (), *bounds, least, apply, values or (), prefer)
        return update(terminal, file, request, fact_dir, wishes, actions, engine)

    finish(body, format)


def repairs(
    file: DatabaseFile,
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
    fact_dir: FactDir = None,
    limit: MostShown = None,
    frozen: Frozen = None,
    cost: Cost = None,
    new_values: NewValues = 2,
    seconds: Seconds = 10,
    rounds: Rounds = 40,
    size: Size = None,
    constants: Constants = None,
    least: LeastSideEffects = False,
    prefer: Prefer = None,
    apply: Apply = False,
    values: Values = None,
    actions: ActionFile = None,
    engine: EngineOption = EngineName.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Find base changes that repair constraint violations, present ones or those of a rejected transaction."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.realizations import Wishes, repairs

        bounds = new_values, seconds, rounds, size, constants or ()
        wishes = Wishes(limit, frozen or (), cost or (), *bounds, least, apply, values or (), prefer)
        return repairs(terminal, file, attempted or (), changes, constraint, fact_dir, wishes, actions, engine)

    finish(body, format)
