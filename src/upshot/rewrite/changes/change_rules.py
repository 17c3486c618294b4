"""Rules that all strategies without stored views share: the drivers of a change, and the tests for net changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from upshot.check.names.variables import variables
from upshot.check.program import Clause, Literal
from upshot.rewrite.demand.demand import NETTING, DemandBuilder, guards
from upshot.rewrite.shapes import atoms_of
from upshot.syntax.ast import Atom, Not

OPPOSITE = {"plus": "minus", "minus": "plus"}
SIGN = {"plus": "ins", "minus": "del"}
DERIVED_IN = {"plus": "new", "minus": "old"}
"""The state in which a changed row is derivable; a net change is not derivable in the other state."""
ABSENT_IN = {"plus": "old", "minus": "new"}


@dataclass(frozen=True, slots=True)
class Differential:
    """A clause driven by the change of one of its atoms: `driver` is that atom over the relation of the change, `rest`
    are the other literals."""

    number: int
    driver: Atom
    rest: tuple[Literal, ...]


def differentials(
    demand: DemandBuilder, clause: Clause, sign: str, own: Mapping[str, str] | None = None, layer: Collection[str] = ()
) -> Iterator[Differential]:
    """One for each atom of the clause whose change can add (`plus`) or remove (`minus`) solutions. Insertions into a
    negated relation remove solutions, deletions from it add some. For views of `layer`, the states in `own` drive
    instead of the net changes."""
    for number, (position, atom, negated) in enumerate(atoms_of(clause), start=1):
        against = OPPOSITE[sign] if negated else sign
        if atom.relation in demand.stored:
            state = SIGN[against]
            if not demand.can_change(atom.relation, state):
                continue
        else:
            state = own[against] if own is not None and atom.relation in layer else against
        driver = Atom(demand.name(atom.relation, state), atom.args, span=atom.span)
        rest = [literal for i, literal in enumerate(clause.body) if i != position]
        yield Differential(number, driver, (*(guards(atom, clause.types) if negated else ()), *rest))


def add_net_rule(
    demand: DemandBuilder, view: str, sign: str, candidates: str, *, name: str, query_gate: int | None = None
) -> None:
    """Add `p_plus :- candidates, !p.` or `p_minus :- candidates, !p_new.`, and the queries for the candidates in that
    state, behind `query_gate` if there is one."""
    row, types, state = demand.row(view), demand.row_types(view), ABSENT_IN[sign]
    candidate = Atom(candidates, row)
    demand.request_rows(Atom(view, row), state, types, (candidate,), types, gate=query_gate)
    absent = Not(Atom(demand.name(view, state), row))
    gate = demand.gate(view, NETTING)
    demand.add(name, Atom(demand.name(view, sign), row), (candidate, absent), types, gate=gate, rows={0, 1})


def add_group_changes(demand: DemandBuilder, clause: Clause) -> None:
    """Add the rules for the net changes of an aggregate view: the groups that a change touches, folded in both
    states."""
    view, head = clause.head.relation, clause.head.args
    rows = clause.body[0]
    assert isinstance(rows, Atom)
    group = head[:-1]
    touched = Atom(demand.name(view, "touched", width=len(group)), group)
    for sign in ("plus", "minus"):
        stored = rows.relation in demand.stored
        if stored and not demand.can_change(rows.relation, SIGN[sign]):
            continue
        state = SIGN[sign] if stored else sign
        demand.add("T", touched, (Atom(demand.name(rows.relation, state), rows.args),), clause.types, source=clause)
    for sign, state in DERIVED_IN.items():
        value = Atom(view, head)
        demand.request_rows(value, state, variables(touched), (touched,), clause.types, clause)
        candidate = Atom(demand.name(view, f"{sign}_value"), head)
        folded = Atom(demand.name(view, state), head)
        demand.add("V", candidate, (touched, folded), clause.types, source=clause)
        other = Not(Atom(demand.name(view, ABSENT_IN[sign]), head))
        demand.add(
            "E", Atom(demand.name(view, sign), head), (candidate, other), clause.types,
            source=clause, gate=demand.gate(view, NETTING), rows={0, 1},
        )  # fmt: skip
