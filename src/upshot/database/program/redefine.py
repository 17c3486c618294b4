"""A new program for rows that are already there: what did not change is kept, the rest follows exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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
from upshot.database.program.compile import Compiled, difference
from upshot.database.state import DatabaseState
from upshot.engine.time_limit import live_time_limit

Row = tuple[Any, ...]
Facts = Mapping[str, frozenset[Row]]
RowsByName = Mapping[str, Iterable[Row]]


def redefine(state: DatabaseState, new: Compiled, stage: Callable[[Engine], None] | None = None) -> Definition:
    """Makes `new` the program, as one change that can fail as one; `stage` may add statements of its own.

    Facts in the text are told apart from rows of transactions: what the old text held and the new one does not goes,
    what is new in the text comes.
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
    """The definition with these live queries beside it; if it fails, it has been undone."""
    old, engine, live, layer = state.compiled, state.engine, state.live, live_layer.layer
    found, before = difference(old, new), _before(state, new)
    changed = difference(live.installed(old), layer).changed if live else found.changed

    def check(deltas: Deltas) -> ConstraintFindings:
        findings = _findings(engine, old, new, before, deltas)
        if rejection := rejected_definition(findings, new):
            raise rejection
        return findings

    try:
        anew = engine.install(layer.plan, recompute=changed)
        _refuse_recomputation(old, new, anew)
        _stage_rows(engine, old, new, before.given)
        if new.bindings is not None:
            new.bindings.stage(engine, old, new)
        if stage is not None:
            stage(engine)
    except BaseException as error:
        engine.rollback()
        if named := ran_out(error, "the definition"):
            raise named from error
        raise
    proposal = Proposal(
        new,
        check,
        engine.propagate,
        former_views=_changes_of_former_views(before, new),
        reset=_reset_relations(old, new),
        live_layer=live_layer,
    )
    changes, _, findings, work = commit_change(state, proposal)
    warnings = (*new.checked.warnings, *warnings_for(findings, new))
    recomputed = tuple(view for view in found.recomputed if view in anew)
    followed = tuple(view for view in found.recomputed if view not in anew)
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


def _findings(engine: Engine, old: Compiled, new: Compiled, before: _Before, deltas: Deltas) -> ConstraintFindings:
    """The violations under the new program that did not exist under the old one."""
    rekeyed, witnesses = _after(before.rekeyed, deltas, new), _after(before.witnesses, deltas, new)
    findings = findings_of(engine, new, deltas, rekeyed=rekeyed, witnesses=witnesses)
    return grandfathered(findings, new, _stated(old, new))


def _refuse_recomputation(old: Compiled, new: Compiled, anew: frozenset[str]) -> None:
    """Raises if a view that was there before would be computed anew although its policy is `strict`."""
    for view in sorted(anew & old.checked.schemas.keys() & new.checked.options.keys()):
        if new.checked.options[view].policy == "strict" and not old.is_base(view):
            raise UsageError(
                f"view `{view}` would be recomputed, but its policy is strict",
                code="would-recompute",
                span=new.schema(view).span,
                help=f"write `.view {view} policy=auto` in the same text, or change its rules one at a time",
            )


# ---- rows that must not get lost --------------------------------------------------------------------


def refuse_loss_of_rows(state: DatabaseState, new: Compiled) -> None:
    """Raises if a relation that holds rows of transactions would get other columns, or no place for them."""
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
    """The facts written in the program text."""
    return {name: frozenset(rows) for name, rows in compiled.checked.facts.items()}


def _stage_rows(engine: Engine, old: Compiled, new: Compiled, given: Mapping[str, list[Row]]) -> None:
    """Facts that came and went with the text; and rows whose relation became a view, or a view a relation, move."""
    facts_before, facts_after = text_facts(old), text_facts(new)
    for name in new.visible:
        home, earlier = new.home(name), old.home(name) if name in old.checked.schemas else None
        if home is None:
            continue
        facts = facts_after.get(name, frozenset())
        if home != earlier or old.schema(name).types != new.schema(name).types:
            engine.replace(home, list(facts.union(given.get(name, ()))))
            continue
        gone, come = facts_before.get(name, frozenset()) - facts, facts - facts_before.get(name, frozenset())
        if gone:
            engine.delete(home, list(gone))
        if come:
            engine.insert(home, list(come))


# ---- what a definition claims about rows that are already there -----------------------------------


@dataclass(frozen=True, slots=True)
class _Before:
    """Rows as they were: those given by transactions that have to move, former views that are base relations now,
    witnesses of constraints stated anew, relations whose key is stated anew."""

    given: Mapping[str, list[Row]]
    demoted: Mapping[str, frozenset[Row]]
    witnesses: RowsByName
    rekeyed: RowsByName


def _before(state: DatabaseState, new: Compiled) -> _Before:
    old, engine = state.compiled, state.engine
    alike = [n for n in new.visible if n in old.visible and old.schema(n).types == new.schema(n).types]
    given, demoted = {}, {}
    for name in alike:
        home = old.home(name)
        if home is not None and home != new.home(name):
            facts = text_facts(old).get(home, frozenset())
            given[name] = [row for row in engine.rows(home) if row not in facts]
        if new.is_base(name) and not old.is_base(name):
            demoted[name] = row_set(engine.rows(name))
    stated = _policies_stated(old, new)
    rekeyed = [name for name in alike if new.schema(name).keys and old.schema(name).keys != new.schema(name).keys]
    return _Before(
        given,
        demoted,
        {name: engine.rows(name) if name in alike else () for name in stated},
        {name: engine.rows(name) for name in rekeyed},
    )


def _policies_stated(old: Compiled, new: Compiled) -> list[str]:
    """The constraints that are new or have another policy."""
    policies = old.checked.constraints
    return [name for name, constraint in new.checked.constraints.items() if policies.get(name) != constraint]


def _stated(old: Compiled, new: Compiled) -> frozenset[str]:
    """The constraints whose policy or rules are stated anew. Those that rest on a view with other rules are not."""
    rules = [
        {clause for clause in compiled.checked.clauses if clause.head.relation in new.checked.constraints}
        for compiled in (old, new)
    ]
    return frozenset([*_policies_stated(old, new), *(clause.head.relation for clause in rules[0] ^ rules[1])])


def _after(before: RowsByName, deltas: Deltas, new: Compiled) -> dict[str, list[Row]]:
    """The rows as they are once the change is made, in order."""
    found = {}
    for name, rows in before.items():
        inserted, deleted = deltas.get(name, ((), ()))
        remaining = row_set(rows) - row_set(deleted) | row_set(inserted)
        found[name] = Rows.of(new.schema(name), list(remaining)).sorted()
    return found


def _changes_of_former_views(before: _Before, new: Compiled) -> Deltas:
    """The engine starts such a relation afresh; what its users see is the difference to the rows the view had."""
    changes, facts = {}, text_facts(new)
    for name, were in before.demoted.items():
        schema, rows = new.schema(name), row_set([*facts.get(name, ()), *before.given.get(name, ())])
        changes[name] = (Rows.of(schema, list(rows - were)), Rows.of(schema, list(were - rows)))
    return changes


def _reset_relations(old: Compiled, new: Compiled) -> list[str]:
    """The relations that watchers are shown whole: those with other columns, and those that were or become nervous. Who
    kept a copy cannot have followed the changes of a nervous view."""
    before = old.checked.schemas
    turned = old.plan.on_demand.nervous ^ new.plan.on_demand.nervous
    return [
        name
        for name in new.visible
        if name in before and (before[name].types != new.schema(name).types or name in turned)
    ]


def _written(before: Schema, after: Schema) -> str:
    """Both schemas; the definitions of their records where nothing else differs."""
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
    message = f"`{before.name}` has {count} and would change its columns: {_written(before, after)}"
    hint = "delete its rows first, or use another name"
    return DataError(message, code="schema-change", span=after.span, help=hint)
