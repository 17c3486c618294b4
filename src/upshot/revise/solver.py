"""The ground program in clingo, and its cheapest models.

    stored base row b           { del(b) }.  b :- not del(b).
    other base row b            { b }.
    row of a view a             a :- body, conditions.             one rule for each known instance
    its unknown instances       { rest(a) }.  a :- rest(a).        a deviation
    condition on fresh values   exactly one sign of its border     a witness is found outside
    request, constraints, keys  bad :- not p.  bad :- q.  …        solved with `bad` assumed to be false

Stable models are founded: after the change no row supports itself. Models are minimal in cost, then in the number of
changes, then of deviations. A model that contains a known realization is excluded, so that the cheapest is minimal.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any

import clingo

from upshot.core.types import Kind
from upshot.engine.time_limit import check_time, is_limited
from upshot.revise.built_ins import UNKNOWN, variables
from upshot.revise.conditions import ANY, Conditions, Signs, Subject, names_of, signed
from upshot.revise.demand import has_symbol
from upshot.revise.ground_program import GroundProgram, GroupNode, Node, Stage
from upshot.revise.groups import GroupRules
from upshot.revise.ordered_values import Linear, new_value, number_of
from upshot.revise.placeholders import Symbol
from upshot.revise.request import DELETE, INSERT, Bounds, Column, Key, Preferences, Row
from upshot.revise.termination import invents

LARGEST = 2**30
"""The greatest weight that clingo adds without overflow."""
FEW = 40
"""The most changes of which the first are preferred among equal costs."""
MANY = 200
"""The most signs that are minimized one by one."""
PORTION = 0.02
"""Seconds of solving between two checks of the time limit."""


@dataclass(frozen=True, slots=True)
class Nogood:
    """Changes and conditions that are excluded together: a realization, or a candidate that is none. If it `is_exact`,
    only without other changes; with `groups`, only if these have exactly the `rows`; if it `is_within_bounds`, only
    while the number of fresh values is bounded."""

    changes: frozenset[Key] = frozenset()
    signs: Conditions = field(default_factory=dict)
    is_exact: bool = False
    groups: tuple[tuple[str, Row], ...] = ()
    rows: frozenset[Key] = frozenset()
    is_within_bounds: bool = False


@dataclass(frozen=True, slots=True)
class Model:
    """A model: changes, the true rows, signs of conditions, and deviations."""

    insert: frozenset[Key]
    delete: frozenset[Key]
    true: frozenset[Key]
    signs: Mapping[Subject, int]
    nodes: tuple[Node, ...] = ()
    groups: tuple[GroupNode, ...] = ()
    is_beyond: bool = False
    """True if rows were assumed without derivation."""

    @property
    def changes(self) -> frozenset[Key]:
        return self.insert | self.delete

    @property
    def is_settled(self) -> bool:
        return not self.nodes and not self.groups


BEYOND = ("rounds", "size", "new values")
"""Bounds that are lifted at the end, to find out whether there are realizations beyond them."""


class Solver:
    """A translation of a ground program, solved repeatedly with more nogoods and other assumptions."""

    def __init__(
        self, program: GroundProgram, preferences: Preferences, bounds: Bounds, effects: Mapping[Key, frozenset[Key]]
    ) -> None:
        self.program, self.preferences, self._rounds, self._size = program, preferences, bounds.rounds, bounds.size
        self._effects = effects
        options = ["--warn=none", "--opt-strategy=usc", "--opt-mode=opt"]
        self._control = clingo.Control(options, logger=lambda *_: None)
        self._true: dict[Key, int] = {}
        self.changes: dict[Key, int] = {}
        self._signs: dict[Subject, tuple[int, int, int]] = {}
        self._deviations: dict[int, Node | GroupNode] = {}
        self._others: dict[str, int] = {}
        self._patterns: dict[tuple[str, tuple[int, ...]], dict[tuple[Any, ...], list[int]]] = {}
        self._used: dict[str, int] = {}
        self._occurring: dict[str, int] = {}
        self._beyond: list[int] = []
        self._failed: dict[Key, int] = {}
        with self._control.backend() as self._backend:
            self._bad, self._ordered, self._apart, self._blocked = (self.atom() for _ in range(4))
            lifted = [self.atom() for _ in BEYOND]
            self._lifted = dict(zip(BEYOND, lifted, strict=True))
            for each in (self._ordered, self._apart, self._blocked, *lifted):
                self.rule(each, [], choice=True)
            self._translate()

    # ---- translation ------------------------------------------------------------------------------------------------

    def atom(self) -> int:
        made: int = self._backend.add_atom()
        return made

    def rule(self, head: int | None, body: Sequence[int], *, choice: bool = False) -> None:
        self._backend.add_rule([] if head is None else [head], body, choice=choice)

    def at_least(self, bound: int, weighted: Iterable[tuple[int, int]]) -> int:
        """An atom that is true if the weights of true literals add up to at least `bound`."""
        positive = []
        for literal, weight in weighted:
            if weight < 0:
                literal, weight, bound = -literal, -weight, bound - weight
            if weight:
                positive.append((literal, weight))
        made = self.atom()
        if bound <= 0:
            self.rule(made, [])
        elif sum(weight for _, weight in positive) >= bound:
            self._backend.add_weight_rule([made], bound, positive)
        return made

    def any_of(self, literals: Iterable[int]) -> int:
        """An atom that is true if one of the literals is."""
        made = self.atom()
        for literal in dict.fromkeys(literals):
            self.rule(made, [literal])
        return made

    def truth(self, key: Key) -> int:
        return self._true[key]

    def sign(self, subject: Subject, signs: Signs) -> int:
        """A literal that is true if a subject has one of these signs."""
        if subject not in self._signs:
            self._signs[subject] = self._made_signs(subject)
        negative, zero, positive = self._signs[subject]
        by_sign = {-1: negative, 0: zero, 1: positive}
        if len(signs) == 1:
            return by_sign[next(iter(signs))]
        if signs == ANY:
            return -self.atom()
        return -by_sign[next(iter(ANY - signs))]

    def _made_signs(self, subject: Subject) -> tuple[int, int, int]:
        total = self._total(subject)
        if total is not None:
            group, border, factor = total
            less, equal, greater = self._group_rules(group).compared(border)
            return (less, equal, greater) if factor > 0 else (greater, equal, less)
        signs = self.atom(), self.atom(), self.atom()
        if not isinstance(subject, Linear):
            self.rule(signs[2], [], choice=True)
            self.rule(signs[0], [-signs[2]])
            return signs
        self.decide(signs, [])
        return signs

    def decide(self, signs: tuple[int, int, int], body: Sequence[int]) -> None:
        """Let the solver choose one of three signs."""
        less, equal, greater = signs
        self.rule(less, body, choice=True)
        self.rule(equal, body, choice=True)
        self.rule(None, [less, equal])
        self.rule(greater, [*body, -less, -equal])

    def _total(self, subject: Subject) -> tuple[GroupNode, Linear, Fraction] | None:
        """The group whose value a subject compares, the expression that it is compared with, and the value's factor."""
        if not isinstance(subject, Linear):
            return None
        totals = [each for each in subject.parts if each[0] in self.program.totals]
        if len(totals) != 1:
            return None
        ((name, factor),) = totals
        group = self.program.group_of(name)
        if group is None or (len(subject.parts) > 1 and group.fold.function not in ("min", "max")):
            return None
        return group, subject.solved(name), factor

    def _group_rules(self, group: GroupNode) -> GroupRules:
        name = group.fold.view, group.row
        if name not in self._groups:
            self._groups[name] = GroupRules(self, group)
        return self._groups[name]

    def _translate(self) -> None:
        self._groups: dict[tuple[str, Any], GroupRules] = {}
        self._true = {key: self.atom() for key in self.program.nodes}
        nodes = list(self.program.nodes.values())
        for node in nodes:
            if node.is_base:
                self._base_row(node)
        self._count_symbols()
        for node in nodes:
            if node.is_base and node.instances:
                self._derive(node)
        for node in nodes:
            if node.key[0] in self.program.rules.folds:
                self._fold_row(node)
            elif not node.is_base:
                self._view_row(node)
        self._one_value_a_group()
        self._goals()
        self._order_borders()
        self._minimize()

    def _base_row(self, node: Node) -> None:
        name, true = node.key[0], self._true[node.key]
        if node.is_stored:
            if self.preferences.is_frozen(name, DELETE):
                self.program.demand.frozen[name] = None
                self.rule(true, [])
                return
            change = self.atom()
            self.rule(change, [], choice=True)
            self.rule(true, [-change])
            self.changes[node.key] = change
        elif self.preferences.is_frozen(name, INSERT):
            self.program.demand.frozen[name] = None
        else:
            change = self.atom() if node.instances else true
            self.rule(change, [self._lifted["rounds"]] if node.depth > self._rounds else [], choice=True)
            self.changes[node.key] = change
            if node.instances:
                self.rule(true, [change])

    def _derive(self, node: Node) -> None:
        """Add the instances that derive a row, or the stored rows that a row with symbols can equal."""
        true = self._true[node.key]
        for instance in node.instances:
            body = [self._true[key] for key in instance.positive] + [-self._true[key] for key in instance.negative]
            body += [self.sign(each.subject, each.signs) for each in instance.conditions]
            # Conditions on fresh values count only if the values occur.
            names = chain(self._fresh(node.key), *(names_of(each.subject) for each in instance.conditions))
            self.rule(true, [*body, *(self._occurs(name) for name in dict.fromkeys(names) if self._is_fresh(name))])

    def _view_row(self, node: Node) -> None:
        true = self._true[node.key]
        self._derive(node)
        if has_symbol(node.key) and any(map(invents, self.program.rules.by_view.get(node.key[0], ()))):
            # With one more fresh value than permitted, the row is assumed to be derivable.
            self._bring(node.key, self.beyond())
        if node.stage is Stage.EXHAUSTED:
            return
        deviation = self.atom()
        if node.stage is Stage.UNEXPANDED and node.is_stored:
            self.rule(deviation, [], choice=True)
            self.rule(true, [-deviation])
        else:
            self.rule(deviation, [self._lifted["rounds"]] if node.depth >= self._rounds else [], choice=True)
            self._bring(node.key, deviation)
            self._price(deviation, node)
        self._deviations[deviation] = node

    def _bring(self, key: Key, cause: int) -> None:
        """Let a row be present, with its fresh values."""
        self.rule(self._true[key], [cause])
        for name in self._fresh(key):
            self.rule(self._occurs(name), [cause])

    def _fresh(self, key: Key) -> list[str]:
        """The fresh values in a row, also those from which its values are computed."""
        symbols = [value for value in key[1] if isinstance(value, Symbol)]
        names = chain(*(variables(each.written) for each in symbols))
        return [name for name in names if self._is_fresh(name)]

    def _is_fresh(self, name: str) -> bool:
        return name in self.program.demand.fresh

    def _occurs(self, name: str) -> int:
        """An atom that is true if a fresh value occurs in a row."""
        if name not in self._occurring:
            self._occurring[name] = self.atom()
            if name in self._used:
                self.rule(self._occurring[name], [self._used[name]])
        return self._occurring[name]

    def beyond(self) -> int:
        """An atom that can be true if there is one more fresh value than permitted."""
        free = self.atom()
        self.rule(free, [self._lifted["new values"], self._overflow], choice=True)
        self._beyond.append(free)
        return free

    def _price(self, deviation: int, node: Node) -> None:
        """Give a deviation the cost of the base row that each further instance lacks, unless that row is inserted."""
        if node.stage is Stage.UNEXPANDED and not has_symbol(node.key):
            return
        patterns = self.program.lacked(node)
        if patterns is None:
            return
        body = [deviation]
        for name, pattern in dict.fromkeys(patterns):
            body.append(-self.other(name))
            body += [-each for each in self._inserted(name, pattern)]
        self.rule(None, body)

    def other(self, relation: str) -> int:
        """An atom for an insertion into a base relation that is not in the program yet."""
        if relation not in self._others:
            self._others[relation] = self.atom()
            if self.preferences.is_frozen(relation, INSERT):
                self.program.demand.frozen[relation] = None
            else:
                self.rule(self._others[relation], [], choice=True)
        return self._others[relation]

    def _inserted(self, name: str, pattern: tuple[Any, ...]) -> list[int]:
        """The known insertions that match a pattern."""
        places = tuple(place for place, value in enumerate(pattern) if value is not UNKNOWN)
        if (name, places) not in self._patterns:
            found: dict[tuple[Any, ...], list[int]] = {}
            for key, change in self.changes.items():
                if key[0] == name and not self.program.nodes[key].is_stored:
                    found.setdefault(tuple(key[1][place] for place in places), []).append(change)
            self._patterns[name, places] = found
        return self._patterns[name, places].get(tuple(pattern[place] for place in places), [])

    def _fold_row(self, node: Node) -> None:
        *row, value = node.key[1]
        rules = self._group_rules(self.program.groups[node.key[0], tuple(row)])
        true = self._true[node.key]
        if isinstance(value, Symbol) and value.group is not None:
            self.rule(true, [rules.is_there])
            return
        total = self.program.demand.total(node.key[0], tuple(row), rules.group.fold.type)
        number = None if isinstance(value, Symbol) else number_of(value)
        if not isinstance(value, Symbol) and number is None:
            self.rule(true, [rules.is_there, rules.equals(value)])
            return
        border = new_value(total.name)
        border = border.minus(new_value(value.name) if isinstance(value, Symbol) else Linear((), number or Fraction(0)))
        made = signed(border, Signs((0,)))
        assert not isinstance(made, bool), "a symbol is in it"
        self.rule(true, [rules.is_there, self.sign(made.subject, made.signs)])

    def _one_value_a_group(self) -> None:
        """Let no group have two values."""
        groups: dict[tuple[str, Row], list[int]] = {}
        for key in self.program.nodes:
            if key[0] in self.program.rules.folds and not (isinstance(key[1][-1], Symbol) and key[1][-1].group):
                groups.setdefault((key[0], key[1][:-1]), []).append(self._true[key])
        for rows in groups.values():
            if len(rows) > 1:
                self.rule(None, [self.at_least(2, [(row, 1) for row in rows])])

    def _count_symbols(self) -> None:
        """Bound the number of fresh values, and use those of a family in order."""
        for key, change in self.changes.items():
            for name in self._fresh(key):
                if name not in self._used:
                    self._used[name] = self.atom()
                self.rule(self._used[name], [change])
        for name, used in self._used.items():
            family, _, number = name.rpartition("#")
            if int(number) > 1:
                before = self._used.get(f"{family}#{int(number) - 1}")
                self.rule(None, [used, *([] if before is None else [-before])])
        last = f"#{self.program.most_fresh + 1}"
        self._overflow = self.any_of(used for name, used in self._used.items() if name.endswith(last))
        many = self.at_least(self.program.most_fresh + 1, [(each, 1) for each in self._new_values()])
        self.rule(None, [many, -self._lifted["new values"]])

    def _new_values(self) -> Iterator[int]:
        """Atoms for the first, second, … fresh value of a kind: columns that are not compared share them."""
        kinds: dict[Kind, dict[Column, list[tuple[int, int]]]] = {}
        for name, used in self._used.items():
            if name not in self.program.determined:
                symbol = self.program.demand.fresh[name]
                family = self.program.families.compared(symbol.family)
                kinds.setdefault(symbol.type.kind, {}).setdefault(family, []).append((used, 1))
        for families in kinds.values():
            for number in range(1, max(map(len, families.values())) + 1):
                yield self.any_of(self.at_least(number, each) for each in families.values())

    def _goals(self) -> None:
        request = self.program.request
        goals: list[tuple[Key, list[int]]] = [(k, [-self._true[k]]) for k in sorted(request.insert, key=repr)]
        goals += [(k, [self._true[k]]) for k in sorted(request.delete, key=repr)]
        goals += [(k, [self._true[k], *self._differs(k)]) for k in self.program.denied]
        goals += [(one, [self._true[one], self._true[other]]) for one, other in self.program.exclusive]
        for key, body in goals:
            failed = self._failed.setdefault(key, self.atom())
            self.rule(failed, body)
        for failed in self._failed.values():
            self.rule(self._bad, [failed])

    def _differs(self, key: Key) -> Iterator[int]:
        """Literals that are true if a denied row differs from the stored rows that may stay."""
        for conditions in self.program.staying.get(key, ()):
            same = self.atom()
            self.rule(same, [self.sign(each.subject, each.signs) for each in conditions])
            yield -same

    def _order_borders(self) -> None:
        """Order the borders of the same symbols: above one means above all lower ones."""
        by_parts: dict[object, list[Linear]] = {}
        for subject in self._signs:
            if isinstance(subject, Linear) and self._total(subject) is None:
                by_parts.setdefault(subject.parts, []).append(subject)
        for borders in by_parts.values():
            for border in borders:
                if self.program.is_constant(border):
                    # The constant is in the domain itself.
                    self.rule(None, [self._apart, self.sign(border, Signs((0,)))])
            borders.sort(key=lambda each: -each.more)
            for low, high in pairwise(borders):
                # On or above the higher border is above the lower one.
                self.rule(None, [self._ordered, self.sign(high, Signs((0, 1))), self.sign(low, Signs((-1, 0)))])

    def _minimize(self) -> None:
        prices = {key: Fraction(self.preferences.price(key[0], self._direction(key))) for key in self.changes}
        others = {name: Fraction(self.preferences.price(name, INSERT)) for name in self._others}
        scaled = _scaled([*prices.values(), *others.values()])
        weights = list(zip([*self.changes.values(), *self._others.values()], scaled, strict=True))
        self._backend.add_minimize(3, [each for each in weights if each[1]])
        affected: dict[Key, list[int]] = {}
        for key, change in self.changes.items():
            for row in self._effects.get(key, ()):
                affected.setdefault(row, []).append(change)
        if affected:
            self._backend.add_minimize(4, [(self.any_of(each), 1) for each in affected.values()])
        if any(price != 1 for price in prices.values()):
            self._backend.add_minimize(2, [(change, 1) for change in self.changes.values()])
        self._backend.add_minimize(1, [(deviation, 1) for deviation in self._deviations])
        # An equation leaves only one value: other signs are preferred.
        zeros = [atoms[1] for subject, atoms in self._signs.items() if isinstance(subject, Linear)]
        self._backend.add_minimize(0, [(atom, 1) for atom in zeros])
        if len(self.changes) <= FEW:
            # Among equals, changes nearer to the request come first.
            self._backend.add_minimize(-1, [(change, place) for place, change in enumerate(self.changes.values(), 1)])
        if self._size is not None:
            over = self.at_least(self._size + 1, [(change, 1) for change in self.changes.values()])
            self.rule(None, [over, -self._lifted["size"]])

    def _direction(self, key: Key) -> str:
        return DELETE if self.program.nodes[key].is_stored else INSERT

    # ---- solving ----------------------------------------------------------------------------------------------------

    def block(self, nogoods: Iterable[Nogood]) -> None:
        """Exclude models that contain one of these, as far as their rows are in the program."""
        with self._control.backend() as self._backend:
            for each in nogoods:
                if not each.changes <= self.changes.keys():
                    continue
                body = sorted(self.changes[key] for key in each.changes)
                if each.is_exact:
                    body += [-change for key, change in self.changes.items() if key not in each.changes]
                    body += [-atom for atom in self._unknown()]
                for name in each.groups:
                    rows = self.program.groups[name].rows
                    body += [self._true[key] if key in each.rows else -self._true[key] for key in rows]
                    rest = self._group_rules(self.program.groups[name]).rest
                    body += [] if rest is None else [-rest]
                body += [self.sign(subject, signs) for subject, signs in each.signs.items()]
                body += [-self._lifted["new values"]] if each.is_within_bounds else []
                self.rule(None, [self._blocked, *body])

    def _unknown(self) -> list[int]:
        """The atoms for rows that are assumed without a known derivation."""
        rests = (rules.rest for rules in self._groups.values() if rules.rest is not None)
        return list(dict.fromkeys((*self._deviations, *self._beyond, *rests)))

    def cheapest(self, lifted: Iterable[str] = ()) -> Model | None:
        """A cheapest model in which the goals are met; None if there is none. Bounds can be `lifted`."""
        free = {*lifted}
        assumptions = [-self._bad, self._ordered, self._apart, self._blocked]
        assumptions += [atom if name in free else -atom for name, atom in self._lifted.items()]
        found = None
        with self._control.solve(assumptions=assumptions, yield_=True, async_=True) as handle:
            while True:
                _wait(handle)
                model = handle.model()
                if model is None:
                    return found
                found = self._read(model)
                handle.resume()

    def _read(self, model: Any) -> Model:
        holds = model.is_true
        changed = [key for key, change in self.changes.items() if holds(change)]
        nodes = self.program.nodes
        deviating = [each for atom, each in self._deviations.items() if holds(atom)]
        groups = [
            rules.group
            for rules in self._groups.values()
            if rules.rest is not None and holds(rules.rest) and not rules.group.is_exhausted
        ]
        signs = {}
        for subject, atoms in self._signs.items():
            signs[subject] = next((sign for sign, atom in zip((-1, 0, 1), atoms, strict=True) if holds(atom)), 2)
        return Model(
            frozenset(key for key in changed if not nodes[key].is_stored),
            frozenset(key for key in changed if nodes[key].is_stored),
            frozenset(key for key, atom in self._true.items() if holds(atom)),
            signs,
            tuple(each for each in deviating if isinstance(each, Node)),
            tuple(groups),
            any(holds(atom) for atom in self._beyond),
        )

    def needed(self, model: Model, subjects: Collection[Subject]) -> dict[Subject, Signs]:
        """The weakest signs of subjects with which the changes of a model meet the goals, whatever the other signs are;
        and those with which they contain blocked changes."""
        if not subjects:
            return {}
        changed = model.changes
        fixed = [atom if key in changed else -atom for key, atom in self.changes.items()]
        fixed += [-atom for atom in self._unknown()]
        fixed += [*self._lifted.values(), -self._apart, -self._blocked]
        excluded: dict[int, tuple[Subject, int]] = {}
        for subject in subjects:
            for sign, atom in zip((-1, 0, 1), self._signs[subject], strict=True):
                if sign != model.signs[subject]:
                    excluded.setdefault(-atom, (subject, sign))
        # Without the order of borders, a border is not replaced by a stronger one; with many, that takes too long.
        fixed.append(self._ordered if len(excluded) > MANY else -self._ordered)
        core = self._smallest_core([self._bad, *fixed], list(excluded))
        listed = {*(excluded if core is None else core)}
        if rows := self._summed(model, {excluded[literal][0] for literal in listed}):
            others = self._smallest_core([self._changed(rows, model), *fixed], list(excluded))
            listed |= {*(excluded if others is None else others)}
        found: dict[Subject, Signs] = {}
        for literal, (subject, sign) in excluded.items():
            if literal in listed:
                found[subject] = found.get(subject, ANY) - {sign}
        return found

    def _summed(self, model: Model, subjects: Collection[Subject]) -> list[Key]:
        """The rows of views in sums that conditions name, if the sums have fresh amounts."""
        names = {name for each in subjects for name in names_of(each) if name in self.program.totals}
        groups = map(self.program.group_of, sorted(names))
        return [
            key
            for group in groups
            if group is not None and not self.program.rules.is_base(group.fold.below)
            and any(isinstance(group.fold.amount_in(each[1]), Symbol) for each in group.rows if each in model.true)
            for key in group.rows
        ]  # fmt: skip

    def _changed(self, rows: Iterable[Key], model: Model) -> int:
        """A literal that is true if one of these rows has another truth value than in a model."""
        with self._control.backend() as self._backend:
            return self.any_of([-self._true[key] if key in model.true else self._true[key] for key in rows])

    def contradictory(self) -> list[Key]:
        """Goals that no changes meet together."""
        goals = {-failed: key for key, failed in self._failed.items()}
        fixed = [*self._lifted.values(), self._ordered, self._apart, self._blocked]
        return [goals[literal] for literal in self._smallest_core(fixed, list(goals)) or ()]

    def _smallest_core(self, fixed: Sequence[int], literals: Sequence[int]) -> list[int] | None:
        """A minimal core: without any one of its literals the others can be true. A large one is halved first."""
        core = self._core(fixed, literals)
        size = len(core or ()) // 2 if len(core or ()) > MANY else 1
        while core:
            place = 0
            while place < len(core):
                smaller = self._core(fixed, core[:place] + core[place + size :])
                if smaller is None:
                    place += size
                else:
                    core = smaller
            if size == 1:
                break
            size //= 2
        return core

    def _core(self, fixed: Sequence[int], literals: Sequence[int]) -> list[int] | None:
        """Literals of which not all can be true together with the fixed ones; None if they can."""
        self._control.configuration.solve.opt_mode = "ignore"
        try:
            with self._control.solve(assumptions=[*fixed, *literals], yield_=True, async_=True) as handle:
                _wait(handle)
                if handle.model() is not None:
                    return None
                core = {*handle.core()}
        finally:
            self._control.configuration.solve.opt_mode = "opt"
        return [literal for literal in literals if literal in core]


def _wait(handle: Any) -> None:
    if not is_limited():
        handle.wait()
        return
    while not handle.wait(PORTION):
        check_time()


def _scaled(prices: Sequence[Fraction]) -> list[int]:
    """Prices as integers in the same proportions, within the range that clingo can add."""
    share = math.lcm(*(each.denominator for each in prices)) if prices else 1
    whole = [int(each * share) for each in prices]
    common = math.gcd(*whole) if whole else 1
    whole = [each // common for each in whole] if common > 1 else whole
    largest = max(whole, default=0)
    if largest <= LARGEST:
        return whole
    return [max(1, each * LARGEST // largest) if each else 0 for each in whole]
