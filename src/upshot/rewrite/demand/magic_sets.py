"""Supplementary magic sets: the rules that answer queries on views, for exactly the bindings that each query has.

The bindings of a goal are a rule without a body. Negation is tested behind the gate of its view's stratum, when all
queries below it are answered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Role, Schema
from upshot.rewrite import normal_form
from upshot.rewrite.demand.demand import DemandBuilder, DemandProgram, DerivedRule
from upshot.rewrite.shapes import aggregate_of, conjunction, with_atom
from upshot.rewrite.stratified import stratified
from upshot.syntax.ast import Aggregate, And, Atom, Comparison, Variable


def magic_sets(
    program: CheckedProgram, goal: Atom, *, stored: Collection[str] = (), state: str = "old"
) -> DemandProgram:
    """The rules for a goal on a program in normal form; `stored` views are read like base relations.

    The relation `Meaning(RowOrigin.ANSWERS, goal.relation, state)` then has all rows of the goal with its constants,
    and rows of other bindings that were derived on the way. A goal over a stored relation has no rules; its rows are
    those of `Meaning(RowOrigin.STORED, …)`.
    """
    demand = DemandBuilder(program, stored=stored)
    demand.name(goal.relation, state)
    if goal.relation not in demand.stored:
        demand.request_rows(goal, state, (), (), {})
        add_query_rules(demand)
    return demand.program_made()


@dataclass(frozen=True, slots=True)
class DemandQuery:
    """The `program` that answers a query: for each view, `answers` names the relation of its rows, and `bindings` the
    one that the caller fills with bindings before the program runs. Queries by clauses need no bindings."""

    program: DemandProgram
    answers: Mapping[str, str]
    bindings: Mapping[str, str]


def query_views(
    normal: CheckedProgram, on_demand: Collection[str], adornments: Mapping[str, str], state: str
) -> DemandQuery:
    """The query for the rows of views in a state (`old` or `new`), each with values for the columns that its adornment
    binds; all views but those `on_demand` are stored."""
    demand = DemandBuilder(normal, stored=normal.schemas.keys() - set(on_demand))
    bindings = {view: demand.magic(view, state, adornment) for view, adornment in adornments.items()}
    add_query_rules(demand)
    return DemandQuery(demand.program_made(), {view: demand.name(view, state) for view in adornments}, bindings)


def query_clauses(
    normal: CheckedProgram, unstored: Collection[str], schema: Schema, clauses: tuple[Clause, ...], *,
    state: str = "old", inputs: Mapping[str, Schema] = MappingProxyType({}),
    helpers: Mapping[str, Schema] = MappingProxyType({}),
) -> tuple[DemandQuery, CheckedProgram]:  # fmt: skip
    """The query for the rows that clauses derive for their head in a state, and its program in normal form. Magic sets
    are applied to the definitions of the unstored views and of the `helpers`, which the clauses define. The `inputs`
    are small relations that come with the query: bodies are joined from them outward."""
    known = {name: each if name in unstored else replace(each, role=Role.BASE) for name, each in normal.schemas.items()}
    known |= {name: replace(each, role=Role.BASE) for name, each in inputs.items()}
    known |= {name: replace(each, role=Role.VIEW) for name, each in (*helpers.items(), (schema.name, schema))}
    defined = tuple(clause for clause in normal.clauses if clause.head.relation in unstored)
    empty = CheckedProgram({}, (), {}, ())
    program = normal_form(stratified(empty, (*defined, *clauses), known, by="the rewriting of a query"))
    demand = DemandBuilder(program)
    demand.small = frozenset(inputs)
    row = tuple(Variable(f"X{i}") for i in range(schema.arity))
    demand.request_rows(Atom(schema.name, row), state, (), (), {})
    add_query_rules(demand)
    return DemandQuery(demand.program_made(), {schema.name: demand.name(schema.name, state)}, {}), program


# ---- query rules ----------------------------------------------------------------------------------------------


def add_query_rules(demand: DemandBuilder) -> None:
    """Add the rules that answer all state queries, and the queries that these rules ask in turn: the clauses of each
    queried view, driven by the bindings, with every literal in the state of the query."""
    for view, state, adornment in demand.state_queries:  # the list grows on the way
        for clause in demand.rules_in(view, state):
            if aggregate_of(clause) is not None:
                _add_fold(demand, clause, state, adornment)
            else:
                answers = Atom(demand.name(view, state), clause.head.args)
                rule = DerivedRule("Q", answers, clause, demand.state(state), demand.level[view], frozenset({0}))
                demand.derive(rule, _bindings(demand, clause, state, adornment), clause.body)


def _bindings(demand: DemandBuilder, clause: Clause, state: str, adornment: str) -> Atom:
    view, args = clause.head.relation, clause.head.args
    bound = tuple(term for term, letter in zip(args, adornment, strict=True) if letter == "b")
    return Atom(demand.magic(view, state, adornment), bound)


def _add_fold(demand: DemandBuilder, clause: Clause, state: str, adornment: str) -> None:
    """`agg(G, V) :- agg_groups(G), V = f T : { aux(G, L) }.`, where the groups are the queried ones that have rows.
    Behind the gate, all rows of a group are there when it is folded."""
    view = clause.head.relation
    group = clause.head.args[:-1]
    groups = Atom(demand.name(view, f"{state}_groups", width=len(group)), group)
    rows, comparison = clause.body
    demand.derive(
        DerivedRule("G", groups, clause, demand.state(state), demand.level[view]),
        _bindings(demand, clause, state, adornment),
        (rows,),
    )
    match comparison:
        case Comparison("=", Variable() as value, Aggregate(function, target, body)):
            (inner,) = conjunction(body)
            read = with_atom(inner, lambda atom: Atom(demand.name(atom.relation, state), atom.args))
            folded = Comparison("=", value, Aggregate(function, target, And((read,))))
        case _:
            raise AssertionError("not in normal form")
    demand.add(
        "A", Atom(demand.name(view, state), clause.head.args), (groups, folded),
        clause.types, source=clause, gate=demand.level[view],
    )  # fmt: skip
