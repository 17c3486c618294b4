"""Translate conditions over several states into clauses over one: `inserted r`, `deleted r` and `updated r` are tables
of a rule's window, and `old r` is the current `r` without the inserted rows and with the deleted ones.

A positive `old r(X)` becomes two alternatives. A negated one without `_` is unfolded: a row is not old if it is absent
now or inserted, and not deleted. A negated one with `_`, and any in an aggregate, reads a relation of old rows, which
the positive literals around restrict.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from upshot.check.clause.clause_form import Conjunction, RawLiteral, with_terms
from upshot.check.clause.clauses import ClauseMaker
from upshot.check.names.variables import fresh_name, occurrences, terms_of
from upshot.check.program import Clause, WindowTable
from upshot.core.operations import DELETED, INSERTED, UPDATED
from upshot.core.schema import Column, Role, Schema
from upshot.core.span import Span
from upshot.syntax.ast import Aggregate, And, Atom, Call, Constant, Formula, Not, Or, Term, Test, Variable, Wildcard
from upshot.syntax.rebuild import map_atoms

_NARROWER = {"": ("old", INSERTED), "old": ("", DELETED)}
"""For the state of a literal: the state of a negated literal that excludes its rows, and the window table of the rows
that remain."""

_MOST_NULLABLE = 4
"""The most nullable columns of an `old` literal: each doubles its alternatives."""


class States:
    """The tables of the window of one rule, and the helper relations of its clauses."""

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
        """The conjunction over the current state, the tables of the window and helpers."""
        narrowed = tuple(self._narrowed(literal, conjunction) for literal in conjunction)
        return And(tuple(self._literal(literal, narrowed) for literal in narrowed))

    def _narrowed(self, literal: RawLiteral, around: Conjunction) -> RawLiteral:
        """Read a window table instead, if a negated literal excludes all other rows: `r(X, Y), !old r(X, _)` reads
        inserted rows only, `old r(X, Y), !r(X, _)` deleted ones. Without `_` the unfolding has the same effect."""
        if not isinstance(literal, Atom) or literal.state not in _NARROWER:
            return literal
        other, operation = _NARROWER[literal.state]
        denied = (each.body for each in around if isinstance(each, Not) and isinstance(each.body, Atom))
        if any(atom.state == other and self._is_among(literal, atom) for atom in denied):
            return replace(literal, state=operation)
        return literal

    def _is_among(self, atom: Atom, wider: Atom) -> bool:
        """Test whether the other atom matches every row that this one matches. NULL matches only `_`."""
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
        terms = map_atoms(terms_of(inner), lambda atom: self._in_aggregate(atom, around))
        moved = with_terms(inner, terms)
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
        current, inserted, deleted = self._three(atom, atom.args)
        return And((Or((Not(current), inserted)), Not(deleted)))

    def _three(self, atom: Atom, args: tuple[Term, ...]) -> tuple[Atom, Atom, Atom]:
        """The atom over the current, the inserted and the deleted rows."""
        names = (atom.relation, self.window(atom.relation, INSERTED), self.window(atom.relation, DELETED))
        current, inserted, deleted = (Atom(name, args, span=atom.span) for name in names)
        return current, inserted, deleted

    def _old(self, atom: Atom) -> Formula:
        """`(r(X), !r_inserted(X)) ; r_deleted(X)`. A negated literal with NULL always holds, so rows with NULL are
        compared with the inserted ones by their other columns."""
        args = tuple(self.variable("Any") if isinstance(t, Wildcard) else t for t in atom.args)
        current, inserted, _ = self._three(atom, args)
        deleted = Atom(self.window(atom.relation, DELETED), atom.args, span=atom.span)
        columns = self.schemas[atom.relation].columns
        optional = [i for i, t in enumerate(args) if columns[i].type.nullable and isinstance(t, Variable)]
        if len(optional) > _MOST_NULLABLE:
            self._too_many(atom)
            return deleted
        parts: list[Formula] = []
        for count in range(len(optional) + 1):
            for nulls in combinations(optional, count):
                tests = [_is_null(args[i], i in nulls) for i in optional]
                parts.append(And((current, *tests, Not(self._with_nulls(inserted, nulls)))))
        return Or((*parts, deleted))

    def _with_nulls(self, inserted: Atom, nulls: Sequence[int]) -> Atom:
        """The other columns of the inserted rows that are NULL in these columns, as a relation."""
        if not nulls:
            return inserted
        columns = self.schemas[inserted.relation].columns
        kept = [i for i in range(len(columns)) if i not in nulls]
        name = fresh_name(f"{inserted.relation}_null", self.schemas)
        self._add(Schema(name, tuple(columns[i] for i in kept), Role.VIEW))
        row = tuple(Variable(f"X{i + 1}") for i in range(len(columns)))
        head = Atom(name, tuple(row[i] for i in kept))
        self._define(head, And((Atom(inserted.relation, row), *(_is_null(row[i], True) for i in nulls))))
        return Atom(name, tuple(inserted.args[i] for i in kept), span=inserted.span)

    # ---- relations of old rows ------------------------------------------------------------------

    def _old_rows(self, atom: Atom, around: Conjunction) -> Atom:
        """The atom over a relation of old rows, restricted by the literals around."""
        args = tuple(t if isinstance(t, Variable | Constant) else self.variable("Any") for t in atom.args)
        name = self.helper(f"{atom.relation}_old", atom.relation)
        guards = self._guards({v.name for t in args for v in occurrences(t)}, atom, around)
        self._define(Atom(name, args, span=atom.span), And((*guards, self._old(replace(atom, args=args)))))
        return Atom(name, atom.args, span=atom.span)

    def _guards(self, names: set[str], atom: Atom, around: Conjunction) -> list[Formula]:
        """The positive literals that share these variables, directly or through other literals."""
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

    def helper(self, base: str, like: str) -> str:
        """The name of a new relation with the columns of another; `define` adds its clauses."""
        columns = tuple(Column(c.name, c.type) for c in self.schemas[like].columns)
        name = fresh_name(base, self.schemas)
        self._add(Schema(name, columns, Role.VIEW))
        return name

    def define(self, clause: Clause) -> None:
        """Add a clause of a helper."""
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
