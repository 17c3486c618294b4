"""The strategy of every view: what was asked for, or what fits its shape best, with the reasons and the runners-up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from upshot.check.names.variables import variables
from upshot.check.program import CheckedProgram, Clause, ViewOptions
from upshot.core.diagnostic import Diagnostic
from upshot.plan.on_demand import STRATEGIES as ON_DEMAND
from upshot.rewrite.shapes import aggregate_of
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
    """The choice for a view that is kept as stored rows; what it asks for and cannot get is added to `problems`."""
    own = [clause for clause in clauses if clause.head.relation == view]
    if any(aggregate_of(clause) is not None for clause in own):
        return Choice(view, "aggregate", ("an aggregate: kept per group, only touched groups are looked at",))
    options = checked.options.get(view)
    asked = options.strategy if options is not None else "auto"
    policy = options.policy if options is not None else "auto"
    problem = _problem(view, asked, policy, recursive)
    if problem is not None:
        slug, message, cure = problem
        span = checked.schemas[view].span if view in checked.schemas else None
        problems.append(Diagnostic(slug, message, span, help=cure))
        asked = "auto"
    if asked != "auto":
        return Choice(view, asked, (f"asked for by `.view {view} strategy={asked}`",), policy=policy)
    if policy == "full":
        return Choice(view, "recompute", (f"asked for by `.view {view} policy=full`",), policy=policy)
    return _automatic(view, own, recursive, choices, policy)


def _problem(view: str, asked: str, policy: str, recursive: bool) -> tuple[str, str, str] | None:
    """Slug, message and cure of what cannot be done."""
    if asked == "counting" and recursive:
        message = f"view `{view}` is recursive: its derivations cannot be counted"
        return "strategy-not-applicable", message, "use `maintenance`"
    if asked == "recompute" and policy in _FOLLOWING:
        message = f"view `{view}` is to be recomputed at every change, and its policy `{policy}` forbids that"
        return "strategy-not-applicable", message, "leave `strategy=recompute` out, or use `policy=full`"
    return None


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
    if left == _RECOMPUTE and other.policy in _FOLLOWING:
        return asked, f"policy={other.policy}"
    if right == _RECOMPUTE and one.policy in _FOLLOWING:
        return f"policy={one.policy}", wanted
    return None


_RECOMPUTE = frozenset({"recompute"})
_FOLLOWING = ("strict", "incremental")
_START = "start"
"""Production rules without stored rows, which share a component with strategies that store none."""


def _request(options: ViewOptions) -> tuple[frozenset[str] | None, str]:
    """The strategies that the options of a view admit, nothing for all of them, and the option that says so."""
    if options.strategy == "production" and options.materialized is False:
        return frozenset({_START}), "strategy=production materialized=false"
    if options.strategy != "auto":
        return frozenset({options.strategy}), f"strategy={options.strategy}"
    if options.policy == "full":
        return _RECOMPUTE, "policy=full"
    if options.materialized is False:
        return frozenset({*ON_DEMAND, _START}), "materialized=false"
    return None, ""


def _automatic(view: str, own: Sequence[Clause], recursive: bool, choices: Mapping[str, Choice], policy: str) -> Choice:
    """The choice where the user has made none."""
    on_demand = (
        "epf",
        "would store nothing, and prove every change from the base rows; `materialized=false` asks for it",
    )
    recompute = ("recompute", "costs as much as the view is large; `auto` does it for changes that are larger still")
    if recursive:
        reasons: tuple[str, ...] = ("recursive: over-delete, rederive, insert touches only what may change",)
        others: tuple[tuple[str, str], ...] = (("counting", "cannot: a cycle would support itself"),)
        return Choice(view, "maintenance", reasons, (*others, on_demand, recompute), policy)
    if any(_multiplies_an_aggregate(clause, choices) for clause in own):
        told = "an aggregate beside rows that are projected away: a new value changes a derivation for each of them"
        reasons = (told,)
        return Choice(
            view, "maintenance", reasons, (("counting", "would count every one of them"), on_demand, recompute), policy
        )
    reasons = ("not recursive: counting derivations needs no rederivation",)
    others = (("maintenance", "would have to look for other derivations of every deleted row"), on_demand, recompute)
    return Choice(view, "counting", reasons, others, policy)


def _multiplies_an_aggregate(clause: Clause, choices: Mapping[str, Choice]) -> bool:
    """Whether the clause joins an aggregate's value with rows of which the head keeps only a part."""
    if not any(name in choices and choices[name].strategy == "aggregate" for name in read_by(clause)):
        return False
    kept = set(variables(clause.head))
    terms = [term for literal in clause.body if isinstance(literal, Atom) for term in literal.args]
    return any(isinstance(t, Wildcard) or (isinstance(t, Variable) and t.name not in kept) for t in terms)


def read_by(clause: Clause) -> set[str]:
    """The relations of a normal-form clause's body."""
    names = set()
    for literal in clause.body:
        if isinstance(literal, Atom):
            names.add(literal.relation)
        elif isinstance(literal, Not) and isinstance(literal.body, Atom):
            names.add(literal.body.relation)
    return names
