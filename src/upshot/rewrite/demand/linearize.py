"""Rewrite non-linear closures to equivalent linear recursion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from upshot.check.names.variables import fresh_name, occurrences, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Role, Schema
from upshot.rewrite.shapes import atoms_of, retyped, row_atom
from upshot.rewrite.stratified import stratified
from upshot.syntax.ast import Atom, Call, Comparison, Not, Term, Test, Variable, Wildcard

_LONGEST = 6
"""Bodies with at most this many literals are compared in every order of their literals."""


class NotLinear(Exception):
    """The reason why a view is not rewritten."""


@dataclass(frozen=True, slots=True)
class Linearized:
    """`program` is None if the view is not rewritten; `reason` explains either case. `exits` is the view that was added
    for the rows of the rules without recursion, empty if none was needed."""

    program: CheckedProgram | None
    reason: str
    exits: str = ""


def linearize(program: CheckedProgram, view: str) -> Linearized:
    """Make the recursive rule of `view` that uses it twice linear, in a normal-form program.

    The rule must be a *composition*: `p(h) :- p(r), p(s), guards.` where column by column

      - the head's variables are different, each stands in its own column in r (a column *from the first*), in s (*from
        the second*) or in both (*common*), and nowhere else in r or s;
      - every other variable of r and s occurs at most once in each; one that occurs in both is a *joint*, in r in a
        column from the second and in s in a column from the first; one that occurs in one of them occurs nowhere else
        in the rule;
      - the guards, literals that do not use p, use only joints and common ones of these variables.

    Every other rule of p has no recursion (an *exit*), or is this rule with one of its two literals replaced by the
    body of an exit that copies a relation: such a rule is redundant and is removed.

    Law: p has the same rows. Write r∘s for the row that the rule derives from r and s, if it derives one. The
    conditions are: r[j] = s[i] for each joint, r[k] = s[k] for each common column, and guards over these values; NULL
    makes an equation false. Since (r∘s)[j] = s[j] in columns from the second, (s∘t)[i] = s[i] in columns from the
    first, and common columns of rows that compose are equal, (r∘s)∘t and r∘(s∘t) are defined under the same conditions,
    those of r∘s and s∘t, and are the same row: from r in columns from the first, from t in columns from the second. So
    ∘ is associative. p is the least set that contains the exit rows E and is closed under ∘: all products of rows of E,
    each equal to one bracketed to the left, (…(e1∘e2)∘…)∘en. These are the least solution of p = E ∪ p∘E, which the
    returned program computes. Functors that can fail occur in exits and guards only, and are evaluated for the same
    values: the joint of two products is one of a row of E with the next.
    """
    clauses = [clause for clause in program.clauses if clause.head.relation == view]
    try:
        composition, exits = _parts(view, clauses)
        first, second = _composition(view, composition)
    except NotLinear as refused:
        return Linearized(None, str(refused))
    made, schemas, name = _linear_clauses(program, view, composition, (first, second), exits)
    others = tuple(clause for clause in program.clauses if clause.head.relation != view)
    linear = stratified(program, (*others, *(retyped(clause, schemas) for clause in made)), schemas, by="linearize")
    return Linearized(linear, "a product of rows can be bracketed to the left, so one factor is an exit row", name)


def _linear_clauses(
    program: CheckedProgram, view: str, composition: Clause, uses: tuple[Atom, Atom], exits: Sequence[Clause]
) -> tuple[list[Clause], dict[str, Schema], str]:
    """The clauses of the view, all schemas, and the name of the view of exit rows; the name is empty if all exits copy
    relations, which are read instead."""
    first, second = uses
    guards = tuple(literal for literal in composition.body if literal not in uses)
    schemas = dict(program.schemas)
    if all(_copied(clause) for clause in exits):
        rounds = [replace(composition, body=(first, _renamed(clause, second), *guards)) for clause in exits]
        return [*exits, *rounds], schemas, ""
    name = fresh_name(f"{view}_exit", schemas)
    schemas[name] = Schema(name, schemas[view].columns, Role.VIEW)
    row, types = row_atom(schemas[view])
    made = [replace(clause, head=replace(clause.head, relation=name)) for clause in exits]
    made.append(Clause(row, (replace(row, relation=name),), types, composition.origin))
    made.append(replace(composition, body=(first, replace(second, relation=name), *guards)))
    return made, schemas, name


def _parts(view: str, clauses: Sequence[Clause]) -> tuple[Clause, list[Clause]]:
    """The composition and the exits."""
    uses = {id(clause): sum(atom.relation == view for _, atom, _ in atoms_of(clause)) for clause in clauses}
    twice = [clause for clause in clauses if uses[id(clause)] == 2]
    if any(count > 2 for count in uses.values()):
        raise NotLinear(f"a rule uses `{view}` more than twice")
    if not twice:
        raise NotLinear(f"no rule uses `{view}` twice")
    composition = twice[0]
    if any(not _same_rule(composition, clause) for clause in twice[1:]):
        raise NotLinear(f"two different rules use `{view}` twice")
    exits = [clause for clause in clauses if uses[id(clause)] == 0]
    if not exits:
        raise NotLinear(f"no rule of `{view}` does without it, so that it is empty")
    first, second = _composition(view, composition)
    for clause in clauses:
        if uses[id(clause)] == 1 and not any(
            _same_rule(clause, unfolded) for unfolded in _unfolded(composition, first, second, exits)
        ):
            raise NotLinear(f"a rule that uses `{view}` once is not the closure rule over an exit rule")
    return composition, exits


def _composition(view: str, clause: Clause) -> tuple[Atom, Atom]:
    """The two literals of a composition, in the order of the product."""
    uses = [literal for literal in clause.body if isinstance(literal, Atom) and literal.relation == view]
    if len(uses) != 2:
        raise NotLinear(f"`{view}` is negated in its own rule")
    reasons = []
    for first, second in (uses, uses[::-1]):
        try:
            _check_columns(view, clause, first, second)
            return first, second
        except NotLinear as refused:
            reasons.append(str(refused))
    raise NotLinear(reasons[0])


def _check_columns(view: str, clause: Clause, first: Atom, second: Atom) -> None:
    """See `linearize` for the conditions."""
    head = [term.name for term in clause.head.args if isinstance(term, Variable)]
    if len(set(head)) != len(clause.head.args):
        raise NotLinear(f"the head of the rule that uses `{view}` twice is not made of different variables")
    one, two = _columns(view, first), _columns(view, second)
    for column, name in enumerate(head):
        places = (one.get(name), two.get(name))
        if places not in ((column, None), (None, column), (column, column)):
            raise NotLinear(f"`{name}` does not stay in its column of `{view}`")
    joints = [name for name in one if name in two and name not in head]
    for name in joints:
        # The column of a joint in one literal must be one that the head takes from the other.
        if head[one[name]] in one or head[two[name]] in two:
            raise NotLinear(f"`{name}` joins columns of `{view}` that the head keeps")
    common = {name for name in head if name in one and name in two}
    allowed = common.union(joints)
    speaking = set(one) | set(two)
    for literal in clause.body:
        if literal is not first and literal is not second:
            wrong = [name for name in variables(literal) if name in speaking and name not in allowed]
            if wrong:
                raise NotLinear(f"a condition on `{wrong[0]}`, which is not what the two literals of `{view}` meet in")


def _columns(view: str, atom: Atom) -> dict[str, int]:
    """The column of each variable of a literal."""
    places: dict[str, int] = {}
    for column, term in enumerate(atom.args):
        match term:
            case Variable(name) if name not in places:
                places[name] = column
            case Variable(name):
                raise NotLinear(f"`{name}` stands twice in a literal of `{view}`")
            case Wildcard():
                pass
            case _:
                raise NotLinear(f"a literal of `{view}` in its own rule holds a constant")
    return places


# ---- exits ----------------------------------------------------------------------------------------------------


def _copied(clause: Clause) -> bool:
    """Test whether the exit copies one relation, perhaps with permuted columns."""
    match clause.body:
        case (Atom(_, args),):
            names, heads = ({t.name for t in terms if isinstance(t, Variable)} for terms in (args, clause.head.args))
            return names == heads and len(names) == len(args) == len(clause.head.args)
        case _:
            return False


def _renamed(exit: Clause, literal: Atom) -> Atom:
    """The literal of the view as one of the relation that the exit copies."""
    (source,) = exit.body
    assert isinstance(source, Atom)
    arguments = dict(zip((t.name for t in exit.head.args if isinstance(t, Variable)), literal.args, strict=True))
    return replace(source, args=tuple(arguments[t.name] for t in source.args if isinstance(t, Variable)))


def _unfolded(composition: Clause, first: Atom, second: Atom, exits: Sequence[Clause]) -> Iterator[Clause]:
    """The composition with one of its two literals replaced by the relation that an exit copies."""
    for clause in exits:
        if _copied(clause):
            for literal in (first, second):
                body = tuple(_renamed(clause, each) if each is literal else each for each in composition.body)
                yield replace(composition, body=body)


# ---- rules that differ in names and order only ------------------------------------------------------------------


def _same_rule(one: Clause, other: Clause) -> bool:
    """Test whether the rules are equal up to the names of variables and the order of literals."""
    if len(one.body) != len(other.body) or len(one.body) > _LONGEST:
        return False
    left, right = _anonymous(one), _anonymous(other)
    return any(_agree((left.head, *left.body), (right.head, *order)) for order in permutations(right.body))


def _anonymous(clause: Clause) -> Clause:
    """The clause with a wildcard for each variable of a positive literal that occurs once."""
    count: dict[str, int] = {}
    for literal in (clause.head, *clause.body):
        for variable in occurrences(literal):
            count[variable.name] = count.get(variable.name, 0) + 1
    body = tuple(
        replace(literal, args=tuple(_once(term, count) for term in literal.args))
        if isinstance(literal, Atom)
        else literal
        for literal in clause.body
    )
    return replace(clause, body=body)


def _once(term: Term, count: Mapping[str, int]) -> Term:
    return Wildcard() if isinstance(term, Variable) and count[term.name] == 1 else term


def _agree(left: Sequence[Literal], right: Sequence[Literal]) -> bool:
    names: dict[str, str] = {}
    pairs = (pair for one, other in zip(left, right, strict=True) for pair in _pairs(one, other))
    for one, other in pairs:
        match one, other:
            case Variable(a), Variable(b):
                if names.setdefault(a, b) != b:
                    return False
            case _:
                if one != other:
                    return False
    return len(set(names.values())) == len(names)


def _pairs(one: object, other: object) -> Iterator[tuple[object, object]]:
    """Corresponding terms of two literals; if the literals differ in kind, a pair that cannot be equal."""
    match one, other:
        case (Atom(a, xs), Atom(b, ys)) | (Test(a, xs), Test(b, ys)) | (Call(a, xs), Call(b, ys)):
            if a != b or len(xs) != len(ys):
                yield a, None
            for x, y in zip(xs, ys, strict=False):
                yield from _pairs(x, y)
        case Comparison(a, x1, x2), Comparison(b, y1, y2):
            yield a, b
            yield from _pairs(x1, y1)
            yield from _pairs(x2, y2)
        case Not(x), Not(y):
            yield from _pairs(x, y)
        case _:
            yield one, other
