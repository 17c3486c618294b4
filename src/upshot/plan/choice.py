"""The strategy of every view: the requested one, or the one that fits its shape best, with reasons and alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from upshot.check.names.variables import variables
from upshot.check.program import CheckedProgram, Clause, ViewOptions
from upshot.core.diagnostic import Diagnostic
from upshot.rewrite.shapes import aggregate_of, relations_read
from upshot.strategies.strategy import (
    Stores,
    Strategy,
    ViewShape,
    on_demand,
    ranked,
    requested_strategy,
    strategies,
    strategy_named,
)
from upshot.syntax.ast import Atom, Variable, Wildcard


@dataclass(frozen=True, slots=True)
class Choice:
    """The strategy of a view, the reasons for it, and the reason against each of the `others`."""

    view: str
    strategy: str
    reasons: tuple[str, ...]
    others: tuple[tuple[str, str], ...] = ()
    policy: str = "auto"


def choose(
    checked: CheckedProgram,
    view: str,
    clauses: Sequence[Clause],
    recursive: bool,
    choices: Mapping[str, Choice],
    problems: list[Diagnostic],
) -> Choice:
    """The choice for a stored view. A request that cannot be satisfied is added to `problems`."""
    own = [clause for clause in clauses if clause.head.relation == view]
    options = checked.options.get(view, ViewOptions())
    folds = any(aggregate_of(clause) is not None for clause in own)
    multiplies = any(_multiplies_an_aggregate(clause, choices) for clause in own)
    shape = ViewShape(recursive, folds, multiplies, policy="auto" if folds else options.policy)
    if folds:
        return automatic(view, shape)
    requested, option = requested_strategy(options.strategy), f"strategy={options.strategy}"
    if requested is not None and (obstacle := requested.obstacle(shape)) is not None:
        span = checked.schemas[view].span if view in checked.schemas else None
        message = f"view `{view}` {obstacle.problem}"
        problems.append(Diagnostic("strategy-not-applicable", message, span, help=obstacle.help))
        requested = None
    if requested is None:
        requested, option = by_policy(shape.policy), f"policy={shape.policy}"
    if requested is not None:
        return Choice(view, requested.name, (f"requested by `.view {view} {option}`",), policy=shape.policy)
    return automatic(view, shape)


def automatic(view: str, shape: ViewShape) -> Choice:
    """The choice for a view without a request."""
    (chosen, verdict), *others = ranked(shape)
    return Choice(view, chosen.name, (verdict.reason,), tuple((s.name, v.reason) for s, v in others), shape.policy)


def by_policy(policy: str) -> Strategy | None:
    """The strategy that a policy requires, if it requires one."""
    return next((each for each in strategies() if each.policy == policy), None)


def conflicts(checked: CheckedProgram, views: Sequence[str]) -> Iterator[Diagnostic]:
    """The conflicting requests of the views of one component, which has one strategy for all of them."""
    with_options = [(view, checked.options[view]) for view in views if view in checked.options]
    for (first, one), (second, other) in combinations(with_options, 2):
        requests = _conflict(one, other)
        if requests is not None:
            both = f"`.view {first} {requests[0]}` and `.view {second} {requests[1]}`"
            yield Diagnostic(
                "conflicting-strategies",
                f"`{first}` and `{second}` depend on each other, so one strategy keeps both, but {both} differ",
                checked.schemas[second].span,
                help="give both the same strategy, or leave it out for one of them",
            )
            return


def _conflict(one: ViewOptions, other: ViewOptions) -> tuple[str, str] | None:
    """The two options that contradict each other, if any do."""
    (left, first), (right, second) = _request(one), _request(other)
    if left is not None and right is not None and left.isdisjoint(right):
        return first, second
    if _forbids(other.policy, left):
        return first, f"policy={other.policy}"
    if _forbids(one.policy, right):
        return f"policy={one.policy}", second
    return None


def _forbids(policy: str, admitted: frozenset[str] | None) -> bool:
    """Test whether none of the strategies satisfies the policy."""
    if admitted is None or _START in admitted:
        return False
    return all(strategy_named(name).obstacle(ViewShape(policy=policy)) is not None for name in admitted)


_START = "start"
"""Stands for rules that compute rows when they are read; they can share a component with strategies that store no
rows."""


def _request(options: ViewOptions) -> tuple[frozenset[str] | None, str]:
    """The strategies that the options of a view admit (None: all), and the option that restricts them."""
    requested = requested_strategy(options.strategy)
    if requested is not None and requested.starts and options.materialized is False:
        return frozenset({_START}), f"strategy={requested} materialized=false"
    if requested is not None:
        return frozenset({requested.name}), f"strategy={requested}"
    required = by_policy(options.policy)
    if required is not None:
        return frozenset({required.name}), f"policy={options.policy}"
    if options.materialized is False:
        return frozenset({*on_demand(), _START}), "materialized=false"
    return None, ""


def _multiplies_an_aggregate(clause: Clause, choices: Mapping[str, Choice]) -> bool:
    """Test whether the clause joins an aggregate's value with rows of which the head keeps only some columns."""
    if not any(name in choices and aggregated(choices[name]) for name in relations_read(clause)):
        return False
    kept = set(variables(clause.head))
    terms = [term for literal in clause.body if isinstance(literal, Atom) for term in literal.args]
    return any(isinstance(t, Wildcard) or (isinstance(t, Variable) and t.name not in kept) for t in terms)


def aggregated(choice: Choice) -> bool:
    """Test whether the view is stored as one row per group."""
    return strategy_named(choice.strategy).stores is Stores.TOTALS


def served_views(checked: CheckedProgram, normal: CheckedProgram) -> dict[str, tuple[str, str]]:
    """The auxiliary views of normal form that only views of a strategy with `keeps_auxiliaries` use, directly or
    through other such views: that strategy maintains them. Each with a view that uses it, and the strategy."""
    readers: dict[str, set[str]] = {name: set() for name in normal.schemas}
    for clause in normal.clauses:
        for name in relations_read(clause):
            readers[name].add(clause.head.relation)
    keepers = {}
    for name, options in checked.options.items():
        requested = requested_strategy(options.strategy)
        if requested is not None and requested.keeps_auxiliaries:
            keepers[name] = requested.name
    served: dict[str, tuple[str, str]] = {}
    for layer in reversed(normal.strata):
        users = {user for view in layer for user in readers[view]} - set(layer)
        kept_by = {keepers.get(user) for user in users}
        if users and len(kept_by) == 1 and None not in kept_by and checked.schemas.keys().isdisjoint(layer):
            keeper = keepers[min(users)]
            keepers |= dict.fromkeys(layer, keeper)
            served |= dict.fromkeys(layer, (min(users), keeper))
    return served


def best_rows(normal: CheckedProgram, views: Sequence[str]) -> tuple[str, ...]:
    """The views among these that keep the best row of each group."""
    return tuple(view for view in views if normal.schemas[view].lattice is not None)


def keep_best(checked: CheckedProgram, view: str, best: Sequence[str], problems: list[Diagnostic]) -> Choice:
    """The choice for a view of a component with views that keep best rows, which are `best`; a request for a strategy
    that cannot keep them is added to `problems`."""
    options = checked.options.get(view, ViewOptions())
    requested, option = requested_strategy(options.strategy), f"strategy={options.strategy}"
    if requested is not None and not requested.keeps_best:
        problems.append(_refusal(checked, view, best[0], f"`{option}`"))
        requested = None
    if requested is None and by_policy(options.policy) is not None:
        requested, option = by_policy(options.policy), f"policy={options.policy}"
    choice = automatic(view, ViewShape(best=True, policy=options.policy))
    if requested is None:
        return choice
    reason = f"requested by `.view {view} {option}`"
    if requested.name == choice.strategy:
        return replace(choice, reasons=(reason, *choice.reasons))
    return Choice(view, requested.name, (reason,), policy=options.policy)


def refuse_on_demand(checked: CheckedProgram, normal: CheckedProgram, views: Sequence[str]) -> Iterator[Diagnostic]:
    """An error if the on-demand views keep best rows: these must be stored, since the best row of a group is unknown
    until all of its rows are derived."""
    best = best_rows(normal, views)
    if best:
        yield _refusal(checked, best[0], best[0], "computing its rows on demand")


def _refusal(checked: CheckedProgram, view: str, best: str, request: str) -> Diagnostic:
    message = f"view `{view}`: {request} cannot keep the best rows of `{best}`"
    span = checked.schemas[view].span if view in checked.schemas else None
    known = ", ".join(f"`{each.name}`" for each in strategies() if each.keeps_best)
    help = f"use one of {known}, and store the views that it depends on"
    return Diagnostic("strategy-not-applicable", message, span, help=help)
