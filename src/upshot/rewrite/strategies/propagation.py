"""Update propagation: rules for the changes of a program whose rules are one operator each.
[Behrend & Manthey 2008, section 3]

Joins, differences, selections and permutations hand on what they are given; a union or a projection can derive a row
more than once, so its changes are tested against the view's other state. That state is asked for with the bindings of
the change, and answered by the view's rules over the base relations of that state: the transition rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Role
from upshot.rewrite.changes.change_rules import ABSENT_IN, DERIVED_IN, Differential, add_group_changes, differentials
from upshot.rewrite.demand.demand import IN_BODIES, NETTING, Demand
from upshot.rewrite.normalize.row_variables import row_variables
from upshot.rewrite.shapes import conjunction
from upshot.rewrite.strategies.operators import is_exact
from upshot.syntax.ast import Aggregate, And, Atom, Comparison, Not, Variable


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


def transition_rules(program: CheckedProgram, names: Mapping[tuple[str, str], str] | None = None) -> tuple[Clause, ...]:
    """What the new state is, relation by relation: of a base relation, its old rows without those deleted and those
    inserted; of a view, its rules with every literal in its new version. Engines read base relations in their new state
    and ask the rest with bindings; this is what they compute. `names`: how a relation is called in a state, where that
    is not `name_state`."""
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
