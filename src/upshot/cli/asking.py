"""The options of the commands that ask: why, why-not, why-changed, what-if, update, repairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from upshot.cli.options import ActionFile, DatabaseFile, EngineOption, FactDir, FormatOption
from upshot.cli.output.outcome import finish
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import Engine, Format

MostShown = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many.")]
Frozen = Annotated[
    list[str] | None, typer.Option("--frozen", metavar="RELATION", help="Not to be touched; +R or -R: not so.")
]
Cost = Annotated[
    list[str] | None, typer.Option("--cost", metavar="RELATION=N", help="The price of one change, as in -R=5.")
]
NewValues = Annotated[int, typer.Option("--new-values", metavar="N", min=0, help="How many new values one may need.")]
Seconds = Annotated[float, typer.Option("--seconds", metavar="S", min=0, help="How long to look.")]
Rounds = Annotated[
    int, typer.Option("--rounds", metavar="N", min=0, help="How many rules or repairs may rest on each other.")
]
Size = Annotated[int | None, typer.Option("--size", metavar="N", min=0, help="How many base changes one may have.")]
Constants = Annotated[
    list[str] | None, typer.Option("--constant", metavar="VALUE", help="To be tried where any value would do.")
]
LeastSideEffects = Annotated[
    bool, typer.Option("--least-side-effects", help="Look for all, and show those first that change least else.")
]
Values = Annotated[
    list[str] | None, typer.Option("--value", metavar="?N=VALUE", help="With --apply: the value of a placeholder.")
]
Apply = Annotated[bool, typer.Option("--apply", help="Commit the first one. FILE is the folder of a database.")]
Picture = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw it; - prints the picture.")]
Instances = Annotated[
    int | None,
    typer.Option("--bounds", metavar="N", min=1, help="How many rule instances to look at [default: 250,000]."),
]
FactText = Annotated[
    str, typer.Argument(metavar="ROW", show_default=False, help="The row, as a fact is written: 'closure(1, 3)'.")
]


def why(
    file: DatabaseFile,
    row: FactText,
    fact_dir: FactDir = None,
    every: Annotated[bool, typer.Option("--all", help="All derivations, the smallest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="So many derivations.")] = 1,
    bounds: Instances = None,
    svg: Picture = None,
    actions: ActionFile = None,
    engine: EngineOption = Engine.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Show how a row is derived, down to base facts."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.why import Asked, why

        asked = Asked(row, None if every else limit, bounds)
        return why(terminal, file, asked, fact_dir, svg, actions, engine)

    finish(body, format)


def why_not(
    file: DatabaseFile,
    row: FactText,
    fact_dir: FactDir = None,
    depth: Annotated[
        int, typer.Option("--depth", metavar="N", min=1, help="How deep to look into missing rows of views.")
    ] = 1,
    fixes: Annotated[
        int, typer.Option("--fixes", metavar="N", min=0, help="How many base changes to look for that would help.")
    ] = 3,
    seconds: Annotated[float | None, typer.Option("--seconds", metavar="S", min=0, help="How long to look.")] = None,
    bounds: Instances = None,
    svg: Picture = None,
    actions: ActionFile = None,
    engine: EngineOption = Engine.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Show how near each rule comes to a row that is not there, and what would bring it about."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.why import Showing, why_not

        showing = Showing(depth, fixes, seconds, bounds)
        return why_not(terminal, file, row, fact_dir, showing, svg, actions, engine)

    finish(body, format)


def why_changed(
    store: Annotated[Path, typer.Argument(metavar="STORE", show_default=False, help="The folder of a database.")],
    row: FactText,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", min=1, help="Of which commit [default: the last].")
    ] = None,
    bounds: Instances = None,
    svg: Picture = None,
    engine: EngineOption = Engine.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Show the derivation that a row gained or lost with a commit, down to the base changes."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.why import why_changed

        return why_changed(terminal, store, row, version, bounds, svg, engine)

    finish(body, format)


def what_if(
    file: DatabaseFile,
    rows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="+ROW|-ROW...", show_default=False, help="One transaction: '+p(2)' comes, '-q(3)' goes."
        ),
    ] = None,
    changes: Annotated[
        Path | None,
        typer.Option(
            "--changes", "-c", metavar="FILE", help="Transactions, one JSON object a line; - reads standard input."
        ),
    ] = None,
    fact_dir: FactDir = None,
    actions: ActionFile = None,
    engine: EngineOption = Engine.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Print what a transaction would change, violate and set off, and commit nothing."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.what_if import what_if

        return what_if(terminal, file, rows or (), fact_dir, changes, actions, engine)

    finish(body, format)


def update(
    file: DatabaseFile,
    request: Annotated[
        list[str],
        typer.Argument(metavar="+ROW|-ROW...", show_default=False, help="'+p(2)' is to be there, '-q(3)' is not."),
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
    apply: Apply = False,
    values: Values = None,
    actions: ActionFile = None,
    engine: EngineOption = Engine.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Find the base changes that make rows of views come or go."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.update import update
        from upshot.cli.realizations import Wishes

        bounds = new_values, seconds, rounds, size, constants or ()
        wishes = Wishes(limit, frozen or (), cost or (), *bounds, least, apply, values or ())
        return update(terminal, file, request, fact_dir, wishes, actions, engine)

    finish(body, format)


def repairs(
    file: DatabaseFile,
    attempted: Annotated[
        list[str] | None,
        typer.Argument(metavar="+ROW|-ROW...", show_default=False, help="Base changes that would be rejected."),
    ] = None,
    changes: Annotated[
        Path | None, typer.Option("--changes", "-c", metavar="FILE", help="Transactions that would be rejected.")
    ] = None,
    constraint: Annotated[
        str | None, typer.Option("--constraint", metavar="NAME", help="Only the violations of this one.")
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
    apply: Apply = False,
    values: Values = None,
    actions: ActionFile = None,
    engine: EngineOption = Engine.AUTO,
    format: FormatOption = Format.TEXT,
) -> None:
    """Find ways out of the violations of constraints that are there, or that base changes would make."""

    def body(terminal: Terminal) -> int:
        from upshot.cli.commands.repairs import repairs
        from upshot.cli.realizations import Wishes

        bounds = new_values, seconds, rounds, size, constants or ()
        wishes = Wishes(limit, frozen or (), cost or (), *bounds, least, apply, values or ())
        return repairs(terminal, file, attempted or (), changes, constraint, fact_dir, wishes, actions, engine)

    finish(body, format)
