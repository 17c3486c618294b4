"""Conditions over several states as clauses over one: `inserted r`, `deleted r` and `updated r` are tables of a rule's
window, and `old r` is what r holds now, without the rows that came, with those that went.

A positive `old r(X)` becomes two alternatives. A negated one without `_` is unfolded: a row was not there if it is not
there now or has come, and has not gone. A negated one with `_`, and any in an aggregate, reads a relation of its own
that holds the old rows, no more of them than the positive literals around ask for.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from upshot.check.clause.clause_form import Conjunction, RawLiteral
from upshot.check.clause.clauses import ClauseMaker
from upshot.check.names.variables import fresh_name, occurrences
from upshot.check.program import Clause, WindowTable
from upshot.core.operations import DELETED, INSERTED, UPDATED
from upshot.core.schema import Column, Role, Schema
from upshot.core.span import Span
from upshot.syntax.ast import (
    Aggregate,
    And,
    Atom,
    Call,
    Comparison,
    Constant,
    Formula,
    Not,
    Or,
    Term,
    Test,
    Variable,
    Wildcard,
)

_NARROWER = {"": ("old", INSERTED), "old": ("", DELETED)}
"""For the state of a literal: the state in which its rows are denied, and the table that they are in then."""

_MOST_NULLABLE = 4
"""Columns of an `old` literal that can be NULL: each doubles its alternatives."""


class States:
    """The tables of one rule's window, and the relations that its clauses define for themselves."""

    def __init__(self, maker: ClauseMaker, taken: Iterable[str], origin: Span | None) -> None:
        self.schemas: ChainMap[str, Schema] = ChainMap({}, maker.schemas)  # type: ignore[arg-type]
        self.maker = replace(maker, schemas=self.schemas)
        self.windows: dict[tuple[str, str], WindowTable] = {}
        self.helpers: dict[str, Schema] = {}
        self._clauses: list[Clause] = []
        self._taken = set(taken)
        self._origin = origin

    def take_clauses(self) -> tuple[Clause, ...]:
        """The clauses of the helpers made since the last call."""
        found = tuple(self._clauses)
        self._clauses.clear()
        return found

    def body(self, conjunction: Conjunction) -> Formula:
        """The conjunction over the current state, the window's tables and helpers."""
        narrowed = tuple(self._narrowed(literal, conjunction) for literal in conjunction)
        return And(tuple(self._literal(literal, narrowed) for literal in narrowed))

    def _narrowed(self, literal: RawLiteral, around: Conjunction) -> RawLiteral:
        """A row that is there and matches nothing of before has come, and one of before that matches nothing now has
        gone: `r(X, Y), !old r(X, _)` looks at inserted rows only, `old r(X, Y), !r(X, _)` at deleted ones. Without `_`
        the unfolding comes to the same."""
        if not isinstance(literal, Atom) or literal.state not in _NARROWER:
            return literal
        other, operation = _NARROWER[literal.state]
        denied = (each.body for each in around if isinstance(each, Not) and isinstance(each.body, Atom))
        if any(atom.state == other and self._is_among(literal, atom) for atom in denied):
            return replace(literal, state=operation)
        return literal

    def _is_among(self, atom: Atom, wider: Atom) -> bool:
        """Test whether each row that the atom matches is matched by the other. NULL matches nothing but `_`."""
        if atom.relation != wider.relation or not any(isinstance(term, Wildcard) for term in wider.args):
            return False
        columns = self.schemas[atom.relation].columns
        return all(
            isinstance(there, Wildcard)
            or (there == term and isinstance(term, Variable | Constant) and not column.type.nullable)
            for term, there, column in zip(atom.args, wider.args, columns, strict=True)
        )

    def window(self, relation: str, operation: str) -> str:
        """The name of the table with the rows that were `inserted` or `deleted`, or pairs of rows `updated`."""
        table = self.windows.get((relation, operation))
        if table is None:
            name = fresh_name(f"{relation}_{operation}", self.schemas)
            of = self.schemas[relation]
            key, columns = (of.keys[0], _pair(of)) if operation == UPDATED else ((), of.columns)
            schema = replace(of, name=name, columns=columns, role=Role.BASE, keys=())
            self.schemas[name] = schema
            table = self.windows[relation, operation] = WindowTable(schema, relation, operation, key)
        return table.schema.name

    def changed(self, relations: Iterable[str]) -> Atom:
        """A relation without columns that holds if one of the relations changed in the window."""
        head = Atom(fresh_name("changed", self.schemas), ())
        self._add(Schema(head.relation, (), Role.VIEW))
        for relation in relations:
            anything = tuple(Wildcard() for _ in self.schemas[relation].columns)
            for operation in (INSERTED, DELETED):
                self._define(head, Atom(self.window(relation, operation), anything))
        return head

    # ---- literals -----------------------------------------------------------------------------

    def _literal(self, literal: RawLiteral, around: Conjunction) -> Formula:
        inner = literal.body if isinstance(literal, Not) else literal
        moved = map_aggregates(inner, lambda atom: self._in_aggregate(atom, around))
        if not isinstance(moved, Atom):
            return Not(moved, span=literal.span) if isinstance(literal, Not) else moved
        if moved.state == "old":
            return self._never_old(moved, around) if isinstance(literal, Not) else self._old(moved)
        atom = self._current(moved)
        return Not(atom, span=literal.span) if isinstance(literal, Not) else atom

    def _current(self, atom: Atom) -> Atom:
        """An atom of the current state or of the window."""
        if not atom.state:
            return atom
        return Atom(self.window(atom.relation, atom.state), atom.args, span=atom.span)

    def _in_aggregate(self, atom: Atom, around: Conjunction) -> Atom:
        return self._old_rows(atom, around) if atom.state == "old" else self._current(atom)

    def _never_old(self, atom: Atom, around: Conjunction) -> Formula:
        if any(isinstance(term, Wildcard) for term in atom.args):
            return Not(self._old_rows(atom, around), span=atom.span)
        now, came, went = self._three(atom, atom.args)
        return And((Or((Not(now), came)), Not(went)))

    def _three(self, atom: Atom, args: tuple[Term, ...]) -> tuple[Atom, Atom, Atom]:
        """The atom now, among the rows that came, and among those that went."""
        names = (atom.relation, self.window(atom.relation, INSERTED), self.window(atom.relation, DELETED))
        now, came, went = (Atom(name, args, span=atom.span) for name in names)
        return now, came, went

    def _old(self, atom: Atom) -> Formula:
        """`(r(X), !r_inserted(X)) ; r_deleted(X)`. A negated literal holds for NULL, so rows with NULL in them are told
        apart from the inserted ones by the columns that are not NULL."""
        args = tuple(self.variable("Any") if isinstance(t, Wildcard) else t for t in atom.args)
        now, came, _ = self._three(atom, args)
        went = Atom(self.window(atom.relation, DELETED), atom.args, span=atom.span)
        columns = self.schemas[atom.relation].columns
        optional = [i for i, t in enumerate(args) if columns[i].type.nullable and isinstance(t, Variable)]
        if len(optional) > _MOST_NULLABLE:
            self._too_many(atom)
            return went
        parts: list[Formula] = []
        for count in range(len(optional) + 1):
            for nulls in combinations(optional, count):
                tests = [_is_null(args[i], i in nulls) for i in optional]
                parts.append(And((now, *tests, Not(self._with_nulls(came, nulls)))))
        return Or((*parts, went))

    def _with_nulls(self, came: Atom, nulls: Sequence[int]) -> Atom:
        """The inserted rows that are NULL in these columns, as a relation of the others."""
        if not nulls:
            return came
        columns = self.schemas[came.relation].columns
        kept = [i for i in range(len(columns)) if i not in nulls]
        name = fresh_name(f"{came.relation}_null", self.schemas)
        self._add(Schema(name, tuple(columns[i] for i in kept), Role.VIEW))
        row = tuple(Variable(f"X{i + 1}") for i in range(len(columns)))
        head = Atom(name, tuple(row[i] for i in kept))
        self._define(head, And((Atom(came.relation, row), *(_is_null(row[i], True) for i in nulls))))
        return Atom(name, tuple(came.args[i] for i in kept), span=came.span)

    # ---- relations of old rows ------------------------------------------------------------------

    def _old_rows(self, atom: Atom, around: Conjunction) -> Atom:
        """The atom over a relation that holds the old rows which the literals around ask for."""
        args = tuple(t if isinstance(t, Variable | Constant) else self.variable("Any") for t in atom.args)
        name = self.helper(f"{atom.relation}_old", atom.relation)
        guards = self._guards({v.name for t in args for v in occurrences(t)}, atom, around)
        self._define(Atom(name, args, span=atom.span), And((*guards, self._old(replace(atom, args=args)))))
        return Atom(name, atom.args, span=atom.span)

    def _guards(self, names: set[str], atom: Atom, around: Conjunction) -> list[Formula]:
        """The positive literals that are tied to these variables, directly or through each other."""
        waiting = [
            literal
            for literal in around
            if isinstance(literal, Atom)
            and literal is not atom
            and literal.state != "old"
            and not any(isinstance(t, Call | Aggregate) for t in literal.args)
        ]
        found: list[Formula] = []
        reached = set(names)
        while tied := [each for each in waiting if not reached.isdisjoint(v.name for v in occurrences(each))]:
            for each in tied:
                found.append(self._current(each))
                reached.update(v.name for v in occurrences(each))
            waiting = [each for each in waiting if each not in tied]
        return found

    def helper(self, wish: str, like: str) -> str:
        """The name of a new relation with the columns of another; its clauses follow."""
        columns = tuple(Column(c.name, c.type) for c in self.schemas[like].columns)
        name = fresh_name(wish, self.schemas)
        self._add(Schema(name, columns, Role.VIEW))
        return name

    def define(self, clause: Clause) -> None:
        """Adds a clause of a helper."""
        self._clauses.append(clause)

    def _add(self, schema: Schema) -> None:
        self.schemas[schema.name] = schema
        self.helpers[schema.name] = schema

    def _define(self, head: Atom, body: Formula) -> None:
        self._clauses += [made.clause for made in self.maker.rule((head,), body, self._origin)]

    def variable(self, base: str) -> Variable:
        name = fresh_name(base, self._taken)
        self._taken.add(name)
        return Variable(name)

    def _too_many(self, atom: Atom) -> None:
        self.maker.findings.error(
            "too-many-alternatives",
            f"`old {atom.relation}` has more than {_MOST_NULLABLE} columns that can be NULL",
            atom.span,
            label="each nullable column doubles the cases",
            help="use a view with fewer columns, or make the columns not nullable",
        )


def _pair(schema: Schema) -> tuple[Column, ...]:
    """The columns of a row before and after an update."""
    return tuple(replace(each, name=f"{age}_{each.name}") for age in ("old", "new") for each in schema.columns)


def _is_null(term: Term, yes: bool) -> Formula:
    test = Test("is_null", (term,))
    return test if yes else Not(test)


def as_old(formula: Formula) -> Formula:
    """The formula with every literal read in the state before the window."""
    return map_atoms(formula, lambda atom: replace(atom, state=atom.state or "old"))


def map_atoms(formula: Formula, change: Callable[[Atom], Formula]) -> Formula:
    """The formula with every atom changed, those in aggregates too."""
    match formula:
        case Atom():
            return change(replace(formula, args=_map_terms(formula.args, change)))
        case Not():
            return replace(formula, body=map_atoms(formula.body, change))
        case And() | Or():
            return replace(formula, parts=tuple(map_atoms(part, change) for part in formula.parts))
        case _:
            return map_aggregates(formula, change)


def map_aggregates(literal: Formula, change: Callable[[Atom], Formula]) -> Formula:
    """The literal with the atoms in its aggregates changed."""
    match literal:
        case Atom() | Test():
            return replace(literal, args=_map_terms(literal.args, change))
        case Comparison():
            left, right = _map_terms((literal.left, literal.right), change)
            return replace(literal, left=left, right=right)
        case _:
            raise TypeError(f"not a literal: {literal!r}")


def _map_terms(terms: tuple[Term, ...], change: Callable[[Atom], Formula]) -> tuple[Term, ...]:
    return tuple(_map_term(term, change) for term in terms)


def _map_term(term: Term, change: Callable[[Atom], Formula]) -> Term:
    match term:
        case Call():
            return replace(term, args=_map_terms(term.args, change))
        case Aggregate():
            target = None if term.target is None else _map_term(term.target, change)
            return replace(term, target=target, body=map_atoms(term.body, change))
        case _:
            return term
