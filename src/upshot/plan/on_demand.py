"""Views whose changes are computed from their definition on demand, without stored rows.

Some of them may report more than their net changes (`semantics=nervous`). [Sköld & Risch 1996]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram, Clause
from upshot.core.diagnostic import Diagnostic
from upshot.core.schema import Role
from upshot.strategies.strategy import Strategy, Verdict, ViewShape, asked_strategy, on_demand, ranked, strategies


@dataclass(frozen=True, slots=True)
class OnDemand:
    """`strategies` names the views of the normal form whose changes are computed on demand; of those, `kept` have a
    stored copy that the changes are applied to. The rows of those in `started` are computed by the `start` rules of
    the requested strategy; those in `nervous` may report more than net changes. `reasons` is for `explain`."""

    strategies: Mapping[str, str] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    started: Mapping[str, str] = field(default_factory=dict)
    nervous: frozenset[str] = frozenset()

    @property
    def unstored(self) -> frozenset[str]:
        return frozenset(self.strategies) - self.kept


def views_on_demand(checked: CheckedProgram, normal: CheckedProgram, problems: list[Diagnostic]) -> OnDemand:
    """Views that request it, or request not to be stored; views that depend on an unstored view; and the auxiliary
    views that only such views use. Requests that cannot be met are added to `problems`."""
    made = _Marking(checked, normal, problems)
    for layer in normal.strata:
        made.mark_asked(layer)
    for layer in normal.strata:
        made.mark_above(layer)
    for layer in reversed(normal.strata):
        made.mark_auxiliary(layer)
    kept = frozenset(view for view in made.strategies if made.is_kept(view))
    nervous = nervous_views(checked, problems)
    reasons = {view: (*told, REASON) if view in nervous else told for view, told in made.reasons.items()}
    started = {view: strategy for view, strategy in made.started.items() if view not in kept}
    return OnDemand(made.strategies, kept, reasons, started, nervous)


def runners_up(checked: CheckedProgram, view: str, *, recursive: bool) -> tuple[tuple[str, str], ...]:
    """The rejected strategies, with reasons, for an unstored view that does not name a strategy; nothing for other
    views."""
    options = checked.options.get(view)
    if options is None or options.strategy != "auto" or options.materialized is not False:
        return ()
    return tuple((strategy.name, verdict.words) for strategy, verdict in _unstored(recursive)[1:])


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
        for clause in normal.clauses:
            for literal in clause.body:
                self._reads[clause.head.relation].update(atom.relation for atom in atoms(literal))
        self._readers: dict[str, set[str]] = {name: set() for name in normal.schemas}
        for view, names in self._reads.items():
            for name in names:
                self._readers[name].add(view)

    def mark_asked(self, layer: tuple[str, ...]) -> None:
        given = [(view, self._checked.options[view]) for view in layer if view in self._checked.options]
        # A strategy by name comes before the default of a view that leaves it open, in whichever order they stand.
        for view, options in given:
            if options.strategy in self._known and view not in self.strategies:
                self._mark(layer, options.strategy, f"requested by `.view {view} strategy={options.strategy}`")
        for view, options in given:
            if view in self.strategies:
                continue
            asked = asked_strategy(options.strategy)
            if options.materialized is False and asked is None:
                told = f"`.view {view} materialized=false`: queries compute its rows"
                default, verdict = _unstored()[0]
                self._mark(layer, default.name, told)
                self.reasons[view] = (told, verdict.words)
            elif options.materialized is False and asked is not None and asked.starts:
                self._start(layer, view, asked)
            elif options.materialized is False:
                self._refuse(view, f"view `{view}` is not stored, but `{options.strategy}` needs stored rows")

    def _start(self, layer: tuple[str, ...], view: str, strategy: Strategy) -> None:
        """Mark the layer, whose rows the rules of the strategy give when they are read."""
        told = f"requested by `.view {view} strategy={strategy} materialized=false`"
        default = _unstored()[0][0].name
        self._mark(layer, default, told)
        how = f"`start` rules give its rows when they are read (query rules on Spark), `{default}` its changes"
        for each in layer:
            options = self._checked.options.get(each)
            if options is not None and options.strategy == strategy.name:
                self.started[each] = strategy.name
                self.reasons[each] = (told, how)

    def mark_above(self, layer: tuple[str, ...]) -> None:
        """A view over one that is not maintained as stored rows cannot be either."""
        below = sorted(n for view in layer for n in self._reads[view] if n in self.strategies and n not in layer)
        if not below or layer[0] in self.strategies:
            return
        for view in layer:
            options = self._checked.options.get(view)
            asked = asked_strategy(options.strategy) if options is not None else None
            if asked is not None and asked.demand is None:
                strategy = f"view `{view}` has `strategy={asked}`"
                told = f"{strategy}, but it depends on `{below[0]}`, which is not stored"
                self._refuse(view, told)
        reason = f"`{below[0]}` below it is computed on demand"
        self._mark(layer, self.strategies[below[0]], reason)

    def mark_auxiliary(self, layer: tuple[str, ...]) -> None:
        readers = {reader for view in layer for reader in self._readers[view]} - set(layer)
        is_hidden = all(view not in self._checked.schemas for view in layer)
        if is_hidden and readers and layer[0] not in self.strategies and readers <= self.strategies.keys():
            reader = min(readers)
            self._mark(layer, self.strategies[reader], f"only `{reader}` uses it, which is computed on demand")

    def is_kept(self, view: str) -> bool:
        """Test whether a stored copy is kept: if the view requests it, or if only another view of its component
        requested the strategy."""
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
    """The views that request it. Only conditions can be nervous, with a strategy that supports it: readers of a view,
    and copies of it, need its net changes. Requests that cannot be met are added to `problems`."""
    asked = [view for view, options in checked.options.items() if options.semantics == "nervous"]
    for view in asked:
        told = next(_obstacles(checked, view), None) if view in checked.schemas else None
        if told is not None:
            message = f"view `{view}` cannot be nervous: {told}"
            problems.append(
                Diagnostic(
                    "nervous-not-applicable", message, checked.schemas[view].span, help="remove `semantics=nervous`"
                )
            )
    return frozenset(asked)


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
        if _reads(clause, view):
            reader = clause.head.relation
            if reader == view:
                yield "it is recursive, so that its own rules read it"
            yield "a rule's condition reads it" if reader in checked.hidden else f"`{reader}` reads it"
    for rule in checked.rules:
        told = {name for name, _ in rule.triggers} | {rule.becomes, *(table.relation for table in rule.windows)}
        if view in told or any(_reads(clause, view) for clause in (*rule.clauses, *rule.before)):
            yield f"rule `{rule.name}` is about it, and can be nervous itself"


def _reads(clause: Clause, view: str) -> bool:
    return any(atom.relation == view for literal in clause.body for atom in atoms(literal))
