"""Exactness: what an engine reports and holds, transaction by transaction, is what recomputation gives."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import upshot
from tests.properties.cases import Base, Case, Change, Transaction, after
from tests.properties.engines import connect
from tests.properties.evolution import Evolution, Reopening, Version, redefinition, single_change
from tests.properties.strategies import view_options
from upshot.check import check
from upshot.check.program import CheckedProgram
from upshot.core.errors import DataError
from upshot.engine.naive import evaluate
from upshot.engine.naive_values import canonical
from upshot.strategies.strategy import on_demand
from upshot.syntax import parse

Row = tuple[Any, ...]
Views = dict[str, set[Row]]
Delta = dict[str, tuple[set[Row], set[Row]]]


class Wrong(AssertionError):
    """The engine and the oracle disagree."""


# ---- what should be ---------------------------------------------------------------------------


def keyed(rows: Iterable[Row]) -> set[Row]:
    """The rows so that equal means equal to a user: NaN is NaN, 0.0 is -0.0, and True is not 1."""
    return {tuple((type(value).__name__, canonical(value)) for value in row) for row in rows}


@lru_cache(maxsize=4096)
def checked(text: str) -> CheckedProgram:
    return check(parse(text))


def oracle(case: Case, base: Base) -> Views | None:
    """What the views must hold, None where evaluation must fail."""
    return _oracle(case.text(), frozenset(base.items()))


@lru_cache(maxsize=4096)
def _oracle(text: str, base: frozenset[tuple[str, frozenset[Row]]]) -> Views | None:
    try:
        views = evaluate(checked(text), {name: set(rows) for name, rows in base})
    except DataError:
        return None
    return {view: keyed(rows) for view, rows in views.items()}


def difference(old: Views, new: Views) -> Delta:
    return {view: (new[view] - old[view], old[view] - new[view]) for view in new}


def composed(first: Delta, then: Delta) -> Delta:
    """The net change of two changes, one after the other."""
    result: Delta = {}
    for view, (came, went) in then.items():
        plus, minus = first.get(view, (set(), set()))
        result[view] = ((plus - went) | (came - minus), (minus - came) | (went - plus))
    return result


# ---- what is ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subject:
    """The engine under test, its program and its views."""

    db: upshot.Database
    program: CheckedProgram

    @property
    def views(self) -> list[str]:
        return [view for component in self.program.strata for view in component]

    def state(self) -> Views:
        return {view: keyed(self.db.rows(view)) for view in self.views}

    def apply(self, transaction: Transaction) -> Delta:
        with self.db.transaction() as tx:
            for change in transaction:
                (tx.insert if change.sign == "+" else tx.delete)(change.relation, [change.row])
        return {view: (keyed(tx.changes[view].inserted), keyed(tx.changes[view].deleted)) for view in self.views}

    def replace(self, base: Base) -> Delta:
        with self.db.transaction() as tx:
            for name, rows in base.items():
                tx.replace(name, list(rows))
        return {view: (keyed(tx.changes[view].inserted), keyed(tx.changes[view].deleted)) for view in self.views}


def subject(case: Case, strategy: str) -> Subject:
    db = connect()
    db.define(case.text(view_options(checked(case.text()), strategy)))
    return Subject(db, checked(case.text()))


def expect(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise Wrong(f"{what}\n  engine: {found}\n  oracle: {wanted}")


# ---- the properties ---------------------------------------------------------------------------


def check_transactions(case: Case, strategy: str) -> None:
    """Every transaction reports exactly what changed; one that must fail fails and changes nothing."""
    it = subject(case, strategy)
    state: Base = {name: frozenset() for name in case.base}
    views = oracle(case, state)
    assert views is not None
    expect("the views over empty relations", it.state(), views)
    first = tuple(Change("+", name, row) for name, rows in case.base.items() for row in rows)
    for number, transaction in enumerate((first, *case.transactions)):
        changed = after(state, transaction)
        wanted = oracle(case, changed)
        try:
            delta = it.apply(transaction)
        except DataError as error:
            if wanted is not None:
                raise Wrong(f"transaction {number} fails in the engine only: {error}") from error
            expect(f"the views after transaction {number} failed", it.state(), views)
            continue
        if wanted is None:
            raise Wrong(f"transaction {number} must fail, and the engine reports {delta}")
        expect(f"the changes of transaction {number}", delta, difference(views, wanted))
        expect(f"the views after transaction {number}", it.state(), wanted)
        state, views = changed, wanted
    it.db.verify()
    it.db.close()


def check_splits(case: Case, strategy: str) -> None:
    """However the changes are cut into transactions, the end is the same, and so is the net change."""
    changes = [change for transaction in case.transactions for change in transaction]
    before, wanted = oracle(case, case.base), oracle(case, after(case.base, tuple(changes)))
    assert before is not None
    assert wanted is not None
    it = subject(case, strategy)
    it.replace(case.base)
    for name, pieces in splits(changes, random.Random(case.seed)).items():
        net: Delta = {view: (set(), set()) for view in it.views}
        for piece in pieces:
            net = composed(net, it.apply(piece))
        expect(f"the views after {name}", it.state(), wanted)
        expect(f"the net change of {name}", net, difference(before, wanted))
        expect(f"the change that undoes {name}", it.replace(case.base), difference(wanted, before))
    it.db.close()


def splits(changes: Sequence[Change], rng: random.Random) -> dict[str, list[Transaction]]:
    cuts = sorted(rng.sample(range(1, len(changes)), rng.randint(0, len(changes) - 1))) if len(changes) > 1 else []
    edges = [0, *cuts, len(changes)]
    return {
        "one batch": [tuple(changes)],
        "one change at a time": [(change,) for change in changes],
        "a random split": [tuple(changes[a:b]) for a, b in itertools.pairwise(edges)],
    }


def check_late_views(case: Case, strategy: str) -> None:
    """Views defined over relations that already hold rows hold what they would if they had been there before."""
    program = checked(case.text())
    views = {view for component in program.strata for view in component}
    base = [line for line in case.declarations if line.removeprefix(".decl ").partition("(")[0] not in views]
    db = connect()
    db.define("\n".join(base))
    with db.transaction() as tx:
        for name, rows in case.base.items():
            tx.insert(name, list(rows))
    db.define(case.text(view_options(program, strategy)))
    it = Subject(db, program)
    expect("the views defined late", it.state(), oracle(case, case.base))
    state = case.base
    for number, transaction in enumerate(case.transactions):
        old, new = oracle(case, state), oracle(case, after(state, transaction))
        assert old is not None
        assert new is not None
        expect(f"the changes of transaction {number}", it.apply(transaction), difference(old, new))
        state = after(state, transaction)
    db.close()


# ---- programs that change ---------------------------------------------------------------------------------------

REFUSALS = frozenset({"would-recompute", "strategy-not-applicable", "conflicting-strategies"})
"""Codes of definitions that say how views are to be kept and cannot be followed; nothing happens then."""

_HEARD = {"all": (True, True), "insert": (True, False), "delete": (False, True), "none": (False, False)}


def heard(delta: Delta, options: Sequence[str]) -> Delta:
    """What is reported of a change: of a view without stored rows only the events that its options name."""
    result = dict(delta)
    for line in options:
        if not line.startswith(".view "):
            continue
        view, given = line.split()[1], dict(part.split("=") for part in line.split()[2:])
        stored = given.get("materialized") or str(given["strategy"] not in on_demand()).lower()
        if stored == "false":
            signs = _HEARD[given.get("events", "all")]
            inserted, deleted = (rows if sign else set() for sign, rows in zip(signs, delta[view], strict=True))
            result[view] = inserted, deleted
    return result


@dataclass(slots=True)
class Evolving:
    """A database in the course of its history, and what it should hold."""

    case: Evolution
    folder: Path | None
    db: Any = None
    version: Version = field(default_factory=lambda: Version(()))
    base: Base = field(default_factory=dict)
    wanted: Views = field(default_factory=dict)

    def run(self) -> None:
        self.db, case = self._connected(), self.case
        self.db.define(case.text(case.first))
        self.version, self.base = case.first, {name: frozenset() for name in case.base}
        self.wanted = self._oracle(self.version, self.base) or {}
        first = tuple(Change("+", name, row) for name, rows in case.base.items() for row in rows)
        for number, step in enumerate((first, *case.steps)):
            match step:
                case Version():
                    self._become(number, step)
                case Reopening():
                    if self.folder is not None:
                        self.db.close()
                        self.db = self._connected()
                        self._expect_state(f"reopening in step {number}")
                case _:
                    self._apply(number, step)
        self.db.verify()
        self.db.close()

    def _connected(self) -> Any:
        return connect() if self.folder is None else upshot.connect(self.folder)

    def _oracle(self, version: Version, base: Base) -> Views | None:
        return _oracle("\n".join([*self.case.declarations, *version.rules]) + "\n", frozenset(base.items()))

    def _become(self, number: int, version: Version) -> None:
        wanted = self._oracle(version, self.base)
        change = single_change(self.version, version)
        try:
            made = (
                getattr(self.db, change[0])(change[1])
                if change
                else self.db.define(redefinition(self.version, version))
            )
        except upshot.Error as error:
            refused = error.code in REFUSALS or (isinstance(error, DataError) and wanted is None)
            if not refused:
                raise Wrong(f"step {number}: the definition fails: {error}") from error
            self._expect_state(f"the refused step {number}")
            return
        self._expect(f"step {number}, a definition", made.changes, wanted, version, self.base)

    def _apply(self, number: int, transaction: Transaction) -> None:
        base = after(self.base, transaction)
        wanted = self._oracle(self.version, base)
        try:
            with self.db.transaction() as tx:
                for change in transaction:
                    (tx.insert if change.sign == "+" else tx.delete)(change.relation, [change.row])
        except DataError as error:
            if wanted is not None:
                raise Wrong(f"step {number} fails in the engine only: {error}") from error
            self._expect_state(f"the failed step {number}")
            return
        self._expect(f"step {number}, a transaction", tx.changes, wanted, self.version, base)

    def _expect(self, what: str, changes: Any, wanted: Views | None, version: Version, base: Base) -> None:
        if wanted is None:
            raise Wrong(f"{what} must fail")
        old = {view: self.wanted.get(view, set()) for view in wanted}
        found = {view: (keyed(changes[view].inserted), keyed(changes[view].deleted)) for view in wanted}
        expect(f"the changes of {what}", found, heard(difference(old, wanted), version.options))
        self.version, self.base, self.wanted = version, base, wanted
        self._expect_state(what)

    def _expect_state(self, what: str) -> None:
        expect(f"the views after {what}", {view: keyed(self.db.rows(view)) for view in self.wanted}, self.wanted)


def check_evolution(case: Evolution, folder: Path | None = None) -> None:
    """Every transaction and every change of the program reports exactly what changed; what is refused changes nothing.
    In a `folder` the database is durable, and can be reopened."""
    Evolving(case, folder).run()
