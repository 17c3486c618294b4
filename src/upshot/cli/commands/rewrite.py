"""`upshot rewrite`: the rules that compute the changes of views, as text or as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

import typer

from upshot.check import check_query
from upshot.check.options import STRATEGIES
from upshot.check.program import CheckedProgram, Clause, ViewOptions
from upshot.cli.input.programs import checked_file, known_view
from upshot.cli.options import ProgramFile
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK
from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import UsageError
from upshot.core.optimizations import Optimizations
from upshot.core.schema import Role
from upshot.plan.demand_plans import change_program
from upshot.plan.program_plan import compile_program
from upshot.rewrite import normal_form
from upshot.rewrite.demand.demand_listing import list_demand
from upshot.rewrite.demand.magic_sets import magic_sets, query_clauses
from upshot.rewrite.listing import RuleListing
from upshot.rewrite.normalize.operators import operators
from upshot.rewrite.view_updates import list_view_updates, view_updates
from upshot.strategies.names import WITH_RULES
from upshot.strategies.strategy import Strategy, requested_strategy
from upshot.syntax import parse_query
from upshot.syntax.ast import Atom, Call

AVAILABLE = (*WITH_RULES, "magic", "view-update")
"""The sources of rules to print: strategies, queries, view updates."""


def rewrite(
    terminal: Terminal,
    file: ProgramFile,
    strategy: Annotated[
        str,
        typer.Option("--strategy", "-s", metavar="STRATEGY", help=f"{', '.join(WITH_RULES)}, magic or view-update."),
    ],
    view: Annotated[
        str | None, typer.Option("--view", "-v", metavar="VIEW", help="Print only the rules of this view.")
    ] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", "-q", metavar="QUERY", help="With --strategy magic: the query, as in 'closure(1, Y)'."),
    ] = None,
) -> int:
    """Print the rules, or give them as JSON: the relations, then each rule with head, body, phase and origin."""
    _refuse_unavailable(strategy)
    _match(strategy, view, query)
    checked = checked_file(terminal, file)
    view = known_view(checked.schemas, view)
    listing = _query_rules(checked, query) if query is not None else _rules(strategy, checked, view)
    if terminal.json:
        about = {"strategy": strategy, "view": view} if query is None else {"strategy": strategy, "query": query}
        terminal.data(json.dumps({**about, **listing.as_dict()}, ensure_ascii=False))
    else:
        terminal.data(listing.text.rstrip("\n"))
    return OK


def _rules(named: str, checked: CheckedProgram, view: str | None) -> RuleListing:
    strategy = requested_strategy(named)
    if strategy is not None and strategy.demand is not None:
        plan = compile_program(_asking(checked, strategy))
        return strategy.demand.listing(change_program(plan, Optimizations()), view)
    normal = normal_form(checked)
    if strategy is not None:
        assert strategy.listing is not None
        return strategy.listing(normal, view)
    single = operators(normal, [name for layer in normal.strata for name in layer])
    return list_view_updates(view_updates(single, view))


def _asking(checked: CheckedProgram, strategy: Strategy) -> CheckedProgram:
    """The program with every view computed by a strategy that stores none."""
    options = {}
    for name, schema in checked.schemas.items():
        if schema.role is not Role.BASE:
            own = checked.options.get(name, ViewOptions())
            semantics = own.semantics if own.strategy == strategy.name else "strict"
            options[name] = ViewOptions(strategy.name, materialized=False, events=own.events, semantics=semantics)
    return replace(checked, options=options)


def _query_rules(checked: CheckedProgram, query: str) -> RuleListing:
    """The rules for one literal of a view, or for a whole body."""
    normal = normal_form(checked)
    schema, clauses = check_query(parse_query(query), checked.schemas, {})
    match clauses:
        case (Clause(body=(Atom(args=args) as goal,)),) if not any(isinstance(arg, Call) for arg in args):
            return list_demand(magic_sets(normal, goal))
        case _:
            views = [view for layer in normal.strata for view in layer]
            return list_demand(query_clauses(normal, views, schema, clauses)[0].program)


def _match(strategy: str, view: str | None, query: str | None) -> None:
    """`magic` is about a query, all others are about views."""
    if strategy == "magic" and query is None:
        raise UsageError(
            "strategy `magic` needs a query",
            code="query-needed",
            help="add one: `--strategy magic --query 'closure(1, Y)'`",
        )
    if query is not None and (strategy != "magic" or view is not None):
        other = "`--view`" if strategy == "magic" else f"`--strategy {strategy}`"
        raise UsageError(
            f"`--query` cannot be combined with {other}",
            code="query-not-used",
            help="use `--strategy magic` without `--view`",
        )


def _refuse_unavailable(strategy: str) -> None:
    if strategy in AVAILABLE:
        return
    printed = " or ".join(f"`--strategy {name}`" for name in AVAILABLE)
    if strategy in STRATEGIES:
        raise UsageError(
            f"strategy `{strategy}` has no rules to print",
            code="strategy-without-rules",
            help=f"use {printed}; `upshot explain` shows how each view is maintained",
        )
    raise UsageError(
        f"unknown strategy `{strategy}`",
        code="unknown-strategy",
        help=did_you_mean(strategy, AVAILABLE) or f"use {printed}",
    )
