"""Why rows are there: the questions a database answers about its own state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from upshot.core.errors import DataError, UsageError, VerifyError
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.database.engines import Engine
from upshot.database.given_rows import given_rows
from upshot.database.moments import moments_of
from upshot.database.state import State
from upshot.reasons.concrete import Question, Row
from upshot.reasons.derivation import BASE, Derivation, with_moments
from upshot.reasons.search import Key, one_nan
from upshot.reasons.why import reasons_in
from upshot.reasons.wording import row_text


class Committed:
    """The last committed state, as explanations ask it."""

    tag = "old"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def ask(self, question: Question, rows: list[Row]) -> Rows:
        return self._engine.query(question.schema, (question.clause,), question.given(rows))


class AsksWhy:
    """The part of a database that explains rows."""

    _state: State

    def why(self, view: str, row: Iterable[Any], *, bounds: int | None = None) -> Derivation:
        """The smallest derivation of a row of a view, a constraint, a base relation, or the condition of an active
        rule: the lowest, each part of it again the lowest, and of those the one with the fewest nodes. Nothing is
        stored for it; at most `bounds` rule instances are looked at (1,000,000 unless told), or it is a `LimitError`.
        """
        with self._state.reading() as engine:
            key = _asked_for(self._state, engine, view, row)
            reasons = reasons_in(Committed(engine), self._state.compiled.checked, _bounds(bounds))
            # Views that are not stored are asked by joins, which do not find NULL: there only the search can tell.
            there = engine.contains(*key)
            tree = reasons.why(key) if there or None in key[1] else None
            if tree is None:
                raise no_derivation(self._state, key) if there else row_not_there(self._state, key)
            return self._with_moments(tree)

    def _with_moments(self, tree: Derivation) -> Derivation:
        """The tree with the versions that its base facts came with, where they are kept."""
        state = self._state
        if state.journal is None:
            return tree
        facts = {(n.relation, n.row) for n in tree.nodes if n.kind == BASE and n.relation and n.row is not None}
        homes = {state.compiled.home(relation) or relation: relation for relation, _ in facts}
        wanted = {(home, row) for home, shown in homes.items() for relation, row in facts if relation == shown}
        found = moments_of(state.journal.store, wanted, state.version)
        return with_moments(tree, {(homes[home], row): moment for (home, row), moment in found.items()})


def _asked_for(state: State, engine: Engine, view: str, row: Iterable[Any]) -> Key:
    """The row as it is kept, under the relation that keeps it."""
    schema = explained_schema(state, view)
    (values,) = given_rows(schema, [row])
    return schema.name, one_nan(tuple(values))


def explained_schema(state: State, name: str) -> Schema:
    """The relation of that name, or the one that holds what the condition of an active rule is true for."""
    rule = state.compiled.rule(name)
    if rule is None:
        return state.schema(name)
    if rule.becomes is None:
        raise UsageError(
            f"no rows are kept for the condition of the rule `{name}`",
            code="no-condition",
            help="ask about the relations it reads; a firing tells what it was fired for",
        )
    return state.compiled.schema(rule.becomes)


def row_not_there(state: State, key: Key) -> DataError:
    shown = row_text(state.compiled.schema(key[0]), key[1])
    return DataError(f"`{shown}` is not there", code="row-not-there", help="`why_not` says what it is missing")


def no_derivation(state: State, key: Key) -> VerifyError:
    return VerifyError(
        f"`{row_text(state.compiled.schema(key[0]), key[1])}` is stored, and no rule derives it",
        code="view-differs",
        help="this is a fault in Upshot; please report it with the program and the transactions that led here",
    )


def _bounds(bounds: object) -> int | None:
    if bounds is None or (isinstance(bounds, int) and not isinstance(bounds, bool) and bounds > 0):
        return bounds
    message = "`bounds` is a positive number of rule instances"
    raise UsageError(message, code="wrong-argument", help="as in bounds=10**6")
