"""Where the consequences of a change would change if its new values were others.

A change with new values is staged. The rows that it brings are followed from rule to rule, each value as it is computed
from the new ones; wherever a rule compares such a value with another, or joins it with one, there is a border. As long
as new values do not cross one, the same rules derive the same rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

from upshot.check.names.variables import fresh_name, variables
from upshot.check.program import Literal
from upshot.core.types import Kind
from upshot.engine.time_limit import check_time
from upshot.revise.built_ins import Binding, holds
from upshot.revise.folds import COUNT, Fold, Groups
from upshot.revise.linear import Linear, NotLinearError, Symbolic, as_linear, concrete, difference, new_value, symbolic
from upshot.revise.matches import Matches
from upshot.revise.moving_columns import joins, watched_columns
from upshot.revise.new_value_columns import Columns, NewValueColumns, named
from upshot.revise.request import Key, Row
from upshot.revise.rules import Column, RuleParts, Rules, ground
from upshot.revise.term_values import UNKNOWN, value_of
from upshot.revise.world import World
from upshot.rewrite.demand.request_rules import INSERT, asked
from upshot.rewrite.normalize.term_type import term_type
from upshot.syntax.ast import Atom, Call, Comparison, Constant, Not, Term, Test, Variable

MOST_INSTANCES = 40
"""Instances of a rule that are looked at for one row."""
MOST_ROWS = 200
"""Rows that are followed."""

SymbolicRow = tuple[Symbolic, ...]
SymbolicBinding = dict[str, Symbolic]


@dataclass(slots=True)
class Found:
    """The borders of new values, the tests that texts of them are put to, and why there may be others."""

    borders: dict[Linear, None] = field(default_factory=dict)
    tests: dict[tuple[str, str, str], None] = field(default_factory=dict)
    """A test, its first argument, and the new value that is tested."""
    missing: dict[str, None] = field(default_factory=dict)
    rows: Mapping[Key, Sequence[SymbolicRow]] = field(default_factory=dict)
    """The rows that move with new values, by what they come to."""

    def add(self, border: Linear) -> None:
        if border.parts:
            self.borders[border.scaled()] = None


@dataclass(slots=True)
class Borders:
    """Finds them in the staged state."""

    world: World
    rules: Rules
    request: Collection[Key] = ()
    """The rows that are to be there, or not to be there."""
    _matches: Matches = field(init=False)
    _groups: Groups = field(init=False)
    _watched: frozenset[Column] = field(init=False)
    _loosened: dict[object, tuple[RuleParts, dict[str, str]]] = field(default_factory=dict)
    _columns: NewValueColumns = field(init=False)

    def __post_init__(self) -> None:
        self._matches = Matches(self.rules.program.schemas)
        self._groups = Groups(self.rules.program.schemas)
        self._watched = watched_columns(self.rules)
        self._columns = NewValueColumns(self.rules)

    def are_watched(self, columns: Iterable[Column]) -> bool:
        """Whether rules compare values of one of these columns, or compute others from them."""
        return not self._watched.isdisjoint(columns)

    def reached(self, rows: Collection[tuple[str, SymbolicRow]], values: Mapping[str, Any]) -> Found:
        """The borders that the rows of a change, staged with these new values, meet in what follows from them."""
        following = _Following(self, values, columns=self._columns.of(rows))
        for relation, row in rows:
            following.add(relation, row)
        for views in self.rules.program.strata:
            following.visit(views)
        for relation, wanted in self.request:
            for row in following.rows.get(relation, ()):
                following.are_equal(list(zip(row, wanted, strict=True)))
        following.found.rows = {key: tuple(rows) for key, rows in following.versions.items()}
        return following.found

    def asked(self, relation: str, row: SymbolicRow, values: Mapping[str, Any]) -> Found:
        """The borders that rules for a row put to the new values in it: what is there already is compared with them."""
        following = _Following(self, values)
        for rule in self.rules.by_view.get(relation, ()):
            following.derive(rule, row)
        return following.found

    def between(self, rule: RuleParts, binding: Binding, name: str, some: Any) -> tuple[list[Fraction], bool]:
        """Where the built-ins of a rule part the values of a variable, given those of others; whether there is no other
        place. `some` is one of its values."""
        following = _Following(self, {name: some})
        left = following.compute(rule, {**binding, name: new_value(name)})
        found = following.found
        roots = [-each.more / each.parts[0][1] for each in found.borders]
        return roots, not (left or found.missing or found.tests)

    def compared(self, rule: RuleParts, binding: SymbolicBinding, values: Mapping[str, Any]) -> dict[Linear, None]:
        """The borders that the built-ins of a rule have for the new values in a binding."""
        following = _Following(self, values)
        following.compute(rule, binding)
        return following.found.borders

    # ---- instances of rules -------------------------------------------------------------------------------------

    def instances(
        self, rule: RuleParts, places: Sequence[int], binding: SymbolicBinding, values: Mapping[str, Any]
    ) -> Iterator[tuple[list[tuple[Atom, Row]], dict[str, str]]]:
        """The rows that make the literals at these places hold, with those literals. Where a value could be met by
        chance, it may be another, and the variable has another name, which stands for its own."""
        loose = frozenset(
            name
            for name, value in binding.items()
            if isinstance(value, Linear) and any(self._is_loose(value, name, rule.positive[each]) for each in places)
        )
        asked, renamed = self._loose(rule, tuple(places), loose, frozenset(binding))
        known = {name: concrete(value, values) for name, value in binding.items()}
        for match in self._matches.find(self.world, asked, tuple(range(len(asked.positive))), known):
            yield [(atom, ground(atom, match)[1]) for atom in asked.positive], renamed

    def _is_loose(self, value: Linear, name: str, atom: Atom) -> bool:
        """Whether a value could be met by chance in a literal: a new value that is not computed is in no column from
        which values are taken."""
        for place, term in enumerate(atom.args):
            at = (atom.relation, place)
            if term == Variable(name) and (not value.is_bare or self.rules.is_made_column(at)):
                return True
        return False

    def _loose(
        self, rule: RuleParts, places: tuple[int, ...], loose: frozenset[str], known: frozenset[str]
    ) -> tuple[RuleParts, dict[str, str]]:
        """The rule with these literals only, in which loose variables may have any value, under another name; of its
        built-ins those that say nothing of what is known."""
        shape = rule.number, places, loose, known
        if shape not in self._loosened:
            taken, types, renamed = set(rule.types), dict(rule.types), dict[str, str]()
            atoms = []
            for place in places:
                args = []
                for term in rule.positive[place].args:
                    if isinstance(term, Variable) and term.name in loose:
                        other = fresh_name("Other", taken)
                        taken.add(other)
                        renamed[other], types[other] = term.name, rule.types[term.name]
                        term = Variable(other)
                    args.append(term)
                atoms.append(replace(rule.positive[place], args=tuple(args)))
            bound = {name for atom in atoms for name in variables(atom)} - known
            tests = tuple(each for each in rule.built_ins if bound.issuperset(variables(each)))
            number = -1_000_000 - len(self._loosened)
            asked_for = tuple(asked(INSERT, atom) for atom in atoms)
            made = replace(rule, number=number, all_of=asked_for, built_ins=tests, types=types)
            self._loosened[shape] = made, renamed
        return self._loosened[shape]

    def denied(self, atom: Atom, rule: RuleParts, binding: SymbolicBinding) -> RuleParts | None:
        """A rule with a negated literal for its only one, if a value that moves could meet a row of it by chance."""
        moving = ((name, binding[name]) for name in variables(atom))
        if not any(isinstance(value, Linear) and self._is_loose(value, name, atom) for name, value in moving):
            return None
        number = -2_000_000 - 100 * rule.number - rule.negative.index(atom)
        return replace(rule, number=number, all_of=(asked(INSERT, atom),), built_ins=())


@dataclass(slots=True)
class _Following:
    """The rows that move with new values, as far as they are known."""

    borders: Borders
    values: Mapping[str, Any]
    found: Found = field(default_factory=Found)
    rows: dict[str, dict[SymbolicRow, None]] = field(default_factory=dict)
    """By relation, in the order in which they were found."""
    versions: dict[Key, dict[SymbolicRow, None]] = field(default_factory=dict)
    """By what they come to."""
    columns: Columns = field(default_factory=dict)
    number: int = 0

    def add(self, relation: str, row: SymbolicRow) -> bool:
        if row in self.rows.setdefault(relation, {}):
            return False
        if self.number >= MOST_ROWS:
            self.found.missing["what follows from them"] = None
            return False
        self.number += 1
        self.rows[relation][row] = None
        key = relation, tuple(concrete(value, self.values) for value in row)
        self.versions.setdefault(key, {})[row] = None
        return True

    def visit(self, views: Iterable[str]) -> None:
        """Follows the rows through the rules of views of one level."""
        views, moved = list(views), True
        while moved:
            check_time()
            moved = False
            for view in views:
                fold = self.borders.rules.folds.get(view)
                if fold is not None:
                    moved |= self._add_all(view, self._folded(fold))
                    continue
                for rule in self.borders.rules.by_view.get(view, ()):
                    moved |= self._add_all(view, self._derived(rule))

    def _add_all(self, view: str, rows: Iterable[SymbolicRow]) -> bool:
        return sum(self.add(view, row) for row in list(rows)) > 0

    # ---- rules --------------------------------------------------------------------------------------------------

    def _derived(self, rule: RuleParts) -> Iterator[SymbolicRow]:
        """What the rule derives from rows that move; where such rows keep it from deriving others is noted."""
        for place, atom in enumerate(rule.positive):
            for binding in self._moving(atom):
                yield from self._heads(rule, place, binding)
        for atom in rule.negative:
            for binding in self._moving(atom):
                for _ in self._matched(rule, [*range(len(rule.positive))], binding):
                    pass

    def _moving(self, atom: Atom) -> Iterator[SymbolicBinding]:
        """The values that rows which move give to the variables of a literal."""
        for row in list(self.rows.get(atom.relation, ())):
            if self.borders.are_watched(
                (atom.relation, at) for at, value in enumerate(row) if isinstance(value, Linear)
            ):
                binding = self._unified(atom, row)
                if binding is not None:
                    yield binding

    def _unified(self, atom: Atom, row: SymbolicRow) -> SymbolicBinding | None:
        """The values that a row gives to the variables of a literal; None if it is no row of it."""
        binding, pairs = SymbolicBinding(), list[tuple[Symbolic, Symbolic]]()
        for term, value in zip(atom.args, row, strict=True):
            match term:
                case Constant(other):
                    pairs.append((value, other))
                case Variable(name) if name in binding:
                    pairs.append((value, binding[name]))
                case Variable(name):
                    binding[name] = value
                case _:
                    pass
        return binding if self.are_equal(pairs) else None

    def are_equal(self, pairs: Sequence[tuple[Symbolic, Symbolic]]) -> bool:
        """Whether values are equal; where they move, there is a border, unless others are not and do not."""
        moving = [(one, other) for one, other in pairs if isinstance(one, Linear) or isinstance(other, Linear)]
        if any(one != other for one, other in pairs if (one, other) not in moving):
            return False
        for one, other in moving:
            border = difference(one, other)
            if border is not None:
                self.found.add(border)
        return all(concrete(one, self.values) == concrete(other, self.values) for one, other in moving)

    def _heads(self, rule: RuleParts, place: int, binding: SymbolicBinding) -> Iterator[SymbolicRow]:
        others = [each for each in range(len(rule.positive)) if each != place]
        for match in list(self._matched(rule, others, binding)):
            made = self._computed(rule, match)
            if made is not None:
                head = tuple(self._term(term, made) for term in rule.clause.head.args)
                moves = any(isinstance(value, Linear) for value in head)
                if moves and self._is_there(rule, head) and not self._is_denied(rule, made):
                    yield head

    def _matched(self, rule: RuleParts, places: list[int], binding: SymbolicBinding) -> Iterator[SymbolicBinding]:
        """The bindings that make the literals at these places hold, for each choice of rows that move."""
        if not places:
            yield binding
            return
        number = 0
        for atoms, renamed in self.borders.instances(rule, places, binding, self.values):
            for rows in product(*(self._rows_of(atom, row) for atom, row in atoms)):
                number += 1
                if number > MOST_INSTANCES:
                    self.found.missing["what they are compared with"] = None
                    return
                known = self._joined([atom for atom, _ in atoms], rows, renamed, binding)
                if known is not None:
                    yield known

    def _joined(
        self, atoms: Sequence[Atom], rows: Sequence[SymbolicRow], renamed: Mapping[str, str], binding: SymbolicBinding
    ) -> SymbolicBinding | None:
        """The binding with what rows give to the variables of literals; None if they do not go together."""
        known, pairs = dict(binding), list[tuple[Symbolic, Symbolic]]()
        for atom, row in zip(atoms, rows, strict=True):
            for term, value in zip(atom.args, row, strict=True):
                if not isinstance(term, Variable):
                    pairs.append((value, self._term(term, known)))
                elif term.name in renamed or isinstance(value, Linear):
                    pairs.append((value, known.setdefault(renamed.get(term.name, term.name), value)))
                else:
                    known.setdefault(term.name, value)
        return known if self.are_equal([(one, other) for one, other in pairs if one != other]) else None

    def _rows_of(self, atom: Atom, row: Row) -> list[SymbolicRow]:
        """The rows that move and come to this one, and the row itself if it is stored. One that has new values and is
        not followed, or is met before it is, moves with them."""
        key = atom.relation, row
        moving = list(self.versions.get(key, ()))
        if self.borders.world.stored(key):
            return [*moving, row]
        return moving or [named(key, self.values, self.columns)]

    def _is_there(self, rule: RuleParts, head: SymbolicRow) -> bool:
        columns = self.borders.rules.program.schemas[rule.clause.head.relation].columns
        row = (concrete(value, self.values) for value in head)
        typed = (
            float(v) if c.type.kind is Kind.FLOAT and v is not None else v for v, c in zip(row, columns, strict=True)
        )
        return self.borders.world.holds((rule.clause.head.relation, tuple(typed)))

    def _is_denied(self, rule: RuleParts, binding: SymbolicBinding) -> bool:
        """Whether a negated literal is false, so that its head is there for other reasons."""
        known = {name: concrete(value, self.values) for name, value in binding.items()}
        return any(self.borders.world.holds(ground(atom, known)) for atom in rule.negative)

    def _term(self, term: object, binding: SymbolicBinding) -> Symbolic:
        match term:
            case Variable(name):
                return binding[name]
            case Constant(value):
                return value
            case _:
                raise AssertionError("normal form has variables and constants only")

    def derive(self, rule: RuleParts, row: SymbolicRow) -> None:
        """Notes the borders that the rule puts to the values of a row that it is to derive: of each comparison, with
        what its other variables may be."""
        head = self._unified(rule.clause.head, row)
        if head is None:
            return
        moving = {name for name, value in head.items() if isinstance(value, Linear)}
        for each in rule.built_ins:
            names = {*variables(each)}
            if names & moving:
                places = [place for place, atom in enumerate(rule.positive) if names - {*head} & {*variables(atom)}]
                for match in list(self._matched(rule, places, head)):
                    self._computed(rule, match)

    # ---- built-ins ----------------------------------------------------------------------------------------------

    def _computed(self, rule: RuleParts, binding: SymbolicBinding) -> SymbolicBinding | None:
        """The binding with what equations compute; None if a built-in is false. Its borders are noted."""
        known = dict(binding)
        are_so, left = self._tested(rule, known)
        for atom in rule.negative:
            if are_so and all(name in known for name in variables(atom)):
                asked = self.borders.denied(atom, rule, known)
                for _ in () if asked is None else self._matched(asked, [0], {n: known[n] for n in variables(atom)}):
                    pass
        return known if are_so and not left else None

    def compute(self, rule: RuleParts, binding: SymbolicBinding) -> bool:
        """Notes the borders of built-ins; whether some of them are left for which values are missing."""
        return bool(self._tested(rule, dict(binding))[1])

    def _tested(self, rule: RuleParts, known: SymbolicBinding) -> tuple[bool, list[Literal]]:
        """Whether built-ins are true, and those of which that is not known; what equations give is entered."""
        left, are_so, moved = list(rule.built_ins), True, True
        while moved and left:
            moved = False
            for literal in list(left):
                so = self._is_so(literal, known, rule)
                if so is not None:
                    left.remove(literal)
                    are_so, moved = are_so and so, True
        return are_so, left

    def _is_so(self, literal: Literal, known: SymbolicBinding, rule: RuleParts) -> bool | None:
        """Whether a built-in is true; None if that is not known. An equation gives its variable a value."""
        names = variables(literal)
        open_ = [name for name in names if name not in known]
        try:
            if isinstance(literal, Comparison):
                sides = [
                    symbolic(side, known, rule.types, self._plain(known, rule))
                    for side in (literal.left, literal.right)
                ]
                self._note_unsigned(literal.left, known, rule)
                self._note_unsigned(literal.right, known, rule)
                for side, other in ((literal.left, sides[1]), (literal.right, sides[0])):
                    if open_ and literal.op == "=" and isinstance(side, Variable) and other is not UNKNOWN:
                        known[side.name] = other
                        return True
                if UNKNOWN in sides:
                    return None
                border = difference(*sides) if any(isinstance(each, Linear) for each in sides) else None
                if border is not None and not self._is_like_a_join(literal, sides, rule):
                    self.found.add(border)
            elif not open_:
                self._note_test(literal, known)
        except NotLinearError:
            self.found.missing["what is computed from them"] = None
            if open_ and isinstance(literal, Comparison) and literal.op == "=":
                return self._given(literal, known, rule)
        if open_:
            return None
        return holds(literal, {name: concrete(known[name], self.values) for name in names}, rule.types)

    def _is_like_a_join(self, literal: Comparison, sides: Sequence[Symbolic], rule: RuleParts) -> bool:
        """Whether a comparison asks only if a new value is one that is there: it never is."""
        bare = [not isinstance(each, Linear) or each.is_bare for each in sides]
        return all(bare) and joins(literal, rule, self.borders.rules)

    def _given(self, literal: Comparison, known: SymbolicBinding, rule: RuleParts) -> bool | None:
        """Gives the variable of an equation what it comes to, as though that did not move."""
        for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(side, Variable) and side.name not in known:
                plain = {name: concrete(value, self.values) for name, value in known.items()}
                value = value_of(other, plain, rule.types)
                if value is not UNKNOWN:
                    known[side.name] = value
                    return True
        return None

    def _plain(self, known: SymbolicBinding, rule: RuleParts) -> Any:
        return lambda term: value_of(term, known, rule.types)

    def _note_unsigned(self, term: Term, known: SymbolicBinding, rule: RuleParts) -> None:
        """A difference that may not be below 0 has a border there, also one that more is computed from."""
        for each in term.args if isinstance(term, Call) else ():
            self._note_unsigned(each, known, rule)
        if isinstance(term, Call) and term_type(term, rule.types).kind is Kind.UNSIGNED:
            value = symbolic(term, known, rule.types, self._plain(known, rule))
            if isinstance(value, Linear):
                self.found.add(value)

    def _note_test(self, literal: Literal, known: SymbolicBinding) -> None:
        test = literal.body if isinstance(literal, Not) else literal
        if not isinstance(test, Test) or test.name == "is_null":
            return
        values = [self._term(arg, known) if isinstance(arg, Variable | Constant) else None for arg in test.args]
        if any(isinstance(each, Linear) for each in values):
            match values:
                case [str() as first, Linear(is_bare=True) as second]:
                    self.found.tests[test.name, first, second.parts[0][0]] = None
                case _:
                    self.found.missing["the texts that they are tested for"] = None

    # ---- aggregates ---------------------------------------------------------------------------------------------

    def _folded(self, fold: Fold) -> Iterator[SymbolicRow]:
        """What groups come to that have rows which move."""
        for row in list(self.rows.get(fold.below, ())):
            group = tuple(concrete(value, self.values) for value in fold.group(row))
            rows = self.borders._groups.rows(self.borders.world, fold, group)
            total = self.borders._groups.value(self.borders.world, fold, group)
            if total is None or len(rows) > 10 * MOST_INSTANCES:
                self.found.missing["the rows that they are folded with"] = None
                continue
            made = self._total(fold, row, rows, total)
            if isinstance(made, Linear) or any(isinstance(value, Linear) for value in fold.group(row)):
                yield (*fold.group(row), made)

    def _total(self, fold: Fold, row: SymbolicRow, rows: Sequence[Row], total: Any) -> Symbolic:
        if fold.target is None or fold.function == COUNT:
            return total
        members = [self._member(fold, each) for each in rows]
        if not any(isinstance(each, Linear) for each in members):
            return total
        match fold.function:
            case "min" | "max":
                for one in members:
                    for other in members:
                        border = difference(one, other) if isinstance(one, Linear) else None
                        if border is not None:
                            self.found.add(border)
                return next((each for each in members if concrete(each, self.values) == total), total)
            case "sum" | "mean" if all(
                isinstance(fold.folded(each), int if fold.function == "mean" else int | Decimal) for each in rows
            ):
                made = Linear(())
                for each in filter(None, map(as_linear, members)):
                    made = made.plus(each)
                return made if fold.function == "sum" else made.times(Fraction(1, len(rows)))
            case _:
                self.found.missing["the totals that they are part of"] = None
                return total

    def _member(self, fold: Fold, row: Row) -> Symbolic:
        versions = self.versions.get((fold.below, row), {})
        return next((fold.folded(each) for each in versions), fold.folded(row))
