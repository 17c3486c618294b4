"""Change the program of a database: unchanged views keep their rows, the others follow exactly. Drop a relation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upshot.check.names.variables import atoms
from upshot.core.errors import DataError, Error, UsageError
from upshot.core.resources import ran_out
from upshot.core.rows import Rows, row_set
from upshot.core.schema import Schema
from upshot.database import live as live_queries
from upshot.database.changes import Definition
from upshot.database.commit import LiveLayer, Proposal, commit_change
from upshot.database.constraints import (
    ConstraintFindings,
    findings_of,
    grandfathered,
    rejected_definition,
    warnings_for,
)
from upshot.database.engines import Deltas, Engine
from upshot.database.explain.dependencies import dependencies
from upshot.database.program.compile import Compiled, compile_without, difference
from upshot.database.program.definitions import constraint_names
from upshot.database.state import DatabaseState
from upshot.engine.time_limit import live_time_limit
from upshot.syntax.ast import ActiveRule, Declaration, Program

Row = tuple[Any, ...]
Facts = Mapping[str, frozenset[Row]]
RowsByName = Mapping[str, Iterable[Row]]


def redefine(state: DatabaseState, new: Compiled, stage: Callable[[Engine], None] | None = None) -> Definition:
    """Make `new` the program, atomically; `stage` may add statements.

    Facts in the text are distinguished from rows of transactions: facts only in the old text are deleted, facts only in
    the new one are inserted.
    """
    live = state.live
    refuse_loss_of_rows(state, new)
    fitting, ended = live.fitting(state.compiled, new)
    live.suspects = {}
    while True:
        kept = [each for each in fitting if each.name not in live.suspects]
        layer = live_queries.layer.layered(new, kept) if kept else new
        try:
            with live_time_limit(live.seconds):
                made = _redefined(state, new, LiveLayer(fitting, layer), stage)
        except Error as error:
            found = live_queries.faults.suspects(layer, kept, error) if kept else {}
            if not found:
                raise
            live.suspects |= found
        else:
            state.feed.end(ended, "the query does not fit the program any more")
            return made


def _redefined(
    state: DatabaseState, new: Compiled, live_layer: LiveLayer, stage: Callable[[Engine], None] | None
) -> Definition:
    """The definition with these live queries beside it; if it fails, it is rolled back."""
    old, engine, live, layer = state.compiled, state.engine, state.live, live_layer.layer
    found, before = difference(old, new), _before(state, new)
    changed = difference(live.installed(old), layer).changed if live else found.changed

    def check(deltas: Deltas) -> ConstraintFindings:
        findings = _findings(engine, old, new, before, deltas)
        if rejection := rejected_definition(findings, new):
            raise rejection
        return findings

    try:
        computed = engine.install(layer.plan, recompute=changed)
        _refuse_recomputation(old, new, computed)
        _stage_rows(engine, old, new, before.moved)
        if new.bindings is not None:
            new.bindings.stage(engine, old, new)
        if stage is not None:
            stage(engine)
        proposal = Proposal(
            new,
            check,
            engine.propagate,
            former_views=_changes_of_former_views(before, new),
            reset=_reset_relations(old, new),
            live_layer=live_layer,
        )
    except BaseException as error:
        engine.rollback()
        if named := ran_out(error, "the definition"):
            raise named from error
        raise
    changes, _, findings, work = commit_change(state, proposal)
    warnings = (*new.checked.warnings, *warnings_for(findings, new))
    recomputed = tuple(view for view in found.recomputed if view in computed)
    followed = tuple(view for view in found.recomputed if view not in computed)
    return Definition(
        state.version,
        changes,
        work,
        warnings,
        violations=findings.warning(new),
        repaired=findings.repaired,
        kept=found.kept,
        recomputed=recomputed,
        followed=followed,
    )


def _findings(engine: Engine, old: Compiled, new: Compiled, before: _OldRows, deltas: Deltas) -> ConstraintFindings:
    """The violations under the new program that did not exist under the old one."""
    rekeyed, witnesses = _rows_after(before.rekeyed, deltas, new), _rows_after(before.witnesses, deltas, new)
    findings = findings_of(engine, new, deltas, rekeyed=rekeyed, witnesses=witnesses)
    return grandfathered(findings, new, _stated(old, new))


def _refuse_recomputation(old: Compiled, new: Compiled, computed: frozenset[str]) -> None:
    """Raise if an existing view would be recomputed although its policy is `strict`."""
    for view in sorted(computed & old.checked.schemas.keys() & new.checked.options.keys()):
        if new.checked.options[view].policy == "strict" and not old.is_base(view):
            raise UsageError(
                f"view `{view}` would be recomputed, but its policy is strict",
                code="would-recompute",
                span=new.schema(view).span,
                help=f"write `.view {view} policy=auto` in the same text, or change its rules one at a time",
            )


# ---- rows that must not be lost --------------------------------------------------------------------


def refuse_loss_of_rows(state: DatabaseState, new: Compiled) -> None:
    """Raise if a relation with rows of transactions would get other columns, or no place for its rows."""
    old = state.compiled
    for name in old.visible:
        home, schema = old.home(name), old.schema(name)
        if home is None or name not in new.checked.schemas:
            continue
        after = new.schema(name)
        if new.home(name) is not None and after.columns == schema.columns:
            continue
        facts = text_facts(old).get(home, frozenset())
        own = state.engine.size(home) - sum(state.engine.contains(home, row) for row in facts)
        if own:
            raise _schema_change(schema, after, own, loses_rows=new.home(name) is None)


def text_facts(compiled: Compiled) -> Facts:
    return {name: frozenset(rows) for name, rows in compiled.checked.facts.items()}


def _stage_rows(engine: Engine, old: Compiled, new: Compiled, moved: Mapping[str, list[Row]]) -> None:
    """Stage the facts that the text adds and removes; move rows whose relation became a view, or whose view a
    relation."""
    facts_before, facts_after = text_facts(old), text_facts(new)
    for name in new.visible:
        home, earlier = new.home(name), old.home(name) if name in old.checked.schemas else None
        if home is None:
            continue
        facts = facts_after.get(name, frozenset())
        if home != earlier or old.schema(name).types != new.schema(name).types:
            engine.replace(home, list(facts.union(moved.get(name, ()))))
            continue
        removed, added = facts_before.get(name, frozenset()) - facts, facts - facts_before.get(name, frozenset())
        if removed:
            engine.delete(home, list(removed))
        if added:
            engine.insert(home, list(added))


# ---- existing rows under the new program -----------------------------------


@dataclass(frozen=True, slots=True)
class _OldRows:
    """Rows before the definition: those of transactions that move, former views that become base relations, witnesses
    of new constraints, relations with a new key."""

    moved: Mapping[str, list[Row]]
    demoted: Mapping[str, frozenset[Row]]
    witnesses: RowsByName
    rekeyed: RowsByName


def _before(state: DatabaseState, new: Compiled) -> _OldRows:
    old, engine = state.compiled, state.engine
    alike = [n for n in new.visible if n in old.visible and old.schema(n).types == new.schema(n).types]
    moved, demoted = {}, {}
    for name in alike:
        home = old.home(name)
        if home is not None and home != new.home(name):
            facts = text_facts(old).get(home, frozenset())
            moved[name] = [row for row in engine.rows(home) if row not in facts]
        if new.is_base(name) and not old.is_base(name):
            demoted[name] = row_set(engine.rows(name))
    stated = _policies_stated(old, new)
    rekeyed = [name for name in alike if new.schema(name).keys and old.schema(name).keys != new.schema(name).keys]
    return _OldRows(
        moved,
        demoted,
        {name: engine.rows(name) if name in alike else () for name in stated},
        {name: engine.rows(name) for name in rekeyed},
    )


def _policies_stated(old: Compiled, new: Compiled) -> list[str]:
    """The constraints that are new or have another policy."""
    policies = old.checked.constraints
    return [name for name, constraint in new.checked.constraints.items() if policies.get(name) != constraint]


def _stated(old: Compiled, new: Compiled) -> frozenset[str]:
    """The constraints whose policy or rules are stated anew, without those that only depend on a changed view."""
    rules = [
        {clause for clause in compiled.checked.clauses if clause.head.relation in new.checked.constraints}
        for compiled in (old, new)
    ]
    return frozenset([*_policies_stated(old, new), *(clause.head.relation for clause in rules[0] ^ rules[1])])


def _rows_after(before: RowsByName, deltas: Deltas, new: Compiled) -> dict[str, list[Row]]:
    found = {}
    for name, rows in before.items():
        inserted, deleted = deltas.get(name, ((), ()))
        remaining = row_set(rows) - row_set(deleted) | row_set(inserted)
        found[name] = Rows.of(new.schema(name), list(remaining)).sorted()
    return found


def _changes_of_former_views(before: _OldRows, new: Compiled) -> Deltas:
    """The engine starts such a relation empty; its users see the difference to the rows of the view."""
    changes, facts = {}, text_facts(new)
    for name, view_rows in before.demoted.items():
        schema, rows = new.schema(name), row_set([*facts.get(name, ()), *before.moved.get(name, ())])
        changes[name] = (Rows.of(schema, list(rows - view_rows)), Rows.of(schema, list(view_rows - rows)))
    return changes


def _reset_relations(old: Compiled, new: Compiled) -> list[str]:
    """The relations whose subscribers get all rows: those with other columns, and those that were or become nervous,
    whose changes no copy can follow."""
    before = old.checked.schemas
    changed_semantics = old.plan.on_demand.nervous ^ new.plan.on_demand.nervous
    return [
        name
        for name in new.visible
        if name in before and (before[name].types != new.schema(name).types or name in changed_semantics)
    ]


def _change_text(before: Schema, after: Schema) -> str:
    """Both schemas, or the definitions of their records if nothing else differs."""
    if str(before) != str(after):
        return f"{before} becomes {after}"
    pairs = ((old.definition, new.definition) for old, new in zip(before.types, after.types, strict=True))
    changed = dict.fromkeys(f"`{old}` becomes `{new}`" for old, new in pairs if old != new)
    return ", ".join(changed) or f"{before} becomes {after}"


def _schema_change(before: Schema, after: Schema, rows: int, *, loses_rows: bool) -> DataError:
    count = "1 row" if rows == 1 else f"{rows} rows"
    if loses_rows:
        message = f"`{before.name}` has {count} and would become a view"
        hint = f"delete its rows first, or keep them with `.input {before.name}` beside the rules"
        return DataError(message, code="schema-change", span=after.span, help=hint)
    message = f"`{before.name}` has {count} and would change its columns: {_change_text(before, after)}"
    hint = "delete its rows first, or use another name"
    return DataError(message, code="schema-change", span=after.span, help=hint)


# ---- dropping a relation ------------------------------------------------------------------------------


def drop(state: DatabaseState, name: str) -> Definition:
    """Remove the relation with its rules and settings, or the active rule; refused while it is used, watched or not
    empty."""
    checked = state.compiled.checked
    if any(rule.name == name for rule in checked.rules):
        _refuse_used(name, [rule.name for rule in checked.rules if name in (*rule.precedes, *rule.follows)])
        _refuse_watched(state, [name])
        return redefine(state, compile_without(name, state.compiled))
    name = state.schema(name).name
    own = _declared_with(state.compiled.program, name)
    views = {edge.view for edge in dependencies(checked) if edge.relation == name} - {name, *own} - checked.hidden
    users = {checked.parts.get(view, view) for view in views} - {name}
    _refuse_used(name, [*sorted(users), *_rules_using(state.compiled.program, name)])
    _refuse_watched(state, [name, *own])
    home = state.compiled.home(name)
    if home is not None and (size := state.engine.size(home)):
        message = f"`{name}` has {size} row{'s' * (size > 1)}"
        raise UsageError(message, code="relation-not-empty", help="delete the rows first")
    return redefine(state, compile_without(name, state.compiled))


def _rules_using(program: Program, relation: str) -> list[str]:
    """The active rules that read or change a relation."""
    return [item.name for item in program.items if isinstance(item, ActiveRule) and relation in _relations(item)]


def _relations(rule: ActiveRule) -> set[str]:
    found = {action.atom.relation for action in rule.actions if action.kind != "call"}
    found |= {atom.relation for atom in atoms(rule.condition)} if rule.condition is not None else set()
    return found | ({rule.event.atom.relation} if rule.event is not None else set())


def _refuse_used(name: str, users: Sequence[str]) -> None:
    if users:
        listed = ", ".join(f"`{user}`" for user in users)
        raise UsageError(f"`{name}` is used by {listed}", code="relation-in-use", help="drop or redefine those first")


def _refuse_watched(state: DatabaseState, names: Sequence[str]) -> None:
    for name in names:
        if watchers := len(state.feed.watching(name)) + state.live.reading(name):
            message = f"`{name}` is watched by {watchers} subscription{'s' * (watchers > 1)}"
            raise UsageError(message, code="relation-in-use", help="close the subscriptions first")


def _declared_with(program: Program, name: str) -> list[str]:
    """The constraints in the declaration of a relation; refuses to drop one of them alone."""
    own: list[str] = []
    for item in program.items:
        if isinstance(item, Declaration):
            if item.name == name:
                own = constraint_names(item)
            elif name in constraint_names(item):
                raise UsageError(
                    f"constraint `{name}` is part of the declaration of `{item.name}`", code="relation-in-use",
                    span=item.span, help=f"declare `{item.name}` again without it",
                )  # fmt: skip
    return own
