"""Runs demand programs straight from their definition: rules without a gate to their fixpoint, then the lowest gate
that has rows waiting. Slow on purpose; what the rewritings mean, before any engine plans them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram
from upshot.core.schema import Role
from upshot.core.types import Type
from upshot.engine.naive import Binding, OracleState, evaluate, names
from upshot.engine.naive_values import canonical, compare
from upshot.rewrite.demand.demand import DemandProgram, DemandRule, RowOrigin
from upshot.syntax.ast import Atom, Constant, Formula, Not, Term, Variable, Wildcard

Row = tuple[Any, ...]
Relations = dict[str, set[Row]]


@dataclass(frozen=True, slots=True)
class Found:
    """The changes of the demand program's views, all relations of the rules as they ended, and the most rows that
    changes and steps towards them held at a time."""

    plus: Relations
    minus: Relations
    relations: Relations
    peak: int


def changes(
    program: CheckedProgram, demand: DemandProgram, old: Relations, new: Relations, *, dropping: bool = True
) -> Found:
    """What the rules give; `old` and `new` hold the rows of all stored relations. `dropping`: rows go when no rule
    reads them any more."""
    relations: Relations = {}
    for name, meaning in demand.relations.items():
        relations[name] = set()
        if meaning.origin is RowOrigin.STORED:
            relations[name] = set((old if meaning.state == "old" else new)[meaning.relation])
        elif meaning.origin is RowOrigin.CHANGE:
            before, after = old[meaning.relation], new[meaning.relation]
            relations[name] = after - before if meaning.state == "ins" else before - after
    kept = {name for name, meaning in demand.relations.items() if meaning.origin is RowOrigin.NET}
    last = {name: gate for name, gate in demand.last_read.items() if dropping and name not in kept}
    peak = _Wave(demand, relations, last).run()
    nets = {
        sign: {view: relations.get(demand.net(view, sign) or "", set()) for view in demand.views}
        for sign in ("plus", "minus")
    }
    return Found(nets["plus"], nets["minus"], relations, peak)


class _Wave:
    """A run of the rules: `last` as in `DemandProgram.last_read`."""

    def __init__(self, demand: DemandProgram, relations: Relations, last: Mapping[str, int]) -> None:
        self._relations, self._last = relations, last
        self._passing = sorted(demand.last_read)
        rules = demand.rules
        self._free = [_Runner(rule) for rule in rules if rule.gate is None]
        gates = sorted({rule.gate for rule in rules if rule.gate is not None})
        self._gated = {gate: [_Runner(rule) for rule in rules if rule.gate == gate] for gate in gates}
        self._peak = 0

    def run(self) -> int:
        """To the end; the most rows that the relations of `last_read` held."""
        while True:
            while sum(runner.run(self._relations) for runner in self._free):
                pass
            self._peak = max(self._peak, sum(len(self._relations[name]) for name in self._passing))
            for gate, runners in self._gated.items():
                waiting = [(runner, runner.waiting(self._relations)) for runner in runners]
                if any(rows for _, rows in waiting):
                    self._drop(gate)
                    for runner, rows in waiting:
                        runner.open(rows, self._relations)
                    break
            else:
                return self._peak

    def _drop(self, gate: int) -> None:
        for name, last in self._last.items():
            if last < gate:
                self._relations[name].clear()


class _Runner:
    """A rule, and what it has seen."""

    def __init__(self, rule: DemandRule) -> None:
        self.rule = rule
        self._read = sorted({atom.relation for literal in rule.clause.body for atom in atoms(literal)})
        self._sizes: list[int] | None = None
        first = rule.clause.body[0] if rule.clause.body else None
        self._first = first.relation if isinstance(first, Atom) else ""
        self._through: set[Row] = set()

    def run(self, relations: Relations) -> bool:
        """Derive again if a relation of the body has grown; whether there was anything new."""
        sizes = [len(relations[name]) for name in self._read]
        grown = self._sizes is None or any(now > then for now, then in zip(sizes, self._sizes, strict=True))
        self._sizes = sizes
        if not grown:
            return False
        head = relations[self.rule.clause.head.relation]
        new = set(derived(self.rule, relations)) - head
        head |= new
        return bool(new)

    def waiting(self, relations: Relations) -> set[Row]:
        """The rows of the rule's first literal that have not been let through its gate."""
        return relations[self._first] - self._through

    def open(self, waiting: set[Row], relations: Relations) -> None:
        self._through |= waiting
        if waiting:
            found = set(derived(self.rule, {**relations, self._first: waiting}))
            relations[self.rule.clause.head.relation] |= found


def derived(rule: DemandRule, relations: Mapping[str, set[Row]]) -> Iterator[Row]:
    """What one rule gives over these rows."""
    if any(isinstance(literal, Atom) and not relations[literal.relation] for literal in rule.clause.body):
        return
    world = _RowWorld(relations, rule.clause.types, {id(rule.clause.body[i]) for i in rule.rows})
    for binding in world.solve(rule.clause.body, {}, names(rule.clause.head)):
        yield tuple(world.value(term, binding) for term in rule.clause.head.args)


class _RowWorld(OracleState):
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
            yield from OracleState(self.relations, self.types).extend(literal, binding, scope)
        elif isinstance(literal, Atom):
            known = binding if id(literal) not in self._rows else None
            for row in self.relations[literal.relation]:
                yield from self.match(literal.args, row, binding, known)
        else:
            yield from super().extend(literal, binding, scope)

    def match(self, args: Sequence[Term], row: Row, binding: Binding, known: Binding | None) -> Iterator[Binding]:
        """`known` are the variables that find NULL again: those from outside the literal, or all (None)."""
        longer = dict(binding)
        for term, value in zip(args, row, strict=True):
            match term:
                case Wildcard():
                    pass
                case Variable(name) if name not in longer:
                    if value is None and not self.types[name].nullable:
                        return
                    longer[name] = value
                case Variable(name) if longer[name] is None and value is None and (known is None or name in known):
                    if not self.types[name].nullable:
                        return
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
