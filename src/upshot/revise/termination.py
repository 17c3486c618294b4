"""Termination of a search, from the rules alone: the views that can need any number of fresh values.

A requested row passes its values to the body rows of rules that derive it; variables that the head lacks take fresh
values. An inserted row passes its values to rows that it derives. A row that must not be derived passes its values to
the rows that prevent it: negated ones, and those of groups. If a fresh value can reach the column for which it was
created, it can cause another one, and so on; else the number of fresh values is bounded. [Weak acyclicity: Fagin,
Kolaitis, Miller & Popa 2005, section 3.] Values of aggregates are not followed into other groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from upshot.check.strata import component_numbers
from upshot.revise.built_ins import LINEAR, variables
from upshot.revise.request import DELETE, INSERT, Request
from upshot.revise.rule_forms import cells
from upshot.revise.rules import GroupedView, RuleParts, Rules
from upshot.revise.side_effects import Signed, signed_steps
from upshot.syntax.ast import Atom, Call, Comparison, Term

Place = tuple[str, str, int]
"""A column of requested rows (`wanted`), of rows that must be absent (`unwanted`), or of rows after the change."""
WANTED, UNWANTED, THERE = "wanted", "unwanted", "there"
Places = dict[str, list[Place]]


def leaves_columns_out(rules: Rules, relations: Iterable[str]) -> bool:
    """Test whether a rule below these relations has variables that its head lacks: without such rules no fresh values
    are needed, and a search terminates."""
    below = rules.below(relations)
    return any(name in rules.folds or any(map(invents, rules.by_view.get(name, ()))) for name in below)


def invents(rule: RuleParts) -> bool:
    """Test whether a rule has variables that its head neither has nor determines by sums and differences."""
    known = {*variables(rule.head), *rule.constants}
    size = -1
    while len(known) != size:
        size = len(known)
        for each in rule.built_ins:
            if isinstance(each, Comparison) and each.op == "=" and _is_sum(each.left) and _is_sum(each.right):
                open_ = [name for name in variables(each) if name not in known]
                known.update(open_ if len(open_) == 1 else ())
    return any(name not in known for name in rule.names)


def _is_sum(term: Term) -> bool:
    return not isinstance(term, Call) or (term.function in LINEAR and all(map(_is_sum, term.args)))


def unbounded_views(
    rules: Rules, request: Request, constraints: Collection[str], frozen: Collection[tuple[str, str]]
) -> tuple[str, ...]:
    """The views whose fresh values can cause further fresh values: through recursion, or through negations and
    constraints. Empty if the number of fresh values of a realization is bounded."""
    names = frozenset((name, 1) for name, _ in request.insert) | {(name, -1) for name, _ in request.delete}
    key = names, frozenset(constraints), frozenset(frozen)
    if key not in rules.unbounded:
        rules.unbounded[key] = _Flow(rules, rules.unchangeable(frozen)).unbounded(names, constraints)
    return rules.unbounded[key]


@dataclass(slots=True)
class _Flow:
    """The flow of values between columns. Relations that are `unchangeable` gain no rows."""

    rules: Rules
    unchangeable: Collection[tuple[str, str]]
    _given: dict[Place, set[Place]] = field(default_factory=dict)
    _made: dict[tuple[Place, Place], set[str]] = field(default_factory=dict)
    """For each column whose values cause fresh values in another: the views whose rules create them."""

    def unbounded(self, names: Iterable[Signed], constraints: Collection[str]) -> tuple[str, ...]:
        wanted, moved, guarded = self._reach(names, constraints)
        for view, listed in self.rules.by_view.items():
            for rule in listed:
                self._follow(view, rule, wanted, moved)
        for fold in self.rules.folds.values():
            self._follow_fold(fold)
        for name in guarded:
            self._give(name, THERE, UNWANTED)
        for name, sign in wanted:
            if sign > 0 and self.rules.is_base(name):
                self._give(name, WANTED, THERE)
        return self._recurrent()

    def _reach(
        self, names: Iterable[Signed], constraints: Collection[str]
    ) -> tuple[set[Signed], set[Signed], set[str]]:
        """The relations with rows that are requested (1) or must be absent (-1); those that gain or lose rows; and
        those of which any new row may have to be absent, since it violates a constraint or shares a key."""
        rules, schemas = self.rules, self.rules.program.schemas
        read = {view: {*rules.read(view)} for view in (*rules.by_view, *rules.folds)}
        used: dict[str, set[Signed]] = {}
        for view, inputs in read.items():
            for name, sign in inputs:
                used.setdefault(name, set()).add((view, sign))
        goals, size = {*names}, -1
        while len(goals) != size:
            size = len(goals)
            every = signed_steps(goals, read)
            wanted = {
                (name, sign) for name, sign in every if (name, INSERT if sign > 0 else DELETE) not in self.unchangeable
            }
            moved = signed_steps((each for each in wanted if rules.is_base(each[0])), used)
            guarded = {name for name, sign in moved if sign > 0 and (name in constraints or schemas[name].keys)}
            goals |= {(name, -1) for name in guarded}
        return wanted, moved, guarded

    def _follow(self, view: str, rule: RuleParts, wanted: Collection[Signed], moved: Collection[Signed]) -> None:
        gaining = [atom for atom in rule.positive if (atom.relation, INSERT) not in self.unchangeable]
        folded = [atom for atom in (*rule.positive, *rule.negative) if atom.relation in self.rules.folds]
        stored = (name for atom in rule.positive if atom not in gaining for name in variables(atom))
        known = {*rule.constants, *stored}
        there = _places(THERE, rule.positive)
        if (view, 1) in wanted:
            targets = _places(WANTED, (*gaining, *folded)), _places(UNWANTED, rule.negative)
            self._link(view, _places(WANTED, [rule.head]), targets, known)
        if (view, -1) in wanted:
            targets = _places(WANTED, (*rule.negative, *folded)), _places(UNWANTED, rule.positive)
            self._link(view, there | _places(UNWANTED, [rule.head]), targets, known)
        if (view, 1) in moved:
            self._link(view, there, [_places(THERE, [rule.head])], known)

    def _link(self, view: str, sources: Places, targets: Iterable[Places], known: Collection[str]) -> None:
        """Pass the values of variables from some rows to others; other variables take fresh values."""
        every = [place for listed in sources.values() for place in listed]
        for name, place in ((name, place) for each in targets for name, listed in each.items() for place in listed):
            if place[0] == WANTED and self._is_total(place):
                continue
            for source in sources.get(name, ()):
                self._given.setdefault(source, set()).add(place)
            for source in every if name not in known and name not in sources else ():
                self._made.setdefault((source, place), set()).add(view)

    def _is_total(self, place: Place) -> bool:
        fold = self.rules.folds.get(place[1])
        return fold is not None and place[2] == fold.width

    def _follow_fold(self, fold: GroupedView) -> None:
        """A requested group needs rows, and rows determine the value of a group."""
        width = self.rules.program.schemas[fold.below].arity
        group = {str(at): [(WANTED, fold.view, at)] for at in range(fold.width)}
        rows, there, unwanted = ({str(at): [(kind, fold.below, at)] for at in range(width)}
                                 for kind in (WANTED, THERE, UNWANTED))  # fmt: skip
        self._link(fold.view, group, [rows], ())
        self._link(fold.view, there | group, [unwanted], ())
        made = {**{name: [(THERE, fold.view, int(name))] for name in group}, "": [(THERE, fold.view, fold.width)]}
        self._link(fold.view, there, [made], ())

    def _give(self, name: str, kind: str, other: str) -> None:
        for at in range(self.rules.program.schemas[name].arity):
            self._given.setdefault((kind, name, at), set()).add((other, name, at))

    def _recurrent(self) -> tuple[str, ...]:
        """The views whose rules create fresh values on a cycle."""
        steps = {place: {*given} for place, given in self._given.items()}
        for source, target in self._made:
            steps.setdefault(source, set()).add(target)
        # A step from the source to the target is on a cycle if both are in one component.
        number = {place: i for i, place in enumerate({*steps}.union(*steps.values()))}
        component = component_numbers([[number[each] for each in steps.get(place, ())] for place in number])
        found = (
            views for (source, target), views in self._made.items()
            if component[number[source]] == component[number[target]]
        )  # fmt: skip
        return tuple(sorted(set[str]().union(*found)))


def _places(kind: str, atoms: Iterable[Atom]) -> Places:
    """The places of variables in atoms."""
    found: Places = {}
    for name, (relation, at) in cells(atoms):
        found.setdefault(name, []).append((kind, relation, at))
    return found
