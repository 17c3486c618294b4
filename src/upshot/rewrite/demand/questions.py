"""Questions to views that nobody stores: the demand programs that answer them from the definitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Role, Schema
from upshot.rewrite import normal_form
from upshot.rewrite.demand.demand import DemandBuilder, DemandProgram
from upshot.rewrite.demand.query_rules import add_query_rules
from upshot.rewrite.stratified import stratified
from upshot.syntax.ast import Atom, Variable


@dataclass(frozen=True, slots=True)
class DemandQuery:
    """`program` answers it: for each view asked about, `answers` names the relation with its rows, and `asked` the one
    that the bindings to ask with are given in before the program runs. A query needs no bindings."""

    program: DemandProgram
    answers: Mapping[str, str]
    asked: Mapping[str, str]


def about_views(
    normal: CheckedProgram, on_demand: Collection[str], adornments: Mapping[str, str], state: str
) -> DemandQuery:
    """The query for the rows that some views have in a state (`old` or `new`), each asked with the columns that its
    adornment binds; all views but those `on_demand` are stored."""
    demand = DemandBuilder(normal, stored=normal.schemas.keys() - set(on_demand))
    asked = {view: demand.magic(view, state, adornment) for view, adornment in adornments.items()}
    add_query_rules(demand)
    return DemandQuery(demand.program_made(), {view: demand.name(view, state) for view in adornments}, asked)


def about_clauses(
    normal: CheckedProgram, unstored: Collection[str], schema: Schema, clauses: tuple[Clause, ...], *,
    state: str = "old", given: Mapping[str, Schema] = MappingProxyType({}),
    helpers: Mapping[str, Schema] = MappingProxyType({}),
) -> tuple[DemandQuery, CheckedProgram]:  # fmt: skip
    """The rows that a query's clauses derive for its head in a state, by magic sets over the definitions of the
    unstored views and of the `helpers`, which the clauses define themselves; and the program, in normal form, that it
    is about. Relations `given` for the query are stored and small: bodies are joined from them outward."""
    known = {name: each if name in unstored else replace(each, role=Role.BASE) for name, each in normal.schemas.items()}
    known |= {name: replace(each, role=Role.BASE) for name, each in given.items()}
    known |= {name: replace(each, role=Role.VIEW) for name, each in (*helpers.items(), (schema.name, schema))}
    defined = tuple(clause for clause in normal.clauses if clause.head.relation in unstored)
    empty = CheckedProgram({}, (), {}, ())
    program = normal_form(stratified(empty, (*defined, *clauses), known, by="the rewriting of a query"))
    demand = DemandBuilder(program)
    demand.small = frozenset(given)
    row = tuple(Variable(f"X{i}") for i in range(schema.arity))
    demand.ask(Atom(schema.name, row), state, (), (), {})
    add_query_rules(demand)
    return DemandQuery(demand.program_made(), {schema.name: demand.name(schema.name, state)}, {}), program
