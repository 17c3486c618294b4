"""Decide whether to follow a change or to recompute a component, by estimated steps that earlier runs correct."""

from __future__ import annotations

from dataclasses import dataclass

FEW = 64
"""Changes of fewer rows are always followed: the possible saving is too small for the risk of an estimate."""

_TRUST = 0.5
"""The weight of the newest run against all earlier ones."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The numbers of rows inserted into and deleted from the relations that a component reads, of rows in these
    relations, and of rows in its views before the change."""

    inserted: int
    deleted: int
    read: int
    view_rows: int

    @property
    def changed(self) -> int:
        return self.inserted + self.deleted


@dataclass(slots=True)
class Experience:
    """Steps (lookups and derived rows) of earlier runs: per inserted row, per deleted row, and per row, read or in a
    view, of a recomputation."""

    per_inserted: float | None = None
    per_deleted: float | None = None
    per_row: float | None = None

    def followed(self, situation: Situation, steps: int) -> None:
        """Learn from a propagated change. Costs that cannot be attributed are divided evenly."""
        per_row = steps / max(situation.changed, 1)
        if situation.inserted:
            self.per_inserted = _blend(self.per_inserted, per_row)
        if situation.deleted:
            self.per_deleted = _blend(self.per_deleted, per_row)

    def computed(self, rows: int, steps: int) -> None:
        """Learn from a computation of everything."""
        if rows >= FEW:
            self.per_row = _blend(self.per_row, steps / rows)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated steps for one inserted row, for one deleted row, and for a recomputation.

    >>> print(estimate(1000, 50_000, Experience()))
    expected steps: 100 for an inserted row, 200 for a deleted one, 102,000 to recompute
    """

    inserted: float
    deleted: float
    recompute: float

    def __str__(self) -> str:
        changes = f"{self.inserted:,.0f} for an inserted row, {self.deleted:,.0f} for a deleted one"
        return f"expected steps: {changes}, {self.recompute:,.0f} to recompute"

    def described(self, policy: str) -> str:
        """The estimate with the smallest change that `auto` recomputes for."""
        if policy != "auto":
            return f"{self}; followed whatever changes: policy {policy}"
        bounds = (max(FEW, int(self.recompute / max(each, 1.0)) + 1) for each in (self.inserted, self.deleted))
        inserted, deleted = bounds
        return f"{self}; recomputed from {inserted:,} inserted or {deleted:,} deleted rows on"


def estimate(read: int, view_rows: int, experience: Experience) -> Estimate:
    """The estimate from earlier runs or, if there are none, from the numbers of rows read and of the views."""
    share = max(1.0, view_rows / max(read, 1))
    # A deleted row is over-deleted, searched for another derivation and perhaps returned.
    inserting = experience.per_inserted if experience.per_inserted is not None else 2 * share
    deleting = experience.per_deleted if experience.per_deleted is not None else 4 * share
    per_row = experience.per_row if experience.per_row is not None else 2.0
    return Estimate(inserting, deleting, per_row * (read + view_rows))


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision, and the expected steps of both alternatives."""

    recompute: bool
    following: float
    recomputing: float
    reason: str

    def __str__(self) -> str:
        done = "recomputed" if self.recompute else "the change was followed"
        steps = f"following {self.following:,.0f}, recomputing {self.recomputing:,.0f}"
        return f"{done}: {self.reason} (expected steps: {steps})"


def decide(policy: str, situation: Situation, experience: Experience) -> Decision:
    """Follow the change, unless the policy is `auto` and a recomputation is expected to take fewer steps.

    >>> print(decide("auto", Situation(1, 0, 1000, 50_000), Experience()))
    the change was followed: few rows changed (expected steps: following 100, recomputing 102,000)
    >>> decide("auto", Situation(500, 500, 1000, 50_000), Experience()).recompute
    True
    >>> decide("incremental", Situation(500, 500, 1000, 50_000), Experience()).recompute
    False
    """
    expected = estimate(situation.read, situation.view_rows, experience)
    following = situation.inserted * expected.inserted + situation.deleted * expected.deleted
    recomputing = expected.recompute
    if policy != "auto":
        return Decision(False, following, recomputing, f"policy {policy}")
    if situation.changed < FEW:
        return Decision(False, following, recomputing, "few rows changed")
    if following > recomputing:
        return Decision(True, following, recomputing, "so much changed that following it would take longer")
    return Decision(False, following, recomputing, "it takes fewer steps")


def _blend(known: float | None, newest: float) -> float:
    return newest if known is None else (1 - _TRUST) * known + _TRUST * newest
