"""All minimal realizations of a request, the cheapest first. [Behrend & Manthey 2008, section 4]

    request ─► ground program ─► solver ─► candidate ─► witness ─► trial ─► realization
                     ▲              │ deviates              │ none     │ unmet
                     └──────────────┴───────────────────────┴──────────┘

The ground program is a relaxation at every moment: whatever it does not know, the solver may decide as it likes, and no
realization costs less than the cheapest model. So the first candidate without deviations that a trial confirms is a
cheapest realization, and with what contains it excluded the next one is the cheapest of the others.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, islice, permutations, product
from typing import Any

from upshot.core.counted import counted
from upshot.core.errors import DataError, LimitError
from upshot.core.types import Kind
from upshot.engine.time_limit import Interruption, check_time, time_limit
from upshot.revise.built_ins import variables
from upshot.revise.conditions import (
    ANY,
    Assignment,
    Condition,
    Signs,
    Subject,
    condition_of,
    is_refuted,
    names_of,
    pinned,
    renamed,
    sign_of,
    with_values,
    without_implied,
    without_symbols,
    witnesses,
    words,
)
from upshot.revise.effects import Consequences, Formula, in_words, is_decided, linear_value
from upshot.revise.families import Families, fresh_symbol
from upshot.revise.ground_program import GroundProgram, GroupNode, Limits, Stage
from upshot.revise.instances import has_symbol
from upshot.revise.linear import Linear, new_value
from upshot.revise.ordered_values import number_of
from upshot.revise.placeholders import Placeholder, Symbol
from upshot.revise.request import DELETE, INSERT, Bounds, Key, Preferences, Request
from upshot.revise.rules import Column, Rules
from upshot.revise.solver import Block, Model, Solver
from upshot.revise.term_values import UNKNOWN
from upshot.revise.trial import Trial
from upshot.revise.world import World
from upshot.syntax.ast import Comparison, Variable

SLICE = 0.05
"""Seconds after which others may have their turn with the database."""
FIRST_PORTION, LARGEST_PORTION = 40, 4_000
"""Instances by which the ground program grows at a time."""
FEW = 50
"""Requested rows whose own violations of constraints are looked for at once."""
MOST_WITNESSES = 6
"""Choices of values that are tried where the consequences of others cannot be computed."""
MOST_COVERED = 20
"""Choices of values that contain a realization which was found before, after which no others are tried."""
MOST_BEYOND = 40
"""Candidates beyond a bound that are tried before it is said that there may be others."""
MOST_RENAMINGS = 200
"""Ways to name the fresh values of a realization that are excluded with it."""


@dataclass(frozen=True, slots=True)
class Found:
    """A realization, with witnesses for its fresh values; `shown` has its insertions with placeholders."""

    insert: frozenset[Key]
    delete: frozenset[Key]
    placeholders: tuple[Placeholder, ...] = ()
    conditions: tuple[str, ...] = ()
    consequences: Consequences = field(default_factory=Consequences)


@dataclass(frozen=True, slots=True)
class Stated:
    """Conditions on the fresh values of a candidate that are left `open`, and the types of all that they name."""

    conditions: Mapping[Subject, Signs]
    open: Mapping[str, Symbol]
    types: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """The insertions of a realization with symbols, and their conditions: it stands for all values that meet them."""

    rows: tuple[Key, ...]
    found: Found
    conditions: Mapping[Subject, Signs]
    types: Mapping[str, Any]
    families: Families

    def is_part_of(self, insert: frozenset[Key], delete: frozenset[Key]) -> bool:
        """Whether it is part of a change, with some values for its symbols."""
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
        """Whether a value is another, which it gets if it is a symbol without one; a fresh one none that occurs."""
        if not isinstance(value, Symbol):
            return bool(value == wanted)
        if value.is_fresh and self.families.is_taken(wanted, value.family):
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
    """A search that goes a slice of time at a time. `constraints` are the relations to which no row may come."""

    world: World
    rules: Rules
    constraints: Collection[str]
    request: Request
    preferences: Preferences
    bounds: Bounds
    counts: dict[str, int] = field(default_factory=lambda: {"models": 0, "instances": 0, "candidates": 0})
    found: list[Found] = field(default_factory=list)
    reached: dict[str, None] = field(default_factory=dict)
    """The bounds beyond which there are, or may be, others."""
    is_exhausted: bool = False
    limits: Limits = field(init=False)
    _program: GroundProgram | None = None
    _solver: Solver | None = None
    _blocks: list[Block] = field(default_factory=list)
    _new_blocks: list[Block] = field(default_factory=list)
    _forms: list[Form] = field(default_factory=list)
    _effects: dict[Key, frozenset[Key]] = field(default_factory=dict)
    """The rows of views that a change affects by itself."""
    _portion: int = FIRST_PORTION
    _spent: float = 0.0
    _checks: Iterator[tuple[str, ...]] | None = None
    _lifted: tuple[str, ...] = ()
    _lifted_candidates: int = 0

    def __post_init__(self) -> None:
        self.limits = Limits(self.preferences)

    @property
    def program(self) -> GroundProgram:
        if self._program is None:
            named = self.request.insert | self.request.delete
            families = Families(self.rules, self.world, named, self.bounds.constants, self.bounds.new_constants + 1)
            self._program = GroundProgram(self.world, self.rules, families, self.request, self.limits)
            self._program.deny_totals(self.constraints)
            if len(self.request.insert) <= FEW:
                wanted = Model(frozenset(), frozenset(), self.request.insert, {})
                Trial(self.world, self._program, self.constraints, wanted, {}).foresee()
        return self._program

    def run(self, slice: float = SLICE) -> Found | None:
        """Goes on for a slice of time, in seconds, or until a realization is found, which is returned. Nothing stays
        staged."""
        begun, left = time.monotonic(), self.bounds.seconds - self._spent
        try:
            with time_limit(max(left, 0.0)):
                while not self.is_exhausted:
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
            self._end(counted(self.bounds.seconds, "second"))
            return None
        finally:
            self.world.undo()
            self._spent += time.monotonic() - begun

    def _end(self, bound: str) -> None:
        self.reached[bound] = None
        self.is_exhausted = True

    def _count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number

    # ---- one candidate ----------------------------------------------------------------------------------------------

    def _step(self) -> Found | None:
        """Takes the cheapest model, and makes a realization of it or the ground program larger."""
        solver = self._current_solver()
        self._count("models")
        model = solver.cheapest(self._lifted)
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
        """Whether so many candidates beyond the bounds were none that it stays open whether another one is."""
        self._lifted_candidates += 1
        return self._lifted_candidates > MOST_BEYOND

    def _current_solver(self) -> Solver:
        program = self.program
        if self._solver is None or program.is_grown:
            program.gather()
            program.is_grown = False
            self._note_effects()
            self._solver = Solver(program, self.preferences, self.bounds, self._effects)
            program.is_grown = False
            self._new_blocks, self._blocks = [*self._blocks, *self._new_blocks], []
        if self._new_blocks:
            self._solver.block(self._new_blocks)
            self._blocks += self._new_blocks
            self._new_blocks = []
        return self._solver

    def _note_effects(self) -> None:
        """Tries each change by itself, where those with the fewest side effects come first."""
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
                    self._effects[key] = self.world.affected() - asked
        self.world.undo()

    def _expand(self, model: Model) -> None:
        """Grows the ground program where the model deviates from what is known."""
        program, most = self.program, self._portion
        self._portion = min(2 * self._portion, LARGEST_PORTION)
        stored = [node for node in model.nodes if node.stage is Stage.UNEXPANDED and node.is_stored]
        program.support(stored, most)
        further = [node for node in model.nodes if node not in stored]
        level = max((node.level for node in further), default=-1)
        made = sum(1 + program.expand(node, most) for node in further)
        made += sum(1 + program.expand_group(group, most) for group in model.groups)
        if further:
            # Rows that are as little known would be asked for soon, one after the other.
            for node in program.views_in_order():
                if made >= most:
                    break
                if node.level <= level and node.depth < self.bounds.rounds and not self._has_last(node.key):
                    made += 1 + program.expand(node, most - made)
        self._count("instances", made)

    def _has_last(self, key: Key) -> bool:
        last = f"#{self.program.most_fresh + 1}"
        return any(isinstance(value, Symbol) and value.name.endswith(last) for value in key[1])

    def _examined(self, solver: Solver, model: Model) -> Found | None:
        """The realization that a candidate is; None if it is none, and then it does not come again."""
        stated: dict[Subject, Signs] = {}
        values: dict[str, Any] = {}
        subjects = self._relevant(solver, model)
        needed: dict[Subject, Signs] = {}
        if subjects:
            needed = solver.needed(model, subjects)
            made = self._substituted(needed, model)
            if made is None:
                self._new_blocks.append(self._whole(model, needed))
                return None
            stated = made
        for symbol in self._symbols(model).values():
            if symbol.term is not None:
                same = condition_of(Comparison("=", Variable(symbol.name), symbol.term), self.program.demand.types)
                assert isinstance(same, Condition), "it is named in one side only"
                stated[same.subject] = same.signs
        if self._symbols(model):
            tried = islice(self._witnesses(model, stated), MOST_COVERED if self.found else None)
            found = next((each for each in tried if not self._is_covered(model, each)), None)
            if found is None and self._is_covering(model, stated):
                self._new_blocks.append(Block(model.insert | model.delete, needed))
                return None
            if found is None:
                self._refute(model, stated, needed)
                return None
            values = found
        return self._tried(model, values, stated, needed)

    def _is_covered(self, model: Model, values: Mapping[str, Any]) -> bool:
        """Whether a candidate with these values contains a realization that was found."""
        insert = Trial(self.world, self.program, self.constraints, model, values).insert
        return any(each.is_part_of(insert, model.delete) for each in self._forms)

    def _is_covering(self, model: Model, stated: Mapping[Subject, Signs]) -> bool:
        """Whether there are values at all."""
        return bool(self.found) and next(self._witnesses(model, stated), None) is not None

    def _whole(self, model: Model, needed: Mapping[Subject, Signs]) -> Block:
        """A block of exactly this candidate; or of its groups, if it is their values that contradict conditions."""
        totals = [
            self.program.totals[name] for each in needed for name in names_of(each) if name in self.program.totals
        ]
        names = tuple(dict.fromkeys(each.group for each in totals if each.group in self.program.groups))
        if not names:
            return Block(model.insert | model.delete, needed, is_exact=True)
        rows = frozenset(key for name in names for key in self.program.groups[name].rows if key in model.true)
        return Block(frozenset(), needed, False, names, rows)

    def _tried(
        self, model: Model, values: dict[str, Any], stated: dict[Subject, Signs], needed: Mapping[Subject, Signs]
    ) -> Found | None:
        trial = self._staged(model, values, stated, needed)
        if trial is None:
            return None
        values = dict(trial.values)
        unmet, conflicts = list(trial.unmet()), trial.conflicts()
        if not unmet and not conflicts:
            if values and trial.spread():
                self.world.undo()
                return None
            return self._confirmed(trial, stated, needed)
        grown = trial.refine(unmet, conflicts)
        if trial.presumed:
            self.program.support(trial.presumed, self._portion)
        elif not grown:
            self._new_blocks.append(Block(model.insert | model.delete, needed, is_exact=True))
        self.world.undo()
        return None

    def _staged(
        self, model: Model, values: dict[str, Any], stated: dict[Subject, Signs], needed: Mapping[Subject, Signs]
    ) -> Trial | None:
        """The trial of a candidate; None if its consequences cannot be computed, with other witnesses neither."""
        self._count("candidates")
        others = (each for each in self._witnesses(model, stated) if not self._is_covered(model, each))
        for chosen in chain((values,), islice(others, 1, MOST_WITNESSES) if values else ()):
            trial = Trial(self.world, self.program, self.constraints, model, chosen)
            try:
                trial.stage()
            except (DataError, LimitError) as error:
                if error.code in ("timeout", "interrupted"):
                    raise
                self.world.undo()
                failure = error.message
            else:
                return trial
        self.reached[f"changes whose consequences can be computed: {failure}"] = None
        self._new_blocks.append(Block(model.insert | model.delete, needed))
        return None

    # ---- fresh values -----------------------------------------------------------------------------------------------

    def _symbols(self, model: Model) -> dict[str, Symbol]:
        """The fresh values that the candidate inserts."""
        return {
            value.name: value for key in sorted(model.insert, key=repr) for value in key[1] if isinstance(value, Symbol)
        }

    def _relevant(self, solver: Solver, model: Model) -> list[Subject]:
        """The subjects of conditions whose symbols all occur in the candidate."""
        alive = {value.name for key in model.true for value in key[1] if isinstance(value, Symbol)}
        alive |= set(self.program.totals)
        found = [each for each in model.signs if alive.issuperset(names_of(each)) and model.signs[each] != 2]
        return [each for each in found if not self._is_native(each, model)]

    def _is_native(self, subject: Subject, model: Model) -> bool:
        """Whether the solver works out the sign of a subject by itself: how a group compares without fresh amounts."""
        names = names_of(subject)
        totals = [name for name in names if name in self.program.totals]
        if len(totals) != 1:
            return False
        group = self.program.groups.get(self.program.totals[totals[0]].group or ("", ()))
        if group is not None and group.fold.function in ("min", "max"):
            return True
        if len(names) > 1 or group is None:
            return len(names) == 1
        return not any(isinstance(group.fold.folded(k[1]), Symbol) for k in group.rows if k in model.true)

    def _substituted(self, needed: Mapping[Subject, Signs], model: Model) -> dict[Subject, Signs] | None:
        """Conditions with what groups come to in the place of their symbols; None if that contradicts them."""
        found: dict[Subject, Signs] = {}
        for subject, signs in needed.items():
            made: Any = subject
            totals = [name for name in names_of(subject) if name in self.program.totals]
            if totals:
                if not isinstance(subject, Linear):
                    return None
                made = Linear((), subject.more)
                for name, factor in subject.parts:
                    if name in totals:
                        value = self._group_value(self.program.totals[name], model)
                        if value is None:
                            break
                    else:
                        value = new_value(name)
                    made = made.plus(value.times(factor))
                else:
                    name = ""
                if name:
                    continue
            condition = with_values({made: signs}, {}, self.program.demand.types) if isinstance(
                made, Linear) else {made: signs}  # fmt: skip
            if condition is None:
                return None
            for each, own in condition.items():
                found[each] = found.get(each, frozenset((-1, 0, 1))) & own
                if not found[each]:
                    return None
        return found

    def _group_value(self, total: Symbol, model: Model) -> Linear | None:
        """What a group comes to in a candidate, with symbols for fresh amounts; None if that is no such sum."""
        assert total.group is not None, "it is the value of a group"
        group = self.program.groups.get(total.group)
        if group is None:
            return None
        return group_value(group, model.true, self.program.demand.types)

    def _witnesses(self, model: Model, stated: Mapping[Subject, Signs]) -> Iterator[dict[str, Any]]:
        """Values of the symbols that meet the conditions: fresh ones, but for those that equations determine."""
        symbols = self._symbols(model)
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
        for fixed in (exact, exact | pinned(stated, types).keys()):

            def is_usable(name: str, value: Any, free: Collection[str] = fixed) -> bool:
                if name not in symbols or name in free:
                    return True
                family = symbols[name].family
                is_known = families.is_taken(value, family) or families.is_constant(value, family)
                return not is_known and (family, value) not in inserted

            for each in witnesses(Assignment(stated, types, apart, is_usable)):
                found = True
                yield each
            if found or fixed == exact | pinned(stated, types).keys():
                break
        if not found and not is_refuted(Assignment(stated, types)):
            self.reached["the new values that were tried"] = None

    def _refute(self, model: Model, stated: Mapping[Subject, Signs], needed: Mapping[Subject, Signs]) -> None:
        """Excludes signs that no values have, as few as possible."""
        if not needed:
            self._new_blocks.append(Block(model.insert | model.delete))
        elif any(name in self.program.totals for each in needed for name in names_of(each)):
            self._new_blocks.append(self._whole(model, needed))
        else:
            left = dict(stated)
            types = {name: self.program.demand.types[name] for each in stated for name in names_of(each)}
            if is_refuted(Assignment(left, types)):
                for each in list(left):
                    fewer = {s: signs for s, signs in left.items() if s != each}
                    if is_refuted(Assignment(fewer, types)):
                        left = fewer
            self._new_blocks.append(Block(frozenset(), left))

    # ---- realizations -----------------------------------------------------------------------------------------------

    def _confirmed(self, trial: Trial, stated: dict[Subject, Signs], needed: Mapping[Subject, Signs]) -> Found | None:
        shown = self._stated(trial.model, stated)
        if self._has_too_many(shown):
            self._new_blocks.append(Block(trial.model.insert | trial.model.delete, needed))
            return None
        if self._lifted:
            self._conclude(trial.model)
            return None
        made = self._named(trial, shown)
        self._forms.append(
            Form(tuple(sorted(trial.model.insert, key=repr)), made, stated, shown.types, self.program.families)
        )
        # With other values for those that are determined, more changes may be a realization as well.
        determined = self._symbols(trial.model).keys() - shown.open.keys()
        signs = {each: own for each, own in needed.items() if determined.intersection(names_of(each))}
        self._new_blocks += self._renamings(trial.model, signs)
        if any(set(each.insert) == set(made.insert) and each.delete == made.delete for each in self.found):
            return None
        self.found.append(made)
        return made

    def _stated(self, model: Model, stated: Mapping[Subject, Signs]) -> Stated:
        """The conditions on the fresh values of a candidate that they do not determine."""
        symbols = self._symbols(model)
        types = {name: self.program.demand.types[name] for each in stated for name in names_of(each)}
        types |= {name: symbol.type for name, symbol in symbols.items()}
        fixed = {name: value for name, value in pinned(stated, types).items() if name in symbols}
        plain = without_symbols(stated, types.keys() - symbols.keys(), types)
        shown = self._narrowed(with_values(plain, fixed, types) or {})
        return Stated(shown, {name: symbol for name, symbol in symbols.items() if name not in fixed}, types)

    def _has_too_many(self, stated: Stated) -> bool:
        """Whether there are more fresh values than allowed, but for those that equations determine; columns that
        nothing joins or compares share them."""
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

    def _narrowed(self, stated: Mapping[Subject, Signs]) -> dict[Subject, Signs]:
        """The conditions without what fresh values cannot be."""
        found = {}
        for subject, signs in stated.items():
            made = self.program.demand.narrowed(Condition(subject, signs), is_inserted=True)
            if isinstance(made, Condition):
                found[subject] = made.signs
        return found

    def _named(self, trial: Trial, stated_: Stated) -> Found:
        """The realization with names for its fresh values, in the order in which its rows have them."""
        open_, types = stated_.open, stated_.types
        shown = self._with_constants_apart(trial, stated_)
        rows = sorted(((trial.concrete(key), key) for key in trial.model.insert), key=lambda each: repr(each[0]))
        order = dict.fromkeys(v.name for _, key in rows for v in key[1] if isinstance(v, Symbol) and v.name in open_)
        names = {name: f"?{number}" for number, name in enumerate(order, 1)}
        stated = without_implied(dict(shown), types)
        called = {renamed(each, names): signs for each, signs in stated.items() if names.keys() >= {*names_of(each)}}
        called = {_rescaled(each, signs)[0]: _rescaled(each, signs)[1] for each, signs in called.items()}
        told = {names.get(name, name): type for name, type in types.items()}
        texts = list(words(called, told))
        texts += [text for text in self._apart(open_, names, called) if text not in texts]
        placeholders = tuple(
            Placeholder(names[name], open_[name].type, trial.values[name], self._columns(open_[name], trial.model))
            for name in order
        )
        found = self._consequences(trial, placeholders, names, shown, types) if placeholders else Consequences()
        return Found(trial.insert, trial.model.delete, placeholders, tuple(texts), found)

    def _consequences(
        self, trial: Trial, placeholders: Collection[Placeholder], names: Mapping[str, str],
        shown: Mapping[Subject, Signs], types: Mapping[str, Any],
    ) -> Consequences:  # fmt: skip
        """Rows of views that move with fresh values, and the views of which the conditions do not tell all."""
        by_name = {each.name: each for each in placeholders}
        known = self.program.demand.types
        totals = {name: self._group_value(each, trial.model) for name, each in self.program.totals.items()}
        rows: dict[Key, Any] = {}
        open_: set[str] = set()
        for key in sorted(trial.brought, key=repr):
            if self.rules.is_base(key[0]):
                continue
            row = []
            for value, now in zip(key[1], trial.concrete(key)[1], strict=True):
                linear = linear_value(value, totals, known) if isinstance(value, Symbol) else None
                if isinstance(value, Symbol) and linear is None:
                    open_.add(key[0])
                row.append(now if linear is None else _shown(linear, now, names, by_name))
            if UNKNOWN not in trial.concrete(key)[1]:
                rows[trial.concrete(key)] = tuple(row)
            node = self.program.nodes.get(key)
            for instance in filter(trial.may_derive, node.instances if node else ()):
                if not all(self._is_decided(each, trial.model, shown, types) for each in instance.conditions):
                    open_.add(key[0])
        certain = {name for name in self.rules.by_view if name not in open_}
        return Consequences(rows, frozenset(open_ | ({*self.rules.folds} & open_)), frozenset(certain))

    def _is_decided(
        self, condition: Condition, model: Model, shown: Mapping[Subject, Signs], types: Mapping[str, Any]
    ) -> bool:
        """Whether what is shown tells if a condition is met, which may be on the values of groups."""
        left = self._substituted({condition.subject: condition.signs}, model)
        return left is None or all(is_decided(Condition(*each), shown, types) for each in left.items())

    def _with_constants_apart(self, trial: Trial, stated: Stated) -> dict[Subject, Signs]:
        """The conditions, and that fresh values differ from others that are inserted into their families."""
        families, shown = self.program.families, dict(stated.conditions)
        if not any(symbol.is_fresh for symbol in stated.open.values()):
            return shown
        witnesses = {trial.values[name] for name in stated.open}
        moving = {trial.concrete(key) for key in trial.brought}
        views = ((name, row) for name in self.rules.by_view for row in self.world.added(name))
        rows = [*trial.insert, *(key for key in views if key not in moving)]
        for name, symbol in stated.open.items():
            for relation, row in rows if symbol.is_fresh else ():
                for place, value in enumerate(row):
                    number = number_of(value)
                    is_apart = number is not None and families.of((relation, place)) == symbol.family
                    if number is None or not is_apart or value in witnesses or families.is_taken(value, symbol.family):
                        continue
                    border = new_value(name).minus(Linear((), number))
                    shown[border] = shown.get(border, ANY) & Signs((-1, 1))
        return shown

    def _apart(
        self, open_: Mapping[str, Symbol], names: Mapping[str, str], stated: Mapping[Subject, Signs]
    ) -> Iterator[str]:
        """That fresh values of one family differ, unless their conditions imply it."""
        ordered = [name for name in names if name in open_]
        for place, one in enumerate(ordered):
            for other in ordered[place + 1 :]:
                if open_[one].family == open_[other].family and open_[one].is_fresh and open_[other].is_fresh:
                    pair = {names[one], names[other]}
                    implied = any({*names_of(each)} == pair and isinstance(each, Linear) and not each.more
                                  and 0 not in signs for each, signs in stated.items())  # fmt: skip
                    if not implied:
                        yield f"{names[one]} != {names[other]}"

    def _columns(self, symbol: Symbol, model: Model) -> frozenset[Column]:
        """The columns of the families that a symbol is inserted into."""
        families = self.program.families
        own = {families.of((key[0], at)) for key in model.insert for at, value in enumerate(key[1]) if value == symbol}
        return frozenset(
            (name, place)
            for name, schema in self.rules.program.schemas.items()
            for place in range(schema.arity)
            if families.of((name, place)) in own
        )

    def _renamings(self, model: Model, signs: Mapping[Subject, Signs]) -> Iterator[Block]:
        """Blocks for a realization, whatever its fresh values are called."""
        fresh = self.program.demand.fresh
        families: dict[Column, dict[str, Symbol]] = {}
        for symbol in self._symbols(model).values():
            for name in (symbol.name,) if symbol.term is None else variables(symbol.term):
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
            other = {name: symbol.name for name, symbol in called.items()}
            yield Block(frozenset(rows) | model.delete, {renamed(each, other): own for each, own in signs.items()})

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _conclude(self, model: Model | None) -> bool:
        """Goes on to see what lies beyond the bounds, once nothing is left within them; whether that is known."""
        if self._checks is None:
            assert model is None, "something is left"
            if self._is_request():
                self.is_exhausted = True
                return True
            self._note_sums()
            self._checks = self._beyond()
        elif model is not None:
            for each in self._lifted:
                self.reached[self._bound(each)] = None
        self._lifted_candidates = 0
        following = next(self._checks, None)
        if following is None:
            self.is_exhausted = True
            return True
        self._lifted = following
        return True

    def _is_request(self) -> bool:
        """Whether the requested changes are a realization by themselves: all others contain it."""
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
        """Sums and means can be made up of endlessly many amounts."""
        for group in self.program.groups.values():
            fold = group.fold
            is_open = any(not self.program.nodes[key].is_stored for key in group.rows)
            if fold.function not in ("sum", "mean") or fold.target is None or not is_open:
                continue
            columns = [
                f"`{self.rules.shown(name)}.{self.rules.program.schemas[name].columns[place].name}`"
                for name, place in sorted(self.rules.sources((fold.below, fold.target)))
                if not self.preferences.is_frozen(name, INSERT)
            ]
            if columns:
                words = f"the values of {', '.join(columns)} that were tried"
                self.reached[f"{words}: a {fold.function} can be made up of any others"] = None

    def _bound(self, name: str) -> str:
        match name:
            case "rounds":
                return counted(self.bounds.rounds, "round")
            case "size":
                return counted(self.bounds.size or 0, "change")
            case _:
                return counted(self.bounds.new_constants, "new value")

    def contradictory(self) -> list[Key]:
        """Goals that cannot be met together."""
        return [] if self._solver is None else self._solver.contradictory()


def group_value(group: GroupNode, true: Collection[Key], types: Mapping[str, Any]) -> Linear | None:
    """What a group comes to, with symbols for fresh amounts; None if it has no rows or is no sum of them."""
    amounts = [group.fold.folded(row) for key in group.rows if key in true for row in (key[1],)]
    amounts = [each for each in amounts if each is not None]
    if not amounts:
        return None
    made = []
    for each in amounts:
        if isinstance(each, Symbol):
            value = linear_value(each, {}, types)
            if value is None:
                return None
            made.append(value)
        else:
            number = number_of(each)
            if number is None:
                return None
            made.append(Linear((), number))
    match group.fold.function:
        case "min" | "max":
            if len(made) == 1:
                return made[0]
            if any(each.parts for each in made):
                return None
            pick = min if group.fold.function == "min" else max
            return Linear((), pick(each.more for each in made))
        case function:
            total = made[0]
            for each in made[1:]:
                total = total.plus(each)
            return total.times(Fraction(1, len(made))) if function == "mean" else total


def _shown(value: Linear, now: Any, names: Mapping[str, str], placeholders: Mapping[str, Placeholder]) -> Any:
    """A value that moves with fresh ones, as it is shown."""
    if any(name not in names for name, _ in value.parts):
        return now
    called = Linear(tuple(sorted((names[name], factor) for name, factor in value.parts)), value.more)
    if called.is_bare:
        return placeholders[called.parts[0][0]]
    return Formula(in_words(called), now) if called.parts else now


def _rescaled(subject: Subject, signs: Signs) -> tuple[Subject, Signs]:
    if isinstance(subject, Linear) and subject.parts:
        turned = subject.parts[0][1] < 0
        return subject.scaled(), Signs(-each for each in signs) if turned else signs
    return subject, signs
