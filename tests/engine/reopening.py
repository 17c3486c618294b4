"""Transactions that are propagated again and again while they grow, and queries in the state they have reached."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

from tests.engine.driver import Deltas, Driver, Row, plain
from tests.properties.cases import Base, Case, Change, Transaction, after
from tests.properties.exactness import Delta, Views, checked, difference, expect, keyed, oracle
from upshot.core.rows import Rows
from upshot.engine.naive import evaluate

Given = Mapping[str, Sequence[Row]]


def cut(transaction: Transaction, rng: random.Random) -> list[Transaction]:
    """The changes in two to four parts, some of which may be empty."""
    places = sorted(rng.choices(range(len(transaction) + 1), k=rng.randint(1, 3)))
    return [transaction[a:b] for a, b in itertools.pairwise([0, *places, len(transaction)])]


def stage(it: Driver, part: Transaction, state: Base, rng: random.Random) -> Base:
    """Stage the changes one by one, or whole relations as they are afterwards; what the base relations hold then."""
    changed = after(state, part)
    if rng.random() < 0.2:
        for name in {change.relation for change in part}:
            it.engine.replace(name, list(changed[name]))
    else:
        for change in part:
            (it.engine.insert if change.sign == "+" else it.engine.delete)(change.relation, [change.row])
    return changed


def reported(found: Mapping[str, tuple[Rows, Rows]], views: Views) -> Delta:
    """The changes of the views; no word of a view is no change."""
    nothing: tuple[set[Row], set[Row]] = (set(), set())
    return {v: (keyed(found[v][0]), keyed(found[v][1])) if v in found else nothing for v in views}


def check_reopened(it: Driver, case: Case) -> None:
    """Each transaction is staged in parts: what is reported after each is the change since the beginning, whatever was
    reported before stays readable, and accepting or undoing it at the end leaves the right rows."""
    rng = random.Random(case.seed)
    state: Base = {name: frozenset() for name in case.base}
    first = tuple(Change("+", name, row) for name, rows in case.base.items() for row in rows)
    for number, transaction in enumerate((first, *case.transactions)):
        views, now = oracle(case, state), state
        assert views is not None
        earlier: list[tuple[Mapping[str, tuple[Rows, Rows]], Delta]] = []
        for step, part in enumerate(cut(transaction, rng)):
            if step:
                it.engine.reopen()
            now = stage(it, part, now, rng)
            wanted = oracle(case, now)
            assert wanted is not None
            found, change = it.engine.propagate(), difference(views, wanted)
            expect(f"the changes of transaction {number} up to part {step}", reported(found, views), change)
            earlier.append((found, change))
            for view in rng.sample(sorted(views), min(2, len(views))):
                rows = open_rows(it, case.text(), view)
                expect(f"{view} in transaction {number} after part {step}", keyed(rows), wanted[view])
        is_undone = number > 0 and rng.random() < 0.3
        (it.engine.rollback if is_undone else it.engine.accept)()
        state = state if is_undone else now
        for found, change in earlier:
            expect(f"the changes of transaction {number}, read later", reported(found, views), change)
        after_it = oracle(case, state)
        assert after_it is not None
        expect(f"the views after transaction {number}", {v: keyed(it.engine.rows(v)) for v in after_it}, after_it)


def open_rows(it: Driver, text: str, view: str) -> Rows:
    """The whole view in the state reached."""
    names = ", ".join(f"X{i}" for i in range(checked(text).schemas[view].arity))
    return open_answer(it, text, f".decl whole({', '.join(_columns(text, view))})\nwhole({names}) :- {view}({names}).")


def _columns(text: str, view: str) -> Iterator[str]:
    return (f"x{i}: {column.type}" for i, column in enumerate(checked(text).schemas[view].columns))


def open_answer(it: Driver, text: str, question: str, given: Given = {}) -> Rows:  # noqa: B006 - only read
    """What the engine answers to the rules of the question; its last view is the head, the others are helpers."""
    program, whole = checked(text), checked(f"{text}\n{question}")
    own = [view for layer in whole.strata for view in layer if view not in program.schemas]
    clauses = [clause for clause in whole.clauses if clause.head.relation in own]
    tables = {name: (whole.schemas[name], list(rows)) for name, rows in given.items()}
    helpers = {view: whole.schemas[view] for view in own[:-1]}
    return it.engine.query_open(whole.schemas[own[-1]], clauses, tables, helpers)


def expected_answer(text: str, question: str, base: Mapping[str, set[Row]], given: Given = {}) -> set[Row]:  # noqa: B006
    """What the oracle says, from the base relations as they will be."""
    whole = checked(f"{text}\n{question}")
    views = evaluate(whole, {**base, **{name: set(rows) for name, rows in given.items()}})
    return plain(views[[view for layer in whole.strata for view in layer][-1]])


def sets(found: Mapping[str, tuple[Rows, Rows]]) -> Deltas:
    return {name: (plain(came), plain(went)) for name, (came, went) in found.items() if len(came) or len(went)}
