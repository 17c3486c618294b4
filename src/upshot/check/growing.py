"""Rewrite counts and sums that can only grow in their own recursion as rules over `max` columns.

    gone(X) :- degree(X, D), count : { edge(X, Y), gone(Y) } > D - 3.

More rows of `gone` increase the count, and a greater count derives more rows of `gone`: there is one least fixpoint,
as for every monotone rule. The possible members of the count are complete before the recursion, here the rows of
`edge`. They are ordered in a line, and a running value passes along it and increases at each member that is present.
The greatest value is the count.

    present(X, S) :- degree(X, D), edge(X, Y), gone(Y), S = sort_key(Y).
    line(X, S, T) :- …                                         each member of the line and its successor
    along(X, S, 1) :- present(X, S), first(X, S).              and 0 if the first member is not present
    along(X, T, C + 1) :- along(X, S, C), line(X, S, T), present(X, T).
    along(X, T, C) :- along(X, S, C), line(X, S, T).
    grown(X, C) :- along(X, _, C).
    grown(X, 0) :- degree(X, D).
    gone(X) :- degree(X, D), grown(X, C), C > D - 3.

Deletions are exact, as for shortest paths.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from upshot.check.clause.clause_form import aggregate_bodies, is_aggregate, with_bodies, with_named_wildcards
from upshot.check.clause.clauses import ClauseMaker
from upshot.check.findings import Findings
from upshot.check.lattices import check_monotone
from upshot.check.names.variables import all_names, atoms, fresh_name, occurrences, variables
from upshot.check.program import Clause, Literal
from upshot.check.strata import needs, order
from upshot.core.schema import Column, Lattice, Role, Schema
from upshot.core.span import Span
from upshot.core.types import Kind, Type
from upshot.syntax import print_term
from upshot.syntax.ast import Aggregate, And, Atom, Call, Comparison, Constant, Formula, Not, Term, Variable, Wildcard

_SYMBOL = Type(Kind.SYMBOL)
_END = "N"
"""The value of `window_value` for the last line; no sort key is this text."""


@dataclass(slots=True)
class Grown:
    """The clauses after rewriting counts and sums: `schemas` of the new relations, `parts` the views that they belong
    to, `heads` the views whose clauses have changed. `reasons`: why an aggregate was not rewritten, by the place of the
    literal that makes it recursive."""

    clauses: list[Clause]
    schemas: dict[str, Schema] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    reasons: dict[int, tuple[Span | None, str]] = field(default_factory=dict)

    @property
    def heads(self) -> frozenset[str]:
        return frozenset((*self.parts, *self.parts.values()))


def growing(clauses: Iterable[Clause], maker: ClauseMaker, schemas: dict[str, Schema]) -> Grown:
    """Rewrite the recursive counts and sums that can only grow, and add the new relations to `schemas`; `maker` has all
    others."""
    grown = Grown(list(clauses))
    if not any(_folds(literal) for clause in grown.clauses for literal in clause.body):
        return grown
    own = _components(grown.clauses, maker.schemas)
    done: list[Clause] = []
    maker = replace(maker, schemas=dict(maker.schemas))
    waiting = list(reversed(grown.clauses))
    while waiting:
        clause = waiting.pop()
        found = _recursive_aggregate(clause, own.get(clause.head.relation, frozenset()))
        work = None if found is None else _Growth.of(clause, found, own[clause.head.relation], maker, grown)
        if work is None:
            done.append(clause)
        else:
            waiting += reversed(work)
    grown.clauses = done
    schemas.update(grown.schemas)
    return grown


def _components(clauses: Iterable[Clause], schemas: Mapping[str, Schema]) -> dict[str, frozenset[str]]:
    found = [need for clause in clauses for need in needs(clause.head.relation, clause.body)]
    return {view: frozenset(views) for views in order(list(schemas), found) for view in views}


def _recursive_aggregate(clause: Clause, own: Collection[str]) -> int | None:
    """The position of the first count or sum over a relation that depends on the head."""
    for place, literal in enumerate(clause.body):
        if _folds(literal) and _is_recursive(literal, own):
            return place
    return None


def _folds(literal: Literal) -> bool:
    aggregate = literal.right if isinstance(literal, Comparison) else None
    return isinstance(aggregate, Aggregate) and aggregate.function in ("count", "sum")


class _CannotGrowError(Exception):
    """The reason why an aggregate cannot be rewritten."""


@dataclass(slots=True)
class _Growth:
    """One aggregate of one clause: its `value`, `group` and `members`, and the literals around it."""

    clause: Clause
    own: Collection[str]
    maker: ClauseMaker
    grown: Grown
    value: Variable
    aggregate: Aggregate
    types: dict[str, Type]
    around: tuple[Literal, ...] = ()
    """The literals of the clause that do not use the value: they bind the group."""
    group: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    known: tuple[Formula, ...] = ()
    """The literals of the aggregate over relations outside of the recursion: they bind all members."""

    @staticmethod
    def of(clause: Clause, place: int, own: Collection[str], maker: ClauseMaker, grown: Grown) -> list[Clause] | None:
        literal = clause.body[place]
        assert isinstance(literal, Comparison)
        assert isinstance(literal.right, Aggregate)
        try:
            if not isinstance(literal.left, Variable):
                raise _CannotGrowError("its value is compared with `=`")
            made = _Growth(
                clause,
                own,
                maker,
                grown,
                literal.left,
                literal.right,
                dict(clause.types),
            )
            made._settle(place)
            return made._clauses(place)
        except _CannotGrowError as error:
            inside = [a for a in atoms(literal.right.body) if a.relation in own and a.span is not None]
            grown.reasons.update({a.span.start: (literal.right.span or a.span, str(error)) for a in inside if a.span})
            return None

    # ---- conditions -----------------------------------------------------------------------------

    def _settle(self, place: int) -> None:
        bodies = aggregate_bodies(self.aggregate)
        if len(bodies) != 1:
            raise _CannotGrowError("its body has alternatives: define a relation for them")
        taken = {*all_names([self.clause.head, *self.clause.body])}
        (body,) = with_named_wildcards(bodies, taken)
        self._name_types(body)
        self.aggregate = with_bodies(self.aggregate, self.aggregate.target, [body])
        for literal in body:
            inside = [a.relation for a in atoms(literal) if a.relation in self.own]
            if inside and not isinstance(literal, Atom):
                word = "negation" if isinstance(literal, Not) else "another aggregate"
                raise _CannotGrowError(f"`{inside[0]}` is read through {word}")
        outside = {v.name for each in (self.clause.head, *_others(self.clause.body, place)) for v in occurrences(each)}
        names = variables(self.aggregate)
        self.group = tuple(name for name in names if name in outside)
        self.members = tuple(name for name in names if name not in outside)
        self.around = _without(self.clause.body, self.own, self.group)
        self.known = _complete(body, self.own)
        bound = {v.name for each in self.known for v in occurrences(each)}
        for name in self.members:
            if name not in bound:
                raise _CannotGrowError(
                    f"no literal outside of the recursion has `{name}`, so its values are not known before"
                )
        for name in (*self.group, *self.members):
            if self.types[name].nullable:
                raise _CannotGrowError(f"`{name}` can be NULL")
            if self.types[name].kind is Kind.RECORD and name in self.members:
                raise _CannotGrowError(f"`{name}` is a record, which has no order")
        if not self.members:
            raise _CannotGrowError("it has no variable of its own")
        self._check_sum(body)

    def _name_types(self, body: Sequence[Formula]) -> None:
        for atom in (each for each in body if isinstance(each, Atom)):
            for term, column in zip(atom.args, self.maker.schemas[atom.relation].columns, strict=True):
                if isinstance(term, Variable):
                    self.types.setdefault(term.name, column.type)

    def _check_sum(self, body: Sequence[Formula]) -> None:
        target = self.aggregate.target
        if self.aggregate.function == "count" or target is None:
            return
        kind = self.types[self.value.name].kind
        if kind is Kind.FLOAT:
            raise _CannotGrowError("floats have no exact sum step by step: use integers or decimals")
        never_negative = kind is Kind.UNSIGNED or any(_is_bound_below(each, target) for each in body)
        if not (never_negative or (isinstance(target, Constant) and _is_natural(target))):
            raise _CannotGrowError(
                f"`{print_term(target)}` may be negative, and then a further row makes the sum smaller: declare it "
                f"`unsigned`, or write `{print_term(target)} >= 0` in the body"
            )

    # ---- the rules ------------------------------------------------------------------------------

    def _clauses(self, place: int) -> list[Clause]:
        names = {word: self._name(word) for word in ("members", "lines", "next", "first", "present", "along", "total")}
        shapes = self._shapes(names)
        total = Atom(names["total"], (*map(Variable, self.group), self.value), span=self.aggregate.span)
        body = (*self.clause.body[:place], total, *self.clause.body[place + 1 :])
        changed = replace(self.clause, body=body, types=self.types)
        self._check_use(changed, shapes[names["total"]])
        maker = replace(self.maker, schemas={**self.maker.schemas, **shapes}, findings=Findings())
        made = [
            inferred.clause
            for head, literals in self._rules(names)
            for inferred in maker.rule((head,), And(tuple(literals)), self.clause.origin)
        ]
        if maker.findings.errors:
            raise _CannotGrowError("the literals outside of it do not bind its group")
        self.grown.schemas.update(shapes)
        assert isinstance(self.maker.schemas, dict)
        self.maker.schemas.update(shapes)
        self.grown.parts.update(dict.fromkeys(shapes, self.clause.head.relation))
        return [changed, *made]

    def _name(self, word: str) -> str:
        return fresh_name(f"{self.clause.head.relation}_{word}", self.maker.schemas)

    def _shapes(self, names: Mapping[str, str]) -> dict[str, Schema]:
        """The schemas of the new relations."""
        group = [Column(name, self.types[name]) for name in self.group]
        near = [Column(name, self.types[name]) for name in self._near]
        key, value = Column("member", _SYMBOL), Column("value", self.types[self.value.name])
        shapes = {
            "members": [*near, key],
            "lines": [*near, Column("lines", _SYMBOL)],
            "next": [*near, key, Column("following", _SYMBOL)],
            "first": [*near, key],
            "present": [*group, key, value],
            "along": [*group, key, value],
            "total": [*group, value],
        }
        best = {"along": Lattice(len(group) + 1, "max"), "total": Lattice(len(group), "max")}
        return {
            names[word]: Schema(
                names[word], _distinct(columns), Role.VIEW, span=self.clause.origin, lattice=best.get(word)
            )
            for word, columns in shapes.items()
        }

    @property
    def _near(self) -> tuple[str, ...]:
        """The variables of the group that the members depend on."""
        bound = {v.name for each in self.known for v in occurrences(each)}
        return tuple(name for name in self.group if name in bound)

    def _rules(self, names: Mapping[str, str]) -> Iterator[tuple[Atom, Sequence[Formula]]]:
        group, near = [Variable(each) for each in self.group], [Variable(each) for each in self._near]
        taken = {*self.types, *all_names([self.clause.head, *self.clause.body, self.aggregate.body])}
        one, other, lines, so_far, more = _fresh(taken, "S", "T", "Q", "C", "W")
        keys: list[Term] = [Call("sort_key", (Variable(each),)) for each in self.members]
        key = Comparison("=", one, reduce(_joined, keys))
        (body,) = aggregate_bodies(self.aggregate)
        target = Constant(1) if self.aggregate.function == "count" else self.aggregate.target
        assert target is not None

        def atom(word: str, *terms: Term) -> Atom:
            return Atom(names[word], terms)

        yield atom("members", *near, one), [*self.known, key]
        all_of = Aggregate("sequence", other, atom("members", *near, other))
        yield atom("lines", *near, lines), [atom("members", *near, Wildcard()), Comparison("=", lines, all_of)]
        following = Call("window_value", (lines, one, Constant("lead symbol 1")))
        yield atom("next", *near, one, other), [
            atom("members", *near, one), atom("lines", *near, lines), Comparison("=", other, following),
            Comparison("!=", other, Constant(_END)),
        ]  # fmt: skip
        least = Aggregate("min", other, atom("members", *near, other))
        yield atom("first", *near, one), [atom("members", *near, Wildcard()), Comparison("=", one, least)]
        yield atom("present", *group, one, target), [*self.around, *body, key]
        first = atom("first", *near, one)
        yield atom("along", *group, one, Constant(0)), [atom("present", *group, Wildcard(), Wildcard()), first]
        yield atom("along", *group, one, more), [atom("present", *group, one, more), first]
        step = [atom("along", *group, one, so_far), atom("next", *near, one, other)]
        yield atom("along", *group, other, so_far), step
        longer = Call("+", (so_far, more))
        yield atom("along", *group, other, longer), [*step, atom("present", *group, other, more)]
        yield atom("total", *group, so_far), [atom("along", *group, Wildcard(), so_far)]
        yield atom("total", *group, Constant(0)), list(self.around)

    def _check_use(self, changed: Clause, total: Schema) -> None:
        """Reject an aggregate whose greater value could remove rows."""
        scratch = Findings()
        schemas = {**self.maker.schemas, total.name: total}
        check_monotone(schemas, [changed], [[changed.head.relation, total.name]], scratch)
        if scratch.errors:
            raise _CannotGrowError(self._why(scratch.errors[0].message, total))

    def _why(self, message: str, total: Schema) -> str:
        """The message in terms of the aggregate, not of the column and the variable that replace it."""
        lifted = re.fullmatch(rf"{self.aggregate.function}(_\d+)?", self.value.name) is not None
        for name, word in (
            (f" in `{total.name}`, which keeps the greatest `{total.columns[-1].name}`", ""),
            ("a better value", "a greater value"),
            ("`min` or `max`", "`max`"),
            (self.value.name, f"{self.aggregate.function} : {{ … }}" if lifted else self.value.name),
        ):
            message = message.replace(name, word)
        return message


def _complete(body: Sequence[Formula], own: Collection[str]) -> tuple[Formula, ...]:
    """The literals outside of the recursion whose variables these literals bind."""
    outside = [each for each in body if not any(atom.relation in own for atom in atoms(each))]
    bound = {v.name for each in outside if isinstance(each, Atom) for v in occurrences(each)}
    kept = {place for place, each in enumerate(outside) if isinstance(each, Atom)}
    grew = True
    while grew:
        grew = False
        for place, each in enumerate(outside):
            names = {v.name for v in occurrences(each)}
            value = (
                each.left.name
                if isinstance(each, Comparison) and each.op == "=" and isinstance(each.left, Variable)
                else ""
            )
            if place not in kept and names - {value} <= bound:
                kept.add(place)
                bound |= names
                grew = True
    return tuple(each for place, each in enumerate(outside) if place in kept)


def _is_bound_below(literal: Formula, target: Term) -> bool:
    """Test whether the literal implies that the term is not negative."""
    if not isinstance(literal, Comparison):
        return False
    least = {">": literal.right, ">=": literal.right, "<": literal.left, "<=": literal.left}.get(literal.op)
    other = literal.left if literal.op in (">", ">=") else literal.right
    return isinstance(least, Constant) and other == target and _is_natural(least)


def _is_natural(term: Constant) -> bool:
    return not isinstance(term.value, str | bool | bytes) and term.value is not None and term.value >= 0


def _without(body: Sequence[Literal], own: Collection[str], group: Collection[str]) -> tuple[Literal, ...]:
    """The literals that use no value of a recursive aggregate."""
    left = list(body)
    needed: set[str] = set()
    while True:
        gone = [each for each in left if _is_recursive(each, own) or needed & {v.name for v in occurrences(each)}]
        if not gone:
            return tuple(_without_unused(left, group))
        left = [each for each in left if each not in gone]
        needed |= {each.left.name for each in gone if isinstance(each, Comparison) and isinstance(each.left, Variable)}


def _without_unused(body: Sequence[Literal], group: Collection[str]) -> Iterator[Literal]:
    """The literals without aggregates whose values no literal uses."""
    for each in body:
        names = {v.name for other in body if other is not each for v in occurrences(other)} | set(group)
        if not is_aggregate(each) or names & {v.name for v in occurrences(each.left)}:  # type: ignore[union-attr]
            yield each


def _is_recursive(literal: Literal, own: Collection[str]) -> bool:
    """Test whether the literal is an aggregate over a relation of the recursion."""
    return is_aggregate(literal) and any(atom.relation in own for atom in atoms(literal))


def _others(body: Sequence[Literal], place: int) -> Iterator[Literal]:
    yield from (each for number, each in enumerate(body) if number != place)


def _joined(left: Term, right: Term) -> Term:
    return Call("cat", (left, right))


def _fresh(taken: set[str], *bases: str) -> Iterator[Variable]:
    for base in bases:
        name = fresh_name(base, taken)
        taken.add(name)
        yield Variable(name)


def _distinct(columns: Iterable[Column]) -> tuple[Column, ...]:
    taken: set[str] = set()
    found = []
    for column in columns:
        name = fresh_name(column.name.lower(), taken)
        taken.add(name)
        found.append(Column(name, column.type))
    return tuple(found)
