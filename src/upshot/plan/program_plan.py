"""The plan of a program: components in order, the strategy of each, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from upshot.check.active.events import HeardChanges, heard_changes
from upshot.check.program import CheckedProgram, Clause
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError
from upshot.core.operations import DELETED, INSERTED
from upshot.core.schema import Role
from upshot.plan.choice import (
    Choice,
    aggregated,
    best_rows,
    choose,
    conflicts,
    keep_best,
    read_by,
    refuse_on_demand,
    served_views,
)
from upshot.plan.on_demand import OnDemand, runners_up, views_on_demand
from upshot.rewrite import normal_form
from upshot.rewrite.shapes import aggregate_of
from upshot.strategies.maintenance_rules import MaintenanceRule, StateOf
from upshot.strategies.production_rules import ProductionRule
from upshot.strategies.strategy import Procedure, Strategy, ViewShape, ranked, strategy_named

_HEARD = {INSERTED: "plus", DELETED: "minus"}
_SIGNS = {"all": ("plus", "minus"), "insert": ("plus",), "delete": ("minus",), "none": ()}


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    """Views that depend on each other, in the order of evaluation. `rules` and `production` are those that the strategy
    generates; `clauses` the definition itself."""

    views: tuple[str, ...]
    strategy: Strategy
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
    beside: frozenset[str] = frozenset()
    """The views of live queries, which no other view reads."""
    heard: HeardChanges = field(default_factory=HeardChanges)

    def reported(self, view: str, *, several_turns: bool = False) -> tuple[str, ...]:
        """The changes of a view that users see: `plus`, `minus`. Without stored rows those that its `events` name, and
        those that an active rule hears, of `several_turns` in a transaction or not; a constraint is never without the
        witnesses that come."""
        options = self.source.options.get(view)
        is_condition = view in self.source.hidden and view not in self.beside
        events = "none" if is_condition else "all" if options is None else options.events
        if events == "all" or view not in self.on_demand.unstored:
            return _SIGNS["all"]
        signs = {*_SIGNS[events]}
        heard = self.heard.several if several_turns else self.heard.once
        signs.update(_HEARD[operation] for relation, operation in heard if relation == view)
        if self.source.schemas[view].role is Role.CONSTRAINT:
            signs.add("plus")
        return tuple(sign for sign in _SIGNS["all"] if sign in signs)

    def wanted(self, afresh: Collection[str] = (), *, several_turns: bool = False) -> dict[str, tuple[str, ...]]:
        """The views on demand whose changes are computed, and which: `plus`, `minus`. Those that are reported; and the
        rows that come to a view with a key, seen or not, since they may share it with others."""
        found = {}
        for view in self.on_demand.strategies:
            if view in self.source.schemas and view not in afresh:
                signs = self.reported(view, several_turns=several_turns)
                has_key = bool(self.source.schemas[view].keys)
                found[view] = ("plus", *signs) if has_key and "plus" not in signs else signs
        return {view: signs for view, signs in found.items() if signs}


def compile_program(checked: CheckedProgram, *, stored: bool = False, before: ProgramPlan | None = None) -> ProgramPlan:
    """The plan of a checked program; a strategy that cannot maintain its view is a program error. Earlier versions
    stored programs whose views request conflicting strategies: with `stored` these are planned as before. Components
    that are as in the plan `before` keep the rules they have there.

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
    served = served_views(checked, normal)
    problems += () if stored else strategy_conflicts(checked, normal)
    earlier = {} if before is None else {each.views: each for each in before.components}
    for views, clauses in _clauses_by_stratum(normal):
        recursive = any(name in views for clause in clauses for name in read_by(clause))
        if views[0] in on_demand.strategies:
            problems += refuse_on_demand(checked, normal, views)
            strategy = strategy_named(on_demand.strategies[views[0]])
            choices |= {view: _choice_on_demand(checked, view, on_demand, recursive) for view in views}
            components.append(_on_demand(views, clauses, strategy, recursive))
            continue
        best = best_rows(normal, views)
        for view in views:
            if best:
                choices[view] = keep_best(checked, view, best, problems)
                continue
            choices[view] = choose(checked, view, clauses, recursive, choices, problems)
            if view in served and not aggregated(choices[view]):
                user, keeper = served[view]
                told = f"only `{user}` uses it, which is kept by {keeper} rules"
                choices[view] = replace(choices[view], strategy=keeper, reasons=(told,), others=())
        strategy = _common_strategy(views, choices)
        policy = _strictest(choices[view].policy for view in views)
        old = earlier.get(views)
        if before is None or old is None or not _has_rules_of(old, before.normal, normal, clauses, strategy):
            old = _component(normal, views, clauses, strategy, recursive)
        components.append(replace(old, policy=policy))
    if problems:
        raise ProgramError(problems)
    started = tuple(_started(normal, on_demand))
    return ProgramPlan(checked, normal, tuple(components), choices, on_demand, started, heard=heard_changes(checked))


def _choice_on_demand(checked: CheckedProgram, view: str, on_demand: OnDemand, recursive: bool) -> Choice:
    others = runners_up(checked, view, recursive=recursive)
    return Choice(view, _named(view, on_demand), on_demand.reasons[view], others, policy=_policy(checked, view))


def _common_strategy(views: Sequence[str], choices: dict[str, Choice]) -> Strategy:
    """The strategy of a component, which becomes the choice for each of its views."""
    strategy = max((strategy_named(choices[view].strategy) for view in views), key=lambda each: each.rank)
    for view in views:
        if choices[view].strategy != strategy.name:
            reasons = (*choices[view].reasons, f"`{strategy}`, because a view of its component requests it")
            choices[view] = replace(choices[view], strategy=strategy.name, reasons=reasons)
    return strategy


def strategy_conflicts(checked: CheckedProgram, normal: CheckedProgram) -> list[Diagnostic]:
    """One finding for each component of the normal form whose views request conflicting strategies."""
    return [problem for views in normal.strata for problem in conflicts(checked, views)]


def _named(view: str, on_demand: OnDemand) -> str:
    """The requested strategy."""
    return on_demand.started.get(view) or on_demand.strategies[view]


def _started(normal: CheckedProgram, on_demand: OnDemand) -> Iterator[ComponentPlan]:
    """The components by whose rules the rows of `started` views, and of all unstored ones below, come from nothing."""
    needed = set(on_demand.started)
    if not needed:
        return
    keeper = strategy_named(next(iter(on_demand.started.values())))
    for views in reversed(normal.strata):
        if not needed.isdisjoint(views):
            clauses = [clause for clause in normal.clauses if clause.head.relation in views]
            needed.update(views, *(read_by(clause) & on_demand.strategies.keys() for clause in clauses))
    for views in normal.strata:
        if not needed.isdisjoint(views):
            own = tuple(clause for clause in normal.clauses if clause.head.relation in views)
            recursive = any(name in views for clause in own for name in read_by(clause))
            folds = any(aggregate_of(clause) is not None for clause in own)
            yield _component(normal, views, own, ranked(ViewShape(folds=True))[0][0] if folds else keeper, recursive)


def _on_demand(
    views: tuple[str, ...], clauses: tuple[Clause, ...], strategy: Strategy, recursive: bool
) -> ComponentPlan:
    """Of a component that is computed on demand only the definition is planned; its rules depend on what changes."""
    reads = frozenset(name for clause in clauses for name in read_by(clause)) - set(views)
    return ComponentPlan(views, strategy, recursive, clauses, (), {}, reads)


def _clauses_by_stratum(normal: CheckedProgram) -> Iterator[tuple[tuple[str, ...], tuple[Clause, ...]]]:
    """The strata with the clauses of each, in the order of the program."""
    stratum_of = {view: views for views in normal.strata for view in views}
    found: dict[tuple[str, ...], list[Clause]] = {views: [] for views in normal.strata}
    for clause in normal.clauses:
        found[stratum_of[clause.head.relation]].append(clause)
    for views, clauses in found.items():
        yield views, tuple(clauses)


def _component(
    normal: CheckedProgram, views: tuple[str, ...], clauses: tuple[Clause, ...], strategy: Strategy, recursive: bool
) -> ComponentPlan:
    own = replace(normal, clauses=clauses, strata=(views,)) if _by_clauses_alone(strategy) else normal
    made = strategy.generate(own, views)
    reads = frozenset(name for clause in clauses for name in read_by(clause)) - set(views)
    return ComponentPlan(views, strategy, recursive, clauses, made.rules, made.states, reads, made.production)


def _by_clauses_alone(strategy: Strategy) -> bool:
    """Test whether the rules of a component depend on its own clauses only; production rules are ranked by the strata
    of the whole program."""
    return strategy.procedure is not Procedure.TRIGGERS


def _has_rules_of(
    old: ComponentPlan, before: CheckedProgram, normal: CheckedProgram, clauses: tuple[Clause, ...], strategy: Strategy
) -> bool:
    """Test whether a component of an earlier program has the rules that its strategy would generate now."""
    if old.strategy is not strategy or not _by_clauses_alone(strategy) or old.clauses != clauses:
        return False
    names = {*old.views, *old.reads}
    entered = {rule.clause.head.relation for rule in old.rules} | old.states.keys()
    # A relation of the program may have taken the name of a state.
    taken = any(name in normal.schemas and name not in names for name in entered)
    return not taken and all(before.schemas[name] == normal.schemas[name] for name in names)


def kept_as(normal: CheckedProgram, component: ComponentPlan, strategy: Strategy) -> ComponentPlan:
    """The component as another strategy would keep it."""
    made = _component(normal, component.views, component.clauses, strategy, component.recursive)
    return replace(made, policy=component.policy)


def _policy(checked: CheckedProgram, view: str) -> str:
    return checked.options[view].policy if view in checked.options else "auto"


def _strictest(policies: Iterable[str]) -> str:
    return max(policies, key=("full", "auto", "incremental", "strict").index)
