"""Make a view of every aggregate, one row per group, so that a change costs as much as the groups that it touches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from upshot.check.names.variables import fresh_name, terms_of, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.check.types.nullability import nullable_variables
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError
from upshot.core.schema import Column, Role, Schema
from upshot.core.span import Span
from upshot.core.types import Type
from upshot.rewrite.normalize.occurrences import binders, injected, needed_by, substitute, visible
from upshot.rewrite.normalize.term_type import term_type, zero
from upshot.rewrite.shapes import aggregates, disjuncts, is_aggregate_clause, retyped, without_wildcards
from upshot.rewrite.stratified import stratified
from upshot.syntax.ast import (
    Aggregate,
    And,
    Atom,
    Call,
    Comparison,
    Constant,
    Not,
    Or,
    Term,
    Test,
    Variable,
    Wildcard,
    subterms,
)
from upshot.values.aggregates import AGGREGATES
from upshot.values.functors import bare_name

# ---- split null groups -------------------------------------------------------------------------------------
# An aggregate can use an outer variable that may be NULL: then NULL and the other values get one clause each.


def split_null_groups(clause: Clause, schemas: Mapping[str, Schema]) -> tuple[Clause, ...]:
    """Equivalent clauses in which no aggregate can have solutions for an outer value that is NULL.

    Groups are found by a join, and NULL joins with nothing. That is right for `count : { r(X, Y) }`, which has no
    solution if X is NULL, and wrong for `count : { r(Y), !s(X, Y) }`, which then counts every Y.
    """
    done: list[Clause] = []
    todo = [clause]
    while todo:
        current = todo.pop()
        name = _open_to_null(current, schemas)
        if name is None:
            done.append(current)
        else:
            todo += reversed(_split(current, name))
    return tuple(done)


def _open_to_null(clause: Clause, schemas: Mapping[str, Schema]) -> str | None:
    """A variable that may be NULL outside an aggregate whose body uses it and can still have solutions."""
    found = aggregates(clause)
    places = {position for position, _, _ in found}
    plain = tuple(literal for i, literal in enumerate(clause.body) if i not in places)
    nullable = nullable_variables(plain, schemas, ())
    outside = visible(clause.head, clause.body)
    for _, _, aggregate in found:
        bodies = disjuncts(aggregate.body)
        for name in injected(aggregate, outside):
            if name in nullable and not all(_rejects_null(body, name) for body in bodies):
                return name
    return None


def _rejects_null(literals: Iterable[Literal], name: str) -> bool:
    """Test whether the conjunction is false where the variable, bound outside, is NULL."""
    for literal in literals:
        match literal:
            case Test("is_null"):
                continue
            case Atom() | Test() | Comparison() | Not(Test("is_null")):
                if name in variables(literal, inside_aggregates=False):
                    return True
    return False


def _split(clause: Clause, name: str) -> list[Clause]:
    """The clause for values of the variable other than NULL, and the clause for NULL."""
    test = Test("is_null", (Variable(name),))
    types = {**clause.types, name: clause.types[name].required()}
    present = replace(clause, body=(*clause.body, Not(test)), types=types)
    body: list[Literal] = []
    for literal in clause.body:
        changed = _for_null(literal, name, clause.types)
        if changed is None:
            return [present]
        body.append(changed)
    return [present, replace(clause, body=(*body, test))]


def _for_null(literal: Literal, name: str, types: Mapping[str, Type]) -> Literal | None:
    """The literal with NULL for the variable inside its aggregate; None if the aggregate then has no value."""
    match literal:
        case Comparison("=", Variable(value), Aggregate(function, target, formula) as aggregate):
            null = Constant(None, types[name])

            def change(variable: Variable) -> Term:
                return null if variable.name == name else variable

            bodies = disjuncts(substitute(formula, change))
            simple = [_simplified(body) for body in bodies]
            goal = None if target is None else substitute(target, change)
            if any(body is not None for body in simple) and (goal is None or not _is_null(goal)):
                # An alternative that is false stays: its variables decide which variables of the others are counted.
                parts = [And(whole if body is None else body) for body, whole in zip(simple, bodies, strict=True)]
                made = parts[0] if len(parts) == 1 else Or(tuple(parts))
                return replace(literal, right=Aggregate(function, goal, made, span=aggregate.span))
            return replace(literal, right=zero(types[value])) if AGGREGATES[function].of_nothing else None
        case _:
            return literal


def _simplified(literals: Iterable[Literal]) -> tuple[Literal, ...] | None:
    """The literals whose truth NULL does not decide, or None if it makes one of them false."""
    kept = []
    for literal in literals:
        known = _truth(literal)
        if known is False:
            return None
        if known is None:
            kept.append(literal)
    return tuple(kept)


def _truth(literal: Literal) -> bool | None:
    """The truth of a literal of which a term is NULL; None if no term is."""
    match literal:
        case Test("is_null", (argument,)):
            return True if _is_null(argument) else None
        case Atom(_, args) | Test(_, args):
            return False if any(map(_is_null, args)) else None
        case Comparison(_, left, right):
            return False if _is_null(left) or _is_null(right) else None
        case Not(Atom() | Test() as body):
            known = _truth(body)
            return None if known is None else not known
        case _:
            return None


def _is_null(term: Term) -> bool:
    """Test whether the term is NULL for all values of its variables: functors return NULL for NULL."""
    if not isinstance(term, Call | Constant):
        return False
    return any(isinstance(each, Constant) and each.value is None for each in subterms(term))


# ---- aggregates as relations -------------------------------------------------------------------------------


def lower_aggregates(program: CheckedProgram) -> CheckedProgram:
    """The program with aggregates only in clauses `agg(G…, V) :- aux(G…, _…), V = f T : { aux(G…, L…) }.`

    `p(X, N) :- q(X), N = count : { r(_, X) }.` becomes

        p(X, N) :- q(X), p_count(X, N).
        p(X, N) :- q(X), N = 0, !p_count(X, _).
        p_count(X, N) :- p_count_rows(X, _), N = count : { p_count_rows(X, Any) }.
        p_count_rows(X, Any) :- r(Any, X).

    The rows have all variables of the aggregate's body as columns, since its distinct solutions are folded; a relation
    with exactly these columns, those of the group first, is used as it is. An aggregate that occurs twice has one view,
    and aggregates over the same rows share these. A clause of that shape is its view's only clause.
    """
    lowering = _AggregateLowering(program)
    diagnostics: list[Diagnostic] = []
    todo = list(reversed(program.clauses))
    shared = {name for name, count in Counter(clause.head.relation for clause in todo).items() if count > 1}
    while todo:
        clause = todo.pop()
        done = clause.head.relation not in shared and is_aggregate_clause(clause, lowering.schemas)
        if done or not aggregates(clause):
            lowering.clauses.append(retyped(clause, lowering.schemas))
            continue
        try:
            made = [each for part in split_null_groups(clause, lowering.schemas) for each in lowering.lowered(part)]
        except ProgramError as error:
            diagnostics += error.diagnostics
        else:
            todo += reversed(made)
    if diagnostics:
        raise ProgramError(diagnostics)
    if lowering.clauses == list(program.clauses):
        return program
    return stratified(program, lowering.clauses, lowering.schemas, by="lower_aggregates")


@dataclass(frozen=True, slots=True)
class _FoundAggregate:
    position: int
    value: str
    aggregate: Aggregate


@dataclass(slots=True)
class _AggregateLowering:
    """The views made so far: `views` by the meaning of their clauses; `layers` maps a view to the views that it is
    mutually recursive with, `contexts` a step view (see `_stepped`) to the literals that it replaces."""

    program: CheckedProgram
    schemas: dict[str, Schema] = field(init=False)
    layers: dict[str, set[str]] = field(init=False)
    clauses: list[Clause] = field(default_factory=list)
    views: dict[object, str] = field(default_factory=dict)
    contexts: dict[str, tuple[Literal, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.schemas = dict(self.program.schemas)
        self.layers = {view: set(layer) for layer in self.program.strata for view in layer}

    def lowered(self, clause: Clause) -> list[Clause]:
        """Equivalent clauses with one aggregate less, and the definitions that they need; the clause itself if it has
        none."""
        found = [_FoundAggregate(*each) for each in aggregates(clause)]
        if not found:
            return [clause]
        chosen = _next(clause, found)
        if chosen.value in variables(chosen.aggregate):
            return self.lowered(_with_own_value(clause, chosen))
        group = injected(chosen.aggregate, visible(clause.head, clause.body))
        name, definitions = self._aggregate_view(clause, chosen, group)
        value = Variable(chosen.value)
        exists: list[Literal] = [Atom(name, (*map(Variable, group), value))]
        if not AGGREGATES[chosen.aggregate.function].of_nothing:
            return [_replaced(clause, chosen, exists), *definitions]
        absent = Not(Atom(name, (*map(Variable, group), Wildcard())))
        empty: list[Literal] = [Comparison("=", value, zero(clause.types[chosen.value])), absent]
        if len(found) == 1:
            return [_replaced(clause, chosen, exists), _replaced(clause, chosen, empty), *definitions]
        return [*self._stepped(clause, chosen, exists, empty), *definitions]

    def _aggregate_view(
        self, clause: Clause, chosen: _FoundAggregate, group: tuple[str, ...]
    ) -> tuple[str, list[Clause]]:
        """The view of the aggregate's values, with the clauses that define it if it is new."""
        wish = f"{clause.head.relation}_{bare_name(chosen.aggregate.function)}"
        rows = aggregate_rows(clause, chosen.aggregate, group, self._surroundings(clause), self.schemas)
        made: list[Clause] = []
        below = rows.stored_in()
        if below is None:
            meaning = rows.meaning()
            if meaning not in self.views:
                self.views[meaning] = self._new_view(f"{wish}_rows", rows.names, rows.types)
                made += rows.clauses(self.views[meaning])
            below = self.views[meaning]
        type = _value_type(clause, chosen)
        target = rows.target if not isinstance(rows.target, Variable) else rows.names.index(rows.target.name)
        key = (below, chosen.aggregate.function, len(group), target, type)
        if key not in self.views:
            self.views[key] = self._new_view(wish, (*group, chosen.value), (*rows.types[: len(group)], type))
            made.insert(0, _aggregate_clause(self.views[key], below, rows, clause, chosen, len(group)))
        return self.views[key], made

    def _surroundings(self, clause: Clause) -> tuple[Literal, ...]:
        """The literals around the aggregates that do not depend on the clause's own view; the literals that a step view
        replaces come before the step view."""
        known: list[Literal] = []
        for literal in clause.body:
            if isinstance(literal, Atom):
                known += self.contexts.get(literal.relation, ())
        places = {position for position, _, _ in aggregates(clause)}
        known += (literal for i, literal in enumerate(clause.body) if i not in places)
        recursive = self.layers[clause.head.relation]
        return tuple(each for each in known if not (isinstance(each, Atom) and each.relation in recursive))

    def _stepped(
        self, clause: Clause, chosen: _FoundAggregate, exists: Sequence[Literal], empty: Sequence[Literal]
    ) -> list[Clause]:
        """Two clauses for a step view that joins the literals bound so far with the value, and the rest of the clause
        over it: two clauses per aggregate, where expansion would give two to the power of the number of aggregates.
        """
        places = {position for position, _, _ in aggregates(clause)}
        plain = [literal for i, literal in enumerate(clause.body) if i not in places]
        bound = binders(plain, visible(clause.head, clause.body))
        early = [literal for literal in plain if all(name in bound for name in variables(literal))]
        late = [literal for i, literal in enumerate(clause.body) if i != chosen.position and literal not in early]
        needed = {name for node in (clause.head, *late) for name in variables(node)}
        known = dict.fromkeys([*(name for literal in early for name in variables(literal)), chosen.value])
        names = tuple(name for name in known if name in needed)
        nullable = nullable_variables(tuple(early), self.schemas, ())
        types = {n: t.optional() if n in nullable else t.required() for n, t in clause.types.items()}
        step = self._new_view(
            f"{clause.head.relation}_with_{bare_name(chosen.aggregate.function)}",
            names,
            [types[name] for name in names],
        )
        recursive = self.layers[clause.head.relation]
        if any(isinstance(literal, Atom) and literal.relation in recursive for literal in early):
            recursive.add(step)
            self.layers[step] = recursive
        self.contexts[step] = self._surroundings(replace(clause, body=tuple(early)))
        head = Atom(step, tuple(map(Variable, names)))
        return [
            replace(clause, body=(head, *late), types=types),
            replace(clause, head=head, body=(*early, *exists)),
            replace(clause, head=head, body=(*early, *empty)),
        ]

    def _new_view(self, wish: str, names: Sequence[str], types: Sequence[Type]) -> str:
        name = fresh_name(wish, self.schemas)
        columns = tuple(Column(column, type) for column, type in zip(names, types, strict=True))
        self.schemas[name] = Schema(name, columns, Role.VIEW)
        self.layers[name] = {name}
        return name


def _next(clause: Clause, found: Sequence[_FoundAggregate]) -> _FoundAggregate:
    """An aggregate whose outer variables are bound without the others; if possible, one that needs no second clause."""
    places = {each.position for each in found}
    outside = visible(clause.head, clause.body)
    bound = binders([literal for i, literal in enumerate(clause.body) if i not in places], outside)
    ready = [each for each in found if all(name in bound for name in injected(each.aggregate, outside))]
    return min(ready, key=lambda each: AGGREGATES[each.aggregate.function].of_nothing)


def _value_type(clause: Clause, chosen: _FoundAggregate) -> Type:
    """The type of the aggregate's value. A sum may have more digits than the column that it is joined with or stored
    in: it is compared, or rejected as too large, there."""
    type = clause.types[chosen.value].required()
    return type.widest() if chosen.aggregate.function == "sum" else type


def _with_own_value(clause: Clause, chosen: _FoundAggregate) -> Clause:
    """The clause with the aggregate equated to a variable that does not occur in the aggregate."""
    own = fresh_name(bare_name(chosen.aggregate.function).capitalize(), clause.types)
    literals = [
        Comparison("=", Variable(own), chosen.aggregate),
        Comparison("=", Variable(own), Variable(chosen.value)),
    ]
    types = {**clause.types, own: _value_type(clause, chosen)}
    return replace(_replaced(clause, chosen, literals), types=types)


def _replaced(clause: Clause, chosen: _FoundAggregate, literals: Sequence[Literal]) -> Clause:
    before, after = clause.body[: chosen.position], clause.body[chosen.position + 1 :]
    return replace(clause, body=(*before, *literals, *after))


def _aggregate_clause(
    name: str, below: str, rows: AggregateRows, clause: Clause, chosen: _FoundAggregate, width: int
) -> Clause:
    """`agg(G…, V) :- aux(G…, _…), V = f T : { aux(G…, L…) }.`"""
    everything = tuple(map(Variable, rows.names))
    group, value = everything[:width], Variable(chosen.value)
    wildcards = tuple(Wildcard() for _ in everything[width:])
    body = And((Atom(below, everything),))
    fold = Aggregate(chosen.aggregate.function, rows.target, body, span=chosen.aggregate.span)
    return Clause(
        head=Atom(name, (*group, value)),
        body=(Atom(below, (*group, *wildcards)), Comparison("=", value, fold)),
        types={**dict(zip(rows.names, rows.types, strict=True)), chosen.value: _value_type(clause, chosen)},
        origin=clause.origin,
    )


@dataclass(frozen=True, slots=True)
class AggregateRows:
    """The rows that an aggregate folds: one column per variable that all alternatives of its body have, outer variables
    first. `target` is the folded term."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    bodies: tuple[tuple[Literal, ...], ...]
    all_types: Mapping[str, Type]
    target: Variable | Constant | None
    origin: Span | None

    def clauses(self, name: str) -> list[Clause]:
        """The clauses that define the rows as the view `name`, one for each alternative of the body."""
        head = Atom(name, tuple(map(Variable, self.names)))
        return [Clause(head, body, self.all_types, self.origin) for body in self.bodies]

    def stored_in(self) -> str | None:
        """The relation that has exactly these rows, if the body is a single literal of it."""
        match self.bodies:
            case ((Atom(relation, args),),) if args == tuple(map(Variable, self.names)):
                return relation
            case _:
                return None

    def meaning(self) -> object:
        """A key that is equal for definitions that differ in the names of variables only."""
        numbers: dict[str, Variable] = {}

        def change(variable: Variable) -> Term:
            return numbers.setdefault(variable.name, Variable(f"V{len(numbers)}"))

        head = substitute(Atom("", tuple(map(Variable, self.names))), change)
        bodies = tuple(tuple(substitute(literal, change) for literal in body) for body in self.bodies)
        return head, bodies, self.types


def aggregate_rows(
    clause: Clause,
    aggregate: Aggregate,
    group: Sequence[str],
    surroundings: Sequence[Literal],
    schemas: Mapping[str, Schema],
) -> AggregateRows:
    """The rows that an aggregate of the clause folds, `group` being its outer variables.

    An outer variable that the body does not bind is bound by literals around it. A body that may fail, by a division
    for example, is restricted to the values that the literals around it allow. Outer variables are never NULL here:
    NULL has no group.
    """
    types = dict(clause.types)
    bodies = [
        [without_wildcards(each, schemas[each.relation], types) if isinstance(each, Atom) else each for each in body]
        for body in disjuncts(aggregate.body)
    ]
    target = _target(aggregate.target, group, bodies, types)
    common = [name for name in _direct(bodies[0]) if all(name in _direct(body) for body in bodies[1:])]
    names = tuple(dict.fromkeys([*group, *common]))
    confined = [_confined(clause, aggregate, group, surroundings, body) for body in bodies]
    open_to_null = [nullable_variables(body, schemas, ()) for body in confined]
    guarded = tuple(
        (*body, *(Not(Test("is_null", (Variable(name),))) for name in group if name in nullable))
        for body, nullable in zip(confined, open_to_null, strict=True)
    )
    nullable = set().union(*open_to_null) - {*group}
    kinds = {n: t.optional() if n in nullable else t.required() for n, t in types.items()}
    return AggregateRows(names, tuple(kinds[n] for n in names), guarded, kinds, target, clause.origin)


def _confined(
    clause: Clause,
    aggregate: Aggregate,
    group: Sequence[str],
    surroundings: Sequence[Literal],
    literals: Sequence[Literal],
) -> tuple[Literal, ...]:
    """The literals of one alternative, with those around the aggregate that they need."""
    bound = binders(literals, {*group, *_direct(literals)})
    missing = [name for name in group if name not in bound]
    outer = binders(surroundings, ())
    unbound = [name for name in missing if name not in outer]
    if unbound:
        raise ProgramError([_bound_by_recursion(clause, aggregate, unbound[0])])
    if any(_may_fail(term) for literal in literals for term in terms_of(literal)):
        added = [literal for literal in surroundings if all(name in outer for name in variables(literal))]
    else:
        added = _binding(missing, surroundings, outer)
    return (*added, *(literal for literal in literals if literal not in added))


def _direct(literals: Iterable[Literal]) -> list[str]:
    return [name for literal in literals for name in variables(literal, inside_aggregates=False)]


def _target(
    target: Term | None, group: Collection[str], bodies: list[list[Literal]], types: dict[str, Type]
) -> Variable | Constant | None:
    """The folded term as a variable of the aggregate or a constant: for a computed term or a variable of the group, a
    fresh variable whose equation is added to the body.

    Where the target is NULL the equation drops the solution, which the fold would have skipped.
    """
    if target is None or isinstance(target, Constant) or (isinstance(target, Variable) and target.name not in group):
        return target
    name = fresh_name("Value", types)
    types[name] = term_type(target, types).required()
    for body in bodies:
        body.append(Comparison("=", Variable(name), target))
    return Variable(name)


def _binding(names: Iterable[str], literals: Sequence[Literal], positions: Mapping[str, int]) -> list[Literal]:
    """The literals that bind the named variables, and the variables that these literals need."""
    todo, chosen = list(names), set()
    while todo:
        name = todo.pop()
        position = positions[name]
        if position not in chosen:
            chosen.add(position)
            todo += needed_by(literals[position], name)
    return [literal for position, literal in enumerate(literals) if position in chosen]


def _may_fail(term: Term) -> bool:
    """Test whether evaluation can raise an error other than an overflow."""
    for each in subterms(term):
        match each:
            case Call("to_number" | "range"):
                return True
            case Call("/" | "%", (_, divisor)):
                if not (isinstance(divisor, Constant) and divisor.value):
                    return True
            case Call("^", (_, exponent)):
                if not (isinstance(exponent, Constant) and exponent.value >= 0):
                    return True
            case _:
                pass
    return False


def _bound_by_recursion(clause: Clause, aggregate: Aggregate, name: str) -> Diagnostic:
    view = clause.head.relation
    return Diagnostic(
        "aggregate-in-recursion",
        f"the aggregate in the recursive rule of `{view}` depends on `{name}`, which only the recursion gives a value",
        aggregate.span or clause.origin,
        label=f"asked for each `{name}` found on the way",
        help=f"bind `{name}` in the aggregate's body or by a relation that does not depend on `{view}`",
    )
