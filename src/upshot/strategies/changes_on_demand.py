"""The demand program that computes the changes of views without stored rows, each stratum by its own strategy.

Event-path analysis leaves out changes that no reported change depends on. [Harrison & Dietrich 1994, section 5]
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram
from upshot.core.optimizations import ALL, Optimizations
from upshot.core.precedence import reachable
from upshot.rewrite.changes.change_rules import OPPOSITE
from upshot.rewrite.demand.demand import NETTING, DemandBuilder, DemandProgram, DemandRule, RowOrigin
from upshot.rewrite.demand.linearize import linearize
from upshot.rewrite.demand.magic_sets import add_query_rules
from upshot.rewrite.demand.partial_evaluation import partial_evaluation
from upshot.rewrite.normalize.unfold import unfold
from upshot.rewrite.shapes import aggregate_of, atoms_of, relations_below, relations_read
from upshot.rewrite.stratified import stratified
from upshot.strategies.strategy import DemandRules, strategy_named


def changes_on_demand(
    program: CheckedProgram,
    strategies: Mapping[str, str],
    *,
    changed: Mapping[str, Collection[str]] | None = None,
    reported: Mapping[str, Collection[str]] | None = None,
    nervous: Collection[str] = (),
    unfolding: bool = True,
    optimizations: Optimizations = ALL,
) -> DemandProgram:
    """The rules for the views in `strategies`, which are in normal form; views of one stratum have the same strategy.
    All other views are stored.

    `changed`: the signs (`ins`, `del`) of the changes of stored relations. `reported`: the views and signs (`plus`,
    `minus`) whose changes are reported; rules that contribute to none of them are left out. None: all. If `reported` is
    set, `partial_evaluation` makes closures linear and pushes constants down into copies of rules, and `unfolding`
    expands a view into its only reader if its strategy allows. `nervous` views may report rows that were in the view
    before, or still are, if no other view reads them. Auxiliary views of a strategy have no results.
    """
    shown = strategies if reported is None else reported
    views = [view for layer in program.strata for view in layer if view in shown]
    if reported is not None and optimizations.partial_evaluation:
        program, strategies = linear_views(program, strategies)
        program, strategies = _specialized(program, strategies, reported)
    if reported is not None and unfolding:
        program = unfold(program, [v for v, s in strategies.items() if demand_rules(s).unfolds and v not in reported])
    strategies = {view: strategy for view, strategy in strategies.items() if view in program.schemas}
    program, strategies = _prepared(program, strategies)
    read = {name for clause in program.clauses for name in relations_read(clause)}
    nervous = [view for view in nervous if view not in read]
    demand = DemandBuilder(
        program,
        stored={view for layer in program.strata for view in layer if view not in strategies},
        changed=changed,
        helpers=strategies.keys() - set(views),
        needed=None if reported is None else event_paths(program, strategies, reported, nervous),
        nervous=nervous,
        optimizations=optimizations,
    )
    demand.of_changes = True
    for layer in program.strata:
        is_needed = any(demand.is_needed(view, sign) for view in layer for sign in SIGNS)
        if layer[0] in strategies and is_needed and not demand.is_unchanged(layer[0]):
            demand_rules(strategies[layer[0]]).add(demand, layer)
    add_query_rules(demand)
    return demand.program_made(views, last_reads(demand))


def _specialized(
    program: CheckedProgram, strategies: Mapping[str, str], reported: Collection[str]
) -> tuple[CheckedProgram, Mapping[str, str]]:
    """The program with constants pushed down, without the views that are no longer needed."""
    made, copies = partial_evaluation(program, list(strategies), list(reported))
    strategies = {**strategies, **{copy: strategies[original] for copy, original in copies.items()}}
    stored = [view for layer in made.strata for view in layer if view not in strategies]
    unused = strategies.keys() - relations_below(made.clauses, [*reported, *stored])
    clauses = [clause for clause in made.clauses if clause.head.relation not in unused]
    schemas = {name: schema for name, schema in made.schemas.items() if name not in unused}
    return stratified(made, clauses, schemas, by="partial_evaluation"), strategies


def _prepared(program: CheckedProgram, strategies: Mapping[str, str]) -> tuple[CheckedProgram, Mapping[str, str]]:
    """The program as prepared for its strategies, and the strategies of all unstored views."""
    for name in dict.fromkeys(strategies.values()):
        prepare = demand_rules(name).prepare
        if prepare is not None:
            prepared = prepare(program, [view for view, strategy in strategies.items() if strategy == name])
            strategies = {**strategies, **dict.fromkeys(prepared.schemas.keys() - program.schemas.keys(), name)}
            program = prepared
    return program, strategies


def demand_rules(strategy: str) -> DemandRules:
    """The rules of the strategy with this name, which needs no stored view."""
    found = strategy_named(strategy).demand
    assert found is not None, f"`{strategy}` needs stored rows"
    return found


# ---- lifetimes of changes ---------------------------------------------------------------------------------------


def last_reads(demand: DemandBuilder) -> dict[str, int]:
    """For relations of changes and of intermediate results for them, the last gate whose rules read them: their rows
    can be dropped when a higher gate opens, not only at the end. [Sköld & Risch 1996]

    Relations that rules read at any time are not among them: states, bindings, and the relations that a state is
    computed from; nor are relations that no rule reads.

    A rule without a gate needs a change until the net changes of its view pass their gate: by then its queries are
    answered.
    """
    passing = _passing(demand)
    found: dict[str, int] = {}
    for rule in demand.rules:
        read = [atom.relation for literal in rule.clause.body for atom in atoms(literal)]
        if not read or read[0] not in passing:
            # Rows of states arrive whenever they are queried.
            passing.difference_update(read)
    for rule in demand.rules:
        for literal in rule.clause.body:
            for atom in atoms(literal):
                if atom.relation in passing:
                    found[atom.relation] = max(found.get(atom.relation, 0), _done(demand, rule))
    return found


def _passing(demand: DemandBuilder) -> set[str]:
    """The relations of changes of views and of intermediate results for them, without those that answer queries."""
    found = {
        name
        for name, meaning in demand.relations.items()
        if meaning.origin in (RowOrigin.NET, RowOrigin.PART) and meaning.relation not in demand.stored
    }
    grown = True
    while grown:
        answering = {
            rule.clause.head.relation
            for rule in demand.rules
            if rule.clause.head.relation in found and _answers(demand, rule, found)
        }
        found -= answering
        grown = bool(answering)
    return found


def _answers(demand: DemandBuilder, rule: DemandRule, passing: set[str]) -> bool:
    """Test whether a binding drives the rule, or an intermediate result of an answer."""
    for literal in rule.clause.body:
        for atom in atoms(literal):
            return demand.relations[atom.relation].origin is not RowOrigin.CHANGE and atom.relation not in passing
    return True


def _done(demand: DemandBuilder, rule: DemandRule) -> int:
    """The gate after which the rule reads no more rows."""
    if rule.gate is not None:
        return rule.gate
    view = demand.relations[rule.clause.head.relation].relation
    if rule.source is not None:
        view = rule.source.head.relation
    return demand.gate(view, NETTING)


SIGNS = ("plus", "minus")
Event = tuple[str, str]


def event_paths(
    program: CheckedProgram,
    strategies: Mapping[str, str],
    reported: Mapping[str, Collection[str]],
    nervous: Collection[str] = (),
) -> frozenset[Event]:
    """The relations and signs (`plus`, `minus`) that a reported change depends on.

    Negation reverses a sign. Aggregates, and strategies that compute a new state from an old one and its changes,
    depend on both signs of all relations that they read.
    """
    layer_of = {view: layer for layer in program.strata for view in layer}

    def below(event: Event) -> Iterable[Event]:
        view, sign = event
        if view not in strategies:
            return ()
        demand = strategy_named(strategies[view]).demand
        by_states = demand is not None and demand.reads_states
        layer = layer_of[view] if by_states else (view,)
        return _below(program, layer, sign, both=by_states or view in nervous)

    return frozenset(reachable([(view, sign) for view, signs in reported.items() for sign in signs], below))


def _below(program: CheckedProgram, layer: Collection[str], sign: str, *, both: bool) -> Iterator[Event]:
    if both:
        yield from ((view, each) for view in layer for each in SIGNS)
    for clause in program.clauses:
        if clause.head.relation in layer:
            for _, atom, negated in atoms_of(clause):
                if both or aggregate_of(clause) is not None:
                    yield from ((atom.relation, each) for each in SIGNS)
                else:
                    yield atom.relation, OPPOSITE[sign] if negated else sign


def linear_views(program: CheckedProgram, strategies: Mapping[str, str]) -> tuple[CheckedProgram, Mapping[str, str]]:
    """The program with linear closures in place of non-linear ones, and the strategies of all its unstored views.

    A query of a non-linear closure reads the rows of every intermediate pair. In linear form it reads only the rows
    that are reachable from the bound value, and constants can be pushed down.
    """
    for layer in program.strata:
        if len(layer) == 1 and layer[0] in strategies:
            made = linearize(program, layer[0])
            if made.program is not None:
                program = made.program
                strategies = {**strategies, **({made.exits: strategies[layer[0]]} if made.exits else {})}
    return program, strategies
