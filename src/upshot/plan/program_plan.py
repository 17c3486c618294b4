"""How every view of a program is kept: components in order, the strategy of each, and why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from upshot.check.program import CheckedProgram, Clause
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError
from upshot.core.schema import Role
from upshot.plan.choice import Choice, choose, conflicts, read_by
from upshot.plan.on_demand import OnDemand, runners_up, views_on_demand
from upshot.plan.production_views import served_by_production
from upshot.rewrite import (
    MaintenanceProgram,
    MaintenanceRule,
    ProductionRule,
    StateOf,
    bf,
    counting,
    maintenance,
    normal_form,
    production,
)
from upshot.rewrite.shapes import aggregate_of

_SIGNS = {"all": ("plus", "minus"), "insert": ("plus",), "delete": ("minus",), "none": ()}


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    """Views that depend on each other, in the order of evaluation. `strategy` is maintenance, bf, counting,
    production, recompute or aggregate; `rules` are the generated ones, `production` those of that strategy; `clauses`
    the definition itself."""

    views: tuple[str, ...]
    strategy: str
    recursive: bool
    clauses: tuple[Clause, ...]
    rules: tuple[MaintenanceRule, ...]
    states: Mapping[str, StateOf] = field(hash=False)
    reads: frozenset[str] = frozenset()
    """Every relation outside the component that its clauses use."""
    production: tuple[ProductionRule, ...] = ()
    policy: str = "auto"
    """auto: whatever is expected to be cheaper; incremental and strict: a change is always followed"""


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """`source` is the program as checked, `normal` the one that runs; relations only in `normal` are auxiliary."""

    source: CheckedProgram
    normal: CheckedProgram
    components: tuple[ComponentPlan, ...]
    strategies: Mapping[str, Choice]
    on_demand: OnDemand = field(default_factory=OnDemand)
    started: tuple[ComponentPlan, ...] = ()
    """The unstored views that production rules compute when they are read, and those below them, in order."""

    def reported(self, view: str) -> tuple[str, ...]:
        """The changes of a view that users see: `plus`, `minus`. Without stored rows those that its `events` name; a
        constraint is never without the witnesses that come, and what the windows of active rules show is seen whole."""
        options = self.source.options.get(view)
        if options is None or options.events == "all" or view not in self.on_demand.unstored:
            return _SIGNS["all"]
        rules = self.source.rules
        heard = {relation for rule in rules for relation, _ in rule.triggers}
        if view in heard.union(window.relation for rule in rules for window in rule.windows):
            return _SIGNS["all"]
        is_denied = self.source.schemas[view].role is Role.CONSTRAINT
        return tuple(sign for sign in _SIGNS["all"] if sign in _SIGNS[options.events] or (sign == "plus" and is_denied))

    def wanted(self, afresh: Collection[str] = ()) -> dict[str, tuple[str, ...]]:
        """The views on demand whose changes are computed, and which: `plus`, `minus`. Those that are reported; and the
        rows that come to a view with a key, seen or not, since they may share it with others."""
        found = {}
        for view in self.on_demand.strategies:
            if view in self.source.schemas and view not in afresh:
                signs, has_key = self.reported(view), bool(self.source.schemas[view].keys)
                found[view] = ("plus", *signs) if has_key and "plus" not in signs else signs
        return {view: signs for view, signs in found.items() if signs}


def compile_program(checked: CheckedProgram, *, stored: bool = False) -> ProgramPlan:
    """The plan of a checked program; a strategy that cannot maintain its view is a program error. Earlier versions
    stored programs whose views ask for conflicting strategies: where `stored` those are planned as they were.

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
    served = served_by_production(checked, normal)
    if not stored:
        problems += strategy_conflicts(checked, normal)
    for views in normal.strata:
        clauses = tuple(c for c in normal.clauses if c.head.relation in views)
        recursive = any(name in views for clause in clauses for name in read_by(clause))
        if views[0] in on_demand.strategies:
            strategy = on_demand.strategies[views[0]]
            for view in views:
                others = runners_up(checked, view, recursive=recursive)
                named, reasons = _named(view, on_demand), on_demand.reasons[view]
                choices[view] = Choice(view, named, reasons, others, policy=_policy(checked, view))
            components.append(_on_demand(views, clauses, strategy, recursive))
            continue
        for view in views:
            choices[view] = choose(checked, view, clauses, recursive, choices, problems)
            if view in served and choices[view].strategy != "aggregate":
                told = f"only `{served[view]}` uses it, which is kept by production rules"
                choices[view] = replace(choices[view], strategy="production", reasons=(told,), others=())
        strategy = _together([choices[view].strategy for view in views])
        for view in views:
            if choices[view].strategy != strategy:
                reasons = (*choices[view].reasons, f"`{strategy}`, because its component has a view that asks for it")
                choices[view] = replace(choices[view], strategy=strategy, reasons=reasons)
        policy = _strictest(choices[view].policy for view in views)
        components.append(replace(_component(normal, views, clauses, strategy, recursive), policy=policy))
    if problems:
        raise ProgramError(problems)
    return ProgramPlan(checked, normal, tuple(components), choices, on_demand, tuple(_started(normal, on_demand)))


def strategy_conflicts(checked: CheckedProgram, normal: CheckedProgram) -> list[Diagnostic]:
    """One finding for each component of the normal form whose views ask for strategies that exclude each other."""
    return [problem for views in normal.strata for problem in conflicts(checked, views)]


def _named(view: str, on_demand: OnDemand) -> str:
    """The strategy as it was asked for."""
    return "production" if view in on_demand.started else on_demand.strategies[view]


def _started(normal: CheckedProgram, on_demand: OnDemand) -> Iterator[ComponentPlan]:
    """How the rows of views that production rules compute, and of all unstored ones below, come from nothing."""
    needed = set(on_demand.started)
    for views in reversed(normal.strata):
        if not needed.isdisjoint(views):
            clauses = [clause for clause in normal.clauses if clause.head.relation in views]
            needed.update(views, *(read_by(clause) & on_demand.strategies.keys() for clause in clauses))
    for views in normal.strata:
        if not needed.isdisjoint(views):
            own = tuple(clause for clause in normal.clauses if clause.head.relation in views)
            recursive = any(name in views for clause in own for name in read_by(clause))
            folded = any(aggregate_of(clause) is not None for clause in own)
            yield _component(normal, views, own, "aggregate" if folded else "production", recursive)


def _on_demand(views: tuple[str, ...], clauses: tuple[Clause, ...], strategy: str, recursive: bool) -> ComponentPlan:
    """Of a component that is computed on demand only the definition is planned; its rules depend on what changes."""
    reads = frozenset(name for clause in clauses for name in read_by(clause)) - set(views)
    return ComponentPlan(views, strategy, recursive, clauses, (), {}, reads)


_GENERATED: Mapping[str, Callable[..., MaintenanceProgram]] = {"counting": counting, "bf": bf}


def _component(
    normal: CheckedProgram, views: tuple[str, ...], clauses: tuple[Clause, ...], strategy: str, recursive: bool
) -> ComponentPlan:
    rules: tuple[MaintenanceRule, ...] = ()
    states: Mapping[str, StateOf] = {}
    if strategy not in ("aggregate", "production"):
        made = _GENERATED.get(strategy, maintenance)(normal, views)
        rules, states = made.rules, made.states
    reads = frozenset(name for clause in clauses for name in read_by(clause)) - set(views)
    produced = production(normal, views).rules if strategy == "production" else ()
    return ComponentPlan(views, strategy, recursive, clauses, rules, states, reads, produced)


def maintained(normal: CheckedProgram, component: ComponentPlan) -> ComponentPlan:
    """The component as `maintenance` would keep it."""
    made = _component(normal, component.views, component.clauses, "maintenance", component.recursive)
    return replace(made, policy=component.policy)


def _policy(checked: CheckedProgram, view: str) -> str:
    return checked.options[view].policy if view in checked.options else "auto"


def _strictest(policies: Iterable[str]) -> str:
    return max(policies, key=("full", "auto", "incremental", "strict").index)


def _together(strategies: list[str]) -> str:
    for strategy in ("recompute", "production", "bf", "maintenance", "counting", "aggregate"):
        if strategy in strategies:
            return strategy
    raise AssertionError(strategies)
