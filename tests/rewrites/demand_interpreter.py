"""Runs demand programs straight from their definition: rules without a gate to their fixpoint, then the lowest gate
that has rows waiting. Slow on purpose; what the rewritings mean, before any engine plans them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from upshot.check.program import CheckedProgram
from upshot.check.variables import atoms
from upshot.core.schema import Role
from upshot.core.types import Type
from upshot.engine.naive import Binding, World, evaluate, names
from upshot.engine.naive_values import canonical, compare
from upshot.rewrite.demand import DemandProgram, DemandRule, Held
from upshot.syntax.ast import Atom, Constant, Formula, Not, Term, Variable, Wildcard

Row = tuple[Any, ...]
Relations = dict[str, set[Row]]


def changes(program: CheckedProgram, demand: DemandProgram, old: Relations, new: Relations) -> dict[str, Relations]:
    """The changes of the demand program's views, `{"plus": …, "minus": …}`, and all relations of the rules as they
    ended (under "all"); `old` and `new` hold the rows of all stored relations."""
    relations: Relations = {}
    for name, meaning in demand.relations.items():
        relations[name] = set()
        if meaning.held is Held.STORED:
            relations[name] = set((old if meaning.state == "old" else new)[meaning.relation])
        elif meaning.held is Held.CHANGE:
            before, after = old[meaning.relation], new[meaning.relation]
            relations[name] = after - before if meaning.state == "ins" else before - after
    _run(demand.rules, relations)
    found: dict[str, Relations] = {"plus": {}, "minus": {}, "all": relations}
    for view in demand.views:
        for sign in ("plus", "minus"):
            name = demand.net(view, sign)
            found[sign][view] = relations[name] if name is not None else set()
    return found


def _run(rules: Sequence[DemandRule], relations: Relations) -> None:
    free = [_Runner(rule) for rule in rules if rule.gate is None]
    gates = sorted({rule.gate for rule in rules if rule.gate is not None})
    gated = {gate: [_Runner(rule) for rule in rules if rule.gate == gate] for gate in gates}
    while True:
        _fixpoint(free, relations)
        for gate in gates:
            if sum(runner.open(relations) for runner in gated[gate]):
                break
        else:
            return


def _fixpoint(runners: Sequence[_Runner], relations: Relations) -> None:
    while sum(runner.run(relations) for runner in runners):
        pass


class _Runner:
    """A rule, and what it has seen."""

    def __init__(self, rule: DemandRule) -> None:
        self.rule = rule
        self._read = sorted({atom.relation for literal in rule.clause.body for atom in atoms(literal)})
        self._sizes: list[int] | None = None
        self._through: set[Row] = set()

    def run(self, relations: Relations) -> bool:
        """Derive again if a relation of the body has grown; whether there was anything new."""
        sizes = [len(relations[name]) for name in self._read]
        if sizes == self._sizes:
            return False
        self._sizes = sizes
        head = relations[self.rule.clause.head.relation]
        new = set(_derive(self.rule, relations)) - head
        head |= new
        return bool(new)

    def open(self, relations: Relations) -> bool:
        """Let the waiting rows of the rule's first literal through its gate; whether there were any."""
        first = self.rule.clause.body[0]
        assert isinstance(first, Atom)
        waiting = relations[first.relation] - self._through
        self._through |= waiting
        if waiting:
            derived = set(_derive(self.rule, {**relations, first.relation: waiting}))
            relations[self.rule.clause.head.relation] |= derived
        return bool(waiting)


def _derive(rule: DemandRule, relations: Mapping[str, set[Row]]) -> Iterator[Row]:
    world = _RowWorld(relations, rule.clause.types, {id(rule.clause.body[i]) for i in rule.rows})
    for binding in world.solve(rule.clause.body, {}, names(rule.clause.head)):
        yield tuple(world.value(term, binding) for term in rule.clause.head.args)


class _RowWorld(World):
    """Literals that compare whole rows: a variable that may be NULL finds NULL, one that may not takes none in."""

    def __init__(self, relations: Mapping[str, set[Row]], types: Mapping[str, Type], rows: set[int]) -> None:
        super().__init__(relations, types)
        self._rows = rows

    def extend(self, literal: Formula, binding: Binding, scope: frozenset[str]) -> Iterator[Binding]:
        if isinstance(literal, Not) and id(literal) in self._rows:
            assert isinstance(literal.body, Atom)
            row = tuple(self.value(term, binding) for term in literal.body.args)
            if row not in self.relations[literal.body.relation]:
                yield binding
        elif isinstance(literal, Not):
            yield from World(self.relations, self.types).extend(literal, binding, scope)
        else:
            yield from super().extend(literal, binding, scope)

    def unify(self, args: Sequence[Term], row: Row, binding: Binding) -> Iterator[Binding]:
        longer = dict(binding)
        for term, value in zip(args, row, strict=True):
            match term:
                case Wildcard():
                    pass
                case Variable(name) if name not in longer:
                    if value is None and not self.types[name].nullable:
                        return
                    longer[name] = value
                case Variable(name) if longer[name] is None and value is None and self.types[name].nullable:
                    pass
                case Constant(None) if value is None:
                    pass
                case _ if not compare("=", self.value(term, longer), value):
                    return
        yield longer


def stored_rows(program: CheckedProgram, base: Mapping[str, set[Row]]) -> Relations:
    """The rows of every relation over some base rows: what the oracle says."""
    rows = {name: set() for name, schema in program.schemas.items() if schema.role is Role.BASE}
    for name, given in [*base.items(), *program.facts.items()]:
        rows[program.input_part.get(name, name)] |= {tuple(map(canonical, row)) for row in given}
    return {**rows, **evaluate(program, base)}
