"""A story told: each transaction, what it meant for the views, and what it would have cost to recompute them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

from rich.box import SIMPLE_HEAD
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from upshot.cli.deltas import changes_to_json, view_changes
from upshot.cli.demo.story import Step, Story
from upshot.cli.terminal import Terminal
from upshot.cli.wording import counted, duration
from upshot.core.errors import VerifyError
from upshot.core.rows import Rows
from upshot.core.schema import Role
from upshot.database.changes import Changes, ChangeSet
from upshot.database.connect import connect
from upshot.database.database import Database
from upshot.database.field_text import text_of
from upshot.database.transaction import Transaction

_EXAMPLES = 3
"""Rows shown of each kind of change."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one step came to."""

    title: str
    inserted: int
    deleted: int
    maintained: float
    recomputed: float

    @property
    def ratio(self) -> float:
        return self.recomputed / self.maintained


def tell(terminal: Terminal, story: Story) -> list[Told]:
    """Tells the story on the terminal's stdout, step by step, and verifies the result."""
    terminal.show(Text())
    terminal.show(Text(story.opening, style="bold"))
    terminal.show(Text("Running on the local engine, in this process.", style="dim"))
    database = connect()
    _load(terminal, story, database)
    _show_views(terminal, database)
    told = [_tell_step(terminal, story, number, database) for number in range(len(story.steps))]
    _show_summary(terminal, told)
    with terminal.progress("verifying: every view recomputed and compared row by row"):
        verified = database.verify()
    terminal.show(f"Verified row by row: every view equals its recomputation ({counted(verified.rows, 'row')}).")
    return told


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
    table.add_column("kept by")
    strategies = {part.name: part.strategy for part in database.explain().parts}
    for name, schema in database.schemas.items():
        if schema.role is not Role.BASE:
            table.add_row(Text(str(schema)), f"{len(database.rows(name)):,}", strategies.get(name, ""))
    terminal.show(table)


def _tell_step(terminal: Terminal, story: Story, number: int, database: Database) -> Told:
    step = story.steps[number]
    terminal.show(Text())
    terminal.show(_heading(f"{number + 1} of {len(story.steps)}  {step.title}"))
    terminal.show(Text(step.words))
    transaction, maintained = _timed(database, step)
    terminal.show(Text(f"transaction: {_statement(transaction.changes, database)}", style="dim"))
    changed = dict(view_changes(transaction.changes, database.schemas))
    terminal.show(_changes_table(story, changed) if changed else Text("No view changed.", style="bold green"))
    for warning in transaction.warnings:
        terminal.show(Text(f"warning: {warning.message}", style="yellow"))
    with terminal.progress("recomputing every view, for comparison"):
        recomputed = _recomputed(story, database)
    told = Told(
        step.title,
        sum(len(change.inserted) for change in changed.values()),
        sum(len(change.deleted) for change in changed.values()),
        maintained,
        recomputed,
    )
    _tell_cost(terminal, told, changed)
    return told


def _tell_cost(terminal: Terminal, told: Told, changed: Mapping[str, Changes]) -> None:
    if terminal.json:
        times = f'"maintained": {told.maintained:.6f}, "recomputed": {told.recomputed:.6f}'
        changes = changes_to_json(changed.items())
        terminal.data(f'{{"transaction": {json.dumps(told.title)}, {times}, "changes": {changes}}}')
        return
    verdict = Text(f"{_ratio(told.ratio)} times less", style="bold green")
    if told.ratio < 1:
        verdict = Text(f"{_ratio(1 / told.ratio)} times more", style="bold yellow")
    cost = Text(f"{duration(told.maintained)} to maintain all views, {duration(told.recomputed)} to recompute them: ")
    terminal.show(cost + verdict)


def _recomputed(story: Story, database: Database) -> float:
    """Seconds to compute every view from the base data as it is now, on the same engine; loading it is not counted."""
    base = [schema for schema in database.schemas.values() if schema.role is Role.BASE]
    fresh = connect()
    fresh.define("".join(f".decl {schema}\n" for schema in base))
    with fresh.transaction() as transaction:
        for schema in base:
            transaction.insert(schema.name, database.rows(schema.name))
    definition = fresh.define(story.program, name=f"{story.name}.dl")
    for name in database.schemas:
        if len(fresh.rows(name)) != len(database.rows(name)):
            raise VerifyError(f"maintenance and recomputation of `{name}` differ", code="view-differs")
    return definition.stats.seconds


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
    return ", ".join(map(text_of, row))


def _show_summary(terminal: Terminal, told: list[Told]) -> None:
    terminal.show(Text())
    terminal.show(_heading("Summary"))
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
            f"{_ratio(step.ratio)}×",
        )
    terminal.show(table)
    terminal.show(
        Text("maintained: the whole commit. recomputed: all views from the stored base data.", style="dim"),
    )


def _ratio(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"
