"""A story told: each transaction, what it meant for the views, and what it would have cost to recompute them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from time import perf_counter

from rich.box import SIMPLE_HEAD
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from upshot.cli.demo.comparing import Comparison, OtherEngine, Recomputation, Told, timed
from upshot.cli.demo.story import Story
from upshot.cli.engines import connected
from upshot.cli.output.deltas import changes_to_json, view_changes
from upshot.cli.output.terminal import Terminal
from upshot.cli.output.wording import counted, duration
from upshot.cli.settings import Engine
from upshot.core.field_text import text_of
from upshot.core.rows import Rows
from upshot.core.running_spark import running_session
from upshot.core.schema import Role
from upshot.database.changes import Changes, ChangeSet
from upshot.database.database import Database
from upshot.database.transaction import Transaction

_EXAMPLES = 3
"""Rows shown of each kind of change."""


def tell(terminal: Terminal, story: Story, engine: Engine = Engine.LOCAL, why: str = "") -> list[Told]:
    """Tells the story on the terminal's stdout, step by step, and verifies the result; `why` says what speaks for the
    engine."""
    terminal.show(Text())
    terminal.show(Text(story.opening, style="bold"))
    with connected(terminal, engine) as database:
        terminal.show(Text(_where(engine) + why, style="dim"))
        _load(terminal, story, database)
        _show_views(terminal, database)
        compared: Comparison = (OtherEngine if engine is Engine.SPARK else Recomputation)(story, database)
        told = [_tell_step(terminal, story, number, database, compared) for number in range(len(story.steps))]
        _show_summary(terminal, told, compared)
        terminal.show(compared.conclude(terminal))
    return told


def _where(engine: Engine) -> str:
    if engine is not Engine.SPARK:
        return "Running on the local engine, in this process."
    session = running_session()
    return f"Running on Spark {session.version}, {session.conf.get('spark.master', 'through Connect')}."


def _load(terminal: Terminal, story: Story, database: Database) -> None:
    with terminal.progress("loading"):
        database.define(story.program, name=f"{story.name}.dl")
        start = perf_counter()
        transaction = _insert_all(story, database)
        spent = perf_counter() - start
    rows = sum(map(len, story.facts.values()))
    changed = view_changes(transaction.changes, database.schemas)
    derived = sum(len(change.inserted) for _, change in changed)
    words = f"Loaded {counted(rows, 'row')} and derived {counted(derived, 'row')} in {duration(spent)}."
    terminal.show(Text(words, style="dim"))


def _insert_all(story: Story, database: Database) -> Transaction:
    with database.transaction() as transaction:
        for relation, rows in story.facts.items():
            transaction.insert(relation, list(rows))
    return transaction


def _show_views(terminal: Terminal, database: Database) -> None:
    table = _table()
    table.add_column("view")
    table.add_column("rows", justify="right")
    table.add_column("strategy")
    strategies = {part.name: part.strategy for part in database.explain().parts}
    for name, schema in database.schemas.items():
        if schema.role is not Role.BASE:
            table.add_row(Text(str(schema)), f"{len(database.rows(name)):,}", strategies.get(name, ""))
    terminal.show(table)


def _tell_step(terminal: Terminal, story: Story, number: int, database: Database, compared: Comparison) -> Told:
    step = story.steps[number]
    terminal.show(Text())
    terminal.show(_heading(f"{number + 1} of {len(story.steps)}  {step.title}"))
    terminal.show(Text(step.words))
    transaction, maintained = timed(database, step)
    terminal.show(Text(f"transaction: {_statement(transaction.changes, database)}", style="dim"))
    changed = dict(view_changes(transaction.changes, database.schemas))
    terminal.show(_changes_table(story, changed) if changed else Text("No view changed.", style="bold green"))
    for firing in transaction.firings:
        instances = ["; ".join(map(_row, _first(firing.rows))), "…"][: 1 + (len(firing.rows) > _EXAMPLES)]
        terminal.show(Text(f"rule {firing.rule} fired: {'; '.join(instances)}", style="magenta"))
    for warning in transaction.warnings:
        terminal.show(Text(f"warning: {warning.message}", style="yellow"))
    with terminal.progress(compared.waiting):
        other = compared.follow(step, transaction)
    told = Told(
        step.title,
        sum(len(change.inserted) for change in changed.values()),
        sum(len(change.deleted) for change in changed.values()),
        maintained,
        other,
    )
    if terminal.json:
        _tell_data(terminal, told, changed, compared)
    terminal.show(compared.words(told))
    return told


def _tell_data(terminal: Terminal, told: Told, changed: Mapping[str, Changes], compared: Comparison) -> None:
    times = f'"maintained": {told.maintained:.6f}, "{compared.name}": {told.compared:.6f}'
    changes = changes_to_json(changed.items())
    terminal.data(f'{{"transaction": {json.dumps(told.title)}, {times}, "changes": {changes}}}')


def _statement(changes: ChangeSet, database: Database) -> str:
    parts = []
    for name, change in changes.items():
        if database.schemas[name].role is Role.BASE:
            parts += [f"+{len(change.inserted):,} {name}"] * bool(len(change.inserted))
            parts += [f"-{len(change.deleted):,} {name}"] * bool(len(change.deleted))
    return ", ".join(parts) or "no net change"


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)


def _heading(words: str) -> Rule:
    return Rule(Text(words, style="bold cyan"), align="left")


def _changes_table(story: Story, changed: Mapping[str, Changes]) -> Table:
    table = _table()
    table.add_column("view")
    table.add_column("inserted", justify="right", style="green")
    table.add_column("deleted", justify="right", style="red")
    table.add_column("examples", overflow="fold")
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
    return ", ".join(map(text_of, row))


def _show_summary(terminal: Terminal, told: list[Told], compared: Comparison) -> None:
    terminal.show(Text())
    terminal.show(_heading("Summary"))
    table = _table()
    table.add_column("transaction")
    ratio = ("ratio",) if compared.extra(told[0]) else ()
    for title in ("inserted", "deleted", *compared.columns, *ratio):
        table.add_column(title, justify="right")
    for step in told:
        table.add_row(
            Text(step.title),
            f"{step.inserted:,}",
            f"{step.deleted:,}",
            duration(step.maintained),
            duration(step.compared),
            *compared.extra(step),
        )
    terminal.show(table)
    terminal.show(Text(compared.footnote, style="dim"))
