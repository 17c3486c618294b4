"""The demand program that computes the changes of views without stored rows, each stratum by its own algorithm.

Event-path analysis leaves out the changes that cannot reach a change with a listener. [Harrison & Dietrich 1994,
section 5]
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram
from upshot.core.optimizations import ALL, Optimizations
from upshot.rewrite.changes.change_rules import OPPOSITE
from upshot.rewrite.demand.demand import NETTING, DemandBuilder, DemandProgram, DemandRule, RowOrigin
from upshot.rewrite.demand.linearize import linearize
from upshot.rewrite.demand.partial_evaluation import partial_evaluation, reached
from upshot.rewrite.demand.query_rules import add_query_rules
from upshot.rewrite.normalize.unfold import unfold
from upshot.rewrite.shapes import aggregate_of, atoms_of
from upshot.rewrite.stratified import stratified
from upshot.strategies.strategy import DemandRules, strategy_named


def changes_on_demand(
    program: CheckedProgram,
    strategies: Mapping[str, str],
    *,
    changed: Mapping[str, Collection[str]] | None = None,
    wanted: Mapping[str, Collection[str]] | None = None,
    nervous: Collection[str] = (),
    unfolding: bool = True,
    optimizations: Optimizations = ALL,
) -> DemandProgram:
    """The rules for the views named in `strategies` (in normal form; views of one stratum by the same strategy). All
    other views count as stored.

    `changed`: the signs (`ins`, `del`) that stored relations change by. `wanted`: the views with listeners, and their
    signs (`plus`, `minus`); rules that contribute to no wanted view are left out. None for all. Then, with
    `partial_evaluation`, closures are made linear and constants are pushed down into copies of rules, and with
    `unfolding` a view of a strategy that unfolds, and that only one other reads, is expanded into it. `nervous`: views
    that may report rows that were there before, or still are; only those that no other reads do. Views that an
    algorithm puts in between have no results of their own.
    """
    views = [view for layer in program.strata for view in layer if view in (strategies if wanted is None else wanted)]
    if wanted is not None and optimizations.partial_evaluation:
        program, strategies = linear_views(program, strategies)
        program, strategies = _specialized(program, strategies, wanted)
    if wanted is not None and unfolding:
        program = unfold(program, [v for v, s in strategies.items() if demand_rules(s).unfolds and v not in wanted])
    strategies = {view: strategy for view, strategy in strategies.items() if view in program.schemas}
    program, strategies = _prepared(program, strategies)
    read = {atom.relation for clause in program.clauses for _, atom, _ in atoms_of(clause)}
    nervous = [view for view in nervous if view not in read]
    demand = DemandBuilder(
        program,
        stored={view for layer in program.strata for view in layer if view not in strategies},
        changed=changed,
        helpers=strategies.keys() - set(views),
        needed=None if wanted is None else event_paths(program, strategies, wanted, nervous),
        nervous=nervous,
        optimizations=optimizations,
    )
    demand.of_changes = True
    for layer in program.strata:
        wanted_of = [(view, sign) for view in layer for sign in ("plus", "minus") if demand.wants(view, sign)]
        if layer[0] in strategies and wanted_of and not demand.is_steady(layer[0]):
            demand_rules(strategies[layer[0]]).add(demand, layer)
    add_query_rules(demand)
    return demand.program_made(views, last_reads(demand))


def _specialized(
    program: CheckedProgram, strategies: Mapping[str, str], wanted: Collection[str]
) -> tuple[CheckedProgram, Mapping[str, str]]:
    """The program with constants pushed down, without the views that nobody needs any more."""
    made, copies = partial_evaluation(program, list(strategies), list(wanted))
    strategies = {**strategies, **{copy: strategies[original] for copy, original in copies.items()}}
    stored = [view for layer in made.strata for view in layer if view not in strategies]
    needed = reached(made.clauses, [*wanted, *stored])
    gone = {view for view in strategies if view not in needed}
    clauses = [clause for clause in made.clauses if clause.head.relation not in gone]
    schemas = {name: schema for name, schema in made.schemas.items() if name not in gone}
    return stratified(made, clauses, schemas, by="partial_evaluation"), strategies


def _prepared(program: CheckedProgram, strategies: Mapping[str, str]) -> tuple[CheckedProgram, Mapping[str, str]]:
    """The program as its algorithms take it, and the strategies of all its views that are not stored."""
    for name in dict.fromkeys(strategies.values()):
        prepare = demand_rules(name).prepare
        if prepare is not None:
            prepared = prepare(program, [view for view, strategy in strategies.items() if strategy == name])
            strategies = {**strategies, **dict.fromkeys(prepared.schemas.keys() - program.schemas.keys(), name)}
            program = prepared
    return program, strategies


def demand_rules(strategy: str) -> DemandRules:
    """The rules of a strategy that needs no stored view, by its name."""
    found = strategy_named(strategy).demand
    assert found is not None, f"`{strategy}` needs stored rows"
    return found


# ---- when changes may be forgotten ------------------------------------------------------------------------------


def last_reads(demand: DemandBuilder) -> dict[str, int]:
    """The gates after which the changes of a view are forgotten: as the wave passes, not at the end. [Sköld & Risch
    1996]

    By relation of changes or steps towards them, the gate after which no rule reads it: when a higher one opens, its
    rows can go. Relations that rules read at any time are not among them: states, queried bindings, and what a state is
    made from; nor are those that no rule reads.

    A rule without a gate is done with a change before the net changes of the view that it works for are let through:
    what it asked for has been answered by then.
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
    """Changes of views and steps towards them; what answers a query is none of them."""
    found = {
        name
        for name, meaning in demand.relations.items()
        if meaning.held in (RowOrigin.NET, RowOrigin.PART) and meaning.relation not in demand.stored
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
    """Test whether the rule is driven by a queried binding, or by a step of an answer."""
    for literal in rule.clause.body:
        for atom in atoms(literal):
            return demand.relations[atom.relation].held is not RowOrigin.CHANGE and atom.relation not in passing
    return True


def _done(demand: DemandBuilder, rule: DemandRule) -> int:
    """The gate at which the rule has nothing left to do."""
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
    wanted: Mapping[str, Collection[str]],
    nervous: Collection[str] = (),
) -> frozenset[Event]:
    """The relations and signs (`plus`, `minus`) that a wanted view depends on.

    A sign turns at every negation. It is both signs of all that is read where the values of a group are folded, and
    where a strategy makes a new state of an old one and its changes: what is read there is no event but a state.
    """
    layer_of = {view: layer for layer in program.strata for view in layer}
    found: set[Event] = set()
    waiting = [(view, sign) for view, signs in wanted.items() for sign in signs]
    while waiting:
        event = waiting.pop()
        if event in found:
            continue
        found.add(event)
        view, sign = event
        if view in strategies:
            demand = strategy_named(strategies[view]).demand
            by_states = demand is not None and demand.reads_states
            layer = layer_of[view] if by_states else (view,)
            waiting += _below(program, layer, sign, both=by_states or view in nervous)
    return frozenset(found)


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
    """The program with the composition rules of its unstored views made linear, and the strategies of all its unstored
    views.

    A non-linear closure queries the rows of every pair in between. In linear form a query for one value reads only rows
    that the value reaches, and a constant can be pushed down.
    """
    for layer in program.strata:
        if len(layer) == 1 and layer[0] in strategies:
            made = linearize(program, layer[0])
            if made.program is not None:
                program = made.program
                strategies = {**strategies, **({made.exits: strategies[layer[0]]} if made.exits else {})}
    return program, strategies
