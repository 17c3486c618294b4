"""View updating: iterate the realizations of a request, apply one, find repairs."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import ConstraintError, DataError, LimitError, RuleError, UsageError, counted
from upshot.core.fact_text import fact
from upshot.database.expectations import NOT_AS_EXPECTED, as_stored, require
from upshot.database.queries.what_if import WhatIf, what_if
from upshot.database.realization import Realization
from upshot.database.search_arguments import (
    LEAST_SIDE_EFFECTS,
    bounds_of,
    limit_of,
    pattern_rows,
    preferences_of,
    request_of,
    require_base_rows,
    require_name,
    require_rows,
    values_of,
)
from upshot.database.search_reach import search_reach, search_rules
from upshot.database.state import DatabaseState
from upshot.database.stated_conditions import require_conditions
from upshot.database.transaction import Transaction
from upshot.database.tried_changes import TriedChanges, by_relation
from upshot.engine.local.kernel.machine import MACHINE
from upshot.revise.description import Found
from upshot.revise.minimal_realizations import SLICE, Search, minimal_choices
from upshot.revise.placeholders import Formula, by_place
from upshot.revise.request import Bounds, Key, Preferences, Request, Row
from upshot.revise.side_effects import adding_up, uncertain_views
from upshot.revise.termination import leaves_columns_out, unbounded_views

ALL, NONE, BOUNDED, FROZEN, OPEN = "all", "none exists", "bounds reached", "only through frozen", "more"
ALREADY_TRUE = "nothing to do: already true"
ORDERING = 0.5
"""The share of the time after which realizations are returned although others may have fewer side effects."""


class Realizations(Iterator[Realization]):
    """The realizations of a request, the cheapest first, each found and proven when it is requested.

    `status` is `more` while the search continues; then `all`, `bounds reached`, `none exists` or `only through frozen`.
    `reason` explains it.
    """

    def __init__(
        self,
        state: DatabaseState,
        request: Request,
        preferences: Preferences,
        bounds: Bounds,
        *,
        limit: int | None = None,
        all_first: bool = False,
    ) -> None:
        self._state, self._request, self._preferences, self._bounds = state, request, preferences, bounds
        self._limit = limit
        self._waiting: list[tuple[int, float, int, Realization]] = []
        """Realizations that are not returned yet, since others may have fewer side effects."""
        self._all_first = all_first
        self._is_out_of_order = False
        """True if one was returned although others might have fewer side effects."""
        self._version = state.version
        self._world = TriedChanges(state)
        with state.writing("search for realizations"):
            self._search = self._new_search(preferences)
        self._unfrozen: Search | None = None
        self._returned = self._proven_so_far = 0
        self._waited_before = MACHINE.seconds_waited
        self._unproven: list[str] = []
        self.status, self.reason = OPEN, "the search has not ended: there may be more"
        if views := self.unbounded:
            names = ", ".join(f"`{name}`" for name in views)
            self.reason += f", since rows of {names} can need any number of fresh values"

    @property
    def version(self) -> int:
        """The version of the database in which they are valid."""
        return self._version

    @property
    def work(self) -> Mapping[str, int]:
        """The work of the search so far: models of the solver, instances of rules, candidates, propagations."""
        return {**self._search.counts, "propagations": self._world.propagations}

    @property
    def is_certain_to_end(self) -> bool:
        """Test whether the search terminates without bounds: no rule below the request or a constraint has variables
        that its head lacks."""
        asked = {name for name, _ in (*self._request.insert, *self._request.delete)}
        return not leaves_columns_out(self._search.rules, [*asked, *self._search.constraints])

    @property
    def unbounded(self) -> tuple[str, ...]:
        """The views whose rows can need any number of fresh values, by recursion, or through negations and constraints.
        Computed from the rules, before the search. Empty if the number is bounded."""
        search = self._search
        found = unbounded_views(search.rules, self._request, search.constraints, self._preferences.frozen)
        return tuple(dict.fromkeys(search.rules.shown(name) for name in found))

    def disjunctions(self) -> list[tuple[str, ...]]:
        """The model state of the realizations found so far: the minimal sets of which every realization makes at least
        one change."""
        ways = [
            frozenset([f"+{self._fact(key)}" for key in known.insert] + [f"-{self._fact(key)}" for key in known.delete])
            for known in self._search.found
            if not known.placeholders
        ]
        return sorted(tuple(sorted(each)) for each in minimal_choices(ways)) if ways else []

    def __iter__(self) -> Realizations:
        return self

    def __next__(self) -> Realization:
        if self._limit is not None and self._returned >= self._limit:
            if self._waiting and self._search.is_exhausted and self.status == OPEN:
                self._conclude(SLICE)
            raise StopIteration
        while self.status == OPEN:
            if (following := self.advance()) is not None:
                self._returned += 1
                return following
        raise StopIteration

    def advance(self, seconds: float = SLICE, models: float = math.inf) -> Realization | None:
        """Continue the search for about so many seconds, and at most until the solver has returned so many models
        altogether: the next realization if that was enough to find it. The search has ended once `status` is not
        `more`."""
        if self.status != OPEN:
            return None
        if not self._preferences.least_side_effects:
            return self._advanced(seconds, models)
        is_known = self._is_next_known()
        if not self._search.is_exhausted and not is_known and not self._is_late():
            found = self._advanced(seconds, models)
            if found is not None:
                place = (found.side_effects, found.cost, self._proven_so_far)
                heapq.heappush(self._waiting, (*place, found))
            is_known = self._is_next_known()
        has_ended = self._search.is_exhausted or self.status != OPEN
        if self._waiting and (is_known or has_ended or self._is_late()):
            is_known = is_known or (has_ended and not self._search.reached)
            self._is_out_of_order = self._is_out_of_order or not is_known
            return heapq.heappop(self._waiting)[-1]
        return self._advanced(seconds, models) if self._search.is_exhausted else None

    def _is_next_known(self) -> bool:
        """Test whether no realization that is still to be found precedes the first waiting one."""
        is_bounded = self._search.counted is not None and not self._all_first
        return is_bounded and bool(self._waiting) and self._waiting[0][:2] <= self._search.least

    def _is_late(self) -> bool:
        """Test whether the time for collecting realizations in order is over."""
        return bool(self._waiting) and not self._all_first and self._search.spent > ORDERING * self._bounds.seconds

    def take_waiting(self) -> list[Realization]:
        """The realizations found so far and not returned yet, the fewest side effects first."""
        waiting, self._waiting = sorted(self._waiting), []
        return [each[-1] for each in waiting]

    def _advanced(self, seconds: float, models: float) -> Realization | None:
        """Continue the search, in its own order."""
        if self._search.is_exhausted:
            self._conclude(seconds)
            return None
        branch = self._step(self._search, seconds, models)
        proven = None if branch is None else self._proven(branch)
        if proven is not None:
            self._proven_so_far += 1
            if not proven.size:
                # Whatever changes something is not minimal beside it.
                self.status, self.reason = ALL, ALREADY_TRUE
        return proven

    def _conclude(self, seconds: float) -> None:
        """Determine the status at the end of the search. If it found none because of frozen relations, search for one
        without them."""
        search, possible = self._search, False
        if search.frozen and self._preferences.frozen and not search.reached and not self._proven_so_far:
            if self._unfrozen is None:
                with self._state.writing("search for realizations"):
                    self._unfrozen = self._new_search(Preferences(cost=self._preferences.cost))
            if not self._unfrozen.is_exhausted:
                branch = self._step(self._unfrozen, seconds)
                possible = branch is not None and self._proven(branch) is not None
                if not possible and not self._unfrozen.is_exhausted:
                    return
        self.status, self.reason = self._verdict(possible)

    def _new_search(self, preferences: Preferences) -> Search:
        compiled = self._state.compiled
        constraints = [name for name, each in compiled.checked.constraints.items() if each.on_violation == "reject"]
        rules = search_rules(compiled, frozenset(name for name, _ in (*self._request.insert, *self._request.delete)))
        counted = frozenset[str]()
        if preferences.least_side_effects and not compiled.checked.rules:
            counted = adding_up(compiled.plan.normal, self._request, constraints)
        return Search(
            self._world, rules, constraints, self._request, preferences, self._bounds, counted=counted or None
        )

    def _step(self, search: Search, seconds: float, models: float = math.inf) -> Found | None:
        with self._state.writing("search for realizations"):
            if self._state.version != self._version:
                message = "the database has changed since this search began"
                raise UsageError(message, code="state-changed", help="run the query again")
            return search.run(seconds, models)

    def _proven(self, branch: Found) -> Realization | None:
        """The realization with its effects, if propagation and the rules of the database confirm it."""
        insert, delete = self._public_rows(branch.insert), self._public_rows(branch.delete)
        # The search has propagated it and checked the request; only active rules have not run.
        effects = None if self._state.compiled.checked.rules else self._world.effects(branch.insert, branch.delete)
        if effects is None:
            outcome = _outcome(self._state, insert, delete, self._request)
            if isinstance(outcome, str):
                self._unproven.append(outcome)
                return None
            effects = outcome
        cost = self._preferences.total(branch.insert, branch.delete)
        rows = {(self._public(name), row): shown for (name, row), shown in branch.rows.items()}
        order = by_place(branch.placeholders)
        return Realization(
            {
                name: tuple(sorted((rows.get((name, row), row) for row in own), key=order))
                for name, own in insert.items()
            },
            {name: tuple(own) for name, own in delete.items()},
            effects,
            cost,
            branch.conditions,
            branch.placeholders,
            self._request,
            self._state.schemas,
            self._version,
            rows,
            self._by_trial(branch, effects),
        )

    def _by_trial(self, branch: Found, effects: WhatIf) -> frozenset[str]:
        """The relations whose changes can differ for other values of the placeholders."""
        if not branch.placeholders:
            return frozenset()
        if effects.firings:
            return frozenset(effects)
        program, searched = self._state.compiled.plan.normal, self._search.rules
        computed = {name for (name, _), row in branch.rows.items() if any(isinstance(each, Formula) for each in row)}
        inserted = {name for name, _ in branch.insert}
        found = uncertain_views(program, inserted, branch.certain, computed) | branch.open
        witnesses = {each.witness for each in branch.placeholders}
        for name, change in effects.items():
            # Rules outside the search have no formulas.
            is_searched = name in searched.by_view or name in searched.folds or searched.is_base(name)
            if not is_searched and not all(map(witnesses.isdisjoint, change.inserted)):
                found |= {name}
        return found & self._state.schemas.keys()

    def _public_rows(self, keys: Iterable[Key]) -> dict[str, list[Row]]:
        """Rows by public names of relations."""
        found = ((self._public(name), rows) for name, rows in by_relation(keys).items())
        return {name: [as_stored(row, self._state.schemas[name]) for row in rows] for name, rows in found}

    def _fact(self, key: Key) -> str:
        return fact(self._state.schemas[self._public(key[0])], key[1])

    def _public(self, name: str) -> str:
        """The public name of a relation: facts of a view are stored under a hidden name."""
        homes = self._state.compiled.checked.input_part.items()
        return next((view for view, home in homes if home == name), name)

    def _verdict(self, possible_unfrozen: bool) -> tuple[str, str]:
        search = self._search
        if search.reached:
            bounds = "; ".join(search.reached)
            found = f"{self._proven_so_far} found" if self._proven_so_far else "none found"
            more = "; others may have fewer side effects" if self._waiting or self._is_out_of_order else ""
            return BOUNDED, f"{found} within {bounds}{self._waited()}{more}"
        if self._proven_so_far:
            number = self._proven_so_far
            if self._waiting:
                return ALL, f"there are {number}, of which these have the fewest side effects"
            late = ", those first that were found in time for the order" if self._is_out_of_order else ""
            return ALL, f"these are all {number}{late}" if number > 1 else "this is the only one"
        if self._unfrozen is not None:
            names = ", ".join(f"`{self._public(name)}`" for name in search.frozen)
            if possible_unfrozen:
                return FROZEN, f"none exists that does not change {names}, but some exist that do"
            if reached := self._unfrozen.reached:
                return BOUNDED, f"none found within {'; '.join(reached)}, with {names} frozen or not"
        if self._unproven:
            return NONE, f"none exists: {self._unproven[0]}"
        return NONE, f"none exists: {self._dead_end()}"

    def _waited(self) -> str:
        """A part of `reason`: machine code was compiled during the search, which is done once."""
        seconds = round(MACHINE.seconds_waited - self._waited_before)
        if not seconds or not any("second" in each for each in self._search.reached):
            return ""
        return f"; compiling the engine, which is done once, took {counted(seconds, 'second')}: repeat the request"

    def _dead_end(self) -> str:
        """The goals that cannot be met together: a constraint, a key, or rows of the request."""
        checked = self._state.compiled.checked
        goals = [key for key in self._search.contradictory() if key[0] in checked.schemas]
        broken = next((name for name, _ in goals if name in checked.constraints and name in self._state.schemas), None)
        if broken is not None:
            return f"the constraint `{broken}` would be violated beyond repair"
        asked = [key for key in goals if key in self._request.insert or key in self._request.delete]
        keyed = next((key for key in goals if key[0] in self._state.schemas and self._has_key(key[0])), None)
        if len(asked) != 1 and keyed is not None:
            return self._key_conflict(keyed)
        if len(asked) != 1:
            return "the request contradicts itself"
        (key,) = asked
        shown = fact(checked.schemas[key[0]], key[1])
        if key in self._request.insert:
            return f"`{shown}` cannot be derived"
        return f"`{shown}` prevents it, and cannot be changed"

    def _has_key(self, name: str) -> bool:
        """Test whether a relation is a base relation with a key."""
        return bool(self._state.schemas[name].keys) and self._search.rules.is_base(name)

    def _key_conflict(self, key: Key) -> str:
        schema = self._state.schemas[key[0]]
        keys = " or ".join(f"({', '.join(schema.columns[place].name for place in each)})" for each in schema.keys)
        return f"rows that are needed beside `{fact(schema, key[1])}` share its key {keys}"


class Revises:
    """The part of a database that works from views to base relations."""

    _state: DatabaseState

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
        prefer: str | None = None,
    ) -> Realizations:
        """Find minimal sets of base changes that insert and delete these rows of views or base relations and violate no
        further constraint. The cheapest come first; each is searched for when it is requested.

        Rows to delete may be a pattern, as in `delete={"access": 'access("ann", _)'}`: all current rows that match.
        `frozen` relations do not change; `+r` forbids inserts only, `-r` deletes only. `cost` is the price of one
        change by relation, or by `+r` and `-r`; the default is 1. `limit` is the most realizations returned.
        `prefer="least_side_effects"` puts those first that change the fewest other rows of views. Where negation,
        aggregates, keys, constraints or active rules can make effects of several changes cancel, and always with
        `side_effect_free_first`, all realizations are found before the first is returned; if a bound ends that search,
        others may have fewer side effects.
        """
        state = self._state
        state.open()
        return Realizations(
            state,
            require_rows(request_of(state, insert, delete), delete),
            preferences_of(state, frozen, cost, _preference(prefer, side_effect_free_first)),
            bounds_of(bounds),
            limit=limit_of(limit),
            all_first=side_effect_free_first,
        )

    def pattern_rows(self, relation: str, pattern: str) -> list[Row]:
        """The rows of a relation that a pattern such as `access("ann", _)` matches."""
        self._state.open()
        return pattern_rows(self._state, relation, pattern)

    def search_reach(self, relations: Iterable[str]) -> frozenset[str]:
        """The relations, constraints and active rules on which realizations of a request for rows of these relations
        can depend: the answer reveals nothing else."""
        self._state.open()
        return search_reach(self._state.compiled.checked, relations)

    def apply(self, realization: Realization, values: Mapping[str, Any] | None = None) -> Transaction:
        """Commit a realization, with `values` for its placeholders by name, and return the transaction. The current
        state decides: a realization that no longer satisfies the request, or violates a constraint, is rejected and
        nothing is committed."""
        state = self._state
        state.open()
        if not isinstance(realization, Realization):
            raise UsageError(
                "this is not a realization", code="wrong-argument", help="take one of those of `db.realize`"
            )
        given = values_of(realization, values)
        insert, delete = realization.filled(given)
        transaction = Transaction(state, None)
        try:
            with transaction:
                transaction.expect(by_relation(realization.request.insert), by_relation(realization.request.delete))
                for name, rows in delete.items():
                    transaction.delete(name, rows)
                for name, rows in insert.items():
                    transaction.insert(name, rows)
        except ConstraintError as error:
            kind = "the key of" if error.code == "key-violation" else "the constraint"
            violated = f"{kind} `{next(iter(error.violations))}` would be violated"
            require_conditions(realization, given)
            raise self._refused(realization, violated) from None
        except DataError as error:
            if error.code != NOT_AS_EXPECTED:
                raise
            require_conditions(realization, given)
            raise self._refused(realization, error.message) from None
        return transaction

    def _refused(self, realization: Realization, why: str) -> DataError:
        """The error for a change that is no realization. The given values are at fault if the tried ones are valid."""
        if realization.placeholders and self._would_do(realization):
            words, help = "with these values this is not a realization", "give other values, or repeat `db.realize`"
        else:
            words, help = "this is no longer a realization", "repeat `db.realize`"
        return DataError(f"{words}: {why}", code="not-a-realization", help=help)

    def _would_do(self, realization: Realization) -> bool:
        """Test whether it is a realization in the current state, with the tried values."""
        insert, delete = realization.filled(realization.tried)
        return not isinstance(_outcome(self._state, insert, delete, realization.request), str)

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
        side_effect_free_first: bool = False,
        prefer: str | None = None,
    ) -> Realizations:
        """Find realizations that remove the current violations of one constraint or of all. With `insert` and `delete`:
        realizations that make these base changes, which a constraint rejects, together with further changes that
        satisfy the constraint. The other arguments are those of `realize`."""
        state = self._state
        state.open()
        require_name(constraint)
        known = state.compiled.checked.constraints
        if constraint is not None and constraint not in known:
            hint = did_you_mean(constraint, known) or "name a constraint of the program"
            raise UsageError(f"unknown constraint `{constraint}`", code="unknown-relation", help=hint)
        if constraint is not None and (insert or delete):
            message = "`repairs` takes a constraint, or rows to insert and delete, not both"
            help = "with rows, the realizations violate no further constraint"
            raise UsageError(message, code="wrong-argument", help=help)
        if insert or delete:
            require_base_rows(state, insert, delete)
            return self.realize(
                insert, delete, limit=limit, frozen=frozen, cost=cost, bounds=bounds,
                side_effect_free_first=side_effect_free_first, prefer=prefer,
            )  # fmt: skip
        with state.reading() as engine:
            asked = {name: list(engine.rows(name)) for name in known if constraint in (None, name)}
        # Without violations, the answer is one realization without changes.
        preferences = preferences_of(state, frozen, cost, _preference(prefer, side_effect_free_first))
        return Realizations(
            state,
            request_of(state, None, asked),
            preferences,
            bounds_of(bounds),
            limit=limit_of(limit),
            all_first=side_effect_free_first,
        )


def _preference(prefer: str | None, side_effect_free_first: bool) -> str | None:
    return LEAST_SIDE_EFFECTS if prefer is None and side_effect_free_first else prefer


def _outcome(
    state: DatabaseState, insert: Mapping[str, Iterable[Row]], delete: Mapping[str, Iterable[Row]], request: Request
) -> WhatIf | str:
    """The effects of a change with those of active rules; or the reason why it is no realization."""
    try:
        effects = what_if(state, insert, delete, lambda deltas: require(state, deltas, request))
    except (DataError, RuleError, LimitError) as error:
        if error.code == "timeout":
            raise
        # An error of the change, or of its rules, would end the transaction.
        return error.message
    for name, witnesses in effects.violations.items():
        policy = state.compiled.checked.constraints.get(name)
        if witnesses and (policy is None or policy.on_violation == "reject"):
            return f"{'the key of' if policy is None else 'the constraint'} `{name}` would be violated"
    return effects
