"""How aggregates can come to other values: which rows of their groups go, which come.

A group that must come to a value, or must not, differs in the end from what it is now in one of the rows that
`group_steps.py` names: one branch for each. A rule that waits for aggregates takes the values that they have, if its
comparisons allow that, or one of them has to change. Of several things to see to, one is taken up only when all that
is decided about the rows of its group is so already; what lies lowest always can be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any

from upshot.check.names.variables import variables
from upshot.revise.alternatives import Alternatives
from upshot.revise.amounts import Amounts
from upshot.revise.branch import Branch, OpenInstance
from upshot.revise.built_ins import Binding, determined
from upshot.revise.folds import COUNT, Fold, Groups, group_key
from upshot.revise.group_steps import Steps, steps
from upshot.revise.new_rows import NewRows, Wanted, ends_of, hangs_on_new, most_of
from upshot.revise.offered_values import FEW
from upshot.revise.open_instances import folded_atoms, group_of
from upshot.revise.request import DELETE, Key, Row
from upshot.revise.rules import Column, RuleParts, ground
from upshot.revise.spans import ANY, Spans, closed, common, is_among, point, without
from upshot.revise.term_values import UNKNOWN, value_of
from upshot.revise.tolerance import wished
from upshot.revise.ways import Ways
from upshot.syntax.ast import Atom, Variable

Group = tuple[str, Row]
"""A view of aggregates and a group of it."""

TOTALS = ("sum", "mean")

Unmet = tuple[Key, list[Alternatives] | None]
"""What is not as it should be, and the ways on; None while something below it has to be seen to first."""


@dataclass(slots=True)
class Wish:
    """What a group is to come to: one of the `exact` values if there are any, a value of `spans` and none of `barred`;
    it `must_be` there, or may as well have no rows. The deepest of those who wish it lies at `depth`. One that hangs on
    a new value `is_tried`: with another, the group would have to come to something else."""

    exact: set[Any] = field(default_factory=set)
    barred: set[Any] = field(default_factory=set)
    avoided: Spans = ()
    spans: Spans = ANY
    must_be: bool = False
    depth: int = 0
    is_tried: bool = False

    @property
    def allowed(self) -> Spans:
        allowed = self.spans
        for value in self.exact:
            allowed = common(allowed, (point(value),))
        for span in (*map(point, self.barred), *self.avoided):
            allowed = without(allowed, span)
        return allowed

    def is_met(self, value: Any) -> bool:
        if value is None:
            return not self.exact
        return all(each == value for each in self.exact) and not self.bars(value)

    def bars(self, value: Any) -> bool:
        return value in self.barred or is_among(value, self.avoided)


@dataclass(slots=True)
class AggregateWays:
    """Continues branches by what is to become of aggregates."""

    ways: Ways
    given: Collection[Key] = ()
    """The rows that were asked for by name."""
    constraints: Collection[str] = ()
    _groups: Groups = field(init=False)
    _new: NewRows = field(init=False)
    _amounts: Amounts = field(init=False)
    _others: set[Key] = field(default_factory=set)
    """Rows that could come in the places of others, for which values were offered."""

    def __post_init__(self) -> None:
        self._groups = Groups(self.ways.rules.program.schemas)
        self._new = NewRows(self.ways)
        self._amounts = Amounts(self.ways.rules, self.constraints)
        self.ways.completing = self._completing

    @property
    def endless(self) -> AbstractSet[Column]:
        """The columns whose values make up totals in endlessly many ways, of which some were tried."""
        return self._new.endless

    def unmet(self, branch: Branch) -> Iterator[Unmet]:
        """What the staged state of the branch leaves unmet of aggregates, each when it is asked for."""
        folds = self.ways.rules.folds
        if not folds:
            return
        wishes = self._wishes(branch)
        for (view, group), wish in sorted(wishes.items(), key=repr):
            fold = folds[view]
            value = self._groups.value(self.ways.world, fold, group)
            if not wish.is_met(value):
                about = group_key(fold, group, min(wish.exact, default=value))
                yield about, self._changes(branch, fold, group, value, wish)
            elif wish.must_be and (view, group) not in branch.brought and self._has_new_rows(branch, fold):
                # They came for another reason: others would make up a value that is wished as well.
                self._new.note_endless(fold)
                if fold.function in ("min", "max") and not wish.exact and branch.placeholders:
                    self.ways.limits.note("the new values that were tried")
        for open_ in sorted(branch.open, key=repr):
            yield self._about(open_), self._openings(branch, open_, wishes)

    def _has_new_rows(self, branch: Branch, fold: Fold) -> bool:
        """Whether rows come to what is folded that were not asked for by name."""
        below = self.ways.rules.below(fold.below)
        return any(key[0] in below and key not in self.given for key in branch.insert)

    # ---- what is wished -----------------------------------------------------------------------------------------

    def _wishes(self, branch: Branch) -> dict[Group, Wish]:
        folds, found = self.ways.rules.folds, dict[Group, Wish]()

        def wish(view: str, group: Row, depth: int = 0) -> Wish:
            here = found.setdefault((view, group), Wish())
            here.depth = max(here.depth, depth)
            return here

        for view, row in branch.true:
            if view in folds:
                here = wish(view, row[:-1], branch.depths.get((view, row), 0))
                here.exact.add(row[-1])
                here.is_tried |= any(each.stands_at((view, len(row) - 1), row[-1]) for each in branch.placeholders)
        for view, row in branch.false:
            if view in folds:
                wish(view, row[:-1], branch.depths.get((view, row), 0)).barred.add(row[-1])
        for view, group, span in branch.avoided:
            wish(view, group).avoided += (span,)
        for open_ in branch.open:
            for view, group, spans, is_tried in self._asked(branch, open_):
                here = wish(view, group, open_.depth)
                here.spans, here.must_be = common(here.spans, spans), True
                here.is_tried |= is_tried
        for each in found.values():
            each.must_be |= bool(each.exact)
        return found

    def _asked(self, branch: Branch, open_: OpenInstance) -> Iterator[tuple[str, Row, Spans, bool]]:
        """The groups that an open instance waits for, between what bounds, and whether those hang on new values."""
        rule, known = self.ways.rules.by_number[open_.rule], dict(open_.known)
        for atom in folded_atoms(rule, self.ways.rules.folds, known):
            group, value = group_of(atom, known), atom.args[-1]
            if group is not None and isinstance(value, Variable):
                spans = wished(value.name, rule.built_ins, known, rule.types)
                yield atom.relation, group, spans, hangs_on_new(value, branch, rule, known)

    # ---- groups -------------------------------------------------------------------------------------------------

    def _changes(self, branch: Branch, fold: Fold, group: Row, value: Any, wish: Wish) -> list[Alternatives] | None:
        """The ways to give a group a value that is wished; None while its rows are not as they are decided to be."""
        rows = self._groups.rows(self.ways.world, fold, group)
        kept = {row for view, row in branch.true if view == fold.below and fold.group(row) == group}
        gone = {row for view, row in branch.false if view == fold.below and fold.group(row) == group}
        if not kept <= {*rows} or gone & {*rows} or self._awaits(branch, fold, group):
            return None
        allowed = closed(wish.allowed, fold.type)
        possible = closed(common(allowed, self._amounts.totals(fold)), fold.type)
        if wish.must_be and (not possible or self._amounts.are_apart(fold, possible)):
            if allowed:
                self.ways.limits.excluded[self._amounts.bounds(fold)] = None
            return []
        allowed = possible
        todo = self._amounts.within(fold, allowed, steps(fold, rows, value, allowed, absent=not wish.must_be))
        if fold.function in ("min", "max"):
            self._offer_for_others(fold, todo.together, () if wish.is_tried else wish.exact)
        about = group_key(fold, group, min(wish.exact, default=value))
        branch = replace(branch, depth=wish.depth)
        found = list(self._leaving(branch, about, fold, todo, kept))
        if todo.new:
            there = self.ways.decided(branch, ((fold.below, row) for row in todo.one_of), ())
            is_first = (fold.view, group) not in branch.brought
            if there is not None:
                there = replace(there, brought=there.brought | {(fold.view, group)})
                most = most_of(todo, self._amounts.of_new_rows(fold)) if is_first and fold.function in TOTALS else None
                wanted = Wanted(fold, group, frozenset(rows), todo, is_first, most, wish.is_tried)
                found += self._new.alternatives(there, about, wanted)
        return found

    def _offer_for_others(self, fold: Fold, going: Sequence[Row], wanted: Iterable[Any]) -> None:
        """A row that goes may go because a rule makes another of it, which has the value that is wished. What the rule
        needs for that is offered: it follows, and is not new."""
        target = fold.target
        if target is None:
            return
        for row, value in product(going[:FEW], wanted):
            other = fold.below, (*row[:target], value, *row[target + 1 :])
            if other not in self._others:
                self._others.add(other)
                for rule in self.ways.rules.by_view.get(fold.below, ()):
                    for columns, needed in self._needed(rule, rule.binding(other[1])):
                        self.ways.offered.offer(columns, needed)

    def _needed(self, rule: RuleParts, head: Binding | None) -> Iterator[tuple[frozenset[Column], Any]]:
        """The values that a rule asks for in one of its literals, all others of which hold, and their base columns."""
        for place, atom in enumerate(rule.positive) if head is not None else ():
            rest = tuple(each for each in range(len(rule.positive)) if each != place)
            for known in islice(self.ways.matches.find(self.ways.world, rule, rest, head or {}), FEW):
                for at, term in enumerate(atom.args):
                    if isinstance(term, Variable) and term.name in known:
                        yield self.ways.rules.sources((atom.relation, at)), known[term.name]

    def _completing(self, branch: Branch, rule: RuleParts, binding: Binding, name: str) -> Iterator[Any]:
        """What a variable of a literal of a rule has to be for totals of the same rows to come to what the rule, or the
        branch, asks for; and the bounds that the rule sets to the variable, with which other rows make up the rest."""
        type = rule.types[name].required()
        for fold, group, asked in self._totals(branch, rule, binding):
            if (fold.view, group) in branch.brought or self._new.rests_on_new(branch, fold):
                continue
            if any(self._is_folded(each, name, fold, group, binding) for each in rule.positive):
                self.ways.world.stage(branch.insert, branch.delete)
                rows = self._groups.rows(self.ways.world, fold, group)
                value = self._groups.value(self.ways.world, fold, group)
                yield from ends_of(steps(fold, rows, value, closed(asked, fold.type), absent=False), type)
                own = wished(name, rule.built_ins, binding, rule.types)
                yield from ends_of(Steps(new=ANY, decisive=closed(own, type)), type)

    def _totals(self, branch: Branch, rule: RuleParts, binding: Binding) -> Iterator[tuple[Fold, Row, Spans]]:
        """The groups that are to come to a sum or a mean, for the sake of the rule or of the branch, and to which."""
        folds = {name: fold for name, fold in self.ways.rules.folds.items() if fold.function in TOTALS}
        for atom in rule.positive if folds else ():
            group = group_of(atom, binding) if atom.relation in folds else None
            if group is not None:
                term = atom.args[-1]
                spans: Spans = (point(value_of(term, binding, rule.types)),)
                if isinstance(term, Variable) and term.name not in binding:
                    spans = wished(term.name, rule.built_ins, binding, rule.types)
                if not hangs_on_new(term, branch, rule, binding):
                    yield folds[atom.relation], group, spans
        for (view, group), wish in self._wishes(branch).items() if folds else ():
            if view in folds and wish.must_be and not wish.is_tried:
                yield folds[view], group, wish.allowed

    def _is_folded(self, atom: Atom, name: str, fold: Fold, group: Row, binding: Binding) -> bool:
        """Whether a row that the literal stands for would be one of the group, with the variable as what it adds."""
        rules = self.ways.rules
        for rule in rules.by_view.get(fold.below, [rules.identities[fold.below]]):
            given = rule.binding(group)
            for each in rule.positive if given is not None else ():
                if each.relation == atom.relation and fold.target is not None:
                    pairs = [*zip(each.args, atom.args, strict=True)]
                    ours = {term for folded, term in pairs if folded == rule.clause.head.args[fold.target]}
                    values = [(value_of(a, given or {}, rule.types), value_of(b, binding, {})) for a, b in pairs]
                    if Variable(name) in ours and all(a in (b, UNKNOWN) or b is UNKNOWN for a, b in values):
                        return True
        return False

    def _awaits(self, branch: Branch, fold: Fold, group: Row) -> bool:
        """Whether a row that is not known yet is to come to the group."""
        for open_ in branch.open:
            rule = self.ways.rules.by_number[open_.rule]
            if open_.head is None and rule.clause.head.relation == fold.below:
                values = [value_of(term, dict(open_.known), {}) for term in rule.clause.head.args[: fold.width]]
                if all(each in (value, UNKNOWN) for each, value in zip(values, group, strict=True)):
                    return True
        return False

    def _leaving(self, branch: Branch, about: Key, fold: Fold, todo: Steps, kept: set[Row]) -> Iterator[Alternatives]:
        """The ways in which rows of a group go."""
        is_base = self.ways.rules.is_base(fold.below)
        price = self.ways.preferences.price(fold.below, DELETE) if is_base else 0
        if todo.together and not kept.intersection(todo.together):
            number = len(todo.together) if is_base else 1
            made = self.ways.decided(branch, (), ((fold.below, row) for row in todo.together))
            yield Alternatives(branch, about, number, number * price, iter([] if made is None else [made]))
        one_of = [row for row in todo.one_of if row not in kept]
        # A count falls by rows that go and by nothing else: the first of them leaves enough others to go after it.
        spare = todo.leaving - 1 if fold.function == COUNT and not todo.new else 0
        if one_of and len(one_of) > spare:
            number = todo.leaving if is_base else 1
            going = self._one_of(branch, fold.below, one_of, len(one_of) - spare)
            yield Alternatives(branch, about, number, number * price, going)

    def _one_of(self, branch: Branch, below: str, rows: list[Row], first: int) -> Iterator[Branch]:
        """The branches in which one row goes, and those before it stay."""
        for place, row in enumerate(rows[:first]):
            made = self.ways.decided(branch, ((below, each) for each in rows[:place]), [(below, row)])
            if made is not None:
                yield made

    # ---- open instances -----------------------------------------------------------------------------------------

    def _about(self, open_: OpenInstance) -> Key:
        relation = self.ways.rules.by_number[open_.rule].clause.head.relation
        return open_.head or (relation, ())

    def _openings(self, branch: Branch, open_: OpenInstance, wishes: dict[Group, Wish]) -> list[Alternatives] | None:
        """The ways on with an open instance: it takes the values that its aggregates have, or one of them changes."""
        rule, known = self.ways.rules.by_number[open_.rule], dict(open_.known)
        branch = replace(branch, depth=open_.depth)
        about, found, kept = self._about(open_), list[Alternatives](), list[Key]()
        while (following := self._following(open_, known)) is not None:
            fold, group, name = following
            value, wish = self._groups.value(self.ways.world, fold, group), wishes.get((fold.view, group), Wish())
            here = self.ways.decided(branch, kept, ())
            if here is None:
                return found
            if value is None:
                changes = self._changes(here, fold, group, None, replace(wish, must_be=True))
                return None if changes is None else [*found, *changes]
            if wish.bars(value):
                return None
            key = group_key(fold, group, value)
            other = self.ways.decided(here, (), [key])
            if other is not None:
                found.append(Alternatives(branch, about, 1, 0, iter([other])))
            kept.append(key)
            longer = determined(rule.built_ins, {**known, name: value}, rule.types)
            if longer is None:
                return found
            known = longer
        closed = self._closed(branch, open_, known)
        return found if closed is None else [Alternatives(branch, about, 0, 0, iter([closed])), *found]

    def _following(self, open_: OpenInstance, known: Binding) -> tuple[Fold, Row, str] | None:
        """An aggregate of the instance without a value whose group is known, and the variable of its value. A group may
        have the value of another aggregate in it."""
        rule, folds = self.ways.rules.by_number[open_.rule], self.ways.rules.folds
        for atom in folded_atoms(rule, folds, known):
            group, value = group_of(atom, known), atom.args[-1]
            if group is not None and isinstance(value, Variable):
                return folds[atom.relation], group, value.name
        return None

    def _closed(self, branch: Branch, open_: OpenInstance, known: Binding) -> Branch | None:
        """The branch in which the instance derives its row with the values that aggregates have now."""
        rule = self.ways.rules.by_number[open_.rule]
        head = rule.clause.head
        assert all(name in known for name in variables(head)), "aggregates were all that was missing"
        key = open_.head or ground(head, known)
        if key[1] in open_.unlike or rule.binding(key[1]) is None or ground(head, known) != key:
            return None
        branch = replace(branch, open=branch.open - {open_})
        made: Branch | None = branch
        if open_.head is None:
            made = self.ways.decided(branch, [key], [])
        is_identity = rule.number < 0
        return made if made is None or is_identity else self.ways.instance(made, key, rule, known)
