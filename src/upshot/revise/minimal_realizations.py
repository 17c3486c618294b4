"""All minimal realizations of a request, the cheapest first. [Behrend & Manthey 2008, section 4]

    request ─► ground program ─► solver ─► candidate ─► witness ─► trial ─► realization
                     ▲              │ deviates              │ none     │ unmet
                     └──────────────┴───────────────────────┴──────────┘

The ground program is always a relaxation: the solver chooses freely whatever it leaves open, so no realization costs
less than the cheapest model. The first candidate without deviations that a trial confirms is a cheapest realization.
With everything that contains it excluded, the next one is the cheapest of the others.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice, permutations, product
from typing import Any, TypeVar

from upshot.core.errors import DataError, LimitError, counted
from upshot.core.types import Kind
from upshot.engine.time_limit import Interruption, check_time, time_limit
from upshot.revise.built_ins import variables
from upshot.revise.candidates import MOST_SPREAD, Trial
from upshot.revise.conditions import Condition, Conditions, Signs, Subject, all_replaced, equal, names_of, sign_of
from upshot.revise.demand import Demand, has_symbol
from upshot.revise.description import Description, Found, Stated, symbols_of
from upshot.revise.families import Families, fresh_symbol
from upshot.revise.ground_program import GroundProgram, Stage
from upshot.revise.groups import is_contradictory, with_totals
from upshot.revise.placeholders import Symbol
from upshot.revise.request import DELETE, INSERT, Bounds, Column, Key, Preferences, Request, World
from upshot.revise.rules import COUNT, Rules
from upshot.revise.solver import Model, Nogood, Solver
from upshot.revise.witnesses import Assignment, is_refuted, pinned, witnesses
from upshot.syntax.ast import Variable

Element = TypeVar("Element", bound=Hashable)

SLICE = 0.05
"""Seconds of one slice of a search; between slices others use the database."""
FIRST_PORTION, LARGEST_PORTION = 40, 4_000
"""Instances by which the ground program grows at a time."""
FEW = 50
"""The most requested rows whose violations of constraints are added at the start."""
MOST_WITNESSES = 6
"""Choices of values that are tried if the consequences of others cannot be computed."""
MOST_COVERED = 20
"""Choices of values that are compared with known realizations."""
MOST_BEYOND = 40
"""Candidates beyond a bound that are tried before realizations beyond it are called possible."""
MOST_RENAMINGS = 200
"""Renamings of the fresh values of a realization that are excluded with it."""


@dataclass(frozen=True, slots=True)
class Form:
    """The insertions of a realization with symbols, and their conditions: the realization for all values that satisfy
    them."""

    rows: tuple[Key, ...]
    found: Found
    conditions: Conditions
    types: Mapping[str, Any]
    families: Families

    def is_part_of(self, insert: frozenset[Key], delete: frozenset[Key]) -> bool:
        """Test whether it is part of a change, with some values of its symbols."""
        if not self.found.delete <= delete or len(self.rows) > len(insert):
            return False
        return self.found.insert <= insert or any(map(self._meets, self._matches(insert, 0, {})))

    def _matches(self, insert: frozenset[Key], place: int, known: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if place == len(self.rows):
            yield known
            return
        relation, row = self.rows[place]
        for _, other in (key for key in insert if key[0] == relation):
            longer = dict(known)
            if all(self._is_given(value, wanted, longer) for value, wanted in zip(row, other, strict=True)):
                yield from self._matches(insert, place + 1, longer)

    def _is_given(self, value: Any, wanted: Any, known: dict[str, Any]) -> bool:
        """Match a value with another one, which becomes the value of an unbound symbol; of a fresh one only if it does
        not occur elsewhere."""
        if not isinstance(value, Symbol):
            return bool(value == wanted)
        if value.is_fresh and self.families.is_known(wanted, value.family):
            return False
        return bool(known.setdefault(value.name, wanted) == wanted)

    def _meets(self, values: dict[str, Any]) -> bool:
        return all(
            names_of(subject)
            and values.keys() >= {*names_of(subject)}
            and sign_of(subject, values, self.types) in signs
            for subject, signs in self.conditions.items()
        )


@dataclass(slots=True)
class Search:
    """A search that runs in slices of time. `constraints` are the relations that must not gain rows."""

    world: World
    rules: Rules
    constraints: Collection[str]
    request: Request
    preferences: Preferences
    bounds: Bounds
    counts: dict[str, int] = field(default_factory=lambda: {"models": 0, "instances": 0, "candidates": 0})
    found: list[Found] = field(default_factory=list)
    reached: dict[str, None] = field(default_factory=dict)
    """The bounds beyond which there are, or can be, other realizations."""
    is_exhausted: bool = False
    spent: float = 0.0
    """The seconds of all slices so far."""
    counted: frozenset[str] | None = None
    """The views whose affected rows count as side effects; all if it is None."""
    least: tuple[int, float] = (0, 0)
    """Lower bounds for the realizations not yet found: the number of rows of the counted views that their changes
    affect one by one, and their cost."""
    frozen: dict[str, None] = field(default_factory=dict)
    """The frozen relations that ruled out a change."""
    _program: GroundProgram | None = None
    _solver: Solver | None = None
    _nogoods: list[Nogood] = field(default_factory=list)
    _blocked: int = 0
    """The number of nogoods that the solver has."""
    _forms: list[Form] = field(default_factory=list)
    _effects: dict[Key, frozenset[Key]] = field(default_factory=dict)
    """The rows of views that a change affects by itself."""
    _portion: int = FIRST_PORTION
    _checks: Iterator[tuple[str, ...]] | None = None
    _lifted: tuple[str, ...] = ()
    _lifted_candidates: int = 0

    @property
    def program(self) -> GroundProgram:
        if self._program is None:
            named = self.request.insert | self.request.delete
            families = Families(self.rules, self.world, named, self.bounds.constants, self.bounds.new_constants + 1)
            demand = Demand(self.world, self.rules, families, self.preferences, self.frozen)
            self._program = GroundProgram(demand, self.request)
            self._program.deny_totals(self.constraints)
            if len(self.request.insert) <= FEW:
                wanted = Model(frozenset(), frozenset(), self.request.insert, {})
                Trial(self.world, self._program, self.constraints, wanted, {}).foresee()
        return self._program

    def run(self, slice: float = SLICE, models: float = math.inf) -> Found | None:
        """Continue for a slice of time, in seconds, until so many models have been examined altogether, or until a
        realization is found, which is returned. Nothing stays staged."""
        begun, left = time.monotonic(), self.bounds.seconds - self.spent
        try:
            with time_limit(max(left, 0.0)):
                while not self.is_exhausted and self.counts["models"] < models:
                    check_time()
                    found = self._step()
                    if found is not None or time.monotonic() - begun > min(slice, left):
                        return found
            return None
        except Interruption:
            raise
        except LimitError as error:
            if error.code != "timeout" or time.monotonic() - begun < left:
                raise
            self.reached[counted(self.bounds.seconds, "second")] = None
            self.is_exhausted = True
            return None
        finally:
            self.world.undo()
            self.spent += time.monotonic() - begun

    def _count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number

    # ---- one candidate ----------------------------------------------------------------------------------------------

    def _step(self) -> Found | None:
        """Take the cheapest model: it becomes a realization, is excluded, or the ground program grows."""
        solver = self._current_solver()
        self._count("models")
        model = solver.cheapest(self._lifted)
        if model is not None and self._effects and not self._lifted:
            alone = (self._effects.get(key, frozenset()) for key in model.changes)
            cost = self.preferences.total(model.insert, model.delete)
            self.least = len(frozenset[Key]().union(*alone)), cost
        if model is None:
            self._conclude(None)
        elif not model.is_settled:
            if "rounds" in self._lifted:
                self._conclude(model)
            else:
                self._expand(model)
        elif self._lifted and (model.is_beyond or self._is_enough()):
            self._conclude(model)
        else:
            return self._examined(solver, model)
        return None

    def _is_enough(self) -> bool:
        """Test whether enough candidates beyond the bounds have failed."""
        self._lifted_candidates += 1
        return self._lifted_candidates > MOST_BEYOND

    def _current_solver(self) -> Solver:
        program = self.program
        if self._solver is None or program.is_grown:
            program.gather()
            program.note_staying()
            program.is_grown = False
            self._note_effects()
            self._solver = Solver(program, self.preferences, self.bounds, self._effects)
            program.is_grown, self._blocked = False, 0
        if self._blocked < len(self._nogoods):
            self._solver.block(self._nogoods[self._blocked :])
            self._blocked = len(self._nogoods)
        return self._solver

    def _note_effects(self) -> None:
        """Try each change by itself, if realizations with the fewest side effects come first."""
        if not self.preferences.least_side_effects:
            return
        asked = self.request.insert | self.request.delete
        for key, node in list(self.program.nodes.items()):
            if not node.is_base or key in self._effects or has_symbol(key):
                continue
            self._effects[key] = frozenset()
            if not self.preferences.is_frozen(key[0], DELETE if node.is_stored else INSERT):
                with suppress(DataError):
                    self.world.stage(() if node.is_stored else (key,), (key,) if node.is_stored else ())
                    affected = self.world.affected() - asked
                    self._effects[key] = frozenset(k for k in affected if self.counted is None or k[0] in self.counted)
        self.world.undo()

    def _expand(self, model: Model) -> None:
        """Expand the rows and groups at which the model deviates."""
        program, most = self.program, self._portion
        self._portion = min(2 * self._portion, LARGEST_PORTION)
        stored = [node for node in model.nodes if node.stage is Stage.UNEXPANDED and node.is_stored]
        program.support(stored, most)
        further = [node for node in model.nodes if node not in stored]
        level = max((node.level for node in further), default=-1)
        made = sum(1 + program.expand(node, most) for node in further)
        made += sum(1 + program.expand_group(group, most) for group in model.groups)
        if further:
            # Rows at the same level would be expanded soon, one after the other.
            with_last = any(self._has_last(node.key) for node in further)
            for node in program.views_in_order():
                if made >= most:
                    break
                is_near = node.level <= level and node.depth < self.bounds.rounds
                if is_near and (with_last or not self._has_last(node.key)):
                    made += 1 + program.expand(node, most - made)
        self._count("instances", made)

    def _has_last(self, key: Key) -> bool:
        last = f"#{self.program.most_fresh + 1}"
        return any(isinstance(value, Symbol) and value.name.endswith(last) for value in key[1])

    def _examined(self, solver: Solver, model: Model) -> Found | None:
        """Try a candidate: the realization, or None; then it is excluded or the ground program has grown."""
        needed = solver.needed(model, self._relevant(model))
        stated = with_totals(needed, self.program, model.true)
        if stated is None or is_contradictory(needed, self.program, model.true):
            self._nogoods.append(self._whole(model, needed))
            return None
        for symbol in symbols_of(model).values():
            if symbol.term is not None:
                same = equal(Variable(symbol.name), symbol.term, self.program.demand.types)
                assert isinstance(same, Condition), "it is named in one side only"
                stated[same.subject] = same.signs
        failure = ""
        for values in islice(self._uncovered(model, stated), MOST_WITNESSES):
            self._count("candidates", not failure)
            trial = Trial(self.world, self.program, self.constraints, model, values)
            try:
                trial.stage()
            except (DataError, LimitError) as error:
                if error.code in ("timeout", "interrupted"):
                    raise
                self.world.undo()
                failure = error.message
            else:
                return self._tried(trial, stated, needed)
        if failure:
            self.reached[f"changes whose consequences can be computed: {failure}"] = None
            self._nogoods.append(Nogood(model.changes, needed))
        else:
            self._exclude(model, stated, needed)
        return None

    def _uncovered(self, model: Model, stated: Conditions) -> Iterator[dict[str, Any]]:
        """Values of the symbols with which a candidate contains no known realization."""
        if not symbols_of(model):
            yield {}
            return
        for values in islice(self._witnesses(model, stated), MOST_COVERED if self.found else None):
            insert = Trial(self.world, self.program, self.constraints, model, values).insert
            if not any(each.is_part_of(insert, model.delete) for each in self._forms):
                yield values

    def _exclude(self, model: Model, stated: Conditions, needed: Conditions) -> None:
        """Exclude a candidate that has no witness, or whose witnesses all contain known realizations."""
        is_covered = bool(self.found) and next(self._witnesses(model, stated), None) is not None
        if is_covered or not needed:
            self._nogoods.append(Nogood(model.changes, needed))
        elif any(name in self.program.totals for each in needed for name in names_of(each)):
            self._nogoods.append(self._whole(model, needed))
        else:
            types = {name: self.program.demand.types[name] for each in stated for name in names_of(each)}
            fewest = _fewest(stated, lambda some: is_refuted(some, types))
            self._nogoods.append(Nogood(frozenset(), fewest))

    def _whole(self, model: Model, needed: Conditions) -> Nogood:
        """A nogood of exactly this candidate; or of its groups, if their values contradict a minimal set of
        conditions."""
        needed = _fewest(needed, lambda some: is_contradictory(some, self.program, model.true))
        totals = [
            self.program.totals[name] for each in needed for name in names_of(each) if name in self.program.totals
        ]
        names = tuple(dict.fromkeys(each.group for each in totals if each.group in self.program.groups))
        if not names:
            return Nogood(model.changes, needed, is_exact=True)
        rows = frozenset(key for name in names for key in self.program.groups[name].rows if key in model.true)
        return Nogood(frozenset(), needed, False, names, rows)

    def _tried(self, trial: Trial, stated: dict[Subject, Signs], needed: Conditions) -> Found | None:
        """The realization of a staged candidate; if it is none, the instances that prove this are added."""
        model = trial.model
        unmet, conflicts = list(trial.unmet()), trial.conflicts()
        if not unmet and not conflicts:
            trial.explain_groups({name for each in needed for name in names_of(each)})
            if trial.presumed or (trial.values and trial.spread()):
                self.program.support(trial.presumed, self._portion)
                self.world.undo()
                return None
            return self._confirmed(trial, stated, needed)
        known = len(self.program.nodes)
        grown = trial.refine(unmet, conflicts)
        self._foresee(known)
        if trial.presumed:
            self.program.support(trial.presumed, self._portion)
        elif not grown:
            self._nogoods.append(Nogood(model.changes, needed, is_exact=True))
        self.world.undo()
        return None

    def _foresee(self, known: int) -> None:
        """Add the violations of rows that repairs can insert, up to a portion, on an engine where queries are cheap."""
        nodes, made = self.program.nodes, 0
        self.world.undo()
        trial = Trial(self.world, self.program, self.constraints, Model(frozenset(), frozenset(), frozenset(), {}), {})
        while self.world.is_local and made < self._portion and (new := list(islice(nodes.values(), known, None))):
            known += len(new)
            for node in new:
                is_insertable = node.is_base and not node.is_stored and node.depth <= self.bounds.rounds
                is_insertable = is_insertable and not self.preferences.is_frozen(node.key[0], INSERT)
                if is_insertable and made < self._portion and not has_symbol(node.key):
                    made += trial.foresee_row(node.key, node.depth)
        if made >= self._portion:
            self._portion = min(2 * self._portion, LARGEST_PORTION)

    # ---- fresh values -----------------------------------------------------------------------------------------------

    def _relevant(self, model: Model) -> list[Subject]:
        """The subjects of conditions whose symbols all occur in the candidate."""
        symbols = {value for key in model.true for value in key[1] if isinstance(value, Symbol)}
        alive = {each.name for each in symbols}
        # The fields of a record occur with it.
        alive |= {name for each in symbols if each.type.kind is Kind.RECORD for name in variables(each.written)}
        alive |= set(self.program.totals)
        found = [each for each in model.signs if alive.issuperset(names_of(each)) and model.signs[each] != 2]
        return [each for each in found if not self._is_native(each, model)]

    def _is_native(self, subject: Subject, model: Model) -> bool:
        """Test whether the solver computes the sign of a subject: a comparison of a group without fresh amounts."""
        names = names_of(subject)
        totals = [name for name in names if name in self.program.totals]
        if len(totals) != 1:
            return False
        group = self.program.group_of(totals[0])
        if group is not None and not group.fold.is_weighed:
            return False
        if group is not None and group.fold.function in ("min", "max"):
            return True
        if len(names) > 1 or group is None:
            return len(names) == 1
        return not any(isinstance(group.fold.amount_in(k[1]), Symbol) for k in group.rows if k in model.true)

    def _witnesses(self, model: Model, stated: Conditions) -> Iterator[dict[str, Any]]:
        """Values of the symbols that satisfy the conditions; fresh unless equations determine them."""
        symbols = symbols_of(model)
        names = {*symbols, *(name for each in stated for name in names_of(each))}
        types = {name: self.program.demand.types[name] for name in names}
        exact = {name for each, signs in stated.items() if signs == {0} for name in names_of(each)}
        own: dict[Column, set[str]] = {}
        for symbol in symbols.values():
            if symbol.is_fresh:
                own.setdefault(symbol.family, set()).add(symbol.name)
        exact |= {name for name, symbol in symbols.items() if not symbol.is_fresh}
        families = self.program.families
        inserted = {(families.of((name, at)), value) for name, row in model.insert for at, value in enumerate(row)}
        apart = [frozenset(each) for each in own.values() if len(each) > 1]
        found = False
        for looser in dict.fromkeys((frozenset(exact), frozenset(exact | pinned(stated, types).keys()))):

            def is_usable(name: str, value: Any, free: Collection[str] = looser) -> bool:
                if name not in symbols or name in free:
                    return True
                family = symbols[name].family
                return not families.is_known(value, family) and (family, value) not in inserted

            for each in witnesses(Assignment(stated, types, apart, is_usable)):
                found = True
                yield each
            if found:
                break
        if not found and not is_refuted(stated, types):
            self.reached["the fresh values that were tried"] = None

    # ---- realizations -----------------------------------------------------------------------------------------------

    def _confirmed(self, trial: Trial, stated: dict[Subject, Signs], needed: Conditions) -> Found | None:
        shown = Description(self.program).stated(trial.model, stated)
        if self._has_too_many(shown):
            self._nogoods.append(Nogood(trial.model.changes, needed, is_within_bounds=True))
            return None
        if self._lifted:
            self._conclude(trial.model)
            return None
        if trial.is_cut:
            self.reached[f"the first {MOST_SPREAD:,} rule instances that put conditions on fresh values"] = None
        made = Description(self.program).named(trial, shown)
        self._forms.append(
            Form(tuple(sorted(trial.model.insert, key=repr)), made, stated, shown.types, self.program.families)
        )
        # With other values for the determined symbols, the same changes can be part of other realizations.
        determined = symbols_of(trial.model).keys() - shown.open.keys()
        signs = {each: own for each, own in needed.items() if determined.intersection(names_of(each))}
        self._nogoods += self._renamings(trial.model, signs)
        if any(set(each.insert) == set(made.insert) and each.delete == made.delete for each in self.found):
            return None
        self.found.append(made)
        return made

    def _has_too_many(self, stated: Stated) -> bool:
        """Test whether there are more fresh values than permitted, not counting those that equations determine. Columns
        that are not joined or compared share them."""
        conditions = stated.conditions.items()
        determined = {min(names_of(each)) for each, signs in conditions if signs == {0} and len(names_of(each)) > 1}
        families = Counter(
            (each.type.kind, self.program.families.compared(each.family))
            for name, each in stated.open.items()
            if name not in determined
        )
        most: Counter[Kind] = Counter()
        for (kind, _), number in families.items():
            most[kind] = max(most[kind], number)
        too_many = most.total() > self.bounds.new_constants
        return too_many and "new values" not in self._lifted

    def _renamings(self, model: Model, signs: Conditions) -> Iterator[Nogood]:
        """The nogoods of a realization under all renamings of its fresh values."""
        fresh = self.program.demand.fresh
        families: dict[Column, dict[str, Symbol]] = {}
        for symbol in symbols_of(model).values():
            for name in variables(symbol.written):
                if name in fresh:
                    families.setdefault(fresh[name].family, {})[name] = fresh[name]
        most = self.program.families.fresh
        pools = [
            permutations([fresh_symbol(f, next(iter(own.values())).type, n) for n in range(1, most + 1)], len(own))
            for f, own in families.items()
        ]
        names = [name for own in families.values() for name in own]
        for chosen in islice(product(*pools), MOST_RENAMINGS):
            called = dict(zip(names, chain.from_iterable(chosen), strict=True))
            rows = (
                (name, tuple(self.program.demand.renamed(v, called) if isinstance(v, Symbol) else v for v in row))
                for name, row in model.insert
            )
            other = {name: symbol.written for name, symbol in called.items()}
            stated = all_replaced(signs, other, self.program.demand.types)
            if stated is not None:
                yield Nogood(frozenset(rows) | model.delete, stated)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _conclude(self, model: Model | None) -> None:
        """Lift the next bound when no model is left, to find out whether there are realizations beyond it."""
        if self._checks is None:
            assert model is None, "something is left"
            if self._is_request():
                self.is_exhausted = True
                return
            self._note_sums()
            self._checks = self._beyond()
        elif model is not None:
            for each in self._lifted:
                self.reached[self._bound(each)] = None
        self._lifted_candidates = 0
        self._lifted = next(self._checks, ())
        self.is_exhausted = not self._lifted

    def _is_request(self) -> bool:
        """Test whether the request itself is a realization: all others contain it."""
        found = [each for each in self.found if each.insert <= self.request.insert]
        return any(each.delete <= self.request.delete for each in found)

    def _beyond(self) -> Iterator[tuple[str, ...]]:
        yield ("new values",)
        yield ("rounds",)
        if self.bounds.size is not None:
            yield ("size",)
            if not self.reached:
                yield ("new values", "rounds", "size")

    def _note_sums(self) -> None:
        """Report sums, means and medians that infinitely many amounts can add up to."""
        for group in self.program.groups.values():
            fold = group.fold
            is_open = any(not self.program.nodes[key].is_stored for key in group.rows)
            if fold.function in (COUNT, "min", "max") or fold.target is None or not is_open:
                continue
            columns = [
                f"`{self.rules.shown(name)}.{self.rules.program.schemas[name].columns[place].name}`"
                for name, place in sorted(self.rules.sources((fold.below, fold.target)))
                if not self.preferences.is_frozen(name, INSERT)
            ]
            if columns:
                words = f"the values of {', '.join(columns)} that were tried"
                self.reached[f"{words}: a {fold.function} can use other values"] = None

    def _bound(self, name: str) -> str:
        match name:
            case "rounds":
                return counted(self.bounds.rounds, "round")
            case "size":
                return counted(self.bounds.size or 0, "change")
            case _:
                return counted(self.bounds.new_constants, "fresh value")

    def contradictory(self) -> list[Key]:
        """Goals that cannot be met together."""
        return [] if self._solver is None else self._solver.contradictory()


def _fewest(stated: Conditions, is_enough: Callable[[Conditions], bool]) -> dict[Subject, Signs]:
    """A minimal sufficient part of conditions; all of them if even these are not sufficient."""
    left = dict(stated)
    for each in stated if is_enough(left) else ():
        fewer = {subject: signs for subject, signs in left.items() if subject != each}
        left = fewer if is_enough(fewer) else left
    return left


# ---- disjunctions ----------------------------------------------------------------------------------------------------


def minimal(sets: Iterable[frozenset[Element]]) -> list[frozenset[Element]]:
    """The minimal sets, in their order."""
    listed = list(dict.fromkeys(sets))
    return [each for each in listed if not any(other < each for other in listed)]


def minimal_choices(sets: Collection[frozenset[Element]]) -> set[frozenset[Element]]:
    """The minimal hitting sets: they share an element with each of `sets`."""
    found: list[frozenset[Element]] = [frozenset()]
    for each in sorted(sets, key=len):
        met = [choice for choice in found if not choice.isdisjoint(each)]
        longer = [choice | {one} for choice, one in product(found, each) if choice.isdisjoint(each)]
        found = minimal([*met, *longer])
    return set(found)
