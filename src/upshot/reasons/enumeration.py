"""All derivations of a row, one after the other: the smallest first, the others by height."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from upshot.check.strata import order_of
from upshot.core.errors import LimitError
from upshot.reasons.derivation import Derivation
from upshot.reasons.search import Best, Instance, Key, Search
from upshot.reasons.telling import Telling


@dataclass(frozen=True, slots=True)
class _Goal:
    """A row to be derived with a height of at most `height`, or `exactly` that, from rows that are not `above` it; then
    what comes `next`."""

    key: Key
    height: int
    exactly: bool
    above: frozenset[Key]
    next: _Goal | None


@dataclass(frozen=True, slots=True)
class _Step:
    """The instances chosen so far, the last one first."""

    instance: Instance
    before: _Step | None


@dataclass(slots=True)
class Enumeration:
    """The derivations of one row, in which no row rests on itself."""

    search: Search
    telling: Telling
    root: Key
    steps: int = 0
    _levels: list[list[Key]] = field(default_factory=list)
    _known: set[Key] = field(default_factory=set)

    def others(self, best: Mapping[Key, Best]) -> Iterator[Derivation]:
        """All derivations but the smallest, which is known: by height, and without order among those of one height."""
        lowest = height = best[self.root].height
        while True:
            self._explore(height)
            highest = self._highest()
            if highest is not None and height > highest:
                return
            for steps in self._of_height(height):
                if height > lowest or not _is_walk(steps, best, self.root):
                    yield self._tree(steps)
            height += 1

    def _explore(self, depth: int) -> None:
        """Looks at all rows that a derivation of this height can hold."""
        if not self._levels:
            self._levels, self._known = [[self.root]], {self.root}
        while len(self._levels) < depth and self._levels[-1]:
            level = self._levels[-1]
            self.search.expand_all(level)
            below = [p for key in level for each in self.search.instances.get(key, ()) for p in each.premises]
            self._levels.append([key for key in dict.fromkeys(below) if key not in self._known])
            self._known.update(self._levels[-1])
        self.search.expand(self._levels[-1], leaves=True)

    def _highest(self) -> int | None:
        """A height that no derivation exceeds; None while there are rows that were not looked at."""
        if self._levels[-1]:
            return None
        found = {key: self.search.instances.get(key, ()) for key in self._known}
        names = {key: str(number) for number, key in enumerate(found)}
        keys = {name: key for key, name in names.items()}
        edges = {
            (names[key], names[premise]) for key, some in found.items() for each in some for premise in each.premises
        }
        heights: dict[Key, int] = {}
        for group in order_of(list(keys), sorted(edges)):
            inside = {keys[name] for name in group}
            below = (p for key in inside for each in found[key] for p in each.premises if p not in inside)
            # On a way down no row comes twice.
            most = len(inside) + max((heights[premise] for premise in below), default=0)
            heights |= dict.fromkeys(inside, most)
        return heights[self.root]

    def _of_height(self, height: int) -> Iterator[_Step]:
        """The choices of instances that make a derivation of just this height, each in the order of a walk."""
        lowest = self.search.heights()
        left: list[tuple[_Goal, _Step | None]] = [(_Goal(self.root, height, True, frozenset(), None), None)]
        while left:
            goal, before = left.pop()
            self.steps += 1
            if self.steps > self.search.bounds:
                raise _too_many_steps(self.search.bounds)
            for instance in reversed(self.search.instances.get(goal.key, ())):
                above = goal.above | {goal.key}
                if above.isdisjoint(instance.premises):
                    step = _Step(instance, before)
                    for after in _goals(instance, goal, above, lowest):
                        if after is None:
                            yield step
                        else:
                            left.append((after, step))

    def _tree(self, last: _Step) -> Derivation:
        """The derivation of chosen instances."""
        chosen = _in_order(last)
        self.telling.prepare(chosen)
        # From the end of the walk: the derivations of an instance's premises are the newest ones, first premise on top.
        made: list[Derivation] = []
        for instance in reversed(chosen):
            below = [made.pop() for _ in instance.premises]
            made.append(self.telling.derivation(instance, below))
        return made[0]


def _goals(instance: Instance, goal: _Goal, above: frozenset[Key], lowest: Mapping[Key, int]) -> Iterator[_Goal | None]:
    """What is left to be derived after an instance was chosen for a goal, in each way that its heights can be shared
    out; None if nothing is."""
    premises, most = instance.premises, goal.height - 1
    if any(lowest.get(premise, goal.height) > most for premise in premises):
        return
    if not goal.exactly or not premises:
        if not goal.exactly or goal.height == 1:
            yield _stacked([(premise, most, False) for premise in premises], above, goal.next)
        return
    for place in range(len(premises)):
        # The first premise of full height: those before it are lower, those after it need not be.
        if all(lowest[premise] < most for premise in premises[:place]):
            limits = [(p, most - (i < place), i == place) for i, p in enumerate(premises)]
            yield _stacked(limits, above, goal.next)


def _stacked(limits: list[tuple[Key, int, bool]], above: frozenset[Key], next: _Goal | None) -> _Goal | None:
    for key, height, exactly in reversed(limits):
        next = _Goal(key, height, exactly, above, next)
    return next


def _is_walk(last: _Step, best: Mapping[Key, Best], root: Key) -> bool:
    """Whether these are the instances of the smallest derivation."""
    chosen = _in_order(last)
    left = [root]
    for instance in chosen:
        wanted = best[left.pop()].instance
        if instance.rule.number != wanted.rule.number or instance.binding != wanted.binding:
            return False
        left.extend(reversed(instance.premises))
    return True


def _in_order(last: _Step) -> list[Instance]:
    chosen: list[Instance] = []
    step: _Step | None = last
    while step is not None:
        chosen.append(step.instance)
        step = step.before
    return chosen[::-1]


def _too_many_steps(bounds: int) -> LimitError:
    return LimitError(
        f"no further derivation found in {bounds:,} steps",
        code="explanation-bounds",
        help="raise `bounds`; mutually dependent rows can have very many derivations",
    )
