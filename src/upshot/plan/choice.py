"""The strategy of every view: the requested one, or the one that fits its shape best, with reasons and alternatives.

Views that keep the best row of each group have a choice of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from upshot.check.names.variables import atoms, variables
from upshot.check.program import CheckedProgram, Clause, ViewOptions
from upshot.core.diagnostic import Diagnostic
from upshot.rewrite.shapes import aggregate_of
from upshot.strategies.strategy import (
    Stores,
    Strategy,
    ViewShape,
    asked_strategy,
    on_demand,
    ranked,
    strategies,
    strategy_named,
)
from upshot.syntax.ast import Atom, Not, Variable, Wildcard


@dataclass(frozen=True, slots=True)
class Choice:
    """The strategy of a view, the reasons in words, and why not the others that would have been possible."""

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
    """The choice for a view that is kept as stored rows. A request that cannot be met is added to `problems`."""
    own = [clause for clause in clauses if clause.head.relation == view]
    options = checked.options.get(view, ViewOptions())
    folds = any(aggregate_of(clause) is not None for clause in own)
    multiplies = any(_multiplies_an_aggregate(clause, choices) for clause in own)
    shape = ViewShape(recursive, folds, multiplies, policy="auto" if folds else options.policy)
    if folds:
        return automatic(view, shape)
    asked, why = asked_strategy(options.strategy), f"strategy={options.strategy}"
    if asked is not None and (obstacle := asked.obstacle(shape)) is not None:
        span = checked.schemas[view].span if view in checked.schemas else None
        message = f"view `{view}` {obstacle.is_about}"
        problems.append(Diagnostic("strategy-not-applicable", message, span, help=obstacle.help))
        asked = None
    if asked is None:
        asked, why = by_policy(shape.policy), f"policy={shape.policy}"
    if asked is not None:
        return Choice(view, asked.name, (f"requested by `.view {view} {why}`",), policy=shape.policy)
    return automatic(view, shape)


def automatic(view: str, shape: ViewShape) -> Choice:
    """The choice where the user has made none."""
    (chosen, verdict), *others = ranked(shape)
    return Choice(view, chosen.name, (verdict.words,), tuple((s.name, v.words) for s, v in others), shape.policy)


def by_policy(policy: str) -> Strategy | None:
    """The strategy that a policy requires, if it requires one."""
    return next((each for each in strategies() if each.policy == policy), None)


def conflicts(checked: CheckedProgram, views: Sequence[str]) -> Iterator[Diagnostic]:
    """The requests of views of one component that cannot be granted together: it has one strategy for all of them."""
    given = [(view, checked.options[view]) for view in views if view in checked.options]
    for (first, one), (second, other) in combinations(given, 2):
        requests = _conflict(one, other)
        if requests is not None:
            asked = f"`.view {first} {requests[0]}` and `.view {second} {requests[1]}`"
            yield Diagnostic(
                "conflicting-strategies",
                f"`{first}` and `{second}` depend on each other, so one strategy keeps both, but {asked} differ",
                checked.schemas[second].span,
                help="give both the same strategy, or leave it out for one of them",
            )
            return


def _conflict(one: ViewOptions, other: ViewOptions) -> tuple[str, str] | None:
    """The two options that contradict each other, if any do."""
    (left, asked), (right, wanted) = _request(one), _request(other)
    if left is not None and right is not None and left.isdisjoint(right):
        return asked, wanted
    if _forbids(other.policy, left):
        return asked, f"policy={other.policy}"
    if _forbids(one.policy, right):
        return f"policy={one.policy}", wanted
    return None


def _forbids(policy: str, admitted: frozenset[str] | None) -> bool:
    """Test whether none of the strategies satisfies the policy."""
    if admitted is None or _START in admitted:
        return False
    return all(strategy_named(name).obstacle(ViewShape(policy=policy)) is not None for name in admitted)


_START = "start"
"""Rules that compute rows when they are read, which share a component with strategies that store none."""


def _request(options: ViewOptions) -> tuple[frozenset[str] | None, str]:
    """The strategies that the options of a view admit, nothing for all of them, and the option that says so."""
    asked = asked_strategy(options.strategy)
    if asked is not None and asked.starts and options.materialized is False:
        return frozenset({_START}), f"strategy={asked} materialized=false"
    if asked is not None:
        return frozenset({asked.name}), f"strategy={asked}"
    by = by_policy(options.policy)
    if by is not None:
        return frozenset({by.name}), f"policy={options.policy}"
    if options.materialized is False:
        return frozenset({*on_demand(), _START}), "materialized=false"
    return None, ""


def _multiplies_an_aggregate(clause: Clause, choices: Mapping[str, Choice]) -> bool:
    """Test whether the clause joins an aggregate's value with rows of which the head keeps only a part."""
    if not any(name in choices and aggregated(choices[name]) for name in read_by(clause)):
        return False
    kept = set(variables(clause.head))
    terms = [term for literal in clause.body if isinstance(literal, Atom) for term in literal.args]
    return any(isinstance(t, Wildcard) or (isinstance(t, Variable) and t.name not in kept) for t in terms)


def aggregated(choice: Choice) -> bool:
    """Test whether the view is kept as one row a group."""
    return strategy_named(choice.strategy).stores is Stores.TOTALS


def read_by(clause: Clause) -> set[str]:
    """The relations of a normal-form clause's body."""
    names = set()
    for literal in clause.body:
        if isinstance(literal, Atom):
            names.add(literal.relation)
        elif isinstance(literal, Not) and isinstance(literal.body, Atom):
            names.add(literal.body.relation)
    return names


def served_views(checked: CheckedProgram, normal: CheckedProgram) -> dict[str, tuple[str, str]]:
    """The views that normal form added and that only views of a strategy which keeps those, or such auxiliary views,
    use: so these depend on nothing but its rules. Each with a view that it serves, and the strategy."""
    readers: dict[str, set[str]] = {name: set() for name in normal.schemas}
    for clause in normal.clauses:
        for literal in clause.body:
            for atom in atoms(literal):
                readers[atom.relation].add(clause.head.relation)
    keepers = {}
    for name, options in checked.options.items():
        asked = asked_strategy(options.strategy)
        if asked is not None and asked.keeps_auxiliaries:
            keepers[name] = asked.name
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
    """The choice for a view of a component of which some keep best rows; other requests are added to `problems`."""
    options = checked.options.get(view, ViewOptions())
    asked, why = asked_strategy(options.strategy), f"strategy={options.strategy}"
    if asked is not None and not asked.keeps_best:
        problems.append(_refusal(checked, view, best[0], f"`{why}`"))
        asked = None
    if asked is None and by_policy(options.policy) is not None:
        asked, why = by_policy(options.policy), f"policy={options.policy}"
    choice = automatic(view, ViewShape(best=True, policy=options.policy))
    if asked is None:
        return choice
    told = f"requested by `.view {view} {why}`"
    if asked.name == choice.strategy:
        return replace(choice, reasons=(told, *choice.reasons))
    return Choice(view, asked.name, (told,), policy=options.policy)


def refuse_on_demand(checked: CheckedProgram, normal: CheckedProgram, views: Sequence[str]) -> Iterator[Diagnostic]:
    """A finding if views that keep best rows are to be computed on demand: theirs are stored, since what is best is not
    known before all is derived."""
    best = best_rows(normal, views)
    if best:
        yield _refusal(checked, best[0], best[0], "computing its rows on demand")


def _refusal(checked: CheckedProgram, view: str, best: str, what: str) -> Diagnostic:
    message = f"view `{view}`: {what} cannot keep the best rows of `{best}`"
    span = checked.schemas[view].span if view in checked.schemas else None
    known = ", ".join(f"`{name}`" for name in (each.name for each in strategies() if each.keeps_best))
    cure = f"use one of {known}, and store the views that it depends on"
    return Diagnostic("strategy-not-applicable", message, span, help=cure)
