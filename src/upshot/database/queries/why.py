"""The explanations of a database: derivations of rows, absent rows, changed rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, overload

from upshot.active.firing import Cause
from upshot.check import check
from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram, CheckedRule, Clause
from upshot.check.types.constants import fit
from upshot.core.errors import DataError, ProgramError, UsageError, VerifyError
from upshot.core.operations import INSERTED
from upshot.core.rows import Rows, one_nan, row_set
from upshot.core.schema import Schema
from upshot.core.types import Kind, Type
from upshot.database.changes import ChangeSet, changed_base_rows
from upshot.database.durable.history import PastChange, last_change, moments_of, row_history
from upshot.database.durable.past_states import PastStates, moment_of, refuse_unknown
from upshot.database.engines import Engine
from upshot.database.files.input_rows import input_rows
from upshot.database.placement import placement_of
from upshot.database.queries.absence import Absence, absence
from upshot.database.search_arguments import limit_of
from upshot.database.state import DatabaseState
from upshot.reasons.changed import CAME, WENT, Changed, RowChange
from upshot.reasons.concrete import Row
from upshot.reasons.derivation import BASE, Derivation, Moment, with_moments
from upshot.reasons.failure import base_facts, dated
from upshot.reasons.search import Best, Key, QueryState
from upshot.reasons.why import Reasons, reasons_in
from upshot.reasons.why_not import WhyNot
from upshot.reasons.wording import row_text
from upshot.store.errors import not_durable
from upshot.syntax.ast import Activation, ActiveRule, And, Formula, Item
from upshot.syntax.rebuild import map_atoms

if TYPE_CHECKING:
    from upshot.database.durable.past_states import PastState
    from upshot.database.engines import EngineQuery
    from upshot.database.state import DatabaseState
    from upshot.reasons.concrete import Row


class _One:
    """The default of `limit`: return one derivation instead of an iterator."""


ONE = _One()


class Committed(QueryState):
    """The last committed state, for explanations."""

    tag = "old"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.is_local = placement_of(engine).engine == "local"

    def answers(self, queries: Sequence[EngineQuery]) -> list[Rows]:
        return self._engine.query_many(queries, is_open=False)


def causes(state: DatabaseState, version: int, changes: ChangeSet, name: str) -> dict[Row, Cause]:
    """The cause of each row of a relation that the transaction of a version inserted or deleted; `changes` are those of
    the transaction."""
    with state.writing("explain changes") as engine:
        refuse_unknown(state, version)
        program, plan = state.compiled.checked, state.compiled.plan
        deltas = {
            each: (row_set(changes[each].inserted), row_set(changes[each].deleted))
            for each in state.compiled.visible
            if plan.reported(each) == ("plus", "minus") and each not in plan.on_demand.nervous
        }
        states, found = PastStates(state, engine), dict[Row, Cause]()
        try:
            after, before = (reasons_in(states.world(each), program) for each in (version, version - 1))
            changed = Changed(program, after, before, moment_of(state, version), deltas, shown=sys.maxsize)
            for change, rows in ((CAME, changes[name].inserted), (WENT, changes[name].deleted)):
                keys = {(name, one_nan(row)): row for row in rows}
                for key, tree in changed.derivations(keys, change).items():
                    literals = tuple(each.statement for each in tree.premises if each.change)
                    found[keys[key]] = Cause(*changed_base_rows([tree]), literals)
        finally:
            states.close()
        return found


class Explains:
    """The methods of a database that explain rows."""

    _state: DatabaseState

    @overload
    def why(self, view: str, row: Iterable[Any], *, bounds: int | None = None) -> Derivation: ...

    @overload
    def why(
        self, view: str, row: Iterable[Any], *, limit: int | None, bounds: int | None = None
    ) -> Iterator[Derivation]: ...

    def why(
        self, view: str, row: Iterable[Any], *, limit: int | _One | None = ONE, bounds: int | None = None
    ) -> Derivation | Iterator[Derivation]:
        """The smallest derivation of a row of a view, a constraint, a base relation, or the condition of an active
        rule: the lowest, with every part the lowest too, and of those the one with the fewest nodes.

        With a `limit`, that many derivations, or all if it is None, the smallest first and the others by height, each
        computed on demand. Nothing is stored; at most `bounds` rule instances are read (by default 250,000), or a
        `LimitError` is raised.
        """
        with self._state.reading() as engine:
            key = _requested_key(self._state, view, row)
            reasons = reasons_in(Committed(engine), self._state.compiled.checked, _bounds(bounds))
            best = _found(self._state, engine, reasons, key)
            first = self._with_moments(reasons.why(key, best) if best else reasons.trees.base(key))
        if isinstance(limit, _One):
            return first
        most = min(limit_of(limit) or sys.maxsize, sys.maxsize)
        others = reasons.others(key, best) if best else iter(())
        return islice(chain([first], self._each(others, self._state.version)), most)

    def why_not(self, view: str, row: Iterable[Any], *, depth: int = 1, bounds: int | None = None) -> Absence:
        """Explain an absent row: for each rule the literals that hold and the rows that are missing or block it, rules
        that fail by the fewest literals first. With a `depth` of 2 or more, missing rows of views are explained in
        turn, and blocking rows are derived. At most `bounds` instances are read. The answer has `fixes`, base changes
        that would derive the row, and shows the first of them."""
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
            raise UsageError("`depth` must be a positive integer", code="wrong-argument", help="as in depth=2")
        with self._state.reading() as engine:
            key = _requested_key(self._state, view, row)
            reasons = reasons_in(Committed(engine), self._state.compiled.checked, _bounds(bounds))
            if engine.contains(*key):
                raise row_is_there(self._state, key)
            failure = WhyNot(reasons).failure(key, depth)
            facts = (each for each in base_facts(failure) if self._state.compiled.home(each[0]) is not None)
            return absence(dated(failure, self._moments(facts)), self._state, key)

    def why_changed(
        self, view: str, row: Iterable[Any], version: int | None = None, *, bounds: int | None = None
    ) -> RowChange:
        """The derivation that a row gained or lost with a version, by default the last one: down to the base rows that
        it inserted or deleted, and its transaction. A durable database explains any version in its log, if the program
        has not changed since; without a store only the last commit."""
        state = self._state
        with state.writing("explain a change") as engine:
            condition = _virtual_condition(state, view)
            program, schema = condition or (state.compiled.checked, explained_schema(state, view))
            key = _key_of(schema, row)
            if condition is None:
                engine.contains(*key)
            version = state.version if version is None else version
            refuse_unknown(state, version)
            states = PastStates(state, engine)
            try:
                worlds = [states.world(each) for each in (version, version - 1)]
                explained = worlds if condition is None else [ConditionState(each, program, schema) for each in worlds]
                after, before = (reasons_in(each, program, _bounds(bounds)) for each in explained)
                changed = Changed(program, after, before, moment_of(state, version))
                change = changed.status(key)
                if not change:
                    raise row_not_changed(state, key, version, program)
                return RowChange(change, changed.moment, changed.derivation(key, change))
            finally:
                states.close()

    def row_history(self, view: str, row: Iterable[Any]) -> tuple[PastChange, ...]:
        """The commits that inserted or deleted a row of a relation or view, oldest first, as far as the log reaches:
        each with `version`, `change`, `time` and `meta`."""
        state = self._state
        with state.reading():
            key = _requested_key(state, view, row)
            if state.journal is None:
                raise not_durable("has no history")
            if state.compiled.plan.reported(key[0]) != ("plus", "minus"):
                message, hint = f"changes of `{view}` are not recorded", "define it with `events=all`"
                raise UsageError(message, code="not-reported", help=hint)
            return row_history(state.journal.store, key, state.version)

    def explained_schema(self, view: str) -> Schema:
        """The columns of the rows that `view` explains: of a relation, or of the condition of a rule."""
        return explained_schema(self._state, view)

    def _each(self, others: Iterator[Derivation], version: int) -> Iterator[Derivation]:
        """The derivations, each computed on demand, while the database is unchanged."""
        while True:
            with self._state.reading():
                if self._state.version != version:
                    message = "the database has changed since the query for these derivations"
                    raise UsageError(message, code="state-changed", help="run the query again")
                tree = next(others, None)
                if tree is None:
                    return
                tree = self._with_moments(tree)
            yield tree

    def _with_moments(self, tree: Derivation) -> Derivation:
        """The tree with the versions that inserted its base facts, where they are known."""
        facts = ((n.relation, n.row) for n in tree.nodes if n.kind == BASE and n.relation and n.row is not None)
        return with_moments(tree, self._moments(facts))

    def _moments(self, named: Iterable[Key]) -> dict[Key, Moment]:
        """The transactions that inserted base facts, by the names that users know, where they are known."""
        state, facts = self._state, set(named)
        if state.journal is None:
            return {}
        homes = {state.compiled.home(relation) or relation: relation for relation, _ in facts}
        wanted = {(home, row) for home, shown in homes.items() for relation, row in facts if relation == shown}
        found = moments_of(state.journal.store, wanted, state.version)
        return {(homes[home], row): moment for (home, row), moment in found.items()}


def _requested_key(state: DatabaseState, view: str, row: Iterable[Any]) -> Key:
    """The row as it is stored, with its relation."""
    return _key_of(explained_schema(state, view), row)


def _virtual_condition(state: DatabaseState, name: str) -> tuple[CheckedProgram, Schema] | None:
    """The program with the condition of a rule as a view, if it has no view."""
    rule = state.compiled.rule(name)
    return None if rule is None or rule.becomes is not None else condition_program(state, rule)


def _key_of(schema: Schema, row: Iterable[Any]) -> Key:
    (values,) = input_rows(schema, [row])
    return schema.name, one_nan(tuple(map(_as_stored, values, schema.types)))


def _as_stored(value: Any, type: Type) -> Any:
    """The number or record as its column stores it; the engine refuses values that do not fit."""
    if type.kind is Kind.RECORD:
        return fit(value, type)[0]
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value.item() if hasattr(value, "item") else value
    fitting, problem = fit(value, type) if type.kind in (Kind.FLOAT, Kind.DECIMAL) else (value, "")
    return value if problem else fitting


def _found(state: DatabaseState, engine: Engine, reasons: Reasons, key: Key) -> Mapping[Key, Best]:
    """The smallest derivations of a present row; nothing for a base fact."""
    if not engine.contains(*key):
        raise row_not_there(state, key)
    if not reasons.is_derived(key):
        return {}
    best = reasons.best(key)
    if best is None:
        raise no_derivation(state, key)
    return best


def explained_schema(state: DatabaseState, name: str) -> Schema:
    """The relation with that name, or the view of the condition of an active rule."""
    rule = state.compiled.rule(name)
    if rule is None:
        return state.schema(name)
    if rule.becomes is None or rule.asleep:
        asleep = f"; it is inactive: activate it with `db.activate({name!r})`" if rule.asleep else ""
        raise UsageError(
            f"the condition of rule `{name}` has no stored rows",
            code="no-condition",
            help=f"query the relations it reads; `firing.cause` explains what it fired for{asleep}",
        )
    return state.compiled.schema(rule.becomes)


def row_not_there(state: DatabaseState, key: Key) -> DataError:
    shown = row_text(state.compiled.checked, *key)
    return DataError(f"row `{shown}` does not exist", code="row-not-there", help="`why_not` shows what is missing")


def row_is_there(state: DatabaseState, key: Key) -> DataError:
    shown = row_text(state.compiled.checked, *key)
    return DataError(f"row `{shown}` exists", code="row-is-there", help="`why` shows how it is derived")


def row_not_changed(state: DatabaseState, key: Key, version: int, program: CheckedProgram) -> DataError:
    shown = row_text(program, *key)
    stored = key[0] in state.compiled.checked.schemas and state.journal is not None
    last = None if state.journal is None or not stored else last_change(state.journal.store, key, state.version)
    hint = f"it was {last[1]} last in version {last[0]}" if last else "`why` and `why_not` explain its current state"
    return DataError(
        f"`{shown}` was neither inserted nor deleted in version {version}", code="row-not-changed", help=hint
    )


def no_derivation(state: DatabaseState, key: Key) -> VerifyError:
    return VerifyError(
        f"`{row_text(state.compiled.checked, *key)}` is stored, but no rule derives it",
        code="view-differs",
        help="this is a bug in Upshot; please report it with the program and the transactions",
    )


def _bounds(bounds: object) -> int | None:
    if bounds is None or (isinstance(bounds, int) and not isinstance(bounds, bool) and bounds > 0):
        return bounds
    message = "`bounds` must be a positive number of rule instances"
    raise UsageError(message, code="wrong-argument", help="as in bounds=10**6")


# ---- conditions of active rules without a view -----------------------------------------------------------


def condition_program(state: DatabaseState, rule: CheckedRule) -> tuple[CheckedProgram, Schema] | None:
    """The program with the condition of a rule as a hidden view, and its schema; None if the condition reads deleted
    rows, which exist in no state together with the others."""
    items: list[Item] = []
    for item in state.compiled.program.items:
        if isinstance(item, Activation) and item.rule == rule.name:
            continue
        if isinstance(item, ActiveRule) and item.name == rule.name:
            rule_with_view = _as_view_rule(item)
            if rule_with_view is None:
                return None
            items.append(rule_with_view)
        else:
            items.append(item)
    try:
        program = check(replace(state.compiled.program, items=tuple(items)))
    except ProgramError:
        return None
    (found,) = (each for each in program.rules if each.name == rule.name)
    return None if found.becomes is None else (program, program.schemas[found.becomes])


def _as_view_rule(rule: ActiveRule) -> ActiveRule | None:
    """The rule with a view as its condition: an inserted row becomes a present one."""
    parts: list[Formula] = []
    if rule.event is not None:
        if rule.event.kind != "insert":
            return None
        parts.append(rule.event.atom)
    if rule.condition is not None:
        if any(atom.state not in ("", INSERTED) for atom in atoms(rule.condition)):
            return None
        parts.append(map_atoms(rule.condition, lambda atom: replace(atom, state="")))
    condition = parts[0] if len(parts) == 1 else And(tuple(parts))
    # The option `strategy` gives every condition a view.
    return replace(rule, event=None, condition=condition, options=(("strategy", "auto"),))


class ConditionState(QueryState):
    """A past state in which the condition of a rule has rows too."""

    def __init__(self, state: PastState, program: CheckedProgram, condition: Schema) -> None:
        self._state, self._condition = state, condition
        self._clauses = tuple(clause for clause in program.clauses if clause.head.relation == condition.name)
        self.tag, self.is_local = state.tag, state.is_local

    def answers(self, queries: Sequence[EngineQuery]) -> list[Rows]:
        return self._state.answers([self._with_condition(*each) for each in queries])

    def _with_condition(
        self, schema: Schema, clauses: Sequence[Clause], given: Mapping[str, Any], helpers: Mapping[str, Schema]
    ) -> EngineQuery:
        name = self._condition.name
        if any(atom.relation == name for clause in clauses for literal in clause.body for atom in atoms(literal)):
            return schema, (*clauses, *self._clauses), given, {**helpers, name: self._condition}
        return schema, clauses, given, helpers
