"""Query rules: the supplementary magic-set rules that answer every state query a demand program asks."""

from __future__ import annotations

from upshot.check.program import Clause
from upshot.rewrite.demand.demand import DemandBuilder, DerivedRule
from upshot.rewrite.shapes import aggregate_of, conjunction
from upshot.syntax.ast import Aggregate, And, Atom, Comparison, Variable


def add_query_rules(demand: DemandBuilder) -> None:
    """For every view, state and adornment asked for, and for all that answering them asks in turn: the view's clauses,
    each driven by the bindings asked for, every literal in that state."""
    done = 0
    while done < len(demand.asked):
        view, state, adornment = demand.asked[done]
        for clause in demand.rules_in(view, state):
            if aggregate_of(clause) is not None:
                _add_fold(demand, clause, state, adornment)
            else:
                _add_query(demand, clause, state, adornment)
        done += 1


def _add_query(demand: DemandBuilder, clause: Clause, state: str, adornment: str) -> None:
    view = clause.head.relation
    answers = Atom(demand.name(view, state), clause.head.args)
    demand.derive(
        DerivedRule("Q", answers, clause, demand.state(state), demand.level[view], frozenset({0})),
        _asking(demand, clause, state, adornment),
        clause.body,
    )


def _asking(demand: DemandBuilder, clause: Clause, state: str, adornment: str) -> Atom:
    view, args = clause.head.relation, clause.head.args
    bound = tuple(term for term, letter in zip(args, adornment, strict=True) if letter == "b")
    return Atom(demand.magic(view, state, adornment), bound)


def _add_fold(demand: DemandBuilder, clause: Clause, state: str, adornment: str) -> None:
    """`agg(G, V) :- agg_groups(G), V = f T : { aux(G, L) }.`, where the groups are those asked for that have rows; all
    rows of a group are there before it is folded."""
    view = clause.head.relation
    group = clause.head.args[:-1]
    groups = Atom(demand.name(view, f"{state}_groups", width=len(group)), group)
    rows, comparison = clause.body
    assert isinstance(rows, Atom)
    demand.derive(
        DerivedRule("G", groups, clause, demand.state(state), demand.level[view]),
        _asking(demand, clause, state, adornment),
        (rows,),
    )
    demand.add(
        "A", Atom(demand.name(view, state), clause.head.args), (groups, _folded(demand, comparison, state)),
        clause.types, source=clause, gate=demand.level[view],
    )  # fmt: skip


def _folded(demand: DemandBuilder, comparison: object, state: str) -> Comparison:
    match comparison:
        case Comparison("=", Variable() as value, Aggregate(function, target, body)):
            (rows,) = conjunction(body)
            assert isinstance(rows, Atom)
            inner = Atom(demand.name(rows.relation, state), rows.args)
            return Comparison("=", value, Aggregate(function, target, And((inner,))))
        case _:
            raise AssertionError("not in normal form")
