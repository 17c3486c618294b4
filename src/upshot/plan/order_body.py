"""Order the steps of a rule body: from the driving literal outward, the cheapest match first by statistics, filters as
soon as their variables are bound."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from upshot.check.names.variables import variables
from upshot.check.program import Literal
from upshot.core.types import Type
from upshot.plan.rule_plan import Absent, Check, Compare, Compute, Match, Operand, Probe, Same, State, Step
from upshot.rewrite.demand.sip import Use, can_fail, equated, is_bound, is_negation, uses
from upshot.syntax.ast import Atom, Call, Comparison, Constant, Not, Term, Test, Variable


class Statistics(Protocol):
    """Current sizes, and estimates if nothing was measured."""

    def size(self, relation: str) -> int:
        """The number of rows."""

    def keys(self, relation: str, columns: tuple[int, ...]) -> int | None:
        """The number of distinct values in these columns, if known."""


def fan_out(statistics: Statistics, relation: str, arity: int, columns: tuple[int, ...]) -> float:
    """The rows expected to match one key on these columns.

    Without a measured key count, all bound columns are assumed to be equally selective.
    """
    size = statistics.size(relation)
    if not columns:
        return float(size)
    if len(columns) >= arity:
        return min(1.0, float(size))
    known = statistics.keys(relation, columns)
    if known is not None:
        return size / max(known, 1)
    return float(max(size, 1) ** (1 - len(columns) / arity))


MOST_STARTS = 4
"""The maximum number of literals, those of the smallest relations, that are tried as the start of a plan."""

CLOSE = 4
"""Estimates that differ by less than this factor count as equal."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The relation and the state that a literal reads."""

    relation: str
    state: State


Resolve = Callable[[str], Resolved]


@dataclass(frozen=True, slots=True)
class OrderedBody:
    """`cost`: estimated number of visited rows per driving row; `types`: those of variables that the order introduced;
    `expected`: the estimated number of rows per binding for each step that matches rows, by its place."""

    steps: tuple[Step, ...]
    cost: float
    types: Mapping[str, Type]
    expected: Mapping[int, float]


def match_atom(atom: Atom, bound: set[str], resolve: Resolve) -> Match:
    """The match of the atom with the bound variables."""
    key: list[tuple[int, Operand]] = []
    binds: dict[str, int] = {}
    repeats: list[tuple[int, str]] = []
    for column, term in enumerate(atom.args):
        match term:
            case Constant():
                key.append((column, term))
            case Variable(name) if name in bound:
                key.append((column, term))
            case Variable(name) if name in binds:
                repeats.append((column, name))
            case Variable(name):
                binds[name] = column
            case _:
                pass
    resolved = resolve(atom.relation)
    pairs = tuple((column, name) for name, column in binds.items())
    return Match(resolved.relation, resolved.state, tuple(key), pairs, tuple(repeats))


def order_body(
    body: Sequence[Literal],
    bound: set[str],
    *,
    resolve: Resolve,
    types: Mapping[str, Type],
    statistics: Statistics,
    first: int | None = None,
    last: Collection[str] = (),
    rule: Sequence[Literal] | None = None,
) -> OrderedBody:
    """Order greedily: every filter whose variables are bound, then the atom with the fewest expected rows. `first`
    forces the first atom; of atoms with similar estimates, those of the relations `last` come last. `rule` is the body
    of the rule that this body was made from.

    An atom without bound variables comes after all others: it is a cross product, and its size may have changed since
    the plan was made.

    A literal that can fail (an overflow, a division) comes after every literal that does not need its result, so that
    it fails only for a binding that satisfies the rest of the body. Of several, those that a test needs come first, and
    the test before the next one.
    """
    state = _Ordering(body, set(bound), resolve, types, statistics, last, body if rule is None else rule)
    if first is not None:
        state.filters()
        state.take(first)
    while state.waiting:
        if state.filters():
            continue
        choice = state.next_atom(independent=True)
        if choice is None and state.fallible_filter():
            continue
        if choice is None:
            choice = state.next_atom(independent=False)
        assert choice is not None, "check lets no unsafe clause through"
        state.take(choice)
    steps, cost = state.steps, state.cost
    introduced = {s.target: types[s.target[:-1]] for s in steps if isinstance(s, Compute) and s.target not in types}
    return OrderedBody(tuple(steps), cost, introduced, state.expected)


def best_start(
    body: Sequence[Literal], *, resolve: Resolve, types: Mapping[str, Type], statistics: Statistics
) -> int | None:
    """The atom to scan when nothing drives the rule, None if the body has no atom."""
    atoms = [(i, a) for i, a in enumerate(body) if isinstance(a, Atom)]
    if not atoms:
        return None
    small = sorted(atoms, key=lambda pair: statistics.size(resolve(pair[1].relation).relation))[:MOST_STARTS]

    def cost(pair: tuple[int, Atom]) -> float:
        ordered = order_body(body, set(), resolve=resolve, types=types, statistics=statistics, first=pair[0])
        return ordered.cost

    return min(small, key=cost)[0]


class _Expected(NamedTuple):
    """The estimate for an atom; the smallest is taken first: no cross product, then fewest rows, then most bound
    columns. A relation of one row is no cross product."""

    is_product: bool
    rows: float
    unbound: int


class _Ordering:
    """A body being ordered. The estimate of a literal is updated only when one of its variables is bound, so that long
    bodies are ordered fast."""

    def __init__(
        self,
        body: Sequence[Literal],
        bound: set[str],
        resolve: Resolve,
        types: Mapping[str, Type],
        statistics: Statistics,
        last: Collection[str],
        rule: Sequence[Literal],
    ) -> None:
        self._last = last
        self._body, self._bound, self._resolve, self._statistics = body, bound, resolve, statistics
        self.waiting = dict.fromkeys(range(len(body)))
        self.steps: list[Step] = []
        self.cost, self._rows = 0.0, 1.0
        self.expected: dict[int, float] = {}
        self._users: dict[str, list[int]] = {}
        for i, literal in enumerate(body):
            for name in variables(literal):
                self._users.setdefault(name, []).append(i)
        self._fails = [can_fail(literal, types) for literal in body]
        use = uses(rule) if sum(self._fails) > 1 else {}
        self._use = [use.get(literal, Use.HEAD) for literal in body]
        self._expected = {i: self._rows_of(i) for i, literal in enumerate(body) if isinstance(literal, Atom)}
        # Negations come after other filters: they look a row up.
        others = [i for i, literal in enumerate(body) if not isinstance(literal, Atom)]
        self._filters = dict.fromkeys(sorted(others, key=lambda i: is_negation(body[i])))
        self._place = {i: place for place, i in enumerate(self._filters)}
        self._ready = {i for i in self._filters if not self._fails[i]}
        self._fallible = {i for i in self._filters if self._fails[i]}
        self._order = sorted((self._use[i], i) for i in self._fallible)

    def filters(self) -> bool:
        """Append every filter that needs no further binding and cannot fail; return whether there was one."""
        found_any = False
        while True:
            ready = sorted(self._ready, key=self._place.__getitem__)
            progress = [i for i in ready if self._take_filter(i)]
            if not progress:
                return found_any
            found_any = True

    def fallible_filter(self) -> bool:
        """Append one filter that can fail; return whether there was one. Those that a test needs come first, in the
        order of the text, and the test comes before the next one."""
        while self._order:
            _, i = heappop(self._order)
            if i in self._fallible and self._take_filter(i):
                return True
        return False

    def _take_filter(self, i: int) -> bool:
        self._ready.discard(i)
        self._fallible.discard(i)
        found = _filter_steps(self._body[i], self._bound, self._resolve)
        if not found:
            return False
        del self._filters[i], self.waiting[i]
        self.steps += found
        self._bind(step.target for step in found if isinstance(step, Compute))
        return True

    def next_atom(self, *, independent: bool) -> int | None:
        """The waiting atom with the fewest expected rows; `independent`: only atoms that need no fallible result."""
        if not self._expected:
            return None
        awaited: set[str] = set()
        if independent:
            awaited = {name for i in self._filters if self._fails[i] for name in equated(self._body[i])} - self._bound
        atoms = [i for i in self._expected if not awaited or awaited.isdisjoint(variables(self._body[i]))]
        best = min(atoms, key=self._expected.__getitem__, default=None)
        if best is None or not self._last or self._expected[best].is_product:
            return best
        near = [i for i in atoms if self._is_near(i, self._expected[best].rows) and not self._is_last(i)]
        return min(near, key=self._expected.__getitem__, default=best)

    def _is_near(self, i: int, rows: float) -> bool:
        expected = self._expected[i]
        return not expected.is_product and expected.rows <= CLOSE * rows

    def _is_last(self, i: int) -> bool:
        atom = self._body[i]
        assert isinstance(atom, Atom)
        return self._resolve(atom.relation).relation in self._last

    def take(self, choice: int) -> None:
        """Append the atom as the next step."""
        atom = self._body[choice]
        assert isinstance(atom, Atom)
        rows = self._expected.pop(choice).rows
        self.expected[len(self.steps)] = rows
        self._rows *= max(rows, 1e-6)
        self.cost += self._rows
        match = match_atom(atom, self._bound, self._resolve)
        self.steps.append(Probe(match, whole=len(match.key) == len(atom.args)))
        del self.waiting[choice]
        self._bind(name for _, name in match.binds)

    def _bind(self, names: Iterable[str]) -> None:
        for name in names:
            self._bound.add(name)
            for i in self._users.get(name, ()):
                if i in self._expected:
                    self._expected[i] = self._rows_of(i)
                elif i in self._filters and not self._fails[i]:
                    self._ready.add(i)
                elif i in self._filters and i not in self._fallible:
                    self._fallible.add(i)
                    heappush(self._order, (self._use[i], i))

    def _rows_of(self, i: int) -> _Expected:
        atom = self._body[i]
        assert isinstance(atom, Atom)
        match = match_atom(atom, self._bound, self._resolve)
        columns = tuple(column for column, _ in match.key)
        rows = fan_out(self._statistics, match.relation, len(atom.args), columns)
        is_product = bool(self._bound) and bool(atom.args) and not columns and rows != 1
        return _Expected(is_product, rows, -len(columns))


def _filter_steps(literal: Literal, bound: set[str], resolve: Resolve) -> list[Step]:
    """The steps for a comparison, test or negation; none while a variable is unbound."""
    match literal:
        case Comparison("=", left, right):
            return _equation(left, right, bound)
        case Not(Atom(_, args) | Test(_, args)) | Test(_, args):
            if not all(is_bound(t, bound) for t in args):
                return []
        case Comparison(_, left, right):
            if not (is_bound(left, bound) and is_bound(right, bound)):
                return []
        case _:
            raise AssertionError(f"not in normal form: {literal}")
    match literal:
        case Not(Atom(name, args)):
            resolved = resolve(name)
            return [Absent(resolved.relation, resolved.state, tuple(_operand(t) for t in args))]
        case Not(Test() as test):
            return [Check(test, negated=True)]
        case Test():
            return [Check(literal)]
        case Comparison(op, left, right):
            return [Compare(op, _operand(left), _operand(right))]
        case _:
            raise AssertionError(literal)


def _equation(left: Term, right: Term, bound: set[str]) -> list[Step]:
    """Bind the side that is still unbound; compare if both are bound."""
    for target, value in ((left, right), (right, left)):
        if not isinstance(target, Variable) or not is_bound(value, bound):
            continue
        if target.name not in bound:
            return [Compute(target.name, value if isinstance(value, Call) else _operand(value))]
        if isinstance(value, Call):
            again = Variable(target.name + "'")
            return [Compute(again.name, value), Same(target, again)]
    if is_bound(left, bound) and is_bound(right, bound):
        return [Compare("=", _operand(left), _operand(right))]
    return []


def _operand(term: Term) -> Operand:
    assert isinstance(term, Variable | Constant), term
    return term
