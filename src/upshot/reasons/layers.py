"""Low derivations in recursions that use their view more than once.

A row of `path(X, Z) :- path(X, Y), path(Y, Z)` has as many last steps as there are rows between its ends, and so has
each of those: a search by levels drowns in them. Here every view is asked for in layers instead: the first holds what
rules over base relations derive, the next what rules derive from the layer below. The rows of a layer are those with a
derivation of at most that height, and a query for one row of it looks only at what lies as near.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from upshot.check.names.variables import fresh_name
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Role, Schema
from upshot.reasons.concrete import ConcreteRule, Question, Row, asked_rows, concrete_rule, instances_question
from upshot.reasons.search import Best, Key, Search, World
from upshot.syntax.ast import Atom, Variable

MOST_LAYERS = 6
"""Beyond it, a question about a dense view would come to all of it."""


@dataclass(slots=True)
class Layers:
    """The layers of the views of a program, asked in one state."""

    world: World
    rules: Mapping[str, tuple[ConcreteRule, ...]]
    program: CheckedProgram
    _names: dict[tuple[str, int], str] = field(default_factory=dict)
    _schemas: dict[str, Schema] = field(default_factory=dict)
    _filled: dict[tuple[str, int], bool] = field(default_factory=dict)

    def best(self, root: Key, bounds: int) -> dict[Key, Best] | None:
        """The smallest derivations of a row and of what it rests on there, if its view is recursive in a way that needs
        layers and it has one that is no higher than they are."""
        if not self._needs_layers(root[0]):
            return None
        heights = self._heights([root], MOST_LAYERS)
        if not heights:
            return None
        search = Search(self.world, self.rules, self.program.schemas, bounds)
        known, frontier = dict(heights), dict(heights)
        while frontier:
            self._expand(search, frontier)
            below = {p for key in frontier for each in search.instances.get(key, ()) for p in each.premises}
            frontier = self._heights([key for key in below if key not in known], MOST_LAYERS)
            known |= frontier
        return search.ranked(root)

    def _needs_layers(self, view: str) -> bool:
        """Whether the view rests on one that a rule uses twice to derive itself."""
        home = {name: set(component) for component in self.program.strata for name in component}
        return any(
            sum(premise.relation in home[name] for premise in rule.derived) > 1
            for name in self._below(view)
            for rule in self.rules[name]
        )

    def _below(self, view: str) -> dict[str, None]:
        """The view and all that rules derive it from."""
        found, left = {view: None}, [view]
        while left:
            for rule in self.rules[left.pop()]:
                for premise in rule.derived:
                    if premise.relation not in found:
                        found[premise.relation] = None
                        left.append(premise.relation)
        return found

    def _heights(self, keys: Sequence[Key], most: int) -> dict[Key, int]:
        """The heights of the lowest derivations of rows, where they are no higher than told."""
        found: dict[Key, int] = {}
        for height in range(1, most + 1):
            left = [key for key in keys if key not in found]
            for (view, nulls), rows in _shapes(left).items():
                if not self._exists(view, height):
                    continue
                question = self._question(self._layer_rule(view, height), nulls, height, view)
                assert question is not None, "its head has no constants"
                for number, *_ in self.world.ask(question, asked_rows(rows, nulls)):
                    found[view, rows[number]] = height
        return found

    def _expand(self, search: Search, frontier: Mapping[Key, int]) -> None:
        """Finds the last steps of the lowest derivations of rows, whose heights are known."""
        search.expand([key for key, height in frontier.items() if height == 1], leaves=True)
        for height in sorted(set(frontier.values()) - {1}):
            keys = [key for key, known in frontier.items() if known == height]
            for (view, nulls), rows in _shapes(keys).items():
                for rule in self.rules[view]:
                    if rule.is_leaf or not self._can_apply(rule, height):
                        continue
                    question = self._question(self._over_layer(rule, height - 1), nulls, height - 1, view)
                    if question is not None:
                        search.take(rule, rows, self.world.ask(question, asked_rows(rows, nulls)))

    # ---- questions ------------------------------------------------------------------------------------------

    def _question(self, rule: ConcreteRule, nulls: tuple[bool, ...], height: int, view: str) -> Question | None:
        schemas = {**self.program.schemas, **self._schemas}
        made = instances_question(rule, nulls, schemas, f"layer{height}_{self.world.tag}")
        if made is None:
            return None
        helpers = tuple(self._helpers(view, height))
        names = {clause.head.relation for clause in helpers}
        return replace(made, helpers=helpers, helper_schemas={name: self._schemas[name] for name in names})

    def _helpers(self, view: str, height: int) -> Iterable[Clause]:
        """The clauses of all layers up to a height, of what the view rests on."""
        for layer in range(1, height + 1):
            for name in self._below(view):
                for rule in self.rules[name]:
                    if self._can_apply(rule, layer):
                        head = replace(rule.clause.head, relation=self._name(name, layer))
                        yield replace(rule.clause, head=head, body=self._lowered(rule.clause.body, layer - 1))

    def _exists(self, view: str, layer: int) -> bool:
        """Whether any rule can derive rows of this layer."""
        if (view, layer) not in self._filled:
            self._filled[view, layer] = any(self._can_apply(rule, layer) for rule in self.rules[view])
        return self._filled[view, layer]

    def _can_apply(self, rule: ConcreteRule, layer: int) -> bool:
        """Whether a rule can derive rows of this layer: those it rests on have one below."""
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
        """The rule over the rows of a layer."""
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


def _shapes(keys: Iterable[Key]) -> dict[tuple[str, tuple[bool, ...]], list[Row]]:
    """The rows by relation and by the places that are NULL."""
    shapes: dict[tuple[str, tuple[bool, ...]], list[Row]] = {}
    for view, row in keys:
        shapes.setdefault((view, tuple(value is None for value in row)), []).append(row)
    return shapes
