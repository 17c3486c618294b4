"""Update propagation: rules for the changes of a program whose rules are one operator each.
[Behrend & Manthey 2008, section 3]

Joins, differences, selections and permutations pass changes on; a union or a projection can derive a row more than
once, so its changes are tested against the view's other state. That state is queried with the bindings of the change,
and answered by the view's rules over the base relations of that state: the transition rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import count

from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Role
from upshot.rewrite.changes.change_rules import ABSENT_IN, DERIVED_IN, Differential, add_group_changes, differentials
from upshot.rewrite.demand.demand import IN_BODIES, NETTING, DemandBuilder, DemandProgram, DerivedRule
from upshot.rewrite.demand.demand_listing import list_demand
from upshot.rewrite.listing import RuleListing, section
from upshot.rewrite.normalize.operators import is_exact, operators
from upshot.rewrite.normalize.term_type import row_variables
from upshot.rewrite.shapes import atoms_of, conjunction
from upshot.strategies.strategy import DemandRules, Procedure, Stores, Strategy, Verdict, ViewShape
from upshot.syntax.ast import Aggregate, And, Atom, Comparison, Not, Variable


def add_propagation(demand: DemandBuilder, layer: tuple[str, ...]) -> None:
    """The rules of one stratum of a program as `operators` leaves it; those of the strata below must be there."""
    for view in layer:
        clauses = demand.clauses[view]
        if demand.is_aggregate(view):
            add_group_changes(demand, clauses[0])
            continue
        add = _hand_on if is_exact(clauses) else _test
        for sign in ("plus", "minus"):
            for clause in clauses if demand.wants(view, sign) else ():
                for each in differentials(demand, clause, sign):
                    add(demand, clause, sign, each)


def _hand_on(demand: DemandBuilder, clause: Clause, sign: str, each: Differential) -> None:
    view = clause.head.relation
    demand.derive(
        DerivedRule(
            f"U{each.number}", Atom(demand.name(view, sign), clause.head.args), clause,
            demand.state(DERIVED_IN[sign]), demand.gate(view, IN_BODIES),
        ),
        each.driver, each.rest,
    )  # fmt: skip


def _test(demand: DemandBuilder, clause: Clause, sign: str, each: Differential) -> None:
    """`p_plus :- q_plus, !p.` or `p_minus :- q_minus, !p_new.`; unions and projections have rules of one literal."""
    head, state = clause.head, ABSENT_IN[sign]
    assert not each.rest
    names = [term.name for term in head.args if isinstance(term, Variable)]
    demand.ask(head, state, names, (each.driver,), clause.types, clause)
    absent = Not(Atom(demand.name(head.relation, state), head.args))
    demand.add(
        f"U{each.number}", Atom(demand.name(head.relation, sign), head.args), (each.driver, absent), clause.types,
        source=clause, gate=demand.gate(head.relation, NETTING), rows={1},
    )  # fmt: skip


def transition_rules(program: CheckedProgram, names: Mapping[tuple[str, str], str] | None = None) -> tuple[Clause, ...]:
    """The definition of the new state, relation by relation: of a base relation, its old rows without those deleted and
    those inserted; of a view, its rules with every literal in its new version. Engines read base relations in their new
    state and query the rest with bindings; this is what they compute. `names`: how a relation is called in a state,
    where that is not `name_state`."""
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
            columns = row_variables(schema)
            row, types = tuple(map(Variable, columns)), dict(zip(columns, schema.types, strict=True))
            new, gone, come = (Atom(called(name, state), row) for state in ("new", "del", "ins"))
            found.append(Clause(new, (Atom(name, row), Not(gone)), types))
            found.append(Clause(new, (come,), types))
    for clause in program.clauses:
        head = Atom(called(clause.head.relation, "new"), clause.head.args)
        body = tuple(_in_state(literal, lambda name: called(name, "new")) for literal in clause.body)
        found.append(Clause(head, body, clause.types, clause.origin))
    return tuple(found)


def _in_state(literal: Literal, called: Callable[[str], str]) -> Literal:
    """The literal about relations of other names; an aggregate is about the rows of one state too."""
    match literal:
        case Atom():
            return Atom(called(literal.relation), literal.args)
        case Not(Atom() as atom):
            return Not(Atom(called(atom.relation), atom.args))
        case Comparison("=", Variable() as value, Aggregate(function, target, body)):
            inside = tuple(_in_state(each, called) for each in conjunction(body))
            return Comparison("=", value, Aggregate(function, target, And(inside) if len(inside) > 1 else inside[0]))
        case _:
            return literal


def _listing(demand: DemandProgram, view: str | None) -> RuleListing:
    """The rules that run, one operator each; the transition rules; and the propagation rules, with their state queries.
    Of one view, with its auxiliary views, or of all."""
    propagated, single = list_demand(demand, view), demand.program
    assert single is not None
    views = [name for layer in single.strata for name in layer]
    shown = set(views) if view is None else _own(single, view, demand.views)
    rules = [clause for clause in single.clauses if clause.head.relation in shown]
    if not rules:
        return propagated
    read = {atom.relation for clause in rules for _, atom, _ in atoms_of(clause)}
    told = shown | {name for name in read if single.schemas[name].role is Role.BASE}
    names = {(meaning.relation, meaning.state): name for name, meaning in demand.relations.items()}
    states = [
        rule
        for relation, rule in zip(_heads(single), transition_rules(single, names), strict=True)
        if relation in told
    ]  # fmt: skip
    title = "transition rules: what everything is after the change; only what is asked of it is computed"
    program, operations = section("the program, one operator a rule", "program", rules)
    transitions, made = section(title, "transition", states)
    text = program + transitions + propagated.text
    return RuleListing((*operations, *made, *propagated.rules), propagated.relations, text)


def _own(single: CheckedProgram, view: str, views: Collection[str]) -> set[str]:
    """The view and its auxiliary views, whose changes are not reported."""
    found, waiting = set[str](), [view]
    while waiting:
        name = waiting.pop()
        found.add(name)
        for clause in single.clauses:
            if clause.head.relation == name:
                read = {atom.relation for _, atom, _ in atoms_of(clause)}
                between = {each for each in read if single.schemas[each].role is not Role.BASE and each not in views}
                waiting += sorted(between - found)
    return found


def _heads(program: CheckedProgram) -> Iterable[str]:
    """The relations that the transition rules are about, in their order."""
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
