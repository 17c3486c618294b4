"""Update propagation: rules for the changes of a program with one operator per rule.
[Behrend & Manthey 2008, section 3]

Joins, differences, selections and permutations propagate changes; a union or a projection can derive a row more than
once, so its changes are tested against the view's other state. That state is queried with the bindings of the change
and computed by the view's rules over the base relations of that state: the transition rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import count

from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.precedence import reachable
from upshot.core.schema import Role
from upshot.rewrite.changes.change_rules import ABSENT_IN, DERIVED_IN, Differential, add_group_changes, differentials
from upshot.rewrite.demand.demand import IN_BODIES, NETTING, DemandBuilder, DemandProgram, DerivedRule
from upshot.rewrite.demand.demand_listing import list_demand
from upshot.rewrite.listing import RuleListing, section
from upshot.rewrite.normalize.operators import is_exact, operators
from upshot.rewrite.shapes import clauses_by_head, conjunction, relations_read, row_atom, with_atom
from upshot.strategies.strategy import DemandRules, Procedure, Stores, Strategy, Verdict, ViewShape
from upshot.syntax.ast import Aggregate, And, Atom, Comparison, Not, Variable


def add_propagation(demand: DemandBuilder, layer: tuple[str, ...]) -> None:
    """Add the rules of one stratum of a program as returned by `operators`; those of the strata below must be
    present."""
    for view in layer:
        clauses = demand.clauses[view]
        if demand.is_aggregate(view):
            add_group_changes(demand, clauses[0])
            continue
        add = _propagate if is_exact(clauses) else _test
        for sign in ("plus", "minus"):
            for clause in clauses if demand.is_needed(view, sign) else ():
                for each in differentials(demand, clause, sign):
                    add(demand, clause, sign, each)


def _propagate(demand: DemandBuilder, clause: Clause, sign: str, each: Differential) -> None:
    view = clause.head.relation
    head, read = Atom(demand.name(view, sign), clause.head.args), demand.state(DERIVED_IN[sign])
    rule = DerivedRule(f"U{each.number}", head, clause, read, demand.gate(view, IN_BODIES))
    demand.derive(rule, each.driver, each.rest)


def _test(demand: DemandBuilder, clause: Clause, sign: str, each: Differential) -> None:
    """Add `p_plus :- q_plus, !p.` or `p_minus :- q_minus, !p_new.`; rules of unions and projections have one
    literal."""
    head, state = clause.head, ABSENT_IN[sign]
    assert not each.rest
    names = [term.name for term in head.args if isinstance(term, Variable)]
    demand.request_rows(head, state, names, (each.driver,), clause.types, clause)
    absent = Not(Atom(demand.name(head.relation, state), head.args))
    demand.add(
        f"U{each.number}", Atom(demand.name(head.relation, sign), head.args), (each.driver, absent), clause.types,
        source=clause, gate=demand.gate(head.relation, NETTING), rows={1},
    )  # fmt: skip


def transition_rules(program: CheckedProgram, names: Mapping[tuple[str, str], str] | None = None) -> tuple[Clause, ...]:
    """The definition of the new state of every relation: for a base relation, its old rows without the deleted ones,
    and the inserted ones; for a view, its rules with every literal in the new state. Engines read base relations in
    their new state and query views with bindings; these rules define the results. `names` has the names of relations in
    states that are not `name_state`."""
    known = names or {}
    taken = program.schemas.keys() | set(known.values())

    def called(name: str, state: str) -> str:
        if (name, state) in known:
            return known[name, state]
        plain = f"{name}_{state}"
        return next(each for n in count() if (each := f"{plain}_{n}" if n else plain) not in taken)

    found: list[Clause] = []
    for name, schema in program.schemas.items():
        if schema.role is Role.BASE:
            row, types = row_atom(schema)
            new, deleted, inserted = (Atom(called(name, state), row.args) for state in ("new", "del", "ins"))
            found.append(Clause(new, (row, Not(deleted)), types))
            found.append(Clause(new, (inserted,), types))
    for clause in program.clauses:
        head = Atom(called(clause.head.relation, "new"), clause.head.args)
        body = tuple(_in_state(literal, lambda name: called(name, "new")) for literal in clause.body)
        found.append(Clause(head, body, clause.types, clause.origin))
    return tuple(found)


def _in_state(literal: Literal, called: Callable[[str], str]) -> Literal:
    """The literal over other relations, inside aggregates too."""
    match literal:
        case Comparison("=", Variable() as value, Aggregate(function, target, body)):
            inside = tuple(_in_state(each, called) for each in conjunction(body))
            return Comparison("=", value, Aggregate(function, target, And(inside) if len(inside) > 1 else inside[0]))
        case _:
            return with_atom(literal, lambda atom: Atom(called(atom.relation), atom.args))


def _listing(demand: DemandProgram, view: str | None) -> RuleListing:
    """The rules with one operator each, the transition rules, and the propagation rules with their state queries; of
    one view with its auxiliary views, or of all."""
    propagated, single = list_demand(demand, view), demand.program
    assert single is not None
    views = [name for layer in single.strata for name in layer]
    shown = set(views) if view is None else _with_auxiliaries(single, view, demand.views)
    rules = [clause for clause in single.clauses if clause.head.relation in shown]
    if not rules:
        return propagated
    read = {name for clause in rules for name in relations_read(clause)}
    defined = shown | {name for name in read if single.schemas[name].role is Role.BASE}
    names = {(meaning.relation, meaning.state): name for name, meaning in demand.relations.items()}
    pairs = zip(_heads(single), transition_rules(single, names), strict=True)
    states = [rule for relation, rule in pairs if relation in defined]
    title = "transition rules: what everything is after the change; only what is asked of it is computed"
    program, operations = section("the program, one operator a rule", "program", rules)
    transitions, made = section(title, "transition", states)
    text = program + transitions + propagated.text
    return RuleListing((*operations, *made, *propagated.rules), propagated.relations, text)


def _with_auxiliaries(single: CheckedProgram, view: str, views: Collection[str]) -> set[str]:
    """The view and its auxiliary views, whose changes are not reported."""
    clauses = clauses_by_head(single.clauses)
    auxiliary = {name for name, schema in single.schemas.items() if schema.role is not Role.BASE and name not in views}
    return reachable([view], lambda name: {each for c in clauses[name] for each in relations_read(c)} & auxiliary)


def _heads(program: CheckedProgram) -> Iterable[str]:
    """The relations that the transition rules define, in their order."""
    for name, schema in program.schemas.items():
        if schema.role is Role.BASE:
            yield from (name, name)
    for clause in program.clauses:
        yield clause.head.relation


def _verdict(shape: ViewShape) -> Verdict | None:
    return None if shape.stored else Verdict(2, "would take a step for every operator of a rule")


STRATEGY = Strategy(
    name="propagation",
    procedure=Procedure.DEMAND,
    stores=Stores.NOTHING,
    demand=DemandRules(add_propagation, prepare=operators, listing=_listing),
    verdict=_verdict,
)
