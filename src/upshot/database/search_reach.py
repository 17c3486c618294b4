"""How far the search for realisations looks: everything that its answer can hang on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Role, Schema
from upshot.core.types import Kind
from upshot.database.explain.dependencies import everything_below, inputs
from upshot.database.explain.explained_rule import read_by
from upshot.rewrite.normalize.term_type import term_type, too_long_columns
from upshot.syntax.ast import Aggregate, Call, Constant, Node, Test, Variable
from upshot.values.aggregates import AGGREGATES
from upshot.values.conditions import TESTS
from upshot.values.functions import FUNCTIONS


def search_reach(program: CheckedProgram, asked: Iterable[str]) -> frozenset[str]:
    """The relations, constraints and active rules that realisations of a request for rows of these relations can hang
    on, by the names that users know.

    What is asked for rests on base relations, which the search may change. That can violate a constraint, bring two
    rows under one key, overflow where a view computes, or set off a rule; all of these rest on base relations too,
    which the search, or the rule, may then change.
    """
    owners = {**program.parts, **{hidden: name for name, hidden in program.input_part.items()}}
    found = set()
    for name in _reached(program, asked):
        while name in owners:
            name = owners[name]
        found.add(name)
    return frozenset(found - program.hidden)


def searched_program(program: CheckedProgram, normal: CheckedProgram, asked: Iterable[str]) -> CheckedProgram:
    """The part of a program, in its normal form, that a search for rows of these relations looks at: as though there
    were no other rules, so that its answer tells nothing about them."""
    below, kept = inputs(normal), set[str]()
    for name in _reached(program, asked):
        kept |= everything_below(name, below)
    clauses = tuple(clause for clause in normal.clauses if clause.head.relation in kept)
    layers = (tuple(name for name in layer if name in kept) for layer in normal.strata)
    return replace(normal, clauses=clauses, strata=tuple(layer for layer in layers if layer))


def views_served(program: CheckedProgram, visible: Collection[str]) -> dict[str, str]:
    """For each relation that users do not know, a view that they do and that rests on it."""
    below, found = inputs(program), dict[str, str]()
    for view in (name for layer in program.strata for name in layer if name in visible):
        seen, left = {view}, [view]
        while left:
            new = {each for each in below.get(left.pop(), ()) if each not in seen and each not in visible}
            found |= {each: found.get(each, view) for each in new}
            seen |= new
            left += new
    return found


def _reached(program: CheckedProgram, asked: Iterable[str]) -> Collection[str]:
    """The same by the names of the checked program."""
    reach = _Reach(program)
    for name in asked:
        reach.add(name)
    while reach.grows():
        pass
    return reach.names


@dataclass(slots=True)
class _Reach:
    program: CheckedProgram
    names: set[str] = field(default_factory=set)
    _below: Mapping[str, Collection[str]] = field(init=False)
    _above: Mapping[str, Collection[str]] = field(init=False)
    _computing: Collection[str] = field(init=False)

    def __post_init__(self) -> None:
        schemas = self.program.schemas
        self._below = inputs(self.program)
        self._computing = {
            clause.head.relation
            for clause in self.program.clauses
            if _may_fail(clause)
            or _may_be_reserved(clause, schemas[clause.head.relation])
            or too_long_columns(clause, schemas[clause.head.relation])
            or (_computes(clause) and self._is_recursive(clause.head.relation))
        }
        above: dict[str, set[str]] = defaultdict(set)
        for view, relations in self._below.items():
            for relation in relations:
                above[relation].add(view)
        self._above = above

    def _is_recursive(self, view: str) -> bool:
        return any(view in everything_below(each, self._below) for each in self._below.get(view, ()))

    def add(self, name: str) -> None:
        self.names |= everything_below(name, self._below)

    def grows(self) -> bool:
        """Adds what stands guard over all that may be changed so far; whether that was more than was known."""
        before, program = len(self.names), self.program
        schemas, constraints = program.schemas, program.constraints
        moved = self._moved()
        for name in moved:
            rejects = name in constraints and constraints[name].on_violation == "reject"
            if rejects or name in self._computing or (name in schemas and schemas[name].keys):
                self.add(name)
        for rule in program.rules:
            read = {edge.relation for edge in read_by(rule, program)}
            if not moved.isdisjoint(read):
                self.names.add(rule.name)
                written = {action.target for action in rule.actions if action.kind != "call"}
                for name in read | written:
                    self.add(name)
        return len(self.names) > before

    def _moved(self) -> set[str]:
        """Everything whose rows may come and go when base relations of the reach change."""
        schemas = self.program.schemas
        bases = {name for name in self.names if name in schemas and schemas[name].role is Role.BASE}
        return set().union(*(everything_below(name, self._above) for name in bases))


def _may_fail(clause: Clause) -> bool:
    """Whether some values would make the rule an error: an overflow, a text that is no number, a bad pattern."""
    for node in _parts(clause):
        match node:
            case Call() if not _has_always_a_value(node, term_type(node, clause.types).kind):
                return True
            case Aggregate(function) if AGGREGATES[function].fails(term_type(node, clause.types).kind):
                return True
            case Test(name) if TESTS[name].fails:
                return True
    return False


def _has_always_a_value(call: Call, kind: Kind) -> bool:
    match call:
        case Call("/" | "%", (_, Constant(int() as divisor))):
            # By -1 the least number has no quotient in its range.
            return divisor not in (0, -1)
    return not FUNCTIONS[call.function].fails(kind)


def _computes(clause: Clause) -> bool:
    """Whether the rule makes values: where it uses its own view, they may never come to an end."""
    return any(isinstance(node, Call) for node in _parts(clause))


def _parts(clause: Clause) -> Iterator[Node]:
    return (each for part in (clause.head, *clause.body) for each in _nodes(part))


def _may_be_reserved(clause: Clause, schema: Schema) -> bool:
    """Whether a value could come to a column that may be NULL, and is the one number that such a column cannot hold."""
    return any(
        column.type.nullable
        and column.type.kind in (Kind.NUMBER, Kind.UNSIGNED)
        and not (isinstance(term, Variable) and clause.types[term.name].nullable)
        for term, column in zip(clause.head.args, schema.columns, strict=True)
    )


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for part in fields(node):
        value = getattr(node, part.name)
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, Node):
                yield from _nodes(inner)
