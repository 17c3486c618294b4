"""`upshot rewrite`: the rules that compute the changes of views, as text."""

from __future__ import annotations

import json
from pathlib import Path

from upshot.check import check_query
from upshot.check.program import CheckedProgram, Clause
from upshot.cli.input.programs import checked_file, known_view
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK
from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import UsageError
from upshot.rewrite import bf, counting, maintenance, normal_form, print_maintenance, print_production, production
from upshot.rewrite.changes.changes_on_demand import ALGORITHMS, changes_on_demand
from upshot.rewrite.demand.magic_sets import magic_sets
from upshot.rewrite.demand.print_demand import print_demand
from upshot.rewrite.demand.questions import about_clauses
from upshot.rewrite.print_view_updates import print_view_updates
from upshot.rewrite.strategies.operators import operators
from upshot.rewrite.strategies.print_propagation import print_propagation
from upshot.rewrite.view_updates import view_updates
from upshot.syntax import parse_query
from upshot.syntax.ast import Atom, Call

_HERE = ("maintenance", "counting", "bf", "production", *ALGORITHMS, "magic", "view-update")
_WITHOUT_RULES = ("recompute", "auto")


def rewrite(terminal: Terminal, file: Path, strategy: str, view: str | None, query: str | None = None) -> int:
    _available(strategy)
    _match(strategy, view, query)
    checked = checked_file(terminal, file)
    view = known_view(checked.schemas, view)
    normal = normal_form(checked)
    text = _rules(strategy, normal, view) if query is None else _query_rules(checked, normal, query)
    if terminal.json:
        told = {"strategy": strategy, "view": view, "rules": text}
        terminal.data(json.dumps(told if query is None else {**told, "query": query}, ensure_ascii=False))
    else:
        terminal.data(text.rstrip("\n"))
    return OK


def _rules(strategy: str, normal: CheckedProgram, view: str | None) -> str:
    if strategy == "view-update":
        single = operators(normal, [name for layer in normal.strata for name in layer])
        return print_view_updates(view_updates(single, view))
    if strategy == "production":
        return print_production(production(normal), view=view)
    if strategy == "propagation":
        return print_propagation(normal, view)
    if strategy in ALGORITHMS:
        views = {name: strategy for layer in normal.strata for name in layer}
        level = normal if strategy == "differencing" else None
        nervous = [name for name, options in normal.options.items() if options.semantics == "nervous"]
        return print_demand(changes_on_demand(normal, views, nervous=nervous), view, level=level)
    if strategy == "bf":
        return print_maintenance(bf(normal), view=view)
    generated = maintenance(normal) if strategy == "maintenance" else counting(normal, None if view is None else [view])
    if not generated.rules:
        raise UsageError(
            "counting needs a non-recursive view, and every view of the program is recursive",
            code="strategy-not-applicable",
            help="use `--strategy maintenance`",
        )
    return print_maintenance(generated, view=view)


def _query_rules(checked: CheckedProgram, normal: CheckedProgram, query: str) -> str:
    """The rules for one literal of a view, or for a whole body."""
    schema, clauses = check_query(parse_query(query), checked.schemas, {})
    match clauses:
        case (Clause(body=(Atom(args=args) as goal,)),) if not any(isinstance(arg, Call) for arg in args):
            return print_demand(magic_sets(normal, goal))
        case _:
            views = [view for layer in normal.strata for view in layer]
            return print_demand(about_clauses(normal, views, schema, clauses)[0].program)


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


def _available(strategy: str) -> None:
    if strategy in _HERE:
        return
    printed = " or ".join(f"`--strategy {name}`" for name in _HERE)
    if strategy in _WITHOUT_RULES:
        raise UsageError(
            f"strategy `{strategy}` has no rules to print",
            code="strategy-without-rules",
            help=f"use {printed}; `upshot explain` shows how each view is maintained",
        )
    raise UsageError(
        f"unknown strategy `{strategy}`",
        code="unknown-strategy",
        help=did_you_mean(strategy, _HERE) or f"use {printed}",
    )
