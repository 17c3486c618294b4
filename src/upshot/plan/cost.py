"""Test whether to follow a change or to compute a component anew: estimates in steps, corrected by earlier runs."""

from __future__ import annotations

from dataclasses import dataclass

FEW = 64
"""Changes of fewer rows are always followed: what could be saved is not worth an estimate's risk."""

_TRUST = 0.5
"""The weight of the newest run against all before it."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Rows inserted into and deleted from what a component reads, rows that it reads, rows of its views before."""

    inserted: int
    deleted: int
    read: int
    held: int

    @property
    def changed(self) -> int:
        return self.inserted + self.deleted


@dataclass(slots=True)
class Experience:
    """Steps (look-ups and derived rows) that earlier runs took: per inserted row, per deleted row, and per row read or
    held when all was computed."""

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
    """Steps that following one inserted row, following one deleted row, and computing everything anew would take.

    >>> print(estimate(1000, 50_000, Experience()))
    expected steps: 100 for an inserted row, 200 for a deleted one, 102,000 to recompute
    """

    inserted: float
    deleted: float
    anew: float

    def __str__(self) -> str:
        came, went = f"{self.inserted:,.0f} for an inserted row", f"{self.deleted:,.0f} for a deleted one"
        return f"expected steps: {came}, {went}, {self.anew:,.0f} to recompute"

    def described(self, policy: str) -> str:
        """With the size of a change from which on `auto` computes everything anew."""
        if policy != "auto":
            return f"{self}; followed whatever changes: policy {policy}"
        come, gone = (max(FEW, int(self.anew / max(each, 1.0)) + 1) for each in (self.inserted, self.deleted))
        return f"{self}; recomputed from {come:,} inserted or {gone:,} deleted rows on"


def estimate(read: int, held: int, experience: Experience) -> Estimate:
    """From earlier runs; before there are any, from the rows that a component reads and holds."""
    share = max(1.0, held / max(read, 1))
    # A row deleted is over-deleted, looked for again and perhaps put back; one inserted is only inserted.
    inserting = experience.per_inserted if experience.per_inserted is not None else 2 * share
    deleting = experience.per_deleted if experience.per_deleted is not None else 4 * share
    per_row = experience.per_row if experience.per_row is not None else 2.0
    return Estimate(inserting, deleting, per_row * (read + held))


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision, and the cost expected of both ways, in steps."""

    recompute: bool
    following: float
    recomputing: float
    reason: str

    def __str__(self) -> str:
        done = "recomputed" if self.recompute else "the change was followed"
        steps = f"following {self.following:,.0f}, recomputing {self.recomputing:,.0f}"
        return f"{done}: {self.reason} (expected steps: {steps})"


def decide(policy: str, situation: Situation, experience: Experience) -> Decision:
    """Follow the change, unless the policy is `auto` and computing everything anew is expected to take fewer steps.

    >>> print(decide("auto", Situation(1, 0, 1000, 50_000), Experience()))
    the change was followed: few rows changed (expected steps: following 100, recomputing 102,000)
    >>> decide("auto", Situation(500, 500, 1000, 50_000), Experience()).recompute
    True
    >>> decide("incremental", Situation(500, 500, 1000, 50_000), Experience()).recompute
    False
    """
    expected = estimate(situation.read, situation.held, experience)
    following = situation.inserted * expected.inserted + situation.deleted * expected.deleted
    recomputing = expected.anew
    if policy != "auto":
        return Decision(False, following, recomputing, f"policy {policy}")
    if situation.changed < FEW:
        return Decision(False, following, recomputing, "few rows changed")
    if following > recomputing:
        return Decision(True, following, recomputing, "so much changed that following it would take longer")
    return Decision(False, following, recomputing, "it takes fewer steps")


def _blend(known: float | None, newest: float) -> float:
    return newest if known is None else (1 - _TRUST) * known + _TRUST * newest
