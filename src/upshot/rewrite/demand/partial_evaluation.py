"""Partial evaluation: push constants of rules down into specialized copies of the views that they read.
[Harrison & Dietrich 1994, section 5]"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from upshot.check.names.variables import fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Role, Schema
from upshot.core.types import Kind
from upshot.rewrite.shapes import aggregate_of, relations_below, retyped, with_atom
from upshot.rewrite.stratified import stratified
from upshot.syntax.ast import Atom, Comparison, Constant, Term, Variable

MOST_COPIES = 64
"""The maximum number of specialized views."""

Fixed = tuple[tuple[int, Constant], ...]
"""Columns and their values."""


def partial_evaluation(
    program: CheckedProgram, views: Collection[str], goals: Collection[str]
) -> tuple[CheckedProgram, Mapping[str, str]]:
    """The program with specialized copies of `views` for literals with constants, and the view that each copy was made
    from. A view that the goals also need as a whole is not copied.

    `far(X) :- reach(1, X).` over `reach(X, Y) :- edge(X, Y). reach(X, Y) :- reach(X, Z), edge(Z, Y).` becomes

        far(X) :- reach_at(X).
        reach_at(Y) :- edge(1, Y).
        reach_at(Y) :- reach_at(Z), edge(Z, Y).
    """
    eligible = {view for view in views if view not in goals and not _is_aggregate(program, view)}
    while True:
        copying = _Specialization(program, frozenset(eligible))
        clauses = copying.run()
        needed = relations_below([c for c in clauses if c.head.relation in (*views, *copying.originals)], goals)
        whole = {original for copy, original in copying.originals.items() if copy in needed and original in needed}
        if not whole:
            break
        eligible -= whole
    if not copying.originals:
        return program, {}
    return stratified(program, clauses, copying.schemas, by="partial_evaluation"), copying.originals


def _is_aggregate(program: CheckedProgram, view: str) -> bool:
    return any(aggregate_of(clause) is not None for clause in program.clauses if clause.head.relation == view)


@dataclass(slots=True)
class _Specialization:
    program: CheckedProgram
    eligible: frozenset[str]
    schemas: dict[str, Schema] = field(init=False)
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)
    waiting: list[tuple[str, Fixed]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.schemas = dict(self.program.schemas)

    def run(self) -> list[Clause]:
        clauses = [self._replaced(clause) for clause in self.program.clauses]
        while self.waiting:
            copy, fixed = self.waiting.pop(0)
            for clause in self.program.clauses:
                if clause.head.relation == self.originals[copy]:
                    clauses += (self._replaced(each) for each in self._bound(clause, copy, fixed))
        return clauses

    def _replaced(self, clause: Clause) -> Clause:
        """The clause with its literals over copies, where they have constants."""
        if aggregate_of(clause) is not None:
            return clause
        body = tuple(with_atom(literal, self._atom) for literal in clause.body)
        return clause if body == clause.body else retyped(replace(clause, body=body), self.schemas)

    def _atom(self, atom: Atom) -> Atom:
        if atom.relation not in self.eligible:
            return atom
        fixed = tuple((i, arg) for i, arg in enumerate(atom.args) if isinstance(arg, Constant) and _is_exact(arg))
        key = (atom.relation, repr(fixed))
        if not fixed or (key not in self.names and len(self.names) >= MOST_COPIES):
            return atom
        if key not in self.names:
            self.names[key] = self._copy(atom.relation, fixed)
        places = dict(fixed)
        return Atom(self.names[key], tuple(arg for i, arg in enumerate(atom.args) if i not in places), span=atom.span)

    def _copy(self, relation: str, fixed: Fixed) -> str:
        name, places = fresh_name(f"{relation}_at", self.schemas), dict(fixed)
        columns = tuple(column for i, column in enumerate(self.schemas[relation].columns) if i not in places)
        self.schemas[name] = Schema(name, columns, Role.VIEW)
        self.originals[name] = relation
        self.waiting.append((name, fixed))
        return name

    def _bound(self, clause: Clause, copy: str, fixed: Fixed) -> Iterator[Clause]:
        """The clause for rows with these constants, if its head can have them."""
        values: dict[str, Constant] = {}
        for place, constant in fixed:
            term = clause.head.args[place]
            if isinstance(term, Variable):
                if values.setdefault(term.name, constant) != constant:
                    return
            elif term != constant:
                return
        places = dict(fixed)
        head = tuple(_value(term, values) for i, term in enumerate(clause.head.args) if i not in places)
        body = [_filled(literal, values) for literal in clause.body]
        unreplaced = {name for literal in body for name in variables(literal)}
        equations = [Comparison("=", Variable(name), values[name]) for name in values if name in unreplaced]
        made = replace(clause, head=Atom(copy, head), body=(*equations, *body))
        yield retyped(made, self.schemas)


def _is_exact(constant: Constant) -> bool:
    """Test whether equal values are written the same."""
    return constant.value is not None and constant.type is not None and constant.type.kind is not Kind.FLOAT


def _value(term: Term, values: Mapping[str, Constant]) -> Term:
    return values.get(term.name, term) if isinstance(term, Variable) else term


def _filled(literal: Literal, values: Mapping[str, Constant]) -> Literal:
    """The literal with values in the arguments of its atom; other literals read the values through equations."""
    return with_atom(literal, lambda atom: replace(atom, args=tuple(_value(term, values) for term in atom.args)))
