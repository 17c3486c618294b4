"""What a story is measured against: recomputing every view, or, on Spark, the local engine beside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from time import perf_counter

from rich.text import Text

from upshot.cli.demo.story import Step, Story
from upshot.cli.output.terminal import Terminal
from upshot.cli.output.wording import counted, duration
from upshot.core.errors import VerifyError
from upshot.core.row_sets import row_set
from upshot.core.schema import Role
from upshot.database.connect import connect
from upshot.database.database import Database
from upshot.database.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Told:
    """What one step came to. `compared` is the time of whatever it is compared with."""

    title: str
    inserted: int
    deleted: int
    maintained: float
    compared: float

    @property
    def ratio(self) -> float:
        return self.compared / self.maintained


class Comparison(ABC):
    """Beside each transaction another way to the same answers; both must give them, or a `VerifyError` ends it."""

    name: str
    """what its time is called in JSON and, with `columns`, in the summary"""
    columns: tuple[str, str]
    footnote: str
    waiting: str

    @abstractmethod
    def follow(self, step: Step, transaction: Transaction) -> float:
        """Seconds the other way took."""

    @abstractmethod
    def words(self, told: Told) -> Text: ...

    @abstractmethod
    def conclude(self, terminal: Terminal) -> str:
        """The last check; what it found to be so."""

    def extra(self, told: Told) -> list[str]:
        """Further fields of the summary."""
        return []


class Recomputation(Comparison):
    """Every view from the base data as it is, on the same engine; loading that data is not counted."""

    name = "recomputed"
    columns = ("maintained", "recomputed")
    footnote = "maintained: the whole commit. recomputed: all views, from stored base data."
    waiting = "recomputing every view for comparison"

    def __init__(self, story: Story, database: Database) -> None:
        self._story, self._database = story, database

    def follow(self, step: Step, transaction: Transaction) -> float:
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

    def words(self, told: Told) -> Text:
        verdict = Text(f"{ratio(told.ratio)} times faster", style="bold green")
        if told.ratio < 1:
            verdict = Text(f"{ratio(1 / told.ratio)} times slower", style="bold yellow")
        times = f"{duration(told.maintained)} to maintain all views, {duration(told.compared)} to recompute them: "
        return Text(times) + verdict

    def extra(self, told: Told) -> list[str]:
        return [f"{ratio(told.ratio)}×"]

    def conclude(self, terminal: Terminal) -> str:
        with terminal.progress("verifying: every view recomputed and compared row by row"):
            verified = self._database.verify()
        return f"Verified row by row: every view equals its recomputation ({counted(verified.rows, 'row')})."


class OtherEngine(Comparison):
    """The local engine, which gets the same transactions and must report the same changes."""

    name = "local"
    columns = ("on Spark", "local")
    footnote = "Each is the whole commit. This data fits in one process; use Spark for data that does not."
    waiting = "running the transaction on the local engine for comparison"

    def __init__(self, story: Story, database: Database) -> None:
        self._database = database
        self._local = connect(engine="local")
        self._local.define(story.program, name=f"{story.name}.dl")
        with self._local.transaction() as loading:
            for relation, rows in story.facts.items():
                loading.insert(relation, list(rows))

    def follow(self, step: Step, transaction: Transaction) -> float:
        same, seconds = timed(self._local, step)
        for name in self._database.schemas:
            ours, theirs = same.changes[name], transaction.changes[name]
            if row_set(ours.inserted) != row_set(theirs.inserted) or row_set(ours.deleted) != row_set(theirs.deleted):
                raise VerifyError(f"the engines disagree on the changes of `{name}`", code="view-differs")
        return seconds

    def words(self, told: Told) -> Text:
        times = f"{duration(told.maintained)} on Spark, {duration(told.compared)} on the local engine: "
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


def timed(database: Database, step: Step) -> tuple[Transaction, float]:
    """The step as a transaction, and the seconds it took."""
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
