"""Run a demo: print each transaction, the changes of the views, and the time of a comparison.

The comparison is recomputation of every view or, on Spark, the local engine beside it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter

from rich.box import SIMPLE_HEAD
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from upshot.cli.demo.story import DeletionRequest, Fact, Story, StoryTransaction
from upshot.cli.engines import connected
from upshot.cli.output.changes import changes_to_json, view_changes
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import EngineName
from upshot.core.errors import EngineError, VerifyError, counted
from upshot.core.field_text import text_of
from upshot.core.rows import Rows, row_set
from upshot.core.running_spark import running_session
from upshot.core.schema import Role
from upshot.database.changes import Changes, ChangeSet
from upshot.database.connect import connect
from upshot.database.database import Database
from upshot.database.transaction import Transaction
from upshot.revise.request import Bounds


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one transaction, with its seconds. `compared` are those of the method of comparison."""

    title: str
    inserted: int
    deleted: int
    maintained: float
    compared: float

    @property
    def ratio(self) -> float:
        return self.compared / self.maintained


class EngineComparison(ABC):
    """Another method to compute the same results. If they differ, a `VerifyError` ends the demo."""

    name: str
    """the name of its time in JSON"""
    columns: tuple[str, str]
    """the names of both times in the summary"""
    footnote: str
    waiting: str

    @abstractmethod
    def follow(self, step: StoryTransaction, transaction: Transaction) -> float:
        """The seconds that the method took for a step."""

    @abstractmethod
    def verdict(self, result: StepResult) -> Text: ...

    @abstractmethod
    def conclude(self, terminal: Terminal) -> str:
        """Run the last check; return its result."""

    def extra(self, result: StepResult) -> list[str]:
        """Further fields of the summary."""
        return []


class Recomputation(EngineComparison):
    """Every view is recomputed from the base data on the same engine. Loading that data is not timed."""

    name = "recomputed"
    columns = ("maintained", "recomputed")
    footnote = "maintained: the whole commit. recomputed: all views, from stored base data."
    waiting = "recomputing every view for comparison"

    def __init__(self, story: Story, database: Database) -> None:
        self._story, self._database = story, database

    def follow(self, step: StoryTransaction, transaction: Transaction) -> float:
        database = self._database
        base = [schema for schema in database.schemas.values() if schema.role is Role.BASE]
        with connect() as fresh:
            fresh.define("".join(f".decl {schema}\n" for schema in base))
            with fresh.transaction() as loading:
                for schema in base:
                    loading.insert(schema.name, database.rows(schema.name))
            definition = fresh.define(self._story.program, name=f"{self._story.name}.dl")
            for name in database.schemas:
                if len(fresh.rows(name)) != len(database.rows(name)):
                    raise VerifyError(f"maintenance and recomputation of `{name}` differ", code="view-differs")
        return definition.stats.seconds

    def verdict(self, result: StepResult) -> Text:
        verdict = Text(f"{ratio(result.ratio)} times faster", style="bold green")
        if result.ratio < 1:
            verdict = Text(f"{ratio(1 / result.ratio)} times slower", style="bold yellow")
        times = f"{duration(result.maintained)} to maintain all views, {duration(result.compared)} to recompute them: "
        return Text(times) + verdict

    def extra(self, result: StepResult) -> list[str]:
        return [f"{ratio(result.ratio)}×"]

    def conclude(self, terminal: Terminal) -> str:
        with terminal.progress("verifying: every view recomputed and compared row by row"):
            verified = self._database.verify()
        return f"Verified row by row: every view equals its recomputation ({counted(verified.rows, 'row')})."


class OtherEngine(EngineComparison):
    """The local engine, which gets the same transactions and must report the same changes."""

    name = "local"
    columns = ("on Spark", "local")
    footnote = "Each is the whole commit. This data fits in one process; use Spark for data that does not."
    waiting = "running the transaction on the local engine for comparison"

    def __init__(self, story: Story, database: Database) -> None:
        self._database = database
        self._local = connect(engine="local")
        self._local.define(story.program, name=f"{story.name}.dl")
        _insert_all(story, self._local)

    def follow(self, step: StoryTransaction, transaction: Transaction) -> float:
        same, seconds = timed(self._local, step)
        for name in self._database.schemas:
            ours, theirs = same.changes[name], transaction.changes[name]
            if row_set(ours.inserted) != row_set(theirs.inserted) or row_set(ours.deleted) != row_set(theirs.deleted):
                raise VerifyError(f"the engines disagree on the changes of `{name}`", code="view-differs")
        return seconds

    def verdict(self, result: StepResult) -> Text:
        times = f"{duration(result.maintained)} on Spark, {duration(result.compared)} on the local engine: "
        return Text(times) + Text("the same changes", style="bold green")

    def conclude(self, terminal: Terminal) -> str:
        with terminal.progress("comparing both engines row by row"):
            self._local.verify()
            rows = 0
            for name in self._database.schemas:
                ours, theirs = self._local.rows(name), self._database.rows(name)
                if row_set(ours) != row_set(theirs):
                    raise VerifyError(f"the engines disagree on the rows of `{name}`", code="view-differs")
                rows += len(ours)
        self._local.close()
        return f"Both engines agree, row by row: every change, and all {counted(rows, 'row')} at the end."


def timed(database: Database, step: StoryTransaction) -> tuple[Transaction, float]:
    """Commit the step; return the transaction and its seconds."""
    start = perf_counter()
    with database.transaction() as transaction:
        for relation, rows in step.delete.items():
            transaction.delete(relation, list(rows))
        for relation, rows in step.insert.items():
            transaction.insert(relation, list(rows))
        for relation, row in step.upsert:
            transaction.upsert(relation, [row])
    return transaction, perf_counter() - start


def ratio(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


_EXAMPLES = 3
"""The number of rows shown of each kind of change, and of realizations."""
_SEARCH_SECONDS = 120.0
"""The time limit of the search for realizations, which takes one or two seconds on an idle machine."""


def run_demo(terminal: Terminal, story: Story, engine: EngineName = EngineName.LOCAL) -> list[StepResult]:
    """Run a demo step by step, print it, and verify the final state."""
    terminal.show(Text())
    terminal.show(Text(story.opening, style="bold"))
    with connected(terminal, engine) as database:
        terminal.show(Text(_where(engine), style="dim"))
        _load(terminal, story, database)
        _show_views(terminal, database)
        compared: EngineComparison = (OtherEngine if engine is EngineName.SPARK else Recomputation)(story, database)
        results = [_run_step(terminal, story, number, database, compared) for number in range(len(story.steps))]
        _show_summary(terminal, results, compared)
        terminal.show(compared.conclude(terminal))
    return results


def _where(engine: EngineName) -> str:
    if engine is not EngineName.SPARK:
        return "Running on the local engine, in this process."
    session = running_session()
    return f"Running on Spark {session.version}, {session.conf.get('spark.master', 'through Connect')}."


def _load(terminal: Terminal, story: Story, database: Database) -> None:
    with terminal.progress("loading the kernels and the data"):
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


def _run_step(
    terminal: Terminal, story: Story, number: int, database: Database, compared: EngineComparison
) -> StepResult:
    step = story.steps[number]
    terminal.show(Text())
    terminal.show(_heading(f"{number + 1} of {len(story.steps)}  {step.title}"))
    terminal.show(Text(step.words))
    if step.revoke is not None:
        step = _realized(terminal, database, step, step.revoke)
    transaction, maintained = timed(database, step)
    terminal.show(Text(f"transaction: {_statement(transaction.changes, database)}", style="dim"))
    changed = dict(view_changes(transaction.changes, database.schemas))
    terminal.show(_changes_table(story, changed) if changed else Text("No view changed.", style="bold green"))
    for firing in transaction.firings:
        instances = ["; ".join(map(_row, _first(firing.rows))), "…"][: 1 + (len(firing.rows) > _EXAMPLES)]
        terminal.show(Text(f"rule {firing.rule} fired: {'; '.join(instances)}", style="magenta"))
    for warning in transaction.warnings:
        terminal.show(Text(f"warning: {warning.message}", style="yellow"))
    if step.why is not None:
        relation, row = step.why
        terminal.show(Text(f"why {relation}({_row(row)})?", style="bold"))
        terminal.show(Text(_derivation(database, step.why), no_wrap=True, overflow="ellipsis"))
    with terminal.progress(compared.waiting):
        other = compared.follow(step, transaction)
    result = StepResult(
        step.title,
        sum(len(change.inserted) for change in changed.values()),
        sum(len(change.deleted) for change in changed.values()),
        maintained,
        other,
    )
    if terminal.json:
        times = f'"maintained": {result.maintained:.6f}, "{compared.name}": {result.compared:.6f}'
        changes = changes_to_json(changed.items())
        terminal.data(f'{{"transaction": {json.dumps(result.title)}, {times}, "changes": {changes}}}')
    terminal.show(compared.verdict(result))
    return result


def _realized(
    terminal: Terminal, database: Database, step: StoryTransaction, request: DeletionRequest
) -> StoryTransaction:
    """The step with the first realization of the request as its transaction. Print the others."""
    with terminal.progress("searching for realizations"):
        start = perf_counter()
        search = database.realize(
            delete={request.view: [request.row]},
            frozen=request.frozen,
            prefer="least_side_effects",
            limit=_EXAMPLES,
            bounds=Bounds(seconds=_SEARCH_SECONDS),
        )
        found = list(search)
        spent = perf_counter() - start
    if not found:
        raise EngineError(f"no realization was found: {search.reason}", code="no-realization")
    table = _table()
    for column in ("realization", "side effects"):
        table.add_column(column)
    for number, each in enumerate(found, 1):
        table.add_row(Text(f"{number}. {', '.join(each.lines())}"), counted(each.side_effects, "row"))
    terminal.show(table)
    terminal.show(Text(f"found in {duration(spent)}; the first is committed", style="dim"))
    return replace(step, insert=found[0].insert, delete=found[0].delete)


def _derivation(database: Database, fact: Fact) -> str:
    relation, row = fact
    return next(iter(database.why(relation, row, limit=1))).text()


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
        inserted = f"+{len(change.inserted):,}" if len(change.inserted) else ""
        deleted = f"-{len(change.deleted):,}" if len(change.deleted) else ""
        table.add_row(Text(name), inserted, deleted, examples)
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


def _show_summary(terminal: Terminal, results: list[StepResult], compared: EngineComparison) -> None:
    terminal.show(Text())
    terminal.show(_heading("Summary"))
    table = _table()
    table.add_column("transaction")
    ratio = ("ratio",) if compared.extra(results[0]) else ()
    for title in ("inserted", "deleted", *compared.columns, *ratio):
        table.add_column(title, justify="right")
    for step in results:
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


def duration(seconds: float) -> str:
    """A time to three digits, with a suitable unit.

    >>> duration(0.0000042), duration(0.0123), duration(4.5)
    ('4.2 µs', '12.3 ms', '4.5 s')
    """
    if seconds < 0.001:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s"
