"""Demand: the instances of rules that derive a requested row, found by queries that are bound by its values.

Instances are ordered by the number of body rows they lack. Those that lack none are found by one query for many rows.
Others are enumerated on demand: each choice of literals that are satisfied already binds variables, and the remaining
variables take the values of their domains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from upshot.check.names.variables import fresh_name
from upshot.check.program import Clause, Literal
from upshot.core.errors import DataError
from upshot.core.rows import Rows, one_nan
from upshot.core.schema import Column as SchemaColumn
from upshot.core.schema import Role, Schema
from upshot.core.types import NUMBER, Kind, Type
from upshot.engine.time_limit import check_time
from upshot.reasons.concrete import ASKED, InstanceQuery
from upshot.revise.built_ins import (
    UNKNOWN,
    Binding,
    are_same,
    first_to_fill,
    holds,
    is_value_of,
    listed,
    solved,
    variables,
)
from upshot.revise.conditions import Condition, as_written, condition_of, equal, substituted, substituted_literal
from upshot.revise.families import Families
from upshot.revise.ordered_values import Linear, value_at
from upshot.revise.placeholders import Symbol
from upshot.revise.request import DELETE, INSERT, Key, Preferences, Row, World
from upshot.revise.rule_forms import fields_of
from upshot.revise.rules import RuleParts, Rules, arguments, columns_in, ground
from upshot.rewrite.normalize.term_type import term_type
from upshot.rewrite.shapes import retyped
from upshot.syntax.ast import Atom, Comparison, Constant, Term, Test, Variable
from upshot.syntax.printing import print_term

MOST_TOGETHER = 16
"""Queries of one job."""
Places = tuple[int, ...]
"""Positive literals of a rule, by their numbers."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A rule with values for its variables: `head` is derived if all positive rows are present, all negative ones are
    absent, and the conditions on symbols are met."""

    head: Key
    positive: tuple[Key, ...]
    negative: tuple[Key, ...] = ()
    conditions: tuple[Condition, ...] = ()

    @property
    def body(self) -> tuple[tuple[Key, bool], ...]:
        """Its rows, and whether they must be present."""
        return (*((key, True) for key in self.positive), *((key, False) for key in self.negative))


Shape = tuple[tuple[str, ...], tuple[str, ...]]
"""The variables that have a value, and those that are NULL."""


def _shape(known: Binding) -> Shape:
    plain = tuple(name for name, value in known.items() if value is not None and not isinstance(value, Symbol))
    return plain, tuple(sorted(name for name, value in known.items() if value is None))


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Literals of a rule, and bindings of one shape."""

    rule: RuleParts
    places: Places
    known: Sequence[Binding]


@dataclass(slots=True)
class Demand:
    """Finds instances in the staged state of the `world`, over the domains of `families`."""

    world: World
    rules: Rules
    families: Families
    preferences: Preferences
    frozen: dict[str, None]
    """The frozen relations that ruled out a change so far."""
    types: dict[str, Type] = field(default_factory=dict)
    """The types of all symbols that conditions name."""
    fresh: dict[str, Symbol] = field(default_factory=dict)
    """The fresh values, by name."""
    totals: dict[str, Symbol] = field(default_factory=dict)
    """The symbols for values of groups, by name."""
    _unchangeable: frozenset[tuple[str, str]] | None = None

    # ---- frozen relations -------------------------------------------------------------------------------------------

    def is_possible(self, instance: Instance) -> bool:
        """Test whether an instance can hold without a change of frozen relations."""
        preferences = self.preferences
        for key, wanted in instance.body if preferences.frozen else ():
            if preferences.is_frozen(key[0], INSERT if wanted else DELETE) and self.rules.is_base(key[0]):
                stored = not has_symbol(key) and self.world.stored(key)
                if stored != wanted:
                    self.frozen[key[0]] = None
                    return False
        return True

    def can_gain(self, relation: str) -> bool:
        """Test whether a relation can gain rows without a change of frozen relations."""
        frozen = self.preferences.frozen
        if self._unchangeable is None:
            self._unchangeable = self.rules.unchangeable(frozen) if frozen else frozenset()
        if (relation, INSERT) not in self._unchangeable:
            return True
        below = self.rules.below([relation])
        self.frozen |= {name: None for name, sign in sorted(frozen) if name in below}
        return False

    # ---- instances that hold, or would but for negated literals ----------------------------------------------------

    def supported(self, heads: Iterable[tuple[Key, Row]]) -> Iterator[tuple[RuleParts, Key, Binding]]:
        """The bindings with which all positive literals of a rule for a row hold in the staged state; `heads` has rows,
        each with the values to look up."""
        alike: dict[tuple[int, Shape], list[tuple[Key, RuleParts, Binding]]] = {}
        for key, row in heads:
            for rule in self.rules.by_view.get(key[0], ()):
                known = rule.binding(row)
                if known is not None:
                    alike.setdefault((rule.number, _shape(known)), []).append((key, rule, known))
        lookups = [
            _Lookup(rule, tuple(range(len(rule.positive))), [known for _, _, known in own])
            for own in alike.values()
            for _, rule, _ in own[:1]
        ]
        for each, own, found in zip(lookups, alike.values(), self._all_matches(lookups), strict=True):
            for at, binding in found:
                yield each.rule, own[at][0], binding

    def matches(self, rule: RuleParts, places: Places, known: Binding) -> Iterator[Binding]:
        """The bindings that make literals true and extend the `known` values."""
        return (binding for _, binding in self._all_matches([_Lookup(rule, places, [known])])[0])

    def _all_matches(self, lookups: Sequence[_Lookup]) -> list[Iterator[tuple[int, Binding]]]:
        """The matches of many rules, found together."""
        try:
            return self._run(lookups, tested=True)
        except DataError:
            # A literal outside the query may guard a computation that fails: then built-ins are tested here.
            return self._run(lookups, tested=False)

    def _run(self, lookups: Sequence[_Lookup], *, tested: bool) -> list[Iterator[tuple[int, Binding]]]:
        made, queries = dict[int, tuple[str, ...]](), []
        for at, each in enumerate(lookups):
            if each.places:
                query, made[at] = self._query(each.rule, each.places, _shape(each.known[0]), tested=tested)
                used = _inputs_of(query)
                rows = [(number, *(known[name] for name in used)) for number, known in enumerate(each.known)]
                queries.append((query, rows))
        answers = iter(self.world.ask_all(queries) if queries else ())
        return [
            self._bindings(each.known, made[at], next(answers)) if at in made else iter(enumerate(each.known))
            for at, each in enumerate(lookups)
        ]

    def _bindings(self, known: Sequence[Binding], names: Sequence[str], answer: Rows) -> Iterator[tuple[int, Binding]]:
        for number, *values in answer.gradually() if self.world.is_local else list(answer.gradually()):
            yield number, {**known[number], **dict(zip(names, one_nan(tuple(values)), strict=True))}

    def _query(
        self, rule: RuleParts, places: Places, shape: Shape, *, tested: bool
    ) -> tuple[InstanceQuery, tuple[str, ...]]:
        queries, kind = self.rules.queries, (rule.number, places, shape, tested)
        if kind not in queries:
            queries[kind] = self._new_query(rule, places, shape, tested)
        return queries[kind]

    def _new_query(
        self, rule: RuleParts, places: Places, shape: Shape, tested: bool
    ) -> tuple[InstanceQuery, tuple[str, ...]]:
        (names, nulls), schemas = shape, self.rules.program.schemas
        atoms = [rule.positive[place] for place in places]
        inside = dict.fromkeys(name for atom in atoms for name in variables(atom))
        known = [name for name in names if name in inside]
        bound = {*inside, *names}
        wanted = tuple(name for name in inside if name not in names and name not in nulls)
        tests: list[Literal] = [Test("is_null", (Variable(name),)) for name in nulls if name in inside]
        given = [name for name in names if name not in inside]
        used = {*inside}
        for each in (*rule.built_ins, *rule.parts) if tested else ():
            # Values that only built-ins read are given along with those that literals are looked up by.
            if bound.issuperset(variables(each)) and not {*nulls} & {*variables(each)}:
                tests.append(each)
                used.update(variables(each))
        known += [name for name in given if name in used]
        number = Variable(fresh_name("N", {*rule.types}))
        types = {**rule.types, number.name: NUMBER}
        columns = (SchemaColumn(f"c_{name}", types[name].required()) for name in known)
        inputs = Schema(ASKED, (SchemaColumn("n", NUMBER), *columns))
        tag = "_".join(map(str, places))
        name = fresh_name(
            f"demand_{rule.number}_at_{tag}_from_{'_'.join(known)}_null_{'_'.join(nulls)}_{tested:d}", schemas
        )
        body = (Atom(ASKED, (number, *map(Variable, known))), *atoms, *tests)
        clause = retyped(Clause(Atom(name, (number, *map(Variable, wanted))), body, types), {**schemas, ASKED: inputs})
        answer = (SchemaColumn("n", NUMBER), *(SchemaColumn(f"v{i}", clause.types[n]) for i, n in enumerate(wanted)))
        return InstanceQuery(Schema(name, answer, Role.VIEW), clause, inputs), wanted

    def rows_with(self, relation: str, prefix: Row) -> list[Row]:
        """The rows of a relation that begin with these values, in the staged state."""
        return [] if UNKNOWN in prefix else self.rows_like(relation, prefix)

    def rows_like(self, relation: str, pattern: Row) -> list[Row]:
        """The rows of a relation with these values in its first columns, and any where there is a symbol."""
        schema = self.rules.program.schemas[relation]
        names = tuple(f"X{place}" for place in range(schema.arity))
        types = {name: column.type for name, column in zip(names, schema.columns, strict=True)}
        number = -1 - list(self.rules.program.schemas).index(relation)
        rule = _row_rule(number, Atom(relation, tuple(map(Variable, names))), types)
        known = {n: value for n, value in zip(names, pattern, strict=False) if not isinstance(value, Symbol)}
        found = self.matches(rule, (0,), known)
        return sorted((tuple(binding[name] for name in names) for binding in found), key=repr)

    # ---- instances that lack something ------------------------------------------------------------------------------

    def lack(self, head: Key, rule: RuleParts, known: Binding, missing: int) -> Iterator[Instance]:
        """Instances of a rule that derive a row and lack so many rows of their bodies."""
        for places in self._lacking(rule, known, missing):
            for binding in self.matches(rule, places, known):
                yield from self.completed(head, rule, binding)

    def _lacking(self, rule: RuleParts, known: Binding, missing: int) -> Iterator[Places]:
        """The choices of literals of a rule without `missing` others that can gain rows."""
        every = range(len(rule.positive))
        for left_out in combinations(every, missing):
            places = tuple(place for place in every if place not in left_out)
            if not all(self.can_gain(rule.positive[place].relation) for place in left_out):
                continue
            if not any(self._has_symbol(rule.positive[place], known) for place in places):
                yield places

    def prefetch(self, row: Key) -> None:
        """Fetch the parts of a row's instances in one job, where a job costs more than its answers."""
        if self.world.is_local:
            return
        lookups: list[_Lookup] = []
        for rule in self.rules.by_view.get(row[0], ()):
            known = rule.binding(row[1])
            if known is None:
                continue
            for name in (each for each in rule.names if each not in known):
                self.world.look_up_columns(self.families.columns_of(name, rule))
            levels = (self._lacking(rule, known, missing) for missing in range(len(rule.positive) + 1))
            lookups += [_Lookup(rule, places, [known]) for level in levels for places in level]
        with suppress(DataError):
            self._run(lookups[:MOST_TOGETHER], tested=True)

    def pattern(self, atom: Atom, known: Binding) -> Row:
        """The row of an atom with `UNKNOWN` for variables without a value."""
        return tuple(known.get(name, UNKNOWN) for name in arguments(atom))

    def _has_symbol(self, atom: Atom, known: Mapping[str, Any]) -> bool:
        return any(isinstance(known.get(name), Symbol) for name in variables(atom))

    def completed(self, head: Key | None, rule: RuleParts, binding: Binding) -> Iterator[Instance]:
        """The instances that extend a binding to all variables, for one head or for any."""
        for known, conditions in self._completions(rule, binding):
            made = self.instance(head or ground(rule.head, known), rule, known, conditions)
            if made is not None:
                yield made

    def _completions(self, rule: RuleParts, binding: Binding) -> Iterator[tuple[Binding, tuple[Condition, ...]]]:
        """The bindings with values for all variables, and their conditions."""
        check_time()
        for known, conditions in self.with_equations(rule, binding):
            free = [name for name in rule.names if name not in known]
            if not free:
                yield known, conditions
                continue
            for longer in self._choices(rule, known, free):
                yield from self._completions(rule, longer)

    def _choices(self, rule: RuleParts, known: Binding, free: Sequence[str]) -> Iterator[Binding]:
        """Extend the binding by a variable without a value, or by those of one literal, in all ways."""
        plain = {name: value for name, value in known.items() if not isinstance(value, Symbol)}
        if found := listed(rule.built_ins, plain, free, rule.types):
            yield from ({**known, found[0]: value} for value in found[1])
            return
        making = next((atom for atom in rule.positive if atom.relation in self.rules.computing
                       and any(name not in known for name in variables(atom))), None)  # fmt: skip
        if making is not None:
            rows = self.computed_rows(making.relation, self.pattern(making, known))
            yield from (longer for row in rows if (longer := unified(making, row, known)) is not None)
            return
        totals = {arguments(atom)[-1]: atom for atom in rule.positive if atom.relation in self.rules.folds}
        inside = {each for atom in (*rule.positive, *rule.negative) for each in variables(atom)}
        # Variables that built-ins compute come last, the values of groups before them.
        fields = fields_of(rule.built_ins, free)
        others = [each for each in free if (each in inside or each in fields) and each not in totals]
        name = first_to_fill(rule.built_ins, others or [each for each in free if each in totals] or free)
        values: Iterable[Any] = self.families.domain(name, rule)
        if name in totals and not self.is_joined(name, rule):
            group = ground(totals[name], {**known, name: None})[1][:-1]
            values = (self.total(totals[name].relation, group, rule.types[name]),)
        elif rule.types[name].nullable and not self.is_joined(name, rule, twice=True):
            values = (*values, None)
        yield from ({**known, name: value} for value in self._registered(values))

    def computed_rows(self, view: str, pattern: Row) -> Iterator[Row]:
        """The rows that the rules of a view compute, with these values in their first columns; any for `UNKNOWN`."""
        seen = set[Row]()
        for rule in self.rules.by_view.get(view, ()):
            given: Binding | None = {}
            for name, value in zip(arguments(rule.head), pattern, strict=False):
                if value is not UNKNOWN and given is not None:
                    given = given if are_same(given.setdefault(name, value), value) else None
            for binding, _ in self._completions(rule, given) if given is not None else ():
                row = ground(rule.head, binding)[1]
                if row not in seen:
                    seen.add(row)
                    yield row

    def _registered(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if isinstance(value, Symbol):
                self.note(value)
            yield value

    def note(self, symbol: Symbol) -> None:
        """Register a symbol that conditions may name."""
        self.types[symbol.name] = symbol.type
        if symbol.is_fresh:
            self.fresh[symbol.name] = symbol

    def is_joined(self, name: str, rule: RuleParts, *, twice: bool = False) -> bool:
        """Test whether a variable occurs in a second atom."""
        atoms = rule.positive if twice else (*rule.positive, *rule.negative)
        return len(list(columns_in(name, atoms))) > 1

    def total(self, view: str, group: Row, type: Type) -> Symbol:
        """The symbol for the value of a group."""
        name = f"{view}{group!r}"
        self.types[name] = type.required()
        self.totals[name] = Symbol(name, type.required(), (view, len(group)), group=(view, group))
        return self.totals[name]

    def with_equations(self, rule: RuleParts, binding: Binding) -> Iterator[tuple[Binding, tuple[Condition, ...]]]:
        """Extend the binding by the values that equations determine, and find the conditions on symbols; nothing if a
        built-in is false."""
        known, conditions, left, moved = dict(binding), list[Condition](), list(rule.built_ins), True
        while moved:
            moved = False
            for literal in list(left):
                outcome = self._step(literal, known, rule.types)
                if outcome is False:
                    return
                if outcome is None:
                    continue
                moved = True
                if isinstance(outcome, dict):
                    known |= outcome
                    conditions += self._in_range(outcome)
                    continue
                left.remove(literal)
                if isinstance(outcome, Condition):
                    conditions.append(outcome)
        yield known, tuple(dict.fromkeys(conditions))

    def _in_range(self, given: Binding) -> Iterator[Condition]:
        """The conditions that computed unsigned numbers are not negative."""
        for value in given.values():
            if isinstance(value, Symbol) and value.term is not None and value.type.kind is Kind.UNSIGNED:
                made = condition_of(Comparison(">=", value.term, Constant(0, value.type)), self.types)
                if isinstance(made, Condition):
                    yield made

    def _step(self, literal: Literal, known: Binding, types: Mapping[str, Type]) -> Binding | Condition | bool | None:
        """Evaluate a built-in: the values that it determines, a condition, or its truth; None if it is undecided."""
        names = variables(literal)
        plain = {name: value for name, value in known.items() if not isinstance(value, Symbol)}
        if all(name in plain for name in names):
            return holds(literal, plain, types)
        if all(name in known for name in names):
            made = substituted_literal(literal, _written(names, known, types))
            return self.narrowed(condition_of(made, self.types))
        if isinstance(literal, Test) and literal.name == "is_null":
            (arg,) = literal.args
            return {arg.name: None} if isinstance(arg, Variable) else None
        found = solved(literal, plain, types)
        if found is None:
            return False
        if found and not any(name in known for name in found):
            return found
        return self._computed(literal, known, types)

    def narrowed(self, condition: Condition | bool, *, is_inserted: bool = False) -> Condition | bool:
        """A condition without the signs that fresh values exclude: they differ from each other, and from the values of
        their families, unless rules compute them."""
        if isinstance(condition, bool) or not isinstance(condition.subject, Linear):
            return condition
        border, symbols = condition.subject, [self.fresh.get(name) for name, _ in condition.subject.parts]
        families = {symbol.family for symbol in symbols if symbol is not None}
        if (
            None in symbols
            or condition.signs in ({1}, {-1})
            or (not is_inserted and not families.isdisjoint(self.families.computed))
        ):
            is_apart = False
        elif len(border.parts) == 1:
            symbol = symbols[0]
            assert symbol is not None, "it is fresh"
            value = value_at(-border.more / border.parts[0][1], symbol.type)
            is_apart = value is not None and self.families.is_taken(value, symbol.family)
        else:
            is_apart = len(border.parts) == 2 and len(families) == 1 and not border.more and (
                sum(factor for _, factor in border.parts) == 0)  # fmt: skip
        signs = condition.signs - {0} if is_apart else condition.signs
        if is_apart and signs == {-1, 1}:
            return True
        return Condition(border, signs) if signs else False

    def equal(self, row: Row, wanted_row: Row) -> list[Condition] | None:
        """The conditions with which a row with symbols equals another row; None if it cannot."""
        found = []
        for value, wanted in zip(row, wanted_row, strict=True):
            if isinstance(value, Symbol) and value != wanted and wanted is not None:
                made = self.narrowed(equal(value.written, as_written(wanted, value.type), self.types))
                if made is False:
                    return None
                found += [made] if isinstance(made, Condition) else []
            elif not are_same(value, wanted):
                return None
        return found

    def _computed(self, literal: Literal, known: Binding, types: Mapping[str, Type]) -> Binding | None:
        """The value of a variable that an equation computes from symbols."""
        if not isinstance(literal, Comparison) or literal.op != "=":
            return None
        for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(side, Variable) and side.name not in known and {*known} >= {*variables(other)}:
                made = substituted(other, _written(variables(other), known, types))
                if isinstance(made, Variable):
                    return {side.name: next(v for v in known.values() if isinstance(v, Symbol) and v.name == made.name)}
                type = term_type(other, types).required()
                symbol = Symbol(f"={print_term(made)}", type, ("computed", 0), made)
                self.note(symbol)
                return {side.name: symbol}
        return None

    def renamed(self, symbol: Symbol, called: Mapping[str, Symbol]) -> Symbol:
        """Replace the fresh values that a symbol is, or is computed from."""
        if symbol.term is None:
            return called.get(symbol.name, symbol)
        made = substituted(symbol.term, {name: other.written for name, other in called.items()})
        return Symbol(f"={print_term(made)}", symbol.type, symbol.family, made)

    def instance(
        self, head: Key, rule: RuleParts, binding: Binding, conditions: tuple[Condition, ...]
    ) -> Instance | None:
        """The instance of a complete binding; None if it can never hold."""
        nulls = {name for name, value in binding.items() if value is None}
        if nulls and any(self.is_joined(name, rule, twice=True) for name in nulls):
            return None
        positive = tuple(dict.fromkeys(ground(atom, binding) for atom in rule.positive))
        negative = tuple(dict.fromkeys(key for atom in rule.negative if None not in (key := ground(atom, binding))[1]))
        made = Instance(head, positive, negative, conditions)
        if not {*positive}.isdisjoint(negative) or not all(map(self.fits, positive)):
            return None
        return made if self.is_possible(made) else None

    def fits(self, key: Key) -> bool:
        """Test whether a relation can contain a row."""
        columns = self.rules.program.schemas[key[0]].columns
        return all(
            (value.type.kind is column.type.kind) if isinstance(value, Symbol) else is_value_of(value, column.type)
            for value, column in zip(key[1], columns, strict=True)
        )


def _row_rule(number: int, atom: Atom, types: Mapping[str, Type]) -> RuleParts:
    """The rule that derives the rows of a relation from themselves."""
    return RuleParts(Clause(atom, (atom,), types), number, atom, (atom,), (), (), types)


def _written(names: Iterable[str], known: Binding, types: Mapping[str, Type]) -> dict[str, Term]:
    """The values of variables as terms of conditions."""
    return {name: as_written(known[name], types[name]) for name in names}


def _inputs_of(query: InstanceQuery) -> list[str]:
    """The variables that are the input of a query, in its order."""
    return [column.name.removeprefix("c_") for column in query.input.columns[1:]]


def has_symbol(key: Key) -> bool:
    return any(isinstance(value, Symbol) for value in key[1])


def unified(atom: Atom, row: Row, known: Mapping[str, Any]) -> Binding | None:
    """Match an atom with a row, which extends the binding; None if they do not match."""
    found = dict(known)
    for name, value in zip(arguments(atom), row, strict=True):
        if name in found and not are_same(found[name], value):
            return None
        found[name] = value
    return found
