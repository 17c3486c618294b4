"""Many small databases packed into one: their programs side by side under other names, their transactions in lockstep.

A commit on Spark costs about the same for one view as for twenty. So the i-th transactions of all parts of a pack are
made as one, and each part sees its own share of the result; what is compared stays per part. The parts are plain
functions that call `tests.properties.engines.connect` and know nothing of it: each runs on a thread of its own, and all
work on the database is done by the thread that called `run`.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from tests.properties.engines import Make, using
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.database.changes import ChangeSet
from upshot.syntax import parse, parse_query
from upshot.syntax.ast import Atom, Declaration, DenyPolicy, Directive, ViewDirective
from upshot.syntax.printing import print_formula, print_program

Part = Callable[[], None]
Statement = tuple[str, str, Any]


class Broken(Exception):
    """The packed transaction failed as a whole; which part it was takes another run to find out."""


def run(make: Make, parts: Sequence[Part]) -> list[BaseException | None]:
    """For each part what it raised, or None; `Broken` for all of them if the database failed under them."""
    with make() as db:
        return _Conductor(db, parts).conduct()


def failures(make: Make, parts: Mapping[str, Part]) -> dict[str, str]:
    """The parts that fail, by name, with what they say when run without the others (which is looked up then and there,
    and halves a pack that failed as a whole until it knows who it was)."""
    found = run(make, list(parts.values()))
    suspects = {name: part for (name, part), error in zip(parts.items(), found, strict=True) if error is not None}
    if len(parts) == 1:
        return {name: _words(error) for name, error in zip(parts, found, strict=True) if error is not None}
    if any(isinstance(error, Broken) for error in found):
        names = list(suspects)
        halves = (names[: len(names) // 2], names[len(names) // 2 :])
        alone = [failures(make, {name: parts[name] for name in half}) for half in halves if half]
    else:
        alone = [failures(make, {name: part}) for name, part in suspects.items()]
    known = {name: words for each in alone for name, words in each.items()}
    together = {name: error for name, error in zip(parts, found, strict=True) if error is not None}
    return known or {f"only packed with others: {name}": _words(error) for name, error in together.items()}


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}\n" + "".join(traceback.format_exception(error)[-6:])


# ---- the parts' side ------------------------------------------------------------------------------


@dataclass(slots=True)
class _Wish:
    """What a waiting part wants: `read` at once, `define` and `commit` together with the others."""

    kind: str
    content: Any
    answer: Any = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)


class PackedDatabase:
    """A part's view of the common database: its relations have a prefix there."""

    def __init__(self, ask: Callable[[_Wish], Any], prefix: str) -> None:
        self._ask, self._prefix = ask, prefix
        self._schemas: dict[str, Schema] = {}

    def define(self, text: str) -> PackedDefinition:
        program = parse(text)
        schemas, changes = self._ask(_Wish("define", (self._prefix, print_program(prefixed(program, self._prefix)))))
        self._schemas |= schemas
        return PackedDefinition(self._own(changes))

    def add_rule(self, text: str) -> PackedDefinition:
        return self._with_rules("add_rule", text)

    def remove_rule(self, text: str) -> PackedDefinition:
        return self._with_rules("remove_rule", text)

    def _with_rules(self, verb: str, text: str) -> PackedDefinition:
        """Not together with the others: what follows a change of rules is a commit by itself."""
        other = print_program(prefixed(parse(text), self._prefix))
        return PackedDefinition(self._own(self._ask(_Wish("read", lambda db: getattr(db, verb)(other).changes))))

    @contextmanager
    def transaction(self) -> Iterator[PackedTransaction]:
        transaction = PackedTransaction(self._prefix)
        yield transaction
        changes, transaction.stats = self._ask(_Wish("commit", tuple(transaction.statements)))
        transaction.changes = self._own(changes)

    def _own(self, changes: ChangeSet) -> ChangeSet:
        """The share of this part, read to the end: what a commit handed out belongs to that commit."""
        deltas = {
            name: tuple(Rows.of(schema, list(rows)) for rows in (found.inserted, found.deleted))
            for name, schema in self._schemas.items()
            if (found := changes[self._prefix + name])
        }
        return ChangeSet(self._schemas, deltas)

    def rows(self, name: str) -> Rows:
        tuples = self._ask(_Wish("read", lambda db: list(db.rows(self._prefix + name))))
        return Rows.of(self._schemas[name], tuples)

    def query(self, text: str) -> list[Any]:
        other = print_formula(prefixed(parse_query(text), self._prefix))
        return self._ask(_Wish("read", lambda db: list(db.query(other))))

    def verify(self) -> None:
        """Nothing: the parts compare with an oracle, and to recompute the whole pack for each of them would be dear."""

    def close(self) -> None:
        """Nothing: the others go on."""

    def __enter__(self) -> PackedDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class PackedDefinition:
    """What a definition changed in the relations of a part."""

    changes: ChangeSet


class PackedTransaction:
    """Statements in order; `changes` and `stats` are there after the block, the latter those of the whole pack."""

    changes: ChangeSet
    stats: Any

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.statements: list[Statement] = []

    def insert(self, name: str, rows: Any) -> None:
        self.statements.append(("insert", self._prefix + name, rows))

    def delete(self, name: str, rows: Any) -> None:
        self.statements.append(("delete", self._prefix + name, rows))

    def upsert(self, name: str, rows: Any) -> None:
        self.statements.append(("upsert", self._prefix + name, rows))

    def replace(self, name: str, rows: Any) -> None:
        self.statements.append(("replace", self._prefix + name, rows))


def prefixed(node: Any, prefix: str) -> Any:
    """The tree with every relation under another name.

    >>> print(print_program(prefixed(parse(".decl p(x: number) p(X) :- q(X), !r(X)."), "a_")), end="")
    .decl a_p(x: number)
    a_p(X) :- a_q(X), !a_r(X).
    """
    if isinstance(node, tuple):
        return tuple(prefixed(each, prefix) for each in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    changed = {each.name: prefixed(getattr(node, each.name), prefix) for each in fields(node) if each.name != "span"}
    if isinstance(node, Atom | Directive | ViewDirective):
        changed["relation"] = prefix + node.relation
    elif isinstance(node, Declaration | DenyPolicy):
        changed["name"] = prefix + node.name
    return replace(node, **changed)


# ---- the database's side ----------------------------------------------------------------------------


class _Conductor:
    def __init__(self, db: Any, parts: Sequence[Part]) -> None:
        self._db = db
        self._ended: dict[int, BaseException | None] = {}
        self._waiting: dict[int, _Wish] = {}
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._play, args=(number, part), daemon=True) for number, part in enumerate(parts)
        ]

    def conduct(self) -> list[BaseException | None]:
        for thread in self._threads:
            thread.start()
        while wishes := self._next():
            try:
                self._grant(wishes)
            except Exception as error:  # noqa: BLE001 - whatever the engine raises is a finding of all who asked
                for wish in wishes:
                    wish.error = Broken(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
            for wish in wishes:
                wish.done.set()
        for thread in self._threads:
            thread.join()
        return [self._ended[number] for number in range(len(self._threads))]

    def _next(self) -> list[_Wish]:
        """The wishes to be granted now: reads as they come, definitions and commits once everybody waits for one."""
        with self._changed:
            while True:
                reads = {number: wish for number, wish in self._waiting.items() if wish.kind == "read"}
                everybody = len(self._waiting) + len(self._ended) == len(self._threads)
                if everybody and not self._waiting:
                    return []
                if reads or everybody:
                    break
                self._changed.wait()
            defines = {number: wish for number, wish in self._waiting.items() if wish.kind == "define"}
            chosen = reads or defines or dict(self._waiting)
            for number in chosen:
                del self._waiting[number]
            return [chosen[number] for number in sorted(chosen)]

    def _grant(self, wishes: list[_Wish]) -> None:
        kind = wishes[0].kind
        if kind == "read":
            for wish in wishes:
                wish.answer = wish.content(self._db)
        elif kind == "define":
            made = self._db.define("".join(text for _, text in (wish.content for wish in wishes)))
            for wish in wishes:
                wish.answer = _schemas(self._db, wish.content[0]), made.changes
        else:
            with self._db.transaction() as tx:
                for verb, name, rows in (statement for wish in wishes for statement in wish.content):
                    getattr(tx, verb)(name, rows)
            for wish in wishes:
                wish.answer = tx.changes, tx.stats

    # ---- on the threads of the parts ----------------------------------------------------------------

    def _play(self, number: int, part: Part) -> None:
        made = 0

        def make() -> PackedDatabase:
            nonlocal made
            made += 1
            return PackedDatabase(lambda wish: self._ask(number, wish), f"p{number}_{made}_")

        error: BaseException | None = None
        try:
            with using(make):
                part()
        except BaseException as caught:  # noqa: BLE001 - handed to whoever called `run`
            error = caught
        with self._changed:
            self._ended[number] = error
            self._changed.notify()

    def _ask(self, number: int, wish: _Wish) -> Any:
        with self._changed:
            self._waiting[number] = wish
            self._changed.notify()
        wish.done.wait()
        if wish.error is not None:
            raise wish.error
        return wish.answer


def _schemas(db: Any, prefix: str) -> dict[str, Schema]:
    own = {name.removeprefix(prefix): schema for name, schema in db.schemas.items() if name.startswith(prefix)}
    return {name: replace(schema, name=name) for name, schema in own.items()}
