"""Activate and deactivate rules.

Values of parameters are rows of a hidden relation that the rule's condition reads, so that one more is a normal change:
it costs what it affects. Only the first values for a combination of parameters, and the rule as a whole, change the
program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from upshot.check import binding
from upshot.check.active.activations import binding_of, not_activated
from upshot.check.findings import Findings as Mistakes
from upshot.core.errors import ProgramError
from upshot.core.schema import Role
from upshot.database.changes import Definition
from upshot.database.commit import Proposal, commit_change
from upshot.database.program.activations import binding_row
from upshot.database.program.compile import compile_items
from upshot.database.program.redefine import redefine
from upshot.syntax.ast import Activation

if TYPE_CHECKING:
    from upshot.check.program import CheckedRule
    from upshot.database.program.activations import Row
    from upshot.database.state import DatabaseState


def switch(state: DatabaseState, name: str, bindings: Mapping[str, Any], *, active: bool) -> Definition:
    """Activate or deactivate a rule, or the rules of a group, for these values of parameters; without any, for all
    values."""
    values = tuple((parameter, binding(parameter, value)) for parameter, value in bindings.items())
    items = [Activation(rule, values, active) for rule in state.compiled.members(name)]
    rows = [_row(state, item) for item in items] if values else [None]
    known = [row for row in rows if row is not None]
    if len(known) == len(rows):
        return _switch_rows(state, known, active=active)
    return redefine(state, compile_items(tuple(items), state.compiled))


def _row(state: DatabaseState, item: Activation) -> tuple[CheckedRule, str, Row] | None:
    """The activation as a row; None if the rule has no table for it."""
    rule = state.compiled.rule(item.rule)
    names = {name for name, _ in item.bindings}
    if rule is None or not any({column.name for column in table.columns} == names for table in rule.bindings):
        return None
    mistakes = Mistakes()
    values = binding_of(rule, item, mistakes)
    mistakes.raise_errors()
    assert values is not None, "nothing was reported"
    return rule, *binding_row(rule, values)


def _switch_rows(state: DatabaseState, rows: Sequence[tuple[CheckedRule, str, Row]], *, active: bool) -> Definition:
    engine, compiled = state.engine, state.compiled
    try:
        for rule, table, row in rows:
            if active:
                engine.insert(table, [row])
            elif engine.contains(table, row):
                engine.delete(table, [row])
            else:
                raise ProgramError([not_activated(rule, None)])
    except BaseException:
        engine.rollback()
        raise
    changes = commit_change(state, Proposal(compiled)).changes
    kept = tuple(name for name, schema in compiled.visible.items() if schema.role is not Role.BASE)
    return Definition(state.version, changes, engine.work, kept=kept)
