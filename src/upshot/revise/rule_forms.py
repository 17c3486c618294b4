"""Rewritings of rules that make ground programs smaller.

`path(X, Z) :- path(X, Y), path(Y, Z)` demands rows of the view from rows of the view, for each way to cut a chain in
two. The equivalent `path(X, Z) :- path(X, Y), edge(Y, Z)` chooses one base row in each step.

`overdrawn(A) :- balance(A, S), S < 0` demands a row with a value that only the aggregate knows. Unfolding `balance`
brings the aggregate itself into the body, where its value is compared. So do values that rules compute.

    p(R), "[]"("", R), X = .number(R, 0)        p(R), R = "[]"("P(number, symbol)", X, F)

Accesses to a record become one equation that can be solved in both directions: for the record and for its fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from upshot.check.clause.clause_form import with_terms
from upshot.check.names.variables import fold, fresh_name, terms_of, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.structures import TypeBranch, definition, structures
from upshot.core.types import SYMBOL, Kind, Type
from upshot.revise.request import Column
from upshot.rewrite.demand.linearize import linearize
from upshot.rewrite.normalize.unfold import can_expand, expanded
from upshot.rewrite.shapes import aggregate_of, retyped
from upshot.syntax.ast import Atom, Call, Comparison, Constant, Not, Term, Test, Variable, Wildcard, subterms
from upshot.values.structures import MAKE, field_function, form

Item = TypeVar("Item", bound=Hashable)

MOST = 64
"""Rules that one rule becomes at most."""


def linear_clauses(program: CheckedProgram) -> tuple[Clause, ...]:
    """The clauses of the program, with linear recursion where an equivalent one is known, without new relations."""
    clauses = program.clauses
    for view in dict.fromkeys(clause.head.relation for clause in program.clauses):
        found = linearize(program, view)
        made = None if found.program is None else _without_exits(found.program, view, found.exits)
        if made is not None:
            clauses = (*(clause for clause in clauses if clause.head.relation != view), *made)
    return clauses


def _without_exits(linear: CheckedProgram, view: str, exits: str) -> list[Clause] | None:
    """The clauses of a linear view with its auxiliary view of non-recursive rules unfolded; None if that is not
    possible."""
    own = [clause for clause in linear.clauses if clause.head.relation == view]
    if not exits:
        return own
    rules = [clause for clause in linear.clauses if clause.head.relation == exits]
    made = [replace(rule, head=replace(rule.head, relation=view)) for rule in rules]
    for clause in own:
        places = [i for i, each in enumerate(clause.body) if isinstance(each, Atom) and each.relation == exits]
        if len(clause.body) == 1 and places:
            continue
        for rule in rules:
            if not can_expand(clause, places[0], rule):
                return None
            made.append(retyped(expanded(clause, places[0], rule), linear.schemas))
    return made


def reached(start: Iterable[Item], steps: Callable[[Item], Iterable[Item]]) -> set[Item]:
    """The reflexive and transitive closure of `steps` from `start`."""
    found = set(start)
    left = list(found)
    while left:
        new = {*steps(left.pop())} - found
        found |= new
        left += new
    return found


def cells(atoms: Iterable[Atom]) -> Iterator[tuple[str, Column]]:
    """The variables among the arguments of atoms, with their columns."""
    for atom in atoms:
        for place, term in enumerate(atom.args):
            if isinstance(term, Variable):
                yield term.name, (atom.relation, place)


def made_columns(clauses: Iterable[Clause]) -> frozenset[Column]:
    """The columns with values that rules compute (aggregates, constants, built-ins), or pass on."""
    clauses = list(clauses)
    found: set[Column] = set()
    for clause in clauses:
        if aggregate_of(clause) is not None:
            found.add((clause.head.relation, len(clause.head.args) - 1))
            continue
        bound = {name for each in clause.body if isinstance(each, Atom) for name in variables(each)}
        for place, term in enumerate(clause.head.args):
            if not isinstance(term, Variable) or term.name not in bound:
                found.add((clause.head.relation, place))
    size = -1
    while found and len(found) != size:
        size = len(found)
        for clause in clauses:
            names = made_names(clause, found)
            found.update(column for name, column in cells([clause.head]) if name in names)
    return frozenset(found)


def made_names(clause: Clause, columns: Container[Column]) -> set[str]:
    """The variables of a clause with values from these columns, or computed from them."""
    atoms = (each for each in (clause.head, *clause.body) if isinstance(each, Atom))
    names = {name for name, column in cells(atoms) if column in columns}
    for literal in clause.body:
        if isinstance(literal, Comparison) and literal.op == "=" and names & {*variables(literal)}:
            names.update(side.name for side in (literal.left, literal.right) if isinstance(side, Variable))
    return names


def unfolded_clauses(clauses: Sequence[Clause], program: CheckedProgram) -> tuple[Clause, ...]:
    """Unfold views that compute values, where that is possible."""
    columns = made_columns(clauses)
    folds = {clause.head.relation for clause in clauses if aggregate_of(clause) is not None}
    carrying = {relation for relation, _ in columns} - folds - _recursive(clauses)
    if not carrying:
        return tuple(clauses)
    rules: dict[str, list[Clause]] = {}
    for view in (name for layer in program.strata for name in layer):
        own = [clause for clause in clauses if clause.head.relation == view]
        rules[view] = [made for clause in own for made in _unfolded(clause, columns, carrying, rules, program)]
    return tuple(dict.fromkeys(clause for made in rules.values() for clause in made))


def _unfolded(
    clause: Clause, columns: frozenset[Column], carrying: set[str], rules: dict[str, list[Clause]],
    program: CheckedProgram,
) -> list[Clause]:  # fmt: skip
    done: list[Clause] = []
    left = [clause]
    while left:
        current = left.pop(0)
        place = next((at for at, each in enumerate(current.body) if _asks(each, columns, carrying)), None)
        inside = [] if place is None else rules[current.body[place].relation]  # type: ignore[union-attr]
        fits = place is not None and all(can_expand(current, place, rule) for rule in inside)
        if place is None or not fits or len(done) + len(left) + len(inside) > MOST:
            done.append(current)
        else:
            left += [retyped(expanded(current, place, rule), program.schemas) for rule in inside]
    return done


def _asks(literal: object, columns: frozenset[Column], carrying: set[str]) -> bool:
    """Test whether a literal needs a value that rules compute from a view."""
    return (
        isinstance(literal, Atom)
        and literal.relation in carrying
        and any(not isinstance(t, Constant) and (literal.relation, i) in columns for i, t in enumerate(literal.args))
    )


def _recursive(clauses: Iterable[Clause]) -> set[str]:
    """The views that rest on themselves."""
    uses: dict[str, set[str]] = {}
    for clause in clauses:
        used = {each.relation for each in clause.body if isinstance(each, Atom)}
        uses.setdefault(clause.head.relation, set()).update(used)
    return {view for view, used in uses.items() if view in reached(used, lambda name: uses.get(name, ()))}


def without_repeated(clause: Clause) -> Clause:
    """The clause without positive literals that another one implies: `acct(A, _)` beside `acct(A, L)`."""
    counts = Counter(name for each in (clause.head, *clause.body) for name in _occurrences(each))
    left = list(clause.body)
    for literal in clause.body:
        others = [each for each in left if each is not literal and isinstance(each, Atom)]
        if isinstance(literal, Atom) and any(_is_implied(literal, each, counts) for each in others):
            left.remove(literal)
    return replace(clause, body=tuple(left)) if len(left) < len(clause.body) else clause


def _is_implied(literal: Atom, other: Atom, counts: Counter[str]) -> bool:
    return literal.relation == other.relation and all(
        one == two or isinstance(one, Wildcard) or (isinstance(one, Variable) and counts[one.name] == 1)
        for one, two in zip(literal.args, other.args, strict=True)
    )


def _occurrences(literal: Literal) -> Iterator[str]:
    """The variables of a literal, once for each occurrence."""
    if isinstance(literal, Atom):
        for term in literal.args:
            yield from variables(term)
    else:
        yield from (name for name in variables(literal) for _ in range(2))


# ---- records ---------------------------------------------------------------------------------------------------------


def whole_structures(clause: Clause) -> tuple[Clause, tuple[Literal, ...]]:
    """Replace the accesses to each record by one equation; the clause, and the replaced literals."""
    body, types, parts = list(clause.body), dict(clause.types), list[Literal]()
    while (found := next((each for test in body if (each := _branch(test, types))), None)) is not None:
        test, record, name, branch = found
        body.remove(test)
        parts.append(test)
        known = structures(types[record].definition)
        field_types = [
            Type(Kind.RECORD, each, definition=definition(each, known)) if each in known else Type(Kind(each))
            for _, each in branch.fields
        ]
        shape = form(f"${branch.tag}" if branch.tag else name, [type.kind for type in field_types])
        made = next((args for each in body if (args := _made(each, record, shape)) is not None), None)
        fields: list[Term] = []
        for place, type in enumerate(field_types):
            access = _Access(record, field_function(type.kind), place)
            literal = next((each for each in body if _other(each, access) is not None), None)
            term = made[place] if made is not None else None if literal is None else _other(literal, access)
            if made is None and literal is not None:
                body.remove(literal)
                parts.append(literal)
            if term is None:
                term = Variable(fresh_name("F", types))
            if isinstance(term, Variable):
                types[term.name] = type
            fields.append(term)
            parts += [each for each in body if access.is_in(each)]
            body = [access.replaced(each, term) if access.is_in(each) else each for each in body]
        if made is None:
            body.append(Comparison("=", Variable(record), Call(MAKE, (Constant(shape, SYMBOL), *fields))))
    return (replace(clause, body=tuple(body), types=types) if parts else clause), tuple(parts)


def _made(literal: Literal, record: str, shape: str) -> tuple[Term, ...] | None:
    """The fields of an equation that constructs the record in this form."""
    match literal:
        case Comparison("=", Variable(name), Call("[]", (Constant(own), *args))) | Comparison(
            "=", Call("[]", (Constant(own), *args)), Variable(name)
        ) if (name, own) == (record, shape):
            return tuple(args)
        case _:
            return None


def fields_of(literals: Sequence[Literal], free: Collection[str]) -> frozenset[str]:
    """The field variables of records without a value: a fresh record has fresh fields."""
    return frozenset(
        name
        for each in literals
        if isinstance(each, Comparison) and isinstance(each.right, Call) and each.right.function == MAKE
        if isinstance(each.left, Variable) and each.left.name in free
        for name in variables(each.right)
    )


def _branch(literal: Literal, types: Mapping[str, Type]) -> tuple[Literal, str, str, TypeBranch] | None:
    """Match a test of the form of a record: the literal, the record, its type and the form."""
    match literal:
        case Test("[]", (Constant(tag), Variable(record))) if known := structures(types[record].definition):
            structure = next(iter(known.values()))
            branch = structure.branch(tag)
            return None if branch is None else (literal, record, structure.name, branch)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class _Access:
    """A field of a record, by its place."""

    record: str
    function: str
    place: int

    def matches(self, term: Term) -> bool:
        match term:
            case Call(function, (Variable(name), Constant(place))):
                return (name, function, place) == (self.record, self.function, self.place)
            case _:
                return False

    def is_in(self, literal: Literal) -> bool:
        return any(self.matches(part) for term in terms_of(literal) for part in subterms(term))

    def replaced(self, literal: Literal, by: Term) -> Literal:
        """Replace the access in a literal by a term."""

        def visit(node: Term, inner: tuple[Term, ...]) -> Term:
            if self.matches(node):
                return by
            return replace(node, args=inner) if isinstance(node, Call) else node

        plain = literal.body if isinstance(literal, Not) else literal
        made = with_terms(plain, [fold(term, visit) for term in terms_of(plain)])
        return Not(made, span=literal.span) if isinstance(literal, Not) else made


def _other(literal: Literal, access: _Access) -> Term | None:
    """The other side of an equation with a field access."""
    match literal:
        case Comparison("=", term, other) | Comparison("=", other, term) if access.matches(other):
            return term
        case _:
            return None
