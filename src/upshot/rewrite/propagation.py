"""Update propagation: rules for the changes of a program whose rules are one operator each.
[Behrend & Manthey 2008, section 3]

Joins, differences, selections and permutations hand on what they are given; a union or a projection can derive a row
more than once, so its changes are tested against the view's other state. That state is asked for with the bindings of
the change, and answered by the view's rules over the base relations of that state: the transition rules.
"""

from __future__ import annotations

from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Role
from upshot.rewrite.change_rules import ABSENT_IN, DERIVED_IN, Differential, add_group_changes, differentials
from upshot.rewrite.demand import IN_BODIES, NETTING, Demand
from upshot.rewrite.operators import is_exact
from upshot.rewrite.row_variables import row_variables
from upshot.syntax.ast import Atom, Not, Variable


def add_propagation(demand: Demand, layer: tuple[str, ...]) -> None:
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


def _hand_on(demand: Demand, clause: Clause, sign: str, each: Differential) -> None:
    view = clause.head.relation
    demand.derive(
        f"U{each.number}", Atom(demand.name(view, sign), clause.head.args), each.driver, each.rest, clause.types,
        read=demand.state(DERIVED_IN[sign]), gate=demand.gate(view, IN_BODIES), source=clause,
    )  # fmt: skip


def _test(demand: Demand, clause: Clause, sign: str, each: Differential) -> None:
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


def transition_rules(program: CheckedProgram) -> tuple[Clause, ...]:
    """What the new state is, relation by relation: of a base relation, its old rows without those deleted and those
    inserted; of a view, its rules with every literal in its new version. Engines read base relations in their new state
    and ask the rest with bindings; this is what they compute."""
    found: list[Clause] = []
    for name, schema in program.schemas.items():
        if schema.role is Role.BASE:
            names = row_variables(schema)
            row, types = tuple(map(Variable, names)), dict(zip(names, schema.types, strict=True))
            new, gone, come = (Atom(f"{name}_{state}", row) for state in ("new", "del", "ins"))
            found.append(Clause(new, (Atom(name, row), Not(gone)), types))
            found.append(Clause(new, (come,), types))
    for clause in program.clauses:
        found.append(Clause(_new(clause.head), tuple(map(_new_literal, clause.body)), clause.types, clause.origin))
    return tuple(found)


def _new(atom: Atom) -> Atom:
    return Atom(f"{atom.relation}_new", atom.args)


def _new_literal(literal: Literal) -> Literal:
    match literal:
        case Atom():
            return _new(literal)
        case Not(Atom() as atom):
            return Not(_new(atom))
        case _:
            return literal
