"""How every view of a program is kept: components in order, the strategy of each, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from upshot.check.program import CheckedProgram, Clause
from upshot.check.variables import variables
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError
from upshot.plan.on_demand import STRATEGIES as ON_DEMAND
from upshot.plan.on_demand import OnDemand, views_on_demand
from upshot.rewrite import MaintenanceRule, ProductionRule, StateOf, counting, maintenance, normal_form, production
from upshot.rewrite.shapes import aggregate_of
from upshot.syntax.ast import Atom, Not, Variable, Wildcard

AVAILABLE = ("auto", "maintenance", "counting", "production", "recompute", *ON_DEMAND)
"""The strategies there are today; the others of the language are known but refused."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The strategy of a view, what was asked for, and the reasons in words."""

    view: str
    strategy: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    """Views that depend on each other, in the order of evaluation. `strategy` is maintenance, counting, production,
    recompute or aggregate; `rules` are the generated ones, `production` those of that strategy; `clauses` the
    definition itself."""

    views: tuple[str, ...]
    strategy: str
    recursive: bool
    clauses: tuple[Clause, ...]
    rules: tuple[MaintenanceRule, ...]
    states: Mapping[str, StateOf] = field(hash=False)
    reads: frozenset[str] = frozenset()
    """Every relation outside the component that its clauses use."""
    production: tuple[ProductionRule, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """`source` is the program as checked, `normal` the one that runs; relations only in `normal` are auxiliary."""

    source: CheckedProgram
    normal: CheckedProgram
    components: tuple[ComponentPlan, ...]
    strategies: Mapping[str, Choice]
    on_demand: OnDemand = field(default_factory=OnDemand)


def compile_program(checked: CheckedProgram) -> ProgramPlan:
    """The plan of a checked program; a strategy that cannot maintain its view is a program error.

    >>> from upshot.syntax import parse
    >>> from upshot.check import check
    >>> text = ".decl e(x: number)  .decl p(x: number)  p(X) :- e(X)."
    >>> print(compile_program(check(parse(text))).strategies["p"].strategy)
    counting
    """
    normal = normal_form(checked)
    problems: list[Diagnostic] = []
    choices: dict[str, Choice] = {}
    components = []
    on_demand = views_on_demand(checked, normal, problems)
    for views in normal.strata:
        clauses = tuple(c for c in normal.clauses if c.head.relation in views)
        recursive = any(name in views for clause in clauses for name in read_by(clause))
        if views[0] in on_demand.strategies:
            strategy = on_demand.strategies[views[0]]
            choices |= {view: Choice(view, strategy, on_demand.reasons[view]) for view in views}
            components.append(_on_demand(views, clauses, strategy, recursive))
            continue
        for view in views:
            choices[view] = _choose(checked, view, clauses, recursive, choices, problems)
        strategy = _together([choices[view].strategy for view in views])
        for view in views:
            if choices[view].strategy != strategy:
                reasons = (*choices[view].reasons, f"`{strategy}`, because its component has a view that asks for it")
                choices[view] = Choice(view, strategy, reasons)
        components.append(_component(normal, views, clauses, strategy, recursive))
    if problems:
        raise ProgramError(problems)
    return ProgramPlan(checked, normal, tuple(components), choices, on_demand)


def read_by(clause: Clause) -> set[str]:
    """The relations of a normal-form clause's body."""
    names = set()
    for literal in clause.body:
        if isinstance(literal, Atom):
            names.add(literal.relation)
        elif isinstance(literal, Not) and isinstance(literal.body, Atom):
            names.add(literal.body.relation)
    return names


def _on_demand(views: tuple[str, ...], clauses: tuple[Clause, ...], strategy: str, recursive: bool) -> ComponentPlan:
    """Of a component that is computed on demand only the definition is planned; its rules depend on what changes."""
    reads = frozenset(name for clause in clauses for name in read_by(clause)) - set(views)
    return ComponentPlan(views, strategy, recursive, clauses, (), {}, reads)


def _component(
    normal: CheckedProgram, views: tuple[str, ...], clauses: tuple[Clause, ...], strategy: str, recursive: bool
) -> ComponentPlan:
    rules: tuple[MaintenanceRule, ...] = ()
    states: Mapping[str, StateOf] = {}
    if strategy not in ("aggregate", "production"):
        made = (counting if strategy == "counting" else maintenance)(normal, views)
        rules, states = made.rules, made.states
    reads = frozenset(name for clause in clauses for name in read_by(clause)) - set(views)
    produced = production(normal, views).rules if strategy == "production" else ()
    return ComponentPlan(views, strategy, recursive, clauses, rules, states, reads, produced)


def _together(strategies: list[str]) -> str:
    for strategy in ("recompute", "production", "maintenance", "counting", "aggregate"):
        if strategy in strategies:
            return strategy
    raise AssertionError(strategies)


def _multiplies_an_aggregate(clause: Clause, choices: Mapping[str, Choice]) -> bool:
    """Whether the clause joins an aggregate's value with rows of which the head keeps only a part."""
    if not any(name in choices and choices[name].strategy == "aggregate" for name in read_by(clause)):
        return False
    kept = set(variables(clause.head))
    terms = [term for literal in clause.body if isinstance(literal, Atom) for term in literal.args]
    return any(isinstance(t, Wildcard) or (isinstance(t, Variable) and t.name not in kept) for t in terms)


def _choose(
    checked: CheckedProgram,
    view: str,
    clauses: tuple[Clause, ...],
    recursive: bool,
    choices: Mapping[str, Choice],
    problems: list[Diagnostic],
) -> Choice:
    own = [clause for clause in clauses if clause.head.relation == view]
    if any(aggregate_of(clause) is not None for clause in own):
        return Choice(view, "aggregate", ("an aggregate: kept per group, only touched groups are looked at",))
    options = checked.options.get(view)
    asked = options.strategy if options is not None else "auto"
    span = checked.schemas[view].span if view in checked.schemas else None
    if asked not in AVAILABLE:
        known = ", ".join(f"`{name}`" for name in AVAILABLE)
        problems.append(
            Diagnostic(
                "not-yet", f"strategy `{asked}` of view `{view}` is not available yet", span, help=f"use one of {known}"
            )
        )
        asked = "auto"
    if asked == "counting" and recursive:
        problems.append(
            Diagnostic(
                "strategy-not-applicable",
                f"view `{view}` is recursive: its derivations cannot be counted",
                span,
                help="use `maintenance`",
            )
        )
        asked = "maintenance"
    if asked != "auto":
        return Choice(view, asked, (f"asked for by `.view {view} strategy={asked}`",))
    if options is not None and options.policy == "full":
        return Choice(view, "recompute", (f"asked for by `.view {view} policy=full`",))
    return _automatic(view, own, recursive, choices)


def _automatic(view: str, own: list[Clause], recursive: bool, choices: Mapping[str, Choice]) -> Choice:
    """The choice where the user has made none."""
    if recursive:
        reason = "recursive: over-delete, rederive, insert touches only what may change"
        return Choice(view, "maintenance", (reason, "counting is out: a cycle would support itself"))
    if any(_multiplies_an_aggregate(clause, choices) for clause in own):
        reason = (
            "an aggregate beside rows that are projected away: a new value changes as many derivations as its group has"
        )
        return Choice(view, "maintenance", (reason, "counting would count every one of them"))
    reason = "not recursive: counting derivations needs no rederivation"
    return Choice(
        view, "counting", (reason, "maintenance would have to look for other derivations of every deleted row")
    )
