"""A maintenance strategy as one record, and the registry of all of them.

The checker, the planner, both engines, `explain` and `upshot rewrite` read the record; none of them knows a strategy by
its name. A new strategy is a module here with a `STRATEGY`, and its name in `names`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib import import_module

from upshot.check.program import CheckedProgram
from upshot.rewrite.demand.demand import DemandBuilder, DemandProgram
from upshot.rewrite.demand.demand_listing import list_demand
from upshot.rewrite.listing import RuleListing
from upshot.strategies.maintenance_rules import MaintenanceRule, StateOf
from upshot.strategies.names import AGGREGATE, NAMES
from upshot.strategies.production_rules import ProductionRule


class Stores(Enum):
    """The state of a view between two transactions."""

    ROWS = "its rows"
    COUNTS = "its rows, each with the number of its derivations"
    TOTALS = "one row a group, with running totals"
    NOTHING = "nothing, or a copy of its rows that the changes are applied to"


class Procedure(Enum):
    """The way in which an engine runs the rules of a strategy. Every engine has each of them."""

    FIXPOINTS = "deletion, rederivation, insertion, each to its fixpoint"
    WAVES = "deletion by a search for other proofs, wave after wave; then insertion to its fixpoint"
    COUNTS = "derivations gained and lost, added to the number of each row"
    GROUPS = "the groups that the change touches, folded again"
    TRIGGERS = "production rules in the order of their priority, until none is triggered"
    WHOLE = "all rows recomputed and compared"
    DEMAND = "a demand program over the stored relations"


@dataclass(frozen=True, slots=True)
class ViewShape:
    """The properties of a view that decide which strategies apply to it and which is best. `multiplies`: a rule joins
    the value of an aggregate with rows of which the head keeps only a part. `best`: it keeps the best row of each
    group, or depends on a view that does and on itself."""

    recursive: bool = False
    folds: bool = False
    multiplies: bool = False
    best: bool = False
    stored: bool = True
    policy: str = "auto"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A strategy about a view that leaves the choice open: the highest `preference` is chosen. `words` is its reason,
    or that against it where another one is chosen."""

    preference: int
    words: str


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The reason why a requested strategy does not apply; `is_about` completes "view `v` …"."""

    is_about: str
    help: str


@dataclass(frozen=True, slots=True)
class Generated:
    """The rules of one component of stored views: those with stages, or production rules."""

    rules: tuple[MaintenanceRule, ...] = ()
    states: Mapping[str, StateOf] = field(default_factory=dict, hash=False)
    production: tuple[ProductionRule, ...] = ()


@dataclass(frozen=True, slots=True)
class DemandRules:
    """The part of a strategy that needs no stored view. `add` adds the rules of one stratum to a demand program, those
    of the strata below being there; `prepare` brings the rules of views into the form that `add` takes."""

    add: Callable[[DemandBuilder, tuple[str, ...]], None]
    prepare: Callable[[CheckedProgram, Collection[str]], CheckedProgram] | None = None
    unfolds: bool = False
    """A view that only one other reads, and nobody listens to, is expanded into it."""
    reads_states: bool = False
    """New states are made of old ones and their changes: both signs of a change below matter to either sign above."""
    can_be_nervous: bool = False
    """Its views may report more than their net changes."""
    listing: Callable[[DemandProgram, str | None], RuleListing] = list_demand
    """The rules as they are printed, of one view or of all."""


def _nothing(normal: CheckedProgram, views: Collection[str]) -> Generated:
    return Generated()


def _applies(shape: ViewShape) -> Obstacle | None:
    return None


def _unmentioned(shape: ViewShape) -> Verdict | None:
    return None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Strategy:
    """One maintenance algorithm."""

    name: str
    procedure: Procedure
    stores: Stores = Stores.ROWS
    stages: tuple[str, ...] = ()
    """The stages that a change runs through, in order."""
    adds: str | None = None
    """The stage whose rules add rows: without anything that drives it, an empty view stays empty."""
    rank: int = 0
    """Of the strategies of views that depend on each other the one with the highest rank keeps them all."""
    generate: Callable[[CheckedProgram, Collection[str]], Generated] = _nothing
    """The rules for the views of one component of a normal-form program."""
    demand: DemandRules | None = None
    obstacle: Callable[[ViewShape], Obstacle | None] = _applies
    """The reason why it cannot keep a view of this shape."""
    verdict: Callable[[ViewShape], Verdict | None] = _unmentioned
    """Rate its fit for a view that leaves the choice open; None: it is not considered."""
    follows_rules: bool = False
    """The rows of its views follow a change of their rules by the same stages as a change of rows."""
    follows_as: Strategy | None = None
    """The strategy by whose stages they do, if not by its own."""
    keeps_best: bool = False
    """It can keep the best row of each group of a view."""
    starts: bool = False
    """Its rules also compute the rows of a view that is not stored, when they are read."""
    keeps_auxiliaries: bool = False
    """It also keeps the views that normal form added and that only its own views use."""
    policy: str = ""
    """The value of the option `policy` that selects it."""
    listing: Callable[[CheckedProgram, str | None], RuleListing] | None = None
    """The rules of stored views of a normal-form program as they are printed, of one view or of all."""

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return strategy_named, (self.name,)

    @property
    def weighs_recomputation(self) -> bool:
        """A change may be so large that computing all rows anew takes fewer steps than its stages."""
        return self.procedure in (Procedure.FIXPOINTS, Procedure.WAVES)

    @property
    def runs_whole(self) -> bool:
        """On Spark a recursive component may run whole on a local engine, in the driver or part by part in tasks."""
        return self.procedure not in (Procedure.TRIGGERS, Procedure.DEMAND)

    @property
    def inner(self) -> str:
        """The strategy of such a local engine, as an option."""
        return self.name if self.weighs_recomputation else "auto"


@cache
def strategy_named(name: str) -> Strategy:
    """The strategy of a name in `NAMES`.

    >>> strategy_named("counting").stores.value
    'its rows, each with the number of its derivations'
    """
    strategy = import_module(f"upshot.strategies.{name}").STRATEGY
    assert isinstance(strategy, Strategy)
    return strategy


def asked_strategy(option: str) -> Strategy | None:
    """The strategy that the value of an option names; None if it leaves the choice open."""
    return strategy_named(option) if option in NAMES else None


@cache
def strategies() -> tuple[Strategy, ...]:
    """All strategies, including those that users cannot request."""
    return tuple(map(strategy_named, (*NAMES, AGGREGATE)))


def on_demand() -> tuple[str, ...]:
    """The names of the strategies that need no stored view."""
    return tuple(each.name for each in strategies() if each.demand is not None)


def ranked(shape: ViewShape) -> list[tuple[Strategy, Verdict]]:
    """The strategies that are considered for a view which leaves the choice open, the best first."""
    found = [(each, verdict) for each in strategies() if (verdict := each.verdict(shape)) is not None]
    return sorted(found, key=lambda item: -item[1].preference)
