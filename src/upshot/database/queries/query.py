"""Answer queries: a rule body with parameters, over the current state or an open one; several answers from one
version."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from upshot.check import check_query, unquoted_constants
from upshot.check.names.variables import atoms, fresh_name
from upshot.check.program import Clause
from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import QueryWarning, UsageError
from upshot.core.rows import Rows
from upshot.core.schema import Role, Schema
from upshot.database import live
from upshot.database.changes import undecided_relation
from upshot.rewrite.shapes import row_variables
from upshot.sql.either import is_sql
from upshot.syntax import parse_query
from upshot.syntax.ast import Aggregate, And, Atom, Comparison, Not, Or, Parameter, Test, Variable, subterms

if TYPE_CHECKING:
    from upshot.database.engines import Engine
    from upshot.database.state import DatabaseState
    from upshot.syntax.ast import Formula


def query(state: DatabaseState, text: object, values: Mapping[str, Any], *, warns: bool = False) -> Rows:
    """The answers, one column for each variable in order of appearance. Values are bound, never spliced into the text.
    With `warns`, a `QueryWarning` for each variable that is probably text without quotes."""
    with state.reading() as engine:
        known = live.kept.answer(state, text, values) if state.kept.notes else None
        if known is not None:
            return known
        formula = query_formula(text, values)
        refuse_undecided(formula, state)
        schema, clauses = check_query(formula, state.schemas, values, state.compiled.checked.functors)
        found = engine.query(schema, clauses)
        for each in unquoted_constants(formula, state.schemas) if warns else ():
            warnings.warn(QueryWarning(each), stacklevel=3)
        if values and state.keeps_answers:
            live.kept.note(state, text, values)
        return found


def query_open(state: DatabaseState, text: object, /, **values: Any) -> Rows:
    """The answers in the state of the open transaction, for functions that its rules call."""
    formula = query_formula(text, values)
    refuse_undecided(formula, state)
    schema, clauses = check_query(formula, state.schemas, values, state.compiled.checked.functors)
    return state.engine.query_open(schema, clauses, {})


def all_rows(engine: Engine, schema: Schema, *, is_open: bool) -> Rows:
    """All rows of a relation, in the state before an open change or in the open one."""
    if not is_open:
        return engine.rows(schema.name)
    names = row_variables(schema)
    row = tuple(map(Variable, names))
    types = dict(zip(names, schema.types, strict=True))
    head = Schema(fresh_name("query", {schema.name}), schema.columns, Role.VIEW)
    clause = Clause(Atom(head.name, row), (Atom(schema.name, row),), types)
    found = engine.query_open(head, (clause,), {})
    return Rows.of(schema, list(found))


def is_select(text: object) -> bool:
    return isinstance(text, str) and is_sql(text)


def query_formula(text: object, values: Mapping[str, Any]) -> Formula:
    """The parsed body; its parameters must be those that have values."""
    if not isinstance(text, str):
        message = f"a query must be text, not {type(text).__name__}"
        raise UsageError(message, code="wrong-argument", help='as in db.query("closure($x, Y)", x=1)')
    formula = parse_query(text)
    _match_parameters(formula, values)
    return formula


def refuse_undecided(formula: Formula, state: DatabaseState) -> None:
    """Raise if the formula reads a relation whose rows differ between models."""
    undecided = state.compiled.checked.undecided
    for atom in atoms(formula) if undecided else ():
        if atom.relation in undecided:
            raise undecided_relation(atom.relation)


def _match_parameters(formula: Formula, values: Mapping[str, Any]) -> None:
    wanted = {parameter.name: parameter for parameter in parameters(formula)}
    for name in values:
        if name not in wanted:
            hint = did_you_mean(name, wanted.keys() - values.keys()) or f"write `${name}` in the query"
            raise UsageError(f"parameter `{name}` does not occur in the query", code="unused-parameter", help=hint)
    for name, parameter in wanted.items():
        if name not in values:
            message = f"parameter `${name}` has no value"
            raise UsageError(message, code="missing-parameter", span=parameter.span, help=f"pass {name}=…")


def parameters(formula: Formula) -> Iterator[Parameter]:
    match formula:
        case Atom(_, args) | Test(_, args):
            terms = args
        case Comparison(_, left, right):
            terms = (left, right)
        case Not(body):
            yield from parameters(body)
            return
        case And(parts) | Or(parts):
            for part in parts:
                yield from parameters(part)
            return
    for term in terms:
        for inner in subterms(term):
            if isinstance(inner, Parameter):
                yield inner
            elif isinstance(inner, Aggregate):
                if inner.target is not None:
                    yield from parameters(Test("", (inner.target,)))
                yield from parameters(inner.body)


class ConsistentRead:
    """For a `with` block on one thread: all answers are from one `version`. Commits of other threads wait meanwhile, so
    the block should be short; its rows may be read after it."""

    def __init__(self, state: DatabaseState) -> None:
        self._state = state
        self._open = False
        self._outer: int | None = None

    def __enter__(self) -> ConsistentRead:
        self._state.lock.acquire()
        try:
            self._state.open()
        except BaseException:
            self._state.lock.release()
            raise
        self._open = True
        self._outer, self._state.reader = self._state.reader, threading.get_ident()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._state.reader = self._outer
        self._state.lock.release()

    @property
    def version(self) -> int:
        return self._of_state().version

    @property
    def schemas(self) -> Mapping[str, Schema]:
        return self._of_state().schemas

    def query(self, text: str, /, **parameters: Any) -> Rows:
        """The answers to a rule body, as from `db.query`."""
        return query(self._of_state(), text, parameters)

    def rows(self, name: str) -> Rows:
        state = self._of_state()
        return state.engine.rows(state.schema(name).name)

    def _of_state(self) -> DatabaseState:
        if not self._open:
            hint = "query inside `with db.reading() as at:`"
            raise UsageError("this cannot be used outside of its `with` block", code="transaction-ended", help=hint)
        return self._state
