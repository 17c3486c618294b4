"""Work counters, which explain the cost of a commit."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field


@dataclass(slots=True)
class ViewWork:
    """The work counters of one component; mutually recursive views share theirs."""

    probed: int = 0
    """lookups of a key in an index or of a row in a relation"""
    matched: int = 0
    """rows that such a lookup found and that were joined"""
    derived: int = 0
    """derived head rows, known ones included"""
    filtered: int = 0
    """derived head rows that were known already"""
    deleted: int = 0
    """rows in the deletion overestimate"""
    rederived: int = 0
    """rows of the overestimate that had another derivation"""
    inserted: int = 0
    """rows that were added to the new state"""
    asked: int = 0
    """bindings with which states of unstored views were queried"""
    answered: int = 0
    """rows of unstored views that were computed for queries, and dropped again"""
    potential: int = 0
    """potential insertions and deletions of unstored views, which are tested in the other state"""
    questions: int = 0
    """tests of potential changes that rules had to compute; for the others the answer was known or being computed"""
    peak: int = 0
    """the maximum number of rows, at one time, in changes of unstored views and in intermediate results for them"""
    rounds: int = 0
    jobs: int = 0
    """Spark jobs with a part in this work; independent views share jobs, so a transaction has fewer than the sum"""
    seconds: float = 0.0
    decision: str = ""
    """why the change was followed or all rows recomputed, if there was a choice"""

    def add(self, other: ViewWork) -> None:
        # Without a loop over fields, for speed: a commit may add the work of many views.
        self.probed += other.probed
        self.matched += other.matched
        self.derived += other.derived
        self.filtered += other.filtered
        self.deleted += other.deleted
        self.rederived += other.rederived
        self.inserted += other.inserted
        self.asked += other.asked
        self.answered += other.answered
        self.potential += other.potential
        self.questions += other.questions
        self.rounds += other.rounds
        self.jobs += other.jobs
        self.seconds += other.seconds
        self.peak = max(self.peak, other.peak)


@dataclass(slots=True)
class Work(ViewWork):
    """The counters of a transaction, in total and per component; `stored` is the number of rows of all views
    afterwards."""

    stored: int = 0
    components: int = 0
    """components of views that were visited"""
    skipped: int = 0
    """components that the change could not affect"""
    screened: int = 0
    """base changes that no view depends on"""
    firings: dict[str, int] = field(default_factory=dict)
    """the number of firings of each active rule"""
    views: dict[str, ViewWork] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)
