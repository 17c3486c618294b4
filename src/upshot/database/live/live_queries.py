"""The live queries of a database by shape, with their followers by parameters; the counters of kept answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from upshot.core.errors import DataError, EngineError, Error, LimitError
from upshot.core.rows import Row, Rows, one_nan
from upshot.core.schema import Role, Schema
from upshot.database.watch import Event, Topic

if TYPE_CHECKING:
    from upshot.database.engines import Deltas
    from upshot.database.live.follow import LiveHandle
    from upshot.database.program.compile import Compiled
    from upshot.rewrite.demand.lift_parameters import LiftedQuery


@dataclass(slots=True, eq=False)
class LiveQuery:
    """One query shape under a generated name. `followers` counts subscriptions by their parameters."""

    name: str
    text: str
    shape: LiftedQuery
    key: object
    followers: dict[Row, int] = field(default_factory=dict)
    handles: dict[Row, list[LiveHandle]] = field(default_factory=dict)
    """The followers without a callback."""
    kept: set[Row] = field(default_factory=set)
    """Parameters whose answers are kept current because they are queried repeatedly."""

    def with_shape(self, shape: LiftedQuery) -> LiveQuery:
        """The same query, whose functions have other names; it shares the followers of this one."""
        return LiveQuery(self.name, self.text, shape, ("renamed", self.name), self.followers, self.handles, self.kept)

    @property
    def schema(self) -> Schema:
        """The columns that followers see."""
        return Schema("query", self.shape.visible, Role.VIEW)

    def has(self, row: Row) -> bool:
        """Test whether the answers for these parameters are kept current."""
        return row in self.followers or row in self.kept

    def topic(self, row: Row) -> Topic:
        return self.name, row


@dataclass(frozen=True, slots=True)
class Suspect:
    """A query that is left out of the open change, and the error. It `is_certain` that the query fails if it took too
    much time or memory."""

    query: LiveQuery
    error: Error
    is_certain: bool


@dataclass(slots=True)
class LiveQueries:
    """All live queries of a database. `layer` is the user's program and the installed program."""

    by_key: dict[object, LiveQuery] = field(default_factory=dict)
    by_answer: dict[str, LiveQuery] = field(default_factory=dict)
    layer: tuple[Compiled, Compiled] | None = None
    released: list[tuple[LiveQuery, Row]] = field(default_factory=list)
    """Parameters without followers whose rows are still in the engine."""
    made: int = 0
    seconds: float | None = None
    """The bound on the time of all live queries in one commit."""
    suspects: dict[str, Suspect] = field(default_factory=dict)
    """The queries that are left out of the open change, while the engine is narrowed."""
    narrowed: Compiled = field(init=False)
    """The installed program without them."""
    failed: dict[str, set[Row]] = field(default_factory=dict)
    """The failed queries, with parameters, that are not yet reported."""

    def __bool__(self) -> bool:
        return bool(self.by_answer)

    @property
    def is_followed(self) -> bool:
        return any(query.followers for query in self.by_answer.values())

    def installed(self, compiled: Compiled) -> Compiled:
        """The program that the engine has: the user's program and the live queries."""
        return self.layer[1] if self.layer is not None and self.layer[0] is compiled else compiled

    def replace(self, queries: Sequence[LiveQuery], compiled: Compiled, layer: Compiled) -> None:
        """These are the live queries from now on, and the layer is what the engine has."""
        self.by_key = {query.key: query for query in queries}
        self.by_answer = {query.name: query for query in queries}
        self.layer = (compiled, layer)

    def fitting(self, old: Compiled, new: Compiled) -> tuple[list[LiveQuery], list[Topic]]:
        """The queries all of whose relations have the same columns in the new program, and what those follow who follow
        others."""
        if not self.by_answer:
            return [], []
        from upshot.database.live.layer import with_functors  # noqa: PLC0415 - only where somebody follows a query

        found, ended = [], list[Topic]()
        for query in self.by_answer.values():
            reads = reads_of(query.shape)
            shape = with_functors(query.shape, new.checked.functors)
            if shape is not None and all(
                name in new.visible and new.visible[name].columns == old.visible[name].columns for name in reads
            ):
                found.append(query if shape is query.shape else query.with_shape(shape))
            else:
                ended += map(query.topic, query.followers)
        return found, ended

    def reading(self, relation: str) -> int:
        """The number of subscriptions to queries that read the relation."""
        reads = [each for each in self.by_answer.values() if relation in reads_of(each.shape)]
        return sum(sum(each.followers.values()) for each in reads)

    def events(self, deltas: Deltas, version: int) -> Iterator[tuple[Topic, Event]]:
        """The event of each query and parameters that the changes touch, in the order of the queries."""
        for name in self.by_answer:
            if name not in deltas:
                continue
            query, changes = self.by_answer[name], dict[Row, tuple[list[Row], list[Row]]]()
            width = query.shape.parameters.arity
            for sign, rows in enumerate(deltas[name]):
                for row in rows:
                    changes.setdefault(one_nan(row[:width]), ([], []))[sign].append(row[width:])
            for parameters, (inserted, deleted) in changes.items():
                if parameters in query.followers:
                    rows_of = (Rows.of(query.schema, inserted), Rows.of(query.schema, deleted))
                    yield query.topic(parameters), Event(query.text, version, *rows_of)


MOST_KEPT = 100_000
"""The default bound on the rows of kept answers, with the rows they are derived from."""

Question = tuple[Any, ...]
Place = tuple[str, Row]


@dataclass(slots=True)
class Note:
    """A query that was answered. A `refused` one is answered on demand while `program` (a number) is the current
    program."""

    program: int
    place: Place | None = None
    refused: bool = False


@dataclass(frozen=True, slots=True)
class KeptQuery:
    """A query with kept answers: the number of its parameters, the ones that were queried last, and the rows of the
    answers."""

    query: str
    parameters: int
    last: tuple[str, ...]
    rows: int

    def __str__(self) -> str:
        more = self.parameters - len(self.last)
        listed = "; ".join(self.last) + f"; {more:,} more" * bool(more)
        return f"{listed} ({self.rows:,} row{'s' * (self.rows != 1)})"


@dataclass(slots=True)
class KeptAnswers:
    """The queries that were answered, and the parameters whose answers are kept, both in the order of their last use.
    `places` has the version of the last use."""

    bound: int = MOST_KEPT
    rows: int = 0
    """The rows of kept answers at the last commit, or when the last one was added."""
    notes: OrderedDict[Question, Note] = field(default_factory=OrderedDict)
    places: OrderedDict[Place, int] = field(default_factory=OrderedDict)
    repeats: dict[str, int] = field(default_factory=dict)
    """The number of repetitions of each query, with any parameters."""
    hits: int = 0
    on_demand: int = 0
    admitted: int = 0
    evicted: int = 0
    program: Compiled | None = None
    programs: int = 0
    """The last program under which a query was answered, and its number."""
    examined: object = None
    """The layer that `places` was last compared with."""
    stored: dict[str, tuple[Compiled, tuple[str, ...]]] = field(default_factory=dict)
    """The relations of each live query in the engine, with the layer."""

    def refuse(self, name: str) -> None:
        """Answer the queries of a failed live query on demand."""
        for note in self.notes.values():
            note.refused |= note.place is not None and note.place[0] == name

    def program_number(self, program: Compiled) -> int:
        """The number of the program. Notes have the number instead of the program, which they would keep in memory."""
        if program is not self.program:
            self.program, self.programs = program, self.programs + 1
        return self.programs


def reads_of(shape: LiftedQuery) -> set[str]:
    """The relations of the user's program that a shape reads."""
    return shape.reads - {shape.answer.name, shape.parameters.name, *shape.helpers}


def followed_error(error: Error, text: str) -> Error:
    """The error for followers: it names the query instead of generated relations."""
    what, _, _ = error.message.partition(" in the rule for `")
    shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    kind = next((each for each in (LimitError, EngineError) if isinstance(error, each)), DataError)
    return kind(f"{what} in the followed query `{shown}`", code=error.code, help=error.help)


_SHOWN = 200
"""The most characters of a query in an error."""
