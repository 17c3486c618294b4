"""Match whole texts with regular expressions, in bounded time.

A pattern is translated for `re` (`ecmascript`), which backtracks: `(a+)+b` on forty letters takes forever and cannot be
interrupted. So the cost is estimated first. Without nested repetitions, the number of paths is at most the length of
the text to the power of the number of repetitions; if that is small, `re` is used. Otherwise all states of an automaton
are simulated letter by letter [Thompson 1968], in time proportional to text times pattern, or to the square of the text
for a pattern with look-ahead. Back-references need backtracking, and are refused if it could take too long.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from upshot.core.errors import DataError
from upshot.values.ecmascript import BadPattern, translated

LONGEST_PATTERN = 1000
_MOST_STEPS = 1_000_000
"""Steps that `re` may take at worst; some hundredths of a second."""
_MOST_STATES = 20_000
_MOST_FIXED = 100

_Test = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A translated pattern; `ways` bounds the paths that `re` may try, None if they are unbounded."""

    compiled: re.Pattern[str]
    ways: _Ways | None

    def matches(self, text: str, pause: Callable[[], None] | None = None) -> bool:
        """Test whether the whole text matches. `pause` is called periodically, and may raise an error on a timeout."""
        if self.ways is not None and self.ways.bound(len(text)) <= _MOST_STEPS:
            return self.compiled.fullmatch(text) is not None
        return _follow(_automaton(self.compiled.pattern), text, pause)


@functools.lru_cache(maxsize=256)
def pattern(text: str) -> Pattern:
    """The compiled pattern of `match`; raises a data error if it is wrong."""
    if len(text) > LONGEST_PATTERN:
        raise DataError(
            f"a `match` pattern has {len(text)} characters",
            code="bad-pattern",
            help=f"at most {LONGEST_PATTERN:,} are allowed",
        )
    try:
        compiled = re.compile(translated(text), re.ASCII)
        return Pattern(compiled, _ways(_parser.parse(compiled.pattern, re.ASCII)))
    except (BadPattern, re.error, RecursionError, OverflowError) as error:
        raise DataError(
            f"`match` cannot parse the pattern {text!r}: {error}",
            code="bad-pattern",
            help="patterns are those of ECMAScript, as in Soufflé; see the language reference",
        ) from None


# ---- how much `re` may backtrack ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ways:
    """A bound of the ways in which a part can match at one place: `factor` times the length of the text to the
    `degree`."""

    factor: int = 1
    degree: int = 0

    def bound(self, length: int) -> int:
        return self.factor * int((length + 1) ** self.degree)


def _ways(items: Any) -> _Ways | None:
    """The ways of a sequence; None if there are choices inside of a repetition, so that they are unbounded."""
    factor, degree = 1, 0
    for code, argument in items:
        each = _ways_of(code, argument)
        if each is None or factor > _MOST_STEPS:
            return None
        factor, degree = factor * each.factor, degree + each.degree
    return _Ways(factor, degree)


def _ways_of(code: Any, argument: Any) -> _Ways | None:
    if code in _REPEATS:
        low, high, body = argument
        inner = _ways(body)
        if inner == _Ways():
            return _Ways(degree=int(low != high))
        if low != high or inner is None or int(low) > _MOST_FIXED:
            return None
        return _Ways(inner.factor ** int(low), inner.degree * int(low))
    if code is sre.BRANCH:
        return _either(list(map(_ways, argument[1])))
    if code is sre.SUBPATTERN:
        return _ways(argument[3])
    if code in (sre.ASSERT, sre.ASSERT_NOT):
        return _ways(argument[1])
    # A back-reference compares as much text as its group.
    return _Ways(degree=int(code is sre.GROUPREF))


def _either(parts: list[_Ways | None]) -> _Ways | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return _Ways(sum(part.factor for part in known), max(part.degree for part in known))


_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)

# ---- all states together --------------------------------------------------------------------------


@dataclass(slots=True)
class _PatternState:
    """A state of the automaton: either a `test` of the next letter and the following state, or `free` transitions to
    states, each with a condition on the position, or None."""

    test: _Test | None = None
    to: int = -1
    free: list[tuple[int, Any]] | None = None


@dataclass(frozen=True, slots=True)
class _LookAhead:
    """A look-ahead: a path from `start` to `end` matches a prefix of the rest of the text, or none does."""

    start: int
    end: int
    negated: bool


class _Automaton:
    def __init__(self) -> None:
        self.states: list[_PatternState] = []
        self.start = -1
        self.end = self.add(_PatternState(free=[]))

    def add(self, state: _PatternState) -> int:
        if len(self.states) >= _MOST_STATES:
            raise _too_long("its repetitions are too large")
        self.states.append(state)
        return len(self.states) - 1

    def sequence(self, items: Any, then: int) -> int:
        """The state from which the items lead to `then`."""
        for code, argument in reversed(list(items)):
            then = self.item(code, argument, then)
        return then

    def item(self, code: Any, argument: Any, then: int) -> int:
        if code in _REPEATS:
            low, high, body = argument
            return self._repeat(low, high, body, then)
        if code is sre.BRANCH:
            return self.add(_PatternState(free=[(self.sequence(branch, then), None) for branch in argument[1]]))
        if code is sre.SUBPATTERN:
            return self.sequence(argument[3], then)
        if code is sre.AT:
            return self.add(_PatternState(free=[(then, argument)]))
        if code in (sre.ASSERT, sre.ASSERT_NOT):
            end = self.add(_PatternState(free=[]))
            ahead = _LookAhead(self.sequence(argument[1], end), end, negated=code is sre.ASSERT_NOT)
            return self.add(_PatternState(free=[(then, ahead)]))
        return self.add(_PatternState(_letter(code, argument), then))

    def _repeat(self, low: int, high: Any, body: Any, then: int) -> int:
        if high is sre.MAXREPEAT:
            loop = self.add(_PatternState(free=[]))
            ways = self.states[loop].free
            assert ways is not None, "just made"
            ways += [(self.sequence(body, loop), None), (then, None)]
            then = loop
        else:
            for _ in range(int(high) - int(low)):
                then = self.add(_PatternState(free=[(self.sequence(body, then), None), (then, None)]))
        for _ in range(int(low)):
            then = self.sequence(body, then)
        return then


@functools.lru_cache(maxsize=64)
def _automaton(text: str) -> _Automaton:
    made = _Automaton()
    made.start = made.sequence(_parser.parse(text, re.ASCII), made.end)
    return made


def _follow(automaton: _Automaton, text: str, pause: Callable[[], None] | None = None) -> bool:
    """Test whether a path from the start to the end matches the text."""
    return _PatternRun(automaton, text, pause).reaches(automaton.start, automaton.end, 0, whole=True)


@dataclass(slots=True)
class _PatternRun:
    """A run of an automaton over a text. The result of a look-ahead at a position is cached: it is a run over the rest
    of the text, so that all of them take at most the square of the length of the text."""

    automaton: _Automaton
    text: str
    pause: Callable[[], None] | None
    found: dict[tuple[_LookAhead, int], bool] = field(default_factory=dict)

    def reaches(self, start: int, end: int, begin: int, *, whole: bool) -> bool:
        """Test whether a path from `start` to `end` matches the `whole` text from `begin` on, or a part of it."""
        states, text = self.automaton.states, self.text
        now = self._closure({start}, begin)
        for place in range(begin, len(text)):
            if end in now and not whole:
                return True
            if self.pause is not None and place % 256 == 0:
                self.pause()
            following = set()
            for each in now:
                state = states[each]
                if state.test is not None and state.test(text[place]):
                    following.add(state.to)
            if not following:
                return False
            now = self._closure(following, place + 1)
        return end in now

    def _closure(self, found: set[int], place: int) -> set[int]:
        stack = list(found)
        while stack:
            for target, condition in self.automaton.states[stack.pop()].free or ():
                if target not in found and (condition is None or self._holds(condition, place)):
                    found.add(target)
                    stack.append(target)
        return found

    def _holds(self, condition: Any, place: int) -> bool:
        """Test an assertion at a position between two letters."""
        if isinstance(condition, _LookAhead):
            known = self.found.get((condition, place))
            if known is None:
                known = self.reaches(condition.start, condition.end, place, whole=False) != condition.negated
                self.found[condition, place] = known
            return known
        if condition is sre.AT_BEGINNING_STRING:
            return place == 0
        if condition is sre.AT_END_STRING:
            return place == len(self.text)
        edge = _is_word(self.text, place - 1) != _is_word(self.text, place)
        return edge if condition is sre.AT_BOUNDARY else not edge


def _is_word(text: str, place: int) -> bool:
    return 0 <= place < len(text) and _WORD.match(text[place]) is not None


_WORD = re.compile(r"\w", re.ASCII)


def _letter(code: Any, argument: Any) -> _Test:
    """The test of one letter by an item."""
    if code is sre.LITERAL:
        return lambda letter: ord(letter) == argument
    if code is sre.NOT_LITERAL:
        return lambda letter: ord(letter) != argument
    if code is sre.RANGE:
        low, high = argument
        return lambda letter: low <= ord(letter) <= high
    if code is sre.IN:
        negated = argument[0][0] is sre.NEGATE
        tests = [_letter(kind, value) for kind, value in argument[negated:]]
        return lambda letter: any(test(letter) for test in tests) != negated
    raise _too_long("it refers back to what it matched")


def _too_long(why: str) -> DataError:
    return DataError(
        f"matching this pattern may take very long: {why}",
        code="bad-pattern",
        help="write it without repetitions inside repetitions, or without back-references",
    )
