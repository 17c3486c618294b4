"""Work counters: why a commit was cheap or dear."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field


@dataclass(slots=True)
class ViewWork:
    """The work counters of one component; mutually recursive views share theirs."""

    probed: int = 0
    """look-ups of a key in an index or of a row in a relation"""
    matched: int = 0
    """rows that such a look-up found and that were joined"""
    derived: int = 0
    """head rows derived, known ones included"""
    filtered: int = 0
    """of those, known already"""
    deleted: int = 0
    """rows in the deletion overestimate"""
    rederived: int = 0
    """rows of the overestimate that had another derivation"""
    inserted: int = 0
    """rows that entered the new state"""
    asked: int = 0
    """bindings that the states of views which are not stored were asked for"""
    answered: int = 0
    """rows of such views that were found on the way, and forgotten again"""
    potential: int = 0
    """rows that may come into such a view, or go, each once per sign; they are proven or not in the other state"""
    questions: int = 0
    """how often rules set out to prove one of those; the answer to the others was known, or being looked for"""
    peak: int = 0
    """the most rows that changes of views which are not stored, and steps towards them, held at a time: they go as the
    wave passes"""
    rounds: int = 0
    jobs: int = 0
    """Spark jobs that it took part in; independent views share them, so that a transaction has fewer than its views
    together"""
    seconds: float = 0.0
    decision: str = ""
    """why the change was followed or everything computed anew, where there was something to decide"""

    def add(self, other: ViewWork) -> None:
        # One by one: a commit that reaches eighty views comes here as often.
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
    """The counters of a transaction, in all and per component; `stored` counts the rows of all views afterwards."""

    stored: int = 0
    components: int = 0
    """components of views that were looked at"""
    skipped: int = 0
    """components that the change could not reach"""
    screened: int = 0
    """base changes that no view depends on"""
    firings: dict[str, int] = field(default_factory=dict)
    """how often each active rule fired"""
    views: dict[str, ViewWork] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)
