"""A story told: each transaction, what it meant for the views, and what it would have cost to recompute them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from upshot.cli.deltas import view_changes
from upshot.cli.demo.story import Step, Story
from upshot.cli.terminal import Terminal
from upshot.cli.values import to_text
from upshot.cli.wording import counted, duration
from upshot.core.errors import VerifyError
from upshot.core.rows import Rows
from upshot.core.schema import Role
from upshot.database.changes import Changes, ChangeSet
from upshot.database.connect import connect
from upshot.database.database import Database
from upshot.database.transaction import Transaction

_EXAMPLES = 3
"""Rows shown of each kind of change."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one step came to."""

    title: str
    changed: int
    inserted: int
    deleted: int
    maintained: float
    recomputed: float

    @property
    def ratio(self) -> float:
        return self.recomputed / self.maintained


def tell(terminal: Terminal, story: Story) -> list[Told]:
    """Tells the story on the terminal's stdout, step by step, and verifies the result."""
    console = terminal.console
    console.print()
    console.print(Text(story.opening, style="bold"))
    console.print(Text("Running on the local engine, in this process.", style="dim"))
    database, twin = connect(), connect()
    _load(terminal, story, database)
    _views_table(console, database)
    with terminal.progress("preparing the comparison: the same data, every view recomputed at each change"):
        _prepare_twin(story, database, twin)
    told = [_tell_step(console, story, number, database, twin) for number in range(len(story.steps))]
    with terminal.progress("verifying"):
        verified = database.verify()
    _summary(console, told)
    console.print(
        f"Verified: all {counted(len(verified.views), 'view')} ({counted(verified.rows, 'row')}) "
        "equal their recomputation from the base data."
    )
    return told


def _load(terminal: Terminal, story: Story, database: Database) -> None:
    start = perf_counter()
    with terminal.progress("loading"):
        database.define(story.program, name=f"{story.name}.dl")
        transaction = _insert_all(story, database)
    spent = perf_counter() - start
    rows = sum(map(len, story.facts.values()))
    changed = view_changes(transaction.changes, database.schemas)
    derived = sum(len(change.inserted) for _, change in changed)
    terminal.console.print(
        f"Loaded {counted(rows, 'row')} and derived {counted(derived, 'row')} in {duration(spent)}.", style="dim"
    )


def _insert_all(story: Story, database: Database) -> Transaction:
    with database.transaction() as transaction:
        for relation, rows in story.facts.items():
            transaction.insert(relation, list(rows))
    return transaction


def _views_table(console: Console, database: Database) -> None:
    table = _table()
    table.add_column("view")
    table.add_column("rows", justify="right")
    table.add_column("kept by")
    strategies = {part.name: part.strategy for part in database.explain().parts}
    for name, schema in database.schemas.items():
        if schema.role is not Role.BASE:
            table.add_row(Text(str(schema)), f"{len(database.rows(name)):,}", strategies.get(name, ""))
    console.print(table)


def _prepare_twin(story: Story, database: Database, twin: Database) -> None:
    """The twin holds the same data and recomputes every view at each change, on the same engine."""
    views = [name for name, schema in database.schemas.items() if schema.role is not Role.BASE]
    directives = "".join(f".view {name} strategy=recompute\n" for name in views)
    twin.define(story.program + "\n" + directives, name=f"{story.name}.dl")
    _insert_all(story, twin)


def _tell_step(console: Console, story: Story, number: int, database: Database, twin: Database) -> Told:
    step = story.steps[number]
    console.print()
    console.rule(Text(f"{number + 1} of {len(story.steps)}  {step.title}", style="bold cyan"), align="left")
    console.print(Text(step.words))
    transaction, maintained = _timed(database, step)
    console.print(Text(f"transaction: {_statement(transaction.changes, database)}", style="dim"))
    other, recomputed = _timed(twin, step)
    changed = dict(view_changes(transaction.changes, database.schemas))
    _compare(changed, dict(view_changes(other.changes, twin.schemas)))
    if changed:
        console.print(_changes_table(story, changed))
    else:
        console.print(Text("No view changed.", style="bold green"))
    for warning in transaction.warnings:
        console.print(Text(f"warning: {warning.message}", style="yellow"))
    told = Told(
        step.title,
        len(changed),
        sum(len(change.inserted) for change in changed.values()),
        sum(len(change.deleted) for change in changed.values()),
        maintained,
        recomputed,
    )
    console.print(
        f"[bold]{duration(maintained)}[/bold] to maintain, {duration(recomputed)} to recompute: "
        f"[bold green]{told.ratio:,.0f} times less[/bold green]"
        if told.ratio >= 1.5
        else f"[bold]{duration(maintained)}[/bold] to maintain, {duration(recomputed)} to recompute"
    )
    return told


def _timed(database: Database, step: Step) -> tuple[Transaction, float]:
    start = perf_counter()
    with database.transaction() as transaction:
        for relation, rows in step.delete.items():
            transaction.delete(relation, list(rows))
        for relation, rows in step.insert.items():
            transaction.insert(relation, list(rows))
        for relation, row in step.upsert:
            transaction.upsert(relation, [row])
    return transaction, perf_counter() - start


def _compare(maintained: Mapping[str, Changes], recomputed: Mapping[str, Changes]) -> None:
    """The two ways must come to the same changes; the demo is not worth much otherwise."""
    for name in maintained.keys() | recomputed.keys():
        one, other = maintained.get(name), recomputed.get(name)
        if one is None or other is None or one.inserted != other.inserted or one.deleted != other.deleted:
            raise VerifyError(f"maintenance and recomputation of `{name}` differ", code="view-differs")


def _statement(changes: ChangeSet, database: Database) -> str:
    parts = []
    for name, change in changes.items():
        if database.schemas[name].role is Role.BASE:
            parts += [f"+{len(change.inserted):,} {name}"] * bool(len(change.inserted))
            parts += [f"-{len(change.deleted):,} {name}"] * bool(len(change.deleted))
    return ", ".join(parts) or "no net change"


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)


def _changes_table(story: Story, changed: Mapping[str, Changes]) -> Table:
    table = _table()
    table.add_column("view")
    table.add_column("came", justify="right", style="green")
    table.add_column("went", justify="right", style="red")
    table.add_column("for example", overflow="fold")
    order = [name for name in story.shows if name in changed]
    for name in [*order, *(name for name in changed if name not in order)]:
        change = changed[name]
        examples = Text("\n").join(_examples(change)) if name in story.shows else Text("")
        came = f"+{len(change.inserted):,}" if len(change.inserted) else ""
        went = f"-{len(change.deleted):,}" if len(change.deleted) else ""
        table.add_row(Text(name), came, went, examples)
    return table


def _examples(change: Changes) -> list[Text]:
    lines = [Text(f"+ {_row(row)}", style="green") for row in _first(change.inserted)]
    lines += [Text(f"- {_row(row)}", style="red") for row in _first(change.deleted)]
    hidden = len(change.inserted) + len(change.deleted) - len(lines)
    if hidden:
        lines.append(Text(f"… {hidden:,} more", style="dim"))
    return lines


def _first(rows: Rows) -> list[tuple[object, ...]]:
    return rows.sorted()[:_EXAMPLES]


def _row(row: tuple[object, ...]) -> str:
    return ", ".join(map(to_text, row))


def _summary(console: Console, told: list[Told]) -> None:
    console.print()
    console.rule(Text("Summary", style="bold cyan"), align="left")
    table = _table()
    table.add_column("transaction")
    for title in ("came", "went", "maintained", "recomputed", "ratio"):
        table.add_column(title, justify="right")
    for step in told:
        table.add_row(
            Text(step.title),
            f"{step.inserted:,}",
            f"{step.deleted:,}",
            duration(step.maintained),
            duration(step.recomputed),
            f"{step.ratio:,.0f}×" if step.ratio >= 10 else f"{step.ratio:.1f}×",
        )
    console.print(table)
