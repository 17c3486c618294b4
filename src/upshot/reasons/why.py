"""Derivations of a row: the smallest one, all of them by height, and low ones in non-linear recursion.

A row of `path(X, Z) :- path(X, Y), path(Y, Z)` has as many last steps as there are rows between its ends, and so has
each of those: a search by levels does not end in reasonable time. `Layers` queries every view in layers instead: the
first has the rows that rules over base relations derive, the next the rows derived from the layer below. The rows of a
layer have a derivation of at most its height, and a query for one row reads only rows at that distance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from upshot.check.clause.clause_form import is_aggregate
from upshot.check.names.variables import fresh_name
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.check.strata import order_of
from upshot.core.errors import LimitError
from upshot.core.rows import Rows, one_nan
from upshot.core.schema import Role, Schema
from upshot.reasons.concrete import (
    AggregateGroup,
    ConcreteRule,
    InstanceQuery,
    Row,
    asked_rows,
    concrete_rule,
    concrete_rules,
    groups_of,
    instances_question,
    row_shapes,
)
from upshot.reasons.derivation import ABSENT, AGGREGATE, BASE, CONDITION, RULE, Derivation
from upshot.reasons.search import MOST_INSTANCES, Best, DerivationSearch, Key, QueryState, RuleInstance, used
from upshot.reasons.wording import absence_text, literal_text, row_text, rule_text, shown_name
from upshot.syntax.ast import Aggregate, Atom, Comparison, Not, Variable

MOST_LAYERS = 6
"""With more layers, a query about a dense view would read all of it."""


@dataclass(slots=True)
class Layers:
    """The layers of the views of a program, queried in one state."""

    world: QueryState
    rules: Mapping[str, tuple[ConcreteRule, ...]]
    program: CheckedProgram
    _names: dict[tuple[str, int], str] = field(default_factory=dict)
    _schemas: dict[str, Schema] = field(default_factory=dict)
    _filled: dict[tuple[str, int], bool] = field(default_factory=dict)

    def best(self, root: Key, bounds: int) -> dict[Key, Best] | None:
        """The smallest derivations of a row and of its premises, if its recursive view needs layers and it has a
        derivation within them."""
        if not self._needs_layers(root[0]):
            return None
        heights = self._heights([root])
        if not heights:
            return None
        search = DerivationSearch(self.world, self.rules, self.program.schemas, bounds)
        known, frontier = dict(heights), dict(heights)
        while frontier:
            self._expand(search, frontier)
            below = {p for key in frontier for each in search.instances.get(key, ()) for p in each.premises}
            frontier = self._heights([key for key in below if key not in known])
            known |= frontier
        return search.ranked(root)

    def _needs_layers(self, view: str) -> bool:
        """Test whether the view depends on one with non-linear recursion."""
        home = {name: set(component) for component in self.program.strata for name in component}
        return any(
            sum(premise.relation in home[name] for premise in rule.derived) > 1
            for name in self._below(view)
            for rule in self.rules[name]
        )

    def _below(self, view: str) -> dict[str, None]:
        """The view and all views that it is derived from."""
        found, pending = {view: None}, [view]
        while pending:
            for rule in self.rules[pending.pop()]:
                for premise in rule.derived:
                    if premise.relation not in found:
                        found[premise.relation] = None
                        pending.append(premise.relation)
        return found

    def _heights(self, keys: Sequence[Key]) -> dict[Key, int]:
        """The heights of the lowest derivations of rows, up to `MOST_LAYERS`."""
        found: dict[Key, int] = {}
        for height in range(1, MOST_LAYERS + 1):
            others = [key for key in keys if key not in found]
            for (view, nulls), rows in row_shapes(others).items():
                if not self._exists(view, height):
                    continue
                question = self._question(self._layer_rule(view, height), nulls, height, view)
                assert question is not None, "its head has no constants"
                for number, *_ in self.world.ask(question, asked_rows(rows, nulls)):
                    found[view, rows[number]] = height
        return found

    def _expand(self, search: DerivationSearch, frontier: Mapping[Key, int]) -> None:
        """Find the last steps of the lowest derivations of rows, whose heights are known."""
        search.expand([key for key, height in frontier.items() if height == 1], leaves=True)
        for height in sorted(set(frontier.values()) - {1}):
            keys = [key for key, known in frontier.items() if known == height]
            for (view, nulls), rows in row_shapes(keys).items():
                for rule in self.rules[view]:
                    if rule.is_leaf or not self._can_apply(rule, height):
                        continue
                    question = self._question(self._over_layer(rule, height - 1), nulls, height - 1, view)
                    if question is not None:
                        search.take(rule, rows, self.world.ask(question, asked_rows(rows, nulls)))

    # ---- queries ------------------------------------------------------------------------------------------

    def _question(self, rule: ConcreteRule, nulls: tuple[bool, ...], height: int, view: str) -> InstanceQuery | None:
        schemas = {**self.program.schemas, **self._schemas}
        made = instances_question(rule, nulls, schemas, f"layer{height}_{self.world.tag}")
        if made is None:
            return None
        helpers = tuple(self._helpers(view, height))
        names = {clause.head.relation for clause in helpers}
        return replace(made, helpers=helpers, helper_schemas={name: self._schemas[name] for name in names})

    def _helpers(self, view: str, height: int) -> Iterable[Clause]:
        for layer in range(1, height + 1):
            for name in self._below(view):
                for rule in self.rules[name]:
                    if self._can_apply(rule, layer):
                        head = replace(rule.clause.head, relation=self._name(name, layer))
                        yield replace(rule.clause, head=head, body=self._lowered(rule.clause.body, layer - 1))

    def _exists(self, view: str, layer: int) -> bool:
        """Test whether any rule can derive rows of this layer."""
        if (view, layer) not in self._filled:
            self._filled[view, layer] = any(self._can_apply(rule, layer) for rule in self.rules[view])
        return self._filled[view, layer]

    def _can_apply(self, rule: ConcreteRule, layer: int) -> bool:
        """Test whether a rule can derive rows of this layer: its premises have a lower one."""
        return rule.is_leaf or (layer > 1 and all(self._exists(each.relation, layer - 1) for each in rule.derived))

    def _lowered(self, body: Sequence[Literal], layer: int) -> tuple[Literal, ...]:
        return tuple(
            replace(each, relation=self._name(each.relation, layer))
            if isinstance(each, Atom) and each.relation in self.rules
            else each
            for each in body
        )

    def _name(self, view: str, layer: int) -> str:
        if (view, layer) not in self._names:
            name = fresh_name(f"{view}_layer{layer}", {*self.program.schemas, *self._schemas})
            self._names[view, layer] = name
            self._schemas[name] = replace(self.program.schemas[view], name=name, role=Role.VIEW, keys=())
        return self._names[view, layer]

    def _over_layer(self, rule: ConcreteRule, layer: int) -> ConcreteRule:
        return replace(rule, body=self._lowered(rule.body, layer))

    def _layer_rule(self, view: str, layer: int) -> ConcreteRule:
        """The rule that derives the rows of a view from those of a layer."""
        schema = self.program.schemas[view]
        args = tuple(Variable(f"X{place}") for place in range(schema.arity))
        types = {f"X{place}": type for place, type in enumerate(schema.types)}
        name = self._name(view, layer)
        number = 1_000_000 + list(self.rules).index(view)
        clause = Clause(Atom(view, args), (Atom(name, args),), types)
        return concrete_rule(number, clause, {**self.program.schemas, **self._schemas}, ())


@dataclass(frozen=True, slots=True)
class _Goal:
    """A row to be derived with a height of at most `height`, or `exactly` that, from rows that are not `above` it; then
    the `next` goal."""

    key: Key
    height: int
    exactly: bool
    above: frozenset[Key]
    next: _Goal | None


@dataclass(frozen=True, slots=True)
class _EnumerationStep:
    """The chosen instances as a linked list, the last one first."""

    instance: RuleInstance
    before: _EnumerationStep | None


@dataclass(slots=True)
class Enumeration:
    """The derivations of one row, in which no row supports itself."""

    search: DerivationSearch
    trees: TreeBuilder
    root: Key
    steps: int = 0
    _levels: list[list[Key]] = field(default_factory=list)
    _known: set[Key] = field(default_factory=set)

    def others(self, best: Mapping[Key, Best]) -> Iterator[Derivation]:
        """All derivations except the smallest one, by height; in no order among those of one height."""
        lowest = height = best[self.root].height
        while True:
            self._explore(height)
            highest = self._highest()
            if highest is not None and height > highest:
                return
            for steps in self._of_height(height):
                if height > lowest or not _is_smallest(steps, best, self.root):
                    yield self._tree(steps)
            height += 1

    def _explore(self, depth: int) -> None:
        """Find all rows that a derivation of this height can have."""
        if not self._levels:
            self._levels, self._known = [[self.root]], {self.root}
        while len(self._levels) < depth and self._levels[-1]:
            level = self._levels[-1]
            self.search.expand_all(level)
            below = [p for key in level for each in self.search.instances.get(key, ()) for p in each.premises]
            self._levels.append([key for key in dict.fromkeys(below) if key not in self._known])
            self._known.update(self._levels[-1])
        self.search.expand(self._levels[-1], leaves=True)

    def _highest(self) -> int | None:
        """A height that no derivation exceeds; None while some rows are unexplored."""
        if self._levels[-1]:
            return None
        found = {key: self.search.instances.get(key, ()) for key in self._known}
        names = {key: str(number) for number, key in enumerate(found)}
        keys = {name: key for key, name in names.items()}
        edges = {
            (names[key], names[premise]) for key, some in found.items() for each in some for premise in each.premises
        }
        heights: dict[Key, int] = {}
        for group in order_of(list(keys), sorted(edges)):
            inside = {keys[name] for name in group}
            below = (p for key in inside for each in found[key] for p in each.premises if p not in inside)
            # No row occurs twice on a path down.
            most = len(inside) + max((heights[premise] for premise in below), default=0)
            heights |= dict.fromkeys(inside, most)
        return heights[self.root]

    def _of_height(self, height: int) -> Iterator[_EnumerationStep]:
        """The choices of instances that make a derivation of exactly this height, each in preorder."""
        lowest = self.search.heights()
        pending: list[tuple[_Goal, _EnumerationStep | None]] = [
            (_Goal(self.root, height, True, frozenset(), None), None)
        ]
        while pending:
            goal, before = pending.pop()
            self.steps += 1
            if self.steps > self.search.bounds:
                raise _too_many_steps(self.search.bounds)
            for instance in reversed(self.search.instances.get(goal.key, ())):
                above = goal.above | {goal.key}
                if above.isdisjoint(instance.premises):
                    step = _EnumerationStep(instance, before)
                    for after in _goals(instance, goal, above, lowest):
                        if after is None:
                            yield step
                        else:
                            pending.append((after, step))

    def _tree(self, last: _EnumerationStep) -> Derivation:
        """The derivation of chosen instances."""
        chosen = _in_order(last)
        self.trees.prepare(chosen)
        # In reverse preorder the derivations of an instance's premises are the newest ones, first premise on top.
        made: list[Derivation] = []
        for instance in reversed(chosen):
            below = [made.pop() for _ in instance.premises]
            made.append(self.trees.derivation(instance, below))
        return made[0]


def _goals(
    instance: RuleInstance, goal: _Goal, above: frozenset[Key], lowest: Mapping[Key, int]
) -> Iterator[_Goal | None]:
    """The remaining goals after an instance was chosen for a goal, one list for each distribution of heights over its
    premises; None if no goal remains."""
    premises, most = instance.premises, goal.height - 1
    if any(lowest.get(premise, goal.height) > most for premise in premises):
        return
    if not goal.exactly or not premises:
        if not goal.exactly or goal.height == 1:
            yield _stacked([(premise, most, False) for premise in premises], above, goal.next)
        return
    for place in range(len(premises)):
        # The first premise of full height: those before it are lower, those after it need not be.
        if all(lowest[premise] < most for premise in premises[:place]):
            limits = [(p, most - (i < place), i == place) for i, p in enumerate(premises)]
            yield _stacked(limits, above, goal.next)


def _stacked(limits: list[tuple[Key, int, bool]], above: frozenset[Key], next: _Goal | None) -> _Goal | None:
    for key, height, exactly in reversed(limits):
        next = _Goal(key, height, exactly, above, next)
    return next


def _is_smallest(last: _EnumerationStep, best: Mapping[Key, Best], root: Key) -> bool:
    """Test whether these are the instances of the smallest derivation, in preorder."""
    chosen = _in_order(last)
    pending = [root]
    for instance in chosen:
        wanted = best[pending.pop()].instance
        if instance.rule.number != wanted.rule.number or instance.binding != wanted.binding:
            return False
        pending.extend(reversed(instance.premises))
    return True


def _in_order(last: _EnumerationStep) -> list[RuleInstance]:
    chosen: list[RuleInstance] = []
    step: _EnumerationStep | None = last
    while step is not None:
        chosen.append(step.instance)
        step = step.before
    return chosen[::-1]


def _too_many_steps(bounds: int) -> LimitError:
    return LimitError(
        f"no further derivation found in {bounds:,} steps",
        code="explanation-bounds",
        help="raise `bounds`; mutually dependent rows can have very many derivations",
    )


@dataclass(frozen=True, slots=True)
class Reasons:
    """Explanations of the rows of one state: `search` finds derivations, `trees` builds them as trees."""

    program: CheckedProgram
    search: DerivationSearch
    trees: TreeBuilder
    layers: Layers | None = None
    """For views with non-linear recursion; None on Spark."""

    def best(self, key: Key) -> Mapping[Key, Best] | None:
        """The smallest derivations of a row of a view and of its premises; None if no rule derives it."""
        found = None if self.layers is None else self.layers.best(key, self.search.bounds)
        return found or self.search.best(key)

    def why(self, key: Key, best: Mapping[Key, Best]) -> Derivation:
        """The smallest derivation of a row, as a tree."""
        rows = sorted(used(best, key), key=lambda each: best[each].height)
        self.trees.prepare(best[each].instance for each in rows)
        made: dict[Key, Derivation] = {}
        for each in rows:
            instance = best[each].instance
            made[each] = self.trees.derivation(instance, [made[premise] for premise in instance.premises])
        return made[key]

    def others(self, key: Key, best: Mapping[Key, Best]) -> Iterator[Derivation]:
        """All derivations of a row except the smallest one, by height."""
        return Enumeration(self.search, self.trees, key).others(best)

    def is_derived(self, key: Key) -> bool:
        """Test whether rules derive rows of its relation."""
        return key[0] in self.search.rules


def reasons_in(world: QueryState, program: CheckedProgram, bounds: int | None = None) -> Reasons:
    """Explanations in one state of a database, from at most `bounds` rule instances."""
    most = MOST_INSTANCES if bounds is None else bounds
    rules = concrete_rules(program)
    layers = Layers(world, rules, program) if world.is_local else None
    return Reasons(program, DerivationSearch(world, rules, program.schemas, most), TreeBuilder(program, world), layers)


# ---- derivations as trees ----------------------------------------------------------------------------------


KEPT = 100
"""The most solutions of a group in a derivation."""
SORTED = 10_000
"""The solutions of larger groups are not sorted."""

Place = tuple[int, Row, int]
"""The position of an aggregate: rule, binding, literal of the body."""


@dataclass(slots=True)
class TreeBuilder:
    """Builds derivations from rule instances in one state of a database."""

    program: CheckedProgram
    world: QueryState
    _views: frozenset[str] = frozenset()
    _groups: dict[tuple[int, int], tuple[AggregateGroup, ...]] = field(default_factory=dict)
    _folded: dict[Place, tuple[tuple[str, ...], int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._views = frozenset(clause.head.relation for clause in self.program.clauses)

    def prepare(self, instances: Iterable[RuleInstance]) -> None:
        """Query the groups that aggregates of these instances combine, one query per aggregate, all together."""
        missing: dict[tuple[int, int], tuple[ConcreteRule, Aggregate, list[Row]]] = {}
        for each in instances:
            for place, (literal, _) in enumerate(each.rule.literals):
                folded = each.rule.number, each.binding, place
                if not (isinstance(literal, Comparison) and isinstance(literal.right, Aggregate)):
                    continue
                if folded not in self._folded:
                    missing.setdefault((each.rule.number, place), (each.rule, literal.right, []))[2].append(
                        each.binding
                    )
                    self._folded[folded] = ((), 0)
        groups = [
            (place, rule, bindings, group)
            for (_, place), (rule, aggregate, bindings) in missing.items()
            for group in self._group(rule, aggregate, place)
        ]
        answers = self.world.ask_all(
            [(group.question, _shared_values(group, rule, bindings)) for _, rule, bindings, group in groups]
        )
        for (place, rule, bindings, group), rows in zip(groups, answers, strict=True):
            self._fold(rule, group, place, bindings, rows)

    def _group(self, rule: ConcreteRule, aggregate: Aggregate, place: int) -> tuple[AggregateGroup, ...]:
        shape = rule.number, place
        if shape not in self._groups:
            self._groups[shape] = groups_of(rule, aggregate, place, self.program.schemas, self.world.tag)
        return self._groups[shape]

    def _fold(self, rule: ConcreteRule, group: AggregateGroup, place: int, bindings: list[Row], answers: Rows) -> None:
        """Add the solutions of one alternative; a solution of several alternatives is shown, and counted, for each."""
        found: dict[int, list[Row]] = {}
        for number, *solution in _ordered(answers):
            found.setdefault(number, []).append(one_nan(tuple(solution)))
        for number, binding in enumerate(bindings):
            shown, count = self._folded[rule.number, binding, place]
            solutions = found.get(number, [])
            more = (self._solution(group, each) for each in islice(solutions, KEPT - len(shown)))
            self._folded[rule.number, binding, place] = ((*shown, *more), count + len(solutions))

    def _solution(self, group: AggregateGroup, solution: Row) -> str:
        rows = (row_text(self.program, atom.relation, atom.row(solution)) for atom in group.atoms)
        return ", ".join(rows) or "once"

    def derivation(self, instance: RuleInstance, below: Iterable[Derivation]) -> Derivation:
        """The derivation that ends with an instance, with those of its premises over views, in order. `prepare` was
        called for it."""
        derived = iter(below)
        parts = tuple(self.part(instance, place, derived) for place in range(len(instance.rule.literals)))
        relation, row = instance.head
        return Derivation(
            RULE, row_text(self.program, relation, row), shown_name(self.program, relation), row,
            rule_text(instance.rule.clause, self.program), parts,
            height=1 + max((part.height for part in parts), default=0), size=1 + sum(part.size for part in parts),
        )  # fmt: skip

    def part(self, instance: RuleInstance, place: int, below: Iterator[Derivation]) -> Derivation:
        """The premise for one literal of the rule's body; for a view it is the next one of `below`."""
        rule, binding = instance.rule, instance.binding
        literal, premise = rule.literals[place]
        if premise is not None:
            key = premise.relation, one_nan(premise.row(binding))
            return next(below) if premise.relation in self._views else self.base(key)
        values = rule.values(binding)
        if isinstance(literal, Not) and isinstance(literal.body, Atom):
            return Derivation(ABSENT, absence_text(literal, values, rule.types), literal.body.relation)
        text = literal_text(literal, values, rule.types)
        if is_aggregate(literal):
            group, count = self._folded[(rule.number, binding, place)]
            return Derivation(AGGREGATE, text, group=group, count=count)
        return Derivation(CONDITION, text)

    def base(self, key: Key) -> Derivation:
        """A base fact; facts of a view have the view's name."""
        return Derivation(BASE, row_text(self.program, *key), shown_name(self.program, key[0]), key[1])


def _shared_values(group: AggregateGroup, rule: ConcreteRule, bindings: list[Row]) -> list[Row]:
    values = [rule.values(binding) for binding in bindings]
    return [(number, *(each[name] for name in group.shared)) for number, each in enumerate(values)]


def _ordered(rows: Rows) -> Iterable[Row]:
    return rows.sorted() if len(rows) <= SORTED else rows
