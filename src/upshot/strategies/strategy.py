"""The record of a maintenance strategy, and the registry of all strategies.

The checker, the planner, both engines, `explain` and `upshot rewrite` read the record; none of them depends on the name
of a strategy. A new strategy is a module here with a `STRATEGY`, and its name in `names`.
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
    """The stored state of a view between two transactions."""

    ROWS = "its rows"
    COUNTS = "its rows, each with the number of its derivations"
    TOTALS = "one row per group, with running totals"
    NOTHING = "nothing, or a copy of its rows that the changes are applied to"


class Procedure(Enum):
    """The way in which an engine runs the rules of a strategy. Every engine implements all of them."""

    FIXPOINTS = "deletion, rederivation, insertion, each to its fixpoint"
    WAVES = "deletion by a search for other proofs, wave after wave; then insertion to its fixpoint"
    COUNTS = "the derivations of each row gained and lost"
    GROUPS = "changed groups folded again"
    TRIGGERS = "production rules in the order of their priority, until none is triggered"
    WHOLE = "all rows recomputed and compared"
    DEMAND = "a demand program over the stored relations"


@dataclass(frozen=True, slots=True)
class ViewShape:
    """The properties of a view that the choice of a strategy depends on. `folds`: it is an aggregate view.
    `multiplies`: a rule joins the value of an aggregate with rows of which the head keeps only some columns. `best`:
    its component has a view that keeps the best row of each group."""

    recursive: bool = False
    folds: bool = False
    multiplies: bool = False
    best: bool = False
    stored: bool = True
    policy: str = "auto"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The rating of a strategy for a view whose options leave the choice open: the highest `preference` is chosen.
    `reason` is for it if it is chosen, else against it."""

    preference: int
    reason: str


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The reason why a requested strategy does not apply; `problem` completes "view `v` …"."""

    problem: str
    help: str


@dataclass(frozen=True, slots=True)
class Generated:
    """The rules of one component of stored views: rules with stages, or production rules."""

    rules: tuple[MaintenanceRule, ...] = ()
    states: Mapping[str, StateOf] = field(default_factory=dict, hash=False)
    production: tuple[ProductionRule, ...] = ()


@dataclass(frozen=True, slots=True)
class DemandRules:
    """The rules of a strategy for views without stored rows. `add` adds the rules of one stratum to a demand program
    that has those of the strata below; `prepare` rewrites the rules of views for `add`."""

    add: Callable[[DemandBuilder, tuple[str, ...]], None]
    prepare: Callable[[CheckedProgram, Collection[str]], CheckedProgram] | None = None
    unfolds: bool = False
    """A view that only one other reads, and whose changes are not reported, is expanded into its reader."""
    reads_states: bool = False
    """New states are computed from old ones and their changes: either sign above depends on both signs below."""
    can_be_nervous: bool = False
    """Its views may report more than their net changes."""
    listing: Callable[[DemandProgram, str | None], RuleListing] = list_demand
    """Print the rules of one view, or of all."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Strategy:
    """One maintenance algorithm."""

    name: str
    procedure: Procedure
    stores: Stores = Stores.ROWS
    stages: tuple[str, ...] = ()
    """The stages of a change, in order."""
    adds: str | None = None
    """The stage whose rules add rows: if nothing drives it, an empty view stays empty."""
    rank: int = 0
    """All views of a component get the strategy with the highest rank that one of them has."""
    generate: Callable[[CheckedProgram, Collection[str]], Generated] = lambda normal, views: Generated()
    """The rules for the views of one component of a normal-form program."""
    demand: DemandRules | None = None
    obstacle: Callable[[ViewShape], Obstacle | None] = lambda shape: None
    """The reason why it cannot maintain a view of this shape."""
    verdict: Callable[[ViewShape], Verdict | None] = lambda shape: None
    """The rating for a view that leaves the choice open; None: not considered."""
    follows_rules: bool = False
    """The rows of its views can follow a change of their rules by the same stages as a change of rows."""
    follows_as: Strategy | None = None
    """The strategy whose stages apply a change of rules, if not its own."""
    keeps_best: bool = False
    """It can maintain views that keep the best row of each group."""
    starts: bool = False
    """Its rules also compute the rows of unstored views when they are read."""
    keeps_auxiliaries: bool = False
    """It also maintains views that normal form added and that only its own views use."""
    policy: str = ""
    """The value of the option `policy` that selects it."""
    listing: Callable[[CheckedProgram, str | None], RuleListing] | None = None
    """Print the rules of one stored view of a normal-form program, or of all."""

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return strategy_named, (self.name,)

    @property
    def weighs_recomputation(self) -> bool:
        """For a large change, recomputing all rows may take fewer steps than the stages."""
        return self.procedure in (Procedure.FIXPOINTS, Procedure.WAVES)

    @property
    def runs_whole(self) -> bool:
        """On Spark a recursive component may run on a local engine, in the driver or part by part in tasks."""
        return self.procedure not in (Procedure.TRIGGERS, Procedure.DEMAND)

    @property
    def inner(self) -> str:
        """The strategy option for such a local engine."""
        return self.name if self.weighs_recomputation else "auto"


@cache
def strategy_named(name: str) -> Strategy:
    """The strategy with a name in `NAMES`.

    >>> strategy_named("counting").stores.value
    'its rows, each with the number of its derivations'
    """
    strategy = import_module(f"upshot.strategies.{name}").STRATEGY
    assert isinstance(strategy, Strategy)
    return strategy


def requested_strategy(option: str) -> Strategy | None:
    """The strategy that the value of an option names; None if the option leaves the choice open."""
    return strategy_named(option) if option in NAMES else None


@cache
def strategies() -> tuple[Strategy, ...]:
    """All strategies, including those that users cannot request."""
    return tuple(map(strategy_named, (*NAMES, AGGREGATE)))


def on_demand() -> tuple[str, ...]:
    """The names of the strategies that need no stored view."""
    return tuple(each.name for each in strategies() if each.demand is not None)


def ranked(shape: ViewShape) -> list[tuple[Strategy, Verdict]]:
    """The strategies to consider for a view that leaves the choice open, the best first."""
    found = [(each, verdict) for each in strategies() if (verdict := each.verdict(shape)) is not None]
    return sorted(found, key=lambda item: -item[1].preference)
