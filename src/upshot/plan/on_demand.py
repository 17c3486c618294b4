"""Which views are not maintained as stored rows: their changes are computed from their definition, on demand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram
from upshot.core.diagnostic import Diagnostic
from upshot.plan.nervous import REASON, nervous_views

STRATEGIES = ("rod", "epf", "propagation", "differencing")
"""Those that need no stored view."""

DEFAULT = "epf"
"""For a view that is not to be stored and whose strategy is left open."""

_WHY_DEFAULT = "each row that may come or go is proven once, and what does not goes no further"

_NEEDS_ROWS = ("maintenance", "counting", "production", "recompute", "bf")


@dataclass(frozen=True, slots=True)
class OnDemand:
    """`strategies` names the views of the normal form whose changes are computed on demand; of those, `kept` have a
    stored copy that the changes are applied to. The rows of those in `started` are computed by production rules, from
    `start` rules on; those in `nervous` may report more than net changes. `reasons` is for `explain`."""

    strategies: Mapping[str, str] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    started: frozenset[str] = frozenset()
    nervous: frozenset[str] = frozenset()

    @property
    def unstored(self) -> frozenset[str]:
        return frozenset(self.strategies) - self.kept


def views_on_demand(checked: CheckedProgram, normal: CheckedProgram, problems: list[Diagnostic]) -> OnDemand:
    """Views that ask for it, or ask not to be stored; all that rest on one that is not stored; and the auxiliary views
    that only such views use. What cannot be done is added to `problems`."""
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
    return OnDemand(made.strategies, kept, reasons, frozenset(made.started) - kept, nervous)


def runners_up(checked: CheckedProgram, view: str, *, recursive: bool) -> tuple[tuple[str, str], ...]:
    """The other strategies for a view that is not to be stored and leaves open how, and why not; nothing for others."""
    options = checked.options.get(view)
    if options is None or options.strategy != "auto" or options.materialized is not False:
        return ()
    stored = "maintenance" if recursive else "counting"
    return (
        ("rod", "would take away more than goes, and prove what stays: it pays when deletions come in bulk"),
        ("differencing", "would go level by level: it pays when many conditions share what lies below them"),
        ("propagation", "would take a step for every operator of a rule"),
        (stored, "would store its rows, and touch least; `materialized=true` asks for it"),
    )


class _Marking:
    def __init__(self, checked: CheckedProgram, normal: CheckedProgram, problems: list[Diagnostic]) -> None:
        self._checked, self._problems = checked, problems
        self.strategies: dict[str, str] = {}
        self.reasons: dict[str, tuple[str, ...]] = {}
        self.started: set[str] = set()
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
            if options.strategy in STRATEGIES and view not in self.strategies:
                self._mark(layer, options.strategy, f"asked for by `.view {view} strategy={options.strategy}`")
        for view, options in given:
            if view in self.strategies:
                continue
            if options.materialized is False and options.strategy == "production":
                self._start(layer, view)
            elif options.materialized is False and options.strategy == "auto":
                told = f"`.view {view} materialized=false`: its rows are asked for when needed"
                self._mark(layer, DEFAULT, told)
                self.reasons[view] = (told, _WHY_DEFAULT)
            elif options.materialized is False:
                self._refuse(view, f"view `{view}` is not stored, but `{options.strategy}` needs stored rows")

    def _start(self, layer: tuple[str, ...], view: str) -> None:
        told = f"asked for by `.view {view} strategy=production materialized=false`"
        self._mark(layer, DEFAULT, told)
        how = f"`start` rules give its rows when they are read (query rules on Spark), `{DEFAULT}` its changes"
        for each in layer:
            options = self._checked.options.get(each)
            if options is not None and options.strategy == "production":
                self.started.add(each)
                self.reasons[each] = (told, how)

    def mark_above(self, layer: tuple[str, ...]) -> None:
        """A view over one that is not maintained as stored rows cannot be either."""
        below = sorted(n for view in layer for n in self._reads[view] if n in self.strategies and n not in layer)
        if not below or layer[0] in self.strategies:
            return
        for view in layer:
            options = self._checked.options.get(view)
            if options is not None and options.strategy in _NEEDS_ROWS:
                strategy = f"view `{view}` has `strategy={options.strategy}`"
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
        """Whether a stored copy is kept: if told so, or if the view did not ask for such a strategy itself, whichever
        view of its component was the first to ask."""
        options = self._checked.options.get(view)
        if view not in self._checked.schemas or options is None:
            return view in self._checked.schemas
        return options.strategy not in STRATEGIES if options.materialized is None else options.materialized

    def _mark(self, layer: Iterable[str], strategy: str, reason: str) -> None:
        for view in layer:
            self.strategies[view] = strategy
            self.reasons[view] = (reason,)

    def _refuse(self, view: str, message: str) -> None:
        known = ", ".join(f"`{name}`" for name in STRATEGIES)
        span = self._checked.schemas[view].span if view in self._checked.schemas else None
        self._problems.append(Diagnostic("strategy-not-applicable", message, span, help=f"use one of {known}"))
