"""Views without stored rows, whose changes are computed on demand from their definitions.

Some of them may report more than their net changes (`semantics=nervous`). [Sköld & Risch 1996]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from upshot.check.program import CheckedProgram
from upshot.core.diagnostic import Diagnostic
from upshot.core.schema import Role
from upshot.rewrite.shapes import relations_read
from upshot.strategies.strategy import Strategy, Verdict, ViewShape, on_demand, ranked, requested_strategy, strategies


@dataclass(frozen=True, slots=True)
class OnDemand:
    """`strategies` maps the views of the normal form whose changes are computed on demand to their strategies. Those in
    `kept` have a stored copy, to which the changes are applied. The `start` rules of the strategy in `started` compute
    the rows of its views; views in `nervous` may report more than net changes. `reasons` are for `explain`."""

    strategies: Mapping[str, str] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    started: Mapping[str, str] = field(default_factory=dict)
    nervous: frozenset[str] = frozenset()

    @property
    def unstored(self) -> frozenset[str]:
        return frozenset(self.strategies) - self.kept


def views_on_demand(checked: CheckedProgram, normal: CheckedProgram, problems: list[Diagnostic]) -> OnDemand:
    """The views with such a strategy or the option `materialized=false`, the views that depend on an unstored view, and
    the auxiliary views that only such views use. Requests that cannot be satisfied are added to `problems`."""
    made = _Marking(checked, normal, problems)
    for layer in normal.strata:
        made.mark_requested(layer)
    for layer in normal.strata:
        made.mark_above(layer)
    for layer in reversed(normal.strata):
        made.mark_auxiliary(layer)
    kept = frozenset(view for view in made.strategies if made.is_kept(view))
    nervous = nervous_views(checked, problems)
    reasons = {view: (*each, REASON) if view in nervous else each for view, each in made.reasons.items()}
    started = {view: strategy for view, strategy in made.started.items() if view not in kept}
    return OnDemand(made.strategies, kept, reasons, started, nervous)


def runners_up(checked: CheckedProgram, view: str, *, recursive: bool) -> tuple[tuple[str, str], ...]:
    """The rejected strategies, with reasons, for an unstored view without a requested strategy; empty for other
    views."""
    options = checked.options.get(view)
    if options is None or options.strategy != "auto" or options.materialized is not False:
        return ()
    return tuple((strategy.name, verdict.reason) for strategy, verdict in _unstored(recursive)[1:])


def _unstored(recursive: bool = False) -> list[tuple[Strategy, Verdict]]:
    """The strategies for an unstored view, the best first."""
    return ranked(ViewShape(recursive, stored=False))


class _Marking:
    def __init__(self, checked: CheckedProgram, normal: CheckedProgram, problems: list[Diagnostic]) -> None:
        self._checked, self._problems = checked, problems
        self.strategies: dict[str, str] = {}
        self.reasons: dict[str, tuple[str, ...]] = {}
        self.started: dict[str, str] = {}
        self._known = on_demand()
        self._reads: dict[str, set[str]] = {name: set() for name in normal.schemas}
        self._readers: dict[str, set[str]] = {name: set() for name in normal.schemas}
        for clause in normal.clauses:
            for name in relations_read(clause):
                self._reads[clause.head.relation].add(name)
                self._readers[name].add(clause.head.relation)

    def mark_requested(self, layer: tuple[str, ...]) -> None:
        with_options = [(view, self._checked.options[view]) for view in layer if view in self._checked.options]
        # A strategy requested by name takes precedence over the default for `materialized=false`.
        for view, options in with_options:
            if options.strategy in self._known and view not in self.strategies:
                self._mark(layer, options.strategy, f"requested by `.view {view} strategy={options.strategy}`")
        for view, options in with_options:
            if view in self.strategies or options.materialized is not False:
                continue
            requested = requested_strategy(options.strategy)
            if requested is None:
                reason = f"`.view {view} materialized=false`: queries compute its rows"
                default, verdict = _unstored()[0]
                self._mark(layer, default.name, reason)
                self.reasons[view] = (reason, verdict.reason)
            elif requested.starts:
                self._start(layer, view, requested)
            else:
                self._refuse(view, f"view `{view}` is not stored, but `{options.strategy}` needs stored rows")

    def _start(self, layer: tuple[str, ...], view: str, strategy: Strategy) -> None:
        """Mark the layer, whose rows are computed by the rules of the strategy when they are read."""
        reason = f"requested by `.view {view} strategy={strategy} materialized=false`"
        default = _unstored()[0][0].name
        self._mark(layer, default, reason)
        method = f"`start` rules give its rows when they are read (query rules on Spark), `{default}` its changes"
        for each in layer:
            options = self._checked.options.get(each)
            if options is not None and options.strategy == strategy.name:
                self.started[each] = strategy.name
                self.reasons[each] = (reason, method)

    def mark_above(self, layer: tuple[str, ...]) -> None:
        """Mark views that depend on a marked view: they cannot be maintained as stored rows."""
        below = sorted(n for view in layer for n in self._reads[view] if n in self.strategies and n not in layer)
        if not below or layer[0] in self.strategies:
            return
        for view in layer:
            options = self._checked.options.get(view)
            requested = requested_strategy(options.strategy) if options is not None else None
            if requested is not None and requested.demand is None:
                strategy = f"view `{view}` has `strategy={requested}`"
                self._refuse(view, f"{strategy}, but it depends on `{below[0]}`, which is not stored")
        reason = f"`{below[0]}` below it is computed on demand"
        self._mark(layer, self.strategies[below[0]], reason)

    def mark_auxiliary(self, layer: tuple[str, ...]) -> None:
        readers = {reader for view in layer for reader in self._readers[view]} - set(layer)
        is_hidden = all(view not in self._checked.schemas for view in layer)
        if is_hidden and readers and layer[0] not in self.strategies and readers <= self.strategies.keys():
            reader = min(readers)
            self._mark(layer, self.strategies[reader], f"only `{reader}` uses it, which is computed on demand")

    def is_kept(self, view: str) -> bool:
        """Test whether the view has a stored copy: it requests one, or only another view of its component requested
        the strategy."""
        options = self._checked.options.get(view)
        if view not in self._checked.schemas or options is None:
            return view in self._checked.schemas
        return options.strategy not in self._known if options.materialized is None else options.materialized

    def _mark(self, layer: Iterable[str], strategy: str, reason: str) -> None:
        for view in layer:
            self.strategies[view] = strategy
            self.reasons[view] = (reason,)

    def _refuse(self, view: str, message: str) -> None:
        known = ", ".join(f"`{name}`" for name in self._known)
        span = self._checked.schemas[view].span if view in self._checked.schemas else None
        self._problems.append(Diagnostic("strategy-not-applicable", message, span, help=f"use one of {known}"))


REASON = "nervous: it may also report rows that were already true, or still are"


def nervous_views(checked: CheckedProgram, problems: list[Diagnostic]) -> frozenset[str]:
    """The views with the option `semantics=nervous`. Only views that no other view reads, with a strategy that supports
    it, can be nervous: readers and stored copies need net changes. Requests that cannot be satisfied are added to
    `problems`."""
    nervous = [view for view, options in checked.options.items() if options.semantics == "nervous"]
    for view in nervous:
        obstacle = next(_obstacles(checked, view), None) if view in checked.schemas else None
        if obstacle is not None:
            message, span = f"view `{view}` cannot be nervous: {obstacle}", checked.schemas[view].span
            problems.append(Diagnostic("nervous-not-applicable", message, span, help="remove `semantics=nervous`"))
    return frozenset(nervous)


def _obstacles(checked: CheckedProgram, view: str) -> Iterator[str]:
    options = checked.options[view]
    able = [each.name for each in strategies() if each.demand is not None and each.demand.can_be_nervous]
    if options.strategy not in able:
        can = " or ".join(f"`strategy={name}`" for name in able)
        yield f"by `{options.strategy}` it has net changes only; only {can} can be"
    if options.materialized:
        yield "the copy that `materialized=true` requests must follow net changes"
    if checked.schemas[view].role is Role.CONSTRAINT:
        yield "a constraint checks what a transaction adds, and it would find old rows again"
    for clause in checked.clauses:
        if view in relations_read(clause):
            reader = clause.head.relation
            if reader == view:
                yield "it is recursive, so that its own rules read it"
            yield "a rule's condition reads it" if reader in checked.hidden else f"`{reader}` reads it"
    for rule in checked.rules:
        names = {name for name, _ in rule.triggers} | {rule.becomes, *(table.relation for table in rule.windows)}
        if view in names or any(view in relations_read(clause) for clause in (*rule.clauses, *rule.before)):
            yield f"rule `{rule.name}` is about it, and can be nervous itself"
