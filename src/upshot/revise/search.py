"""All minimal realisations of a request, the cheapest first. [Behrend & Manthey 2008, section 4]

A branch is a state of the disjunctive model: base changes decided on, and rows that must or must not be there. It is
staged and propagated (bottom-up); what it leaves unmet is asked for (top-down), and a choice of answers makes as many
branches:

    a row that must be there and is not      one branch for each instance of a rule that could derive it
    a row that must not be there and is      one for each leaf of its smallest derivation
    a group that must come to another value  one for each row that could go, or come
    a new witness of a constraint, two rows that share a key                              the same

What a derivation shows, that its leaves cannot all be so, holds in every branch: what follows from that is decided
before anything is tried (`disjunctions.py`). Then comes the row that leaves the fewest ways.

Every minimal realisation stays in reach as long as its values are offered to the variables of rules: of the branches
made, one agrees with it on all that was decided. Values that a branch brings to columns from which variables have taken
theirs already are offered in another pass (`offered_values.py`), until none brings any. A branch with nothing unmet is
a realisation, and minimal unless it contains one found before, since smaller ones come first; where it has values that
came late, the smallest one within it is looked for.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from upshot.core.counted import counted
from upshot.core.errors import DataError, LimitError
from upshot.engine.time_limit import check_time, time_limit
from upshot.reasons.why import reasons_in
from upshot.revise.aggregate_ways import AggregateWays
from upshot.revise.alternatives import Alternatives, Limits
from upshot.revise.branch import Branch, Update
from upshot.revise.contradictions import contradiction
from upshot.revise.disjunctions import Disjunctions, Forced, Rows
from upshot.revise.likeness import Known, TooAlikeError, contains_one_of
from upshot.revise.lower_bound import LowerBound, Priority
from upshot.revise.obstacles import Leaf, Proof, avoided, is_to_change, proof_of, undecided
from upshot.revise.placeholders import Placeholder, telling
from upshot.revise.ranges import Ranges, used_placeholders
from upshot.revise.regions import without_pinned, words
from upshot.revise.request import Bounds, Key, Preferences, Request
from upshot.revise.rules import Rules
from upshot.revise.ways import Ways
from upshot.revise.world import World

SLICE = 0.05
"""Seconds after which others may have their turn with the database."""
MOST_PASSES = 12
"""Times that a search is made with values that the one before has brought."""
EARLY_PASSES = 4
"""Those of them that begin as soon as a realisation has such values, so that smaller ones are found before it."""
CLOSELY = 8
"""Missing rows whose ways are followed to what they mean for others; of more, only what contradicts at once."""
ENOUGH = 4
"""Obstacles among which the one with the fewest ways out is looked for."""

MOST_BRANCHES = 100_000
"""Branches that are remembered; the search ends there."""
MOST_ENDS = 10_000
"""Rows of which it is remembered that branches ended at them."""


@dataclass(slots=True)
class Search:
    """A search that goes a slice of time at a time. `constraints` are the relations to which no row may come."""

    world: World
    rules: Rules
    constraints: Collection[str]
    request: Request
    preferences: Preferences
    bounds: Bounds
    within: frozenset[Key] | None = None
    """The only base rows that may be changed, if not all may."""
    counts: dict[str, int] = field(default_factory=dict)
    found: list[Known] = field(default_factory=list)
    dead_ends: dict[Key, None] = field(default_factory=dict)
    """Rows at which branches ended: nothing makes them true, or false, that does not contradict the branch."""
    _heap: list[tuple[Priority, int, Branch | Alternatives]] = field(default_factory=list)
    _made: int = 0
    _seen: set[object] = field(default_factory=set)
    _spent: float = 0.0
    _start: Branch | None = None
    _passes: int = 1
    _ways: Ways = field(init=False)
    _aggregates: AggregateWays = field(init=False)
    _disjunctions: Disjunctions = field(default_factory=Disjunctions)
    _bound: LowerBound = field(init=False)
    _ranges: Ranges = field(init=False)

    def __post_init__(self) -> None:
        asked = self.request.insert | self.request.delete
        self._ways = Ways(self.world, self.rules, self.preferences, self.bounds, self.within, asked, counts=self.counts)
        self._ranges = Ranges(
            self.world, self.rules, self.constraints, self.request, self._ways.new_values, self.counts
        )
        self._aggregates = AggregateWays(self._ways, self.request.insert, self.constraints)
        self._bound = LowerBound(self.world, self.rules, self.preferences, self._disjunctions)
        self._ways.offered.bring(asked)
        self._start = self._ways.decided(Branch(), sorted(self.request.insert, key=repr), self.request.delete)
        if self._start is not None:
            self._start = replace(self._start, depths={})
            self._push((0.0, 0), self._start)
        else:
            self._note_size(self.limits.too_large)

    @property
    def limits(self) -> Limits:
        return self._ways.limits

    @property
    def is_exhausted(self) -> bool:
        return not self._heap

    def run(self, slice: float = SLICE) -> Branch | None:
        """Looks at branches for a slice of time, in seconds, or until one is a realisation, which is returned. Nothing
        stays staged."""
        begun, left = time.monotonic(), self.bounds.seconds - self._spent
        try:
            with time_limit(max(left, 0.0)):
                while self._heap:
                    found = self._step()
                    if not self._heap:
                        self._begin_again()
                        self._judge_bounds()
                    if found is not None or time.monotonic() - begun > min(slice, left):
                        return found
            return None
        except LimitError as error:
            if error.code != "timeout" or time.monotonic() - begun < left:
                raise
            self._end(counted(self.bounds.seconds, "second"))
            return None
        finally:
            self.world.undo()
            self._spent += time.monotonic() - begun
            if self._spent > self.bounds.seconds and self._heap:
                self._end(counted(self.bounds.seconds, "second"))

    def _judge_bounds(self) -> None:
        """Finds out, at the end, what was really left out: no branch that contains what was found; and if nothing was,
        nothing at all if the request contradicts itself."""
        if self._heap or self._start is None:
            return
        self._note_size(each for each in self.limits.too_large if not self._is_covered(each))
        if self.found or not self.limits.reached:
            return
        free = Ways(self.world, self.rules, self.preferences, replace(self.bounds, size=None))
        about = contradiction(free, self._start, self._disjunctions, self.constraints)
        if about is not None:
            self.limits.reached.clear()
            self._note_end(about, self._start)

    def _note_size(self, branches: Iterable[Branch]) -> None:
        if self.bounds.size is not None and any(True for _ in branches):
            self.limits.note(counted(self.bounds.size, "change"))

    def _end(self, bound: str) -> None:
        """Ends the search at a bound."""
        self.limits.note(bound)
        self._note_size(self.limits.too_large)
        self._heap.clear()
        self._start = None

    @property
    def _most_passes(self) -> int:
        """One if sums were made up of whatever values were offered: then every pass would bring more of them."""
        return 1 if self._aggregates.endless else MOST_PASSES

    def _begin_again(self) -> None:
        """Starts anew if branches have brought values that variables should have been offered before."""
        news = self._ways.offered.news
        if self._start is None or not self._ways.take_in_values():
            return
        if self._passes >= self._most_passes:
            if not news <= self._aggregates.endless:
                self.limits.note("the values that were tried")
            return
        self._passes += 1
        self._heap.clear()
        self._seen.clear()
        self._push((0.0, 0), self._start)

    def _step(self) -> Branch | None:
        floor, _, item = heapq.heappop(self._heap)
        try:
            if not self._is_due(item, floor):
                return None
            if isinstance(item, Branch):
                return self._examined(item, floor)
            self._continued(item, floor)
        except (DataError, LimitError) as error:
            if error.code == "timeout":
                raise
            self.limits.note(f"changes whose consequences can be computed: {error.message}")
            self.world.undo()
        return None

    def _continued(self, item: Alternatives, floor: Priority) -> None:
        if self._is_covered(item.source):
            return
        branch = next(item.branches, None)
        if branch is not None:
            item.is_empty = False
            self._again(floor, item)
            self._push(floor, branch)
        elif item.is_empty:
            self._note_end(item.about, item.source)

    def _push(self, floor: Priority, branch: Branch) -> None:
        settled = self._settled(branch)
        if settled is None or settled.state in self._seen or self._is_covered(settled):
            return
        refuted = self._ways.keyed_rows.refuted(settled)
        if refuted is not None:
            self._note_end(refuted, settled)
            return
        branch = settled
        if len(self._seen) == MOST_BRANCHES:
            self._end(f"{MOST_BRANCHES:,} branches")
            return
        self._seen.add(branch.state)
        self._again(max(floor, self._bound.of(branch)), branch)

    def _again(self, floor: Priority, item: Branch | Alternatives) -> None:
        # Of equals, the newest is looked at first: a branch is followed to its end before its siblings are made.
        self._made += 1
        heapq.heappush(self._heap, (floor, -self._made, item))

    def _is_due(self, item: Branch | Alternatives, floor: Priority) -> bool:
        """Whether it is its turn. It is not if more is known by now of what it needs at least: then it waits again."""
        needed = self._bound.of(item if isinstance(item, Branch) else item.source)
        if needed > floor:
            self._again(needed, item)
        return needed <= floor

    def _is_covered(self, branch: Branch) -> bool:
        """Whether all that could come of the branch contains a realisation that was found."""
        check_time()
        try:
            return contains_one_of(branch, self.found, self._ways.new_values.is_new_at)
        except TooAlikeError:
            # It may well be: what may not be minimal is not given, and that is said.
            self.limits.note("changes whose new values can be told apart")
            return True

    # ---- one branch ---------------------------------------------------------------------------------------------

    def _examined(self, branch: Branch, floor: Priority) -> Branch | None:
        if self._is_covered(branch) or self._is_unsettled(branch, floor):
            return None
        self._count("branches")
        self.world.stage(branch.insert, branch.delete)
        self._ways.offered.note(branch)
        obstacles = self._obstacles(branch)
        self._ranges.look_around(branch, is_stuck=bool(obstacles))
        if self._is_unsettled(branch, floor) or self._continues_with_a_rule(branch, floor):
            return None
        is_met = not obstacles
        for about, ways in self._aggregates.unmet(branch):
            is_met = False
            self._ranges.look_around(branch, is_stuck=True)
            if ways is not None:
                self._continue(iter(ways or [Alternatives(branch, about, 0, 0, iter(()))]), branch, floor)
                return None
        ready = [(about, proof) for about, proof in obstacles if not is_to_change(proof, branch)]
        if ready:
            about, proof = min(ready, key=lambda each: len(undecided(each[1], branch)))
            here = branch.seeing_to(about, (leaf.key for leaf in proof.leaves))
            self._continue(iter([Alternatives(here, about, 0, 0, self._without(here, about, proof))]), branch, floor)
            return None
        assert is_met, "of what is not as it should be, the lowest rests on nothing that is to change"
        return self._confirmed(branch)

    def _confirmed(self, branch: Branch) -> Branch | None:
        """The branch, which is a realisation; a smaller one if it brings values in time for that; None if the search
        begins again, or if it is one that was found once values that have no choice are named."""
        offered = self._ways.offered
        if self._begins_early(branch):
            return None
        if branch.size > 1 and offered.note(branch):
            branch = self._smallest_within(branch)
            self.world.stage(branch.insert, branch.delete)
        used = used_placeholders(branch)
        if offered.note_joined(branch.insert, used) and self._begins_early(branch, least=1):
            return None
        found = self._ranges.of(branch, self.found, self._is_known)
        if branch.size > 1 or found.region.borders:
            self._ways.new_values.note_borders(found.borders, used)
            if self._begins_early(branch):
                return None
        for each in found.missing:
            self.limits.note(f"the new values that were tried: {each} was not followed")
        region, left = without_pinned(found.region, used)
        if left != used and self._is_known((branch.insert, branch.delete), left):
            return None
        used = left
        stated = (*words(region, used), *telling(branch.conditions, [each.name for each in used]))
        self.found.append(Known((branch.insert, branch.delete), used, region))
        return found.given(branch, used, stated)

    def _begins_early(self, branch: Branch, least: int = 2) -> bool:
        """Whether the search begins again, so that smaller realisations than the branch are found before it; or, if it
        has the `least` changes, others that are as small."""
        passes = min(EARLY_PASSES, self._most_passes)
        if branch.size >= least and self._ways.has_news and self._passes < passes:
            self._begin_again()
            return True
        return False

    def _is_known(self, update: Update, placeholders: Sequence[Placeholder]) -> bool:
        return self._is_covered(Branch(*update, placeholders=tuple(placeholders)))

    def _smallest_within(self, branch: Branch) -> Branch:
        """The smallest realisation that is part of one, found with all its values offered from the start."""
        seconds = max(self.bounds.seconds - self._spent, 0.0)
        bounds = replace(self.bounds, new_constants=0, size=branch.size - 1, seconds=seconds)
        within = Search(self.world, self.rules, self.constraints, self.request, self.preferences, bounds,
                        within=branch.insert | branch.delete)  # fmt: skip
        while not within.is_exhausted:
            smaller = within.run()
            if smaller is not None:
                return replace(branch, insert=smaller.insert, delete=smaller.delete)
        return branch

    def _note_end(self, about: Key, branch: Branch) -> None:
        """Notes that a branch ended at a row, unless that has values which were made up: nobody knows those."""
        is_known = {each.witness for each in branch.placeholders}.isdisjoint(about[1])
        if is_known and len(self.dead_ends) < MOST_ENDS:
            self.dead_ends[about] = None

    def _settled(self, branch: Branch) -> Branch | None:
        """The branch with all that follows from what it has decided on; None if that is a contradiction."""
        settled: Branch | None = branch
        while settled is not None and (forced := self._disjunctions.forced(settled)):
            following = self._with_forced(settled, forced)
            if following is None:
                for each in forced:
                    self._note_end(each.about, settled)
            settled = following
        return settled

    def _with_forced(self, branch: Branch, forced: Iterable[Forced]) -> Branch | None:
        """The branch with leaves that have to be otherwise; those that lie alike deep are decided on together."""
        by_depth: dict[int, list[Leaf]] = {}
        for each in forced:
            if each.leaf is None:
                return None
            by_depth.setdefault(branch.seeing_to(each.about, each.because).depth, []).append(each.leaf)
        made: Branch | None = branch
        for depth, leaves in by_depth.items():
            true, false = ([leaf.key for leaf in leaves if leaf.there is there] for there in (False, True))
            if made is None or (true and self._is_too_deep(depth)):
                return None
            made = self._ways.decided(replace(made, depth=depth), true, false)
        return made

    def _is_unsettled(self, branch: Branch, floor: Priority) -> bool:
        """Whether more follows from the branch than it says: then that is looked at in its place."""
        settled = self._settled(branch)
        if settled is not None and settled is not branch:
            self._push(floor, settled)
        return settled is not branch

    def _continues_with_a_rule(self, branch: Branch, floor: Priority) -> bool:
        """Whether a row is missing: then the branch goes on with the rules that could derive it. Where rows have only
        one way each, all of them are taken; of others, that one is taken that leaves the fewest ways."""
        best: tuple[Key, list[Branch]] | None = None
        missing, start = self._missing(branch), branch
        for number, key in enumerate(missing):
            left = self._ways_left(branch, key, closely=number < CLOSELY)
            if left is not None and len(left) <= 1:
                if not left:
                    self._note_end(key, branch)
                if not left or self._is_too_deep(branch.seeing_to(key).depth):
                    return True
                branch = left[0]
            elif left is not None and (best is None or len(left) < len(best[1])):
                best = key, left
        if branch is not start:
            self._push(floor, branch)
        elif best is None:
            if missing:
                here = branch.seeing_to(missing[0])
                self._continue(self._ways.derivations(here, missing[0]), branch, floor)
        elif not self._is_too_deep(branch.seeing_to(best[0]).depth):
            for each in reversed(best[1]):
                self._push(floor, each)
        return bool(missing)

    def _ways_left(self, branch: Branch, key: Key, *, closely: bool) -> list[Branch] | None:
        """The branches in which a rule derives a row, as far as they are of use; None if they are too many to be
        listed, or several at first sight and not to be looked at `closely`."""
        if not closely and (self._ways.ground_rules.at_most(branch, key) or 0) > 1:
            return None
        listed = self._ways.listed(branch, key)
        if listed is None:
            return None
        return [made for each in listed if (made := self._settled(each)) and not self._is_covered(made)]

    def _continue(self, alternatives: Iterator[Alternatives], branch: Branch, floor: Priority) -> None:
        floor, price = max(floor, self._bound.of(branch)), self._bound.spent(branch)
        found = []
        for each in alternatives:
            check_time()
            if self._is_too_deep(each.source.depth):
                return
            found.append(each)
        # Pushed in reverse: those of which most holds already are looked at first.
        for each in reversed(found):
            self._again(max(floor, (price + each.price, branch.size + each.changes)), each)

    def _is_too_deep(self, depth: int) -> bool:
        if depth < self.bounds.rounds:
            return False
        self.limits.note(counted(self.bounds.rounds, "round"))
        return True

    def _missing(self, branch: Branch) -> list[Key]:
        """Rows of views that must be there, are not, and that no rule has been chosen for: those that say themselves
        what they would rest on, if there are any, or else all."""
        waiting = (key for key in branch.true if key not in branch.support and self._is_plain_view(key[0]))
        missing = [key for key in sorted(waiting, key=repr) if not self.world.holds(key)]
        # What such a row brings, variables of other rows may take.
        return [key for key in missing if self._ways.is_determined(key)] or missing

    def _obstacles(self, branch: Branch) -> list[tuple[Key, Proof]]:
        """What is so and must not be so, and why it is: all, or as many as are enough to go on with."""
        found: list[tuple[Key, Proof]] = []
        ready = 0
        for rows in self._standing(branch):
            proof = next((each for each in self._disjunctions.about(rows) if self._is_so(each)), None)
            if proof is None:
                proof = self._proof(rows, branch)
                of_aggregates = any(leaf.key[0] in self.rules.folds for leaf in proof.leaves)
                always = len(rows) > 1 or rows[0] not in branch.false
                self._disjunctions.learn(rows, proof, always=always, of_aggregates=of_aggregates)
            self._ways.offered.note_meeting(branch, (leaf.key for leaf in proof.leaves))
            found.append((rows[0], proof))
            ready += not is_to_change(proof, branch)
            if ready == ENOUGH:
                break
        return found

    def _is_so(self, proof: Proof) -> bool:
        return all(self.world.holds(leaf.key) == leaf.there for leaf in proof.leaves)

    def _standing(self, branch: Branch) -> Iterator[Rows]:
        """What is so and must not be so: rows, and pairs of rows that share a key."""
        for key in sorted(branch.false, key=repr):
            if self._is_plain_view(key[0]) and self.world.holds(key):
                yield (key,)
        for constraint in sorted(self.constraints):
            yield from (((constraint, row),) for row in sorted(self.world.added(constraint), key=repr))
        yield from self.world.key_conflicts()

    def _proof(self, rows: Rows, branch: Branch) -> Proof:
        leaves: dict[Leaf, None] = {}
        for key in rows:
            if self.rules.is_base(key[0]):
                leaves[Leaf(key, there=True)] = None
                continue
            self._count("derivations")
            proof = proof_of(key, reasons_in(self.world, self.rules.program), self.rules.folds, branch.true)
            assert proof is not None, "it is there"
            if len(rows) == 1:
                return proof
            leaves |= dict.fromkeys(Leaf(leaf.key, leaf.there) for leaf in proof.leaves)
        return Proof(tuple(leaves))

    def _is_plain_view(self, relation: str) -> bool:
        return not self.rules.is_base(relation) and relation not in self.rules.folds

    def _without(self, branch: Branch, about: Key, proof: Proof) -> Iterator[Branch]:
        """The branches in which one leaf of the derivation is otherwise, and those before it are as they are."""
        kept: list[Leaf] = []
        for leaf in proof.leaves:
            true = [each.key for each in kept if each.there] + [leaf.key] * (not leaf.there)
            false = [each.key for each in kept if not each.there] + [leaf.key] * leaf.there
            made = self._ways.decided(branch, true, false)
            kept.append(leaf)
            if made is not None:
                spared = avoided(self.world, self.constraints, branch, about, leaf)
                yield replace(made, avoided=made.avoided.union(spared))

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
