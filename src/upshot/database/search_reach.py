"""The reach of a search for realizations: all relations on which its answer can depend."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from upshot.check.names.variables import walk
from upshot.check.program import CheckedProgram, Clause
from upshot.core.errors import UsageError
from upshot.core.schema import Role, Schema
from upshot.core.types import Kind
from upshot.database.explain.dependencies import everything_below, inputs
from upshot.database.explain.explained_rule import read_by
from upshot.database.program.compile import Compiled
from upshot.revise.rules import Rules
from upshot.rewrite.normalize.term_type import term_type, too_long_columns
from upshot.syntax.ast import Aggregate, Call, Constant, Formula, Term, Test, Variable
from upshot.values.aggregates import AGGREGATES
from upshot.values.conditions import TESTS
from upshot.values.functions import FUNCTIONS
from upshot.values.functors import bare_name, is_functor

REMEMBERED = 64
"""The most sets of requested relations whose rules a program caches."""


def search_reach(program: CheckedProgram, asked: Iterable[str]) -> frozenset[str]:
    """The relations, constraints and active rules on which realizations of a request for rows of these relations can
    depend, by public names.

    Requested rows depend on base relations, which the search can change. A change can violate a constraint or a key,
    make a computation overflow, or trigger an active rule. All of these depend on further base relations, which the
    search, or the rule, can then change.
    """
    owners = {**program.parts, **{hidden: name for name, hidden in program.input_part.items()}}
    found = set()
    for name in _reached(program, asked):
        while name in owners:
            name = owners[name]
        found.add(name)
    return frozenset(found - program.hidden)


def search_rules(compiled: Compiled, asked: frozenset[str]) -> Rules:
    """The rules that a search for rows of these relations reads, cached for each program. Raise if the search does not
    support them."""
    known = compiled.search_rules
    if asked not in known:
        checked, normal = compiled.checked, compiled.plan.normal
        _refuse_unsearchable(checked, normal, asked)
        program = _searched_program(checked, normal, asked)
        if len(known) >= REMEMBERED:
            known.clear()
        known[asked] = Rules(program, _views_served(program, compiled.visible))
    return known[asked]


def _searched_program(program: CheckedProgram, normal: CheckedProgram, asked: Iterable[str]) -> CheckedProgram:
    """The part of a program in normal form that a search for rows of these relations reads, so that its answer reveals
    nothing about other rules. Unsupported views whose rows do not matter are left out: a trial on the engine shows
    whether they can be computed."""
    below, kept = inputs(normal), set[str]()
    opaque = {name for name, schema in normal.schemas.items() if schema.lattice is not None}
    opaque |= {clause.head.relation for clause in normal.clauses if _functor(clause)}
    for name in _reached(program, asked):
        under = everything_below(name, below)
        kept |= under if opaque.isdisjoint(under) else set()
    clauses = tuple(clause for clause in normal.clauses if clause.head.relation in kept)
    layers = (tuple(name for name in layer if name in kept) for layer in normal.strata)
    return replace(normal, clauses=clauses, strata=tuple(layer for layer in layers if layer))


def _refuse_unsearchable(program: CheckedProgram, normal: CheckedProgram, asked: Collection[str]) -> None:
    """Raise if an answer can depend on a view that keeps the best row of each group, or on a user-defined function: the
    search supports neither."""
    below = inputs(normal)
    deciding = _reached(program, asked, with_failing=False)
    reached = {each for name in deciding for each in everything_below(name, below)}
    best = sorted(each for each in reached if each in normal.schemas and normal.schemas[each].lattice is not None)
    shown = ", ".join(f"`{name}`" for name in sorted(asked))
    if best:
        rest_on = {name: {name, *everything_below(name, below)} for name in {*deciding, *reached} - program.hidden}
        views = [name for name in rest_on if name in program.schemas and best[0] in rest_on[name]]
        view = min(views, key=lambda name: (len(rest_on[name]), name))
        what = "keeps the best row of each group" if view == best[0] else "counts or sums in its own recursion"
        raise UsageError(
            f"a request for {shown} reaches `{view}`, which {what}, which is not searched",
            code="best-rows-in-request",
            help="try changes with `db.what_if`",
        )
    for clause in normal.clauses:
        called = _functor(clause)
        if called is not None and clause.head.relation in reached:
            raise UsageError(
                f"a request for {shown} reaches a rule that calls `@{bare_name(called)}`: there is no search through "
                "functions of users",
                code="functions-in-request",
                span=clause.origin,
                help="try changes with `db.what_if`",
            )


def _functor(clause: Clause) -> str | None:
    """The user-defined function that a rule calls."""
    calls = (each for each in _parts(clause) if isinstance(each, Call | Aggregate))
    return next((each.function for each in calls if is_functor(each.function)), None)


def _views_served(program: CheckedProgram, visible: Collection[str]) -> dict[str, str]:
    """A public view above each auxiliary relation."""
    below, found = inputs(program), dict[str, str]()
    for view in (name for layer in program.strata for name in layer if name in visible):
        seen, left = {view}, [view]
        while left:
            new = {each for each in below.get(left.pop(), ()) if each not in seen and each not in visible}
            found |= {each: found.get(each, view) for each in new}
            seen |= new
            left += new
    return found


def _reached(program: CheckedProgram, asked: Iterable[str], *, with_failing: bool = True) -> Collection[str]:
    """The reach, by the names of the checked program; unless `with_failing`, without relations that matter only because
    they can fail, or trigger an active rule."""
    reach = _Reach(program, with_failing)
    for name in asked:
        reach.add(name)
    while reach.grows():
        pass
    return reach.names


@dataclass(slots=True)
class _Reach:
    program: CheckedProgram
    with_failing: bool
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
        """Add the constraints, keys, computations and active rules that changes in the reach can affect; return whether
        it grew."""
        before, program = len(self.names), self.program
        schemas, constraints = program.schemas, program.constraints
        moved = self._moved()
        for name in moved:
            rejects = name in constraints and constraints[name].on_violation == "reject"
            fails = self.with_failing and name in self._computing
            if rejects or fails or (name in schemas and schemas[name].keys):
                self.add(name)
        for rule in program.rules if self.with_failing else ():
            read = {edge.relation for edge in read_by(rule, program)}
            if not moved.isdisjoint(read):
                self.names.add(rule.name)
                written = {action.target for action in rule.actions if action.kind != "call"}
                for name in read | written:
                    self.add(name)
        return len(self.names) > before

    def _moved(self) -> set[str]:
        """The relations that can change when base relations of the reach do."""
        schemas = self.program.schemas
        bases = {name for name in self.names if name in schemas and schemas[name].role is Role.BASE}
        return set().union(*(everything_below(name, self._above) for name in bases))


def _may_fail(clause: Clause) -> bool:
    """Test whether a rule raises an error for some values: an overflow, a text that is no number, a bad pattern."""
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
            # The least number divided by -1 overflows.
            return divisor not in (0, -1)
    return not FUNCTIONS[call.function].fails(kind)


def _computes(clause: Clause) -> bool:
    """Test whether a rule computes values: in recursion they can be unbounded."""
    return any(isinstance(node, Call) for node in _parts(clause))


def _parts(clause: Clause) -> Iterator[Formula | Term]:
    return (node for part in (clause.head, *clause.body) for node in walk(part))


def _may_be_reserved(clause: Clause, schema: Schema) -> bool:
    """Test whether a nullable column can receive the number that encodes NULL there."""
    return any(
        column.type.nullable
        and column.type.kind in (Kind.NUMBER, Kind.UNSIGNED)
        and not (isinstance(term, Variable) and clause.types[term.name].nullable)
        for term, column in zip(clause.head.args, schema.columns, strict=True)
    )
