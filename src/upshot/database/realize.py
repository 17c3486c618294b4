"""View updating: the realisations of a request, found one by one; applying one; repairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import DataError, UsageError
from upshot.core.row_sets import row_set
from upshot.database.changes import unknown_relation
from upshot.database.constraints import fact
from upshot.database.given_rows import given_rows
from upshot.database.realization import Realization
from upshot.database.state import State
from upshot.database.transaction import Transaction
from upshot.database.tried_changes import TriedChanges, by_relation
from upshot.database.what_if import WhatIf, what_if
from upshot.reasons.search import one_nan
from upshot.revise.branch import Branch
from upshot.revise.model_state import minimal_choices
from upshot.revise.request import DELETE, INSERT, Bounds, Key, Preferences, Request, Row
from upshot.revise.rules import Rules
from upshot.revise.search import Search

ALL, NONE, BOUNDED, FROZEN, OPEN = "all", "none exists", "bounds reached", "only through frozen", "more"


class Realizations(Iterator[Realization]):
    """The realisations of a request, the cheapest first, each found and proven when it is asked for.

    `status` says how the search stands: `more` while it goes on; then `all` if these are all there are, `bounds
    reached` if the search was cut short, `none exists`, or `only through frozen`. `reason` says it in words.
    """

    def __init__(
        self,
        state: State,
        request: Request,
        preferences: Preferences,
        bounds: Bounds,
        *,
        limit: int | None = None,
        by_side_effects: bool = False,
    ) -> None:
        self._state, self._request, self._preferences, self._bounds = state, request, preferences, bounds
        self._limit, self._by_side_effects = limit, by_side_effects
        self._waiting: list[Realization] | None = None
        self._version = state.version
        self._world = TriedChanges(state)
        with state.writing("look for realisations"):
            self._search = self._made(preferences)
        self._given = self._proven_so_far = 0
        self._unproven: list[str] = []
        self.status, self.reason = OPEN, ""

    @property
    def work(self) -> Mapping[str, int]:
        """What the search took so far: branches looked at, propagations, matches of rule bodies, columns read."""
        return {**self._search.counts, "propagations": self._world.propagations}

    @property
    def is_certain_to_end(self) -> bool:
        """Whether the search ends by itself, whatever the bounds: no rule that the request or a constraint reaches asks
        for values that its head does not name."""
        asked = {name for name, _ in (*self._request.insert, *self._request.delete)}
        return not self._search.rules.leaves_columns_out([*asked, *self._search.constraints])

    def disjunctions(self) -> list[tuple[str, ...]]:
        """What the realisations found so far have in common, as the model state of their changes: of each of these sets
        of changes every realisation makes at least one, and no smaller set will do."""
        ways = [
            frozenset([f"+{self._fact(key)}" for key in insert] + [f"-{self._fact(key)}" for key in delete])
            for (insert, delete), placeholders in self._search.found
            if not placeholders
        ]
        return sorted(tuple(sorted(each)) for each in minimal_choices(ways)) if ways else []

    def __iter__(self) -> Realizations:
        return self

    def __next__(self) -> Realization:
        if self._limit is not None and self._given >= self._limit:
            raise StopIteration
        if self._by_side_effects:
            if self._waiting is None:
                found = list(iter(self._found, None))
                self._waiting = sorted(found, key=lambda each: each.side_effects, reverse=True)
            following = self._waiting.pop() if self._waiting else None
        else:
            following = self._found()
        if following is None:
            raise StopIteration
        self._given += 1
        return following

    def _found(self) -> Realization | None:
        """The next one of the search; None at its end, and then it is known how it ended."""
        while not self._search.is_exhausted:
            branch = self._step(self._search)
            if branch is not None and (proven := self._proven(branch)) is not None:
                self._proven_so_far += 1
                return proven
        if self.status == OPEN:
            self.status, self.reason = self._verdict()
        return None

    def _made(self, preferences: Preferences) -> Search:
        compiled = self._state.compiled
        constraints = [name for name, each in compiled.checked.constraints.items() if each.on_violation == "reject"]
        return Search(self._world, Rules(compiled.plan.normal), constraints, self._request, preferences, self._bounds)

    def _step(self, search: Search) -> Branch | None:
        with self._state.writing("look for realisations"):
            if self._state.version != self._version:
                message = "the database has changed since these realisations were asked for"
                raise UsageError(message, code="state-changed", help="ask again")
            return search.run()

    def _proven(self, branch: Branch) -> Realization | None:
        """The realisation with its effects, if propagation and the rules of the database confirm it."""
        insert, delete = self._shown(branch.insert), self._shown(branch.delete)
        # The search has propagated it already and seen that the request holds; only rules of users have not had a say.
        effects = None if self._state.compiled.checked.rules else self._world.effects(branch.insert, branch.delete)
        if effects is None:
            effects = what_if(self._state, insert, delete)
            objection = objection_to(self._state, self._request, effects)
            if objection:
                self._unproven.append(objection)
                return None
        price = self._preferences.price
        cost = sum(price(n, INSERT) for n, _ in branch.insert) + sum(price(n, DELETE) for n, _ in branch.delete)
        names = {each.witness: each for each in branch.placeholders}
        used = {value for _, row in branch.insert for value in row}
        return Realization(
            {name: tuple(tuple(names.get(v, v) for v in row) for row in rows) for name, rows in insert.items()},
            {name: tuple(rows) for name, rows in delete.items()},
            effects,
            cost,
            branch.conditions,
            tuple(each for each in branch.placeholders if each.witness in used),
            self._request,
            self._state.schemas,
            self._version,
        )

    def _shown(self, keys: Iterable[Key]) -> dict[str, list[Row]]:
        """Rows by the names that users give to the relations that keep them."""
        return {self._public(name): rows for name, rows in by_relation(keys).items()}

    def _fact(self, key: Key) -> str:
        return fact(self._state.schemas[self._public(key[0])], key[1])

    def _public(self, name: str) -> str:
        """What users call a relation: facts that a view was given are kept under a hidden name."""
        homes = self._state.compiled.checked.input_part.items()
        return next((view for view, home in homes if home == name), name)

    def _verdict(self) -> tuple[str, str]:
        limits = self._search.limits
        if limits.reached:
            bounds = "; ".join(limits.reached)
            found = f"{self._proven_so_far} found" if self._proven_so_far else "none found"
            return BOUNDED, f"{found} within {bounds}"
        if self._proven_so_far:
            number = self._proven_so_far
            return ALL, f"these are all {number}" if number > 1 else "this is the only one"
        if limits.frozen and self._preferences.frozen:
            names = ", ".join(f"`{self._public(name)}`" for name in limits.frozen)
            free = self._made(Preferences(cost=self._preferences.cost))
            while not free.is_exhausted:
                if self._step(free) is not None:
                    return FROZEN, f"none exists that leaves {names} alone, though there are some that do not"
            if free.limits.reached:
                return BOUNDED, f"none found within {'; '.join(free.limits.reached)}, with {names} frozen or not"
        if self._unproven:
            return NONE, f"none exists: {self._unproven[0]}"
        return NONE, f"none exists: {self._dead_end()}"

    def _dead_end(self) -> str:
        """Why the branches came to nothing: a constraint first, then what was asked for."""
        checked = self._state.compiled.checked
        ends = [key for key in self._search.dead_ends if key[0] in self._state.schemas]
        broken = next((name for name, _ in ends if name in checked.constraints), None)
        if broken is not None:
            return f"the constraint `{broken}` would be violated beyond repair"
        asked = [key for key in ends if key in self._request.insert or key in self._request.delete]
        for name, row in (*asked, *ends):
            shown = fact(checked.schemas[name], row)
            there = (name, row) in self._request.insert
            return f"nothing brings `{shown}` about" if there else f"`{shown}` stands in the way, and cannot be changed"
        return "what is asked for contradicts itself"


class Revises:
    """The part of a database that works from views to base relations."""

    _state: State

    def realize(
        self,
        insert: Mapping[str, Any] | None = None,
        delete: Mapping[str, Any] | None = None,
        *,
        limit: int | None = None,
        frozen: Iterable[str] = (),
        cost: Mapping[str, float] | None = None,
        bounds: Bounds | None = None,
        side_effect_free_first: bool = False,
    ) -> Realizations:
        """The minimal sets of base changes after which these rows are there, and those are not, in views or base
        relations, and no constraint is newly violated: the cheapest first, each found when it is asked for.

        `frozen` relations are not touched (`+r` or `-r`: not in this direction); `cost` is the price of one change by
        relation, or by `+r` and `-r`, 1 unless told. With a `limit` at most so many are given. With
        `side_effect_free_first` all are looked for before the first is given, and those that change least beside what
        was asked for come first.
        """
        state = self._state
        state.open()
        request = Request(asked_for(state, insert or {}), asked_for(state, delete or {}))
        if both := request.insert & request.delete:
            name, row = min(both, key=repr)
            message = f"`{fact(state.compiled.checked.schemas[name], row)}` is to be there and not to be there"
            raise UsageError(message, code="request-contradicts", help="ask for one of the two")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise UsageError("`limit` is a positive number, or None for all", code="wrong-argument")
        return Realizations(
            state,
            request,
            preferences_of(state, frozen, cost or {}),
            _bounds(bounds),
            limit=limit,
            by_side_effects=side_effect_free_first,
        )

    def apply(self, realization: Realization, values: Mapping[str, Any] | None = None) -> Transaction:
        """Commits a realisation, with `values` for its placeholders by name. It is proven again in the state as it is
        now: what would no longer bring about the request, or violates a constraint, is refused and nothing happens. The
        transaction, ended."""
        state = self._state
        state.open()
        if not isinstance(realization, Realization):
            raise UsageError("this is no realisation", code="wrong-argument", help="take one of those of `db.realize`")
        insert, delete = realization.filled(_values(realization, values or {}))
        while True:
            version = state.version
            objection = objection_to(state, realization.request, what_if(state, insert, delete))
            if objection:
                raise DataError(
                    f"this is no realisation any more: {objection}" if version != realization.version
                    else f"with these values this is no realisation: {objection}",
                    code="not-a-realization",
                    help="ask `db.realize` again",
                )  # fmt: skip
            transaction = Transaction(state, None)
            with transaction:
                if state.version == version:
                    for name, rows in delete.items():
                        transaction.delete(name, rows)
                    for name, rows in insert.items():
                        transaction.insert(name, rows)
                    break
        return transaction

    def repairs(
        self,
        constraint: str | None = None,
        *,
        insert: Mapping[str, Any] | None = None,
        delete: Mapping[str, Any] | None = None,
        limit: int | None = None,
        frozen: Iterable[str] = (),
        cost: Mapping[str, float] | None = None,
        bounds: Bounds | None = None,
    ) -> Realizations:
        """The ways to do away with the violations there are, of one constraint or of all; or, for insertions and
        deletions of base rows that would be rejected, the ways to make them together with what they need."""
        state = self._state
        state.open()
        if insert or delete:
            return self.realize(insert, delete, limit=limit, frozen=frozen, cost=cost, bounds=bounds)
        known = state.compiled.checked.constraints
        if constraint is not None and constraint not in known:
            hint = did_you_mean(constraint, known) or "name a constraint of the program"
            raise UsageError(f"there is no constraint `{constraint}`", code="unknown-relation", help=hint)
        with state.reading() as engine:
            asked = {name: list(engine.rows(name)) for name in known if constraint in (None, name)}
        return self.realize(None, asked, limit=limit, frozen=frozen, cost=cost, bounds=bounds)


# ---- what is given --------------------------------------------------------------------------------------------


def asked_for(state: State, given: Mapping[str, Any]) -> frozenset[Key]:
    """The rows of a request, each under the relation that holds it."""
    found: set[Key] = set()
    for name, rows in given.items():
        schema = state.schema(name)
        listed = given_rows(schema, rows)
        if not isinstance(listed, list):
            listed = list(zip(*(column.to_pylist() for column in listed.columns), strict=True))
        for row in listed:
            with state.reading() as engine:
                engine.contains(name, row)
            found.add((name, one_nan(row)))
    return frozenset(found)


def preferences_of(state: State, frozen: Iterable[str], cost: Mapping[str, float]) -> Preferences:
    """What `frozen` and `cost` say, by the relations that keep the rows."""
    if isinstance(frozen, str):
        frozen = (frozen,)
    barred = {place for text in frozen for place in _places(state, text)}
    prices: dict[tuple[str, str], float] = {}
    # A price for one direction counts more than one for both.
    for text, price in sorted(cost.items(), key=lambda item: item[0][:1] in (INSERT, DELETE)):
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < math.inf:
            message = f"the cost of `{text}` is not a number from 0 on"
            raise UsageError(message, code="wrong-argument", help='as in cost={"-granted": 5}')
        prices |= dict.fromkeys(_places(state, text), price)
    return Preferences(frozenset(barred), prices)


def _places(state: State, text: str) -> list[tuple[str, str]]:
    signs = [text[0]] if text[:1] in (INSERT, DELETE) else [INSERT, DELETE]
    name = text.lstrip("+-")
    if name not in state.schemas:
        raise unknown_relation(name, state.schemas)
    home = state.compiled.home(name)
    if home is None:
        message = f"`{name}` is a view: only base relations are changed"
        raise UsageError(message, code="not-a-base-relation", help="name a base relation")
    return [(home, sign) for sign in signs]


def _bounds(bounds: Bounds | None) -> Bounds:
    if bounds is None:
        return Bounds()
    if not isinstance(bounds, Bounds):
        raise UsageError("`bounds` are given as `upshot.Bounds`", code="wrong-argument", help="as in Bounds(seconds=2)")
    return bounds


def _values(realization: Realization, values: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name.lstrip("?"): each for each in realization.placeholders}
    given = {name.lstrip("?"): value for name, value in values.items()}
    for name in given:
        if name not in names:
            raise UsageError(f"the realisation has no placeholder `?{name}`", code="wrong-argument")
    missing = [each.name for name, each in names.items() if name not in given]
    if missing:
        raise UsageError(
            f"the realisation leaves {', '.join(f'`{name}`' for name in missing)} open",
            code="placeholder-open",
            help=f'say which new value is meant: `db.apply(realization, {{"{missing[0]}": …}})`',
        )
    return {f"?{name}": value for name, value in given.items()}


def objection_to(state: State, request: Request, effects: WhatIf) -> str:
    """Why a change with these effects is no realisation; nothing if it is one."""
    schemas = state.schemas
    for keys, there in ((request.insert, True), (request.delete, False)):
        for name, row in sorted(keys, key=repr):
            change = effects[name]
            with state.reading() as engine:
                before = engine.contains(name, row)
            after = row in row_set(change.inserted) or (before and row not in row_set(change.deleted))
            if after != there:
                return f"`{fact(schemas[name], row)}` would {'not ' * there}be there"
    for name, witnesses in effects.violations.items():
        policy = state.compiled.checked.constraints.get(name)
        if witnesses and (policy is None or policy.on_violation == "reject"):
            kind = "the key of" if policy is None else "the constraint"
            return f"{kind} `{name}` would be violated"
    return ""
