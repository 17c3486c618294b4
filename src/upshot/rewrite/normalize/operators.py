"""Split rules into relational operators, with auxiliary views in between. [Behrend & Manthey 2008, section 2.2]

Afterwards a view is a union of copies or one of: join, difference, permutation, projection, selection (constants,
repeated variables, comparisons, computed columns), the negation of a relation without columns, a constant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from upshot.check.names.variables import all_names, fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.check.types.nullability import nullable_variables
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import Type
from upshot.rewrite.demand.sip import next_literal
from upshot.rewrite.shapes import aggregate_of, clauses_by_head, retyped, row_variables, without_wildcards
from upshot.rewrite.stratified import stratified
from upshot.syntax.ast import Atom, Constant, Not, Term, Variable, Wildcard


def operators(program: CheckedProgram, views: Collection[str]) -> CheckedProgram:
    """The program in normal form with one operator per rule of the views; aggregates and other views stay as they are.

    `p(X, Y) :- e(X, Y). p(X, Y) :- e(X, Z), p(Z, Y).` becomes

        p(X, Y) :- e(X, Y).
        p(X, Y) :- p_aux(X, Y).
        p_aux(X, Y) :- p_aux_1(X, Y, Z).
        p_aux_1(X, Y, Z) :- e(X, Z), p(Z, Y).
    """
    making = _OperatorRules(dict(program.schemas))
    kept = [clause for clause in program.clauses if clause.head.relation not in views]
    clauses = clauses_by_head(program.clauses)
    for view in (view for layer in program.strata for view in layer if view in views):
        making.view(view, clauses[view])
    return stratified(program, (*kept, *making.clauses), making.schemas, by="operators")


def is_exact(clauses: Sequence[Clause]) -> bool:
    """Test whether every row of a view has one derivation: its only rule keeps every column that it reads. Then the
    differentials derive net changes."""
    if len(clauses) != 1:
        return False
    head = set(variables(clauses[0].head))
    read = [literal for literal in clauses[0].body if isinstance(literal, Atom)]
    return all(
        not any(isinstance(term, Wildcard) for term in atom.args) and head.issuperset(variables(atom)) for atom in read
    )


@dataclass(slots=True)
class _OperatorRules:
    schemas: dict[str, Schema]
    clauses: list[Clause] = field(default_factory=list)
    patterns: dict[object, str] = field(default_factory=dict)
    """The view of each selection or projection of a single atom, so that each is defined once."""
    about: str = ""
    """The view whose rules are being made, for the names of auxiliary views."""

    def view(self, view: str, clauses: Sequence[Clause]) -> None:
        self.about = view
        if any(aggregate_of(clause) is not None for clause in clauses):
            self.clauses += clauses
        elif len(clauses) == 1:
            self.define(clauses[0])
        else:
            for clause in clauses:
                self.copy(clause)

    def copy(self, clause: Clause) -> None:
        """A rule of a union: `p(X…) :- q(X…).`, where q is defined by the clause."""
        match clause.body:
            case () | (Atom(args=clause.head.args),) if _is_plain(clause.head.args) or not clause.body:
                self.clauses.append(clause)
                return
            case _:
                pass
        # Values with too many digits for the view are found where they are copied into it.
        schema = self.schemas[clause.head.relation].widest()
        member = self.enter(f"{schema.name}_aux", schema.columns)
        row = clause.head.args if _is_plain(clause.head.args) else tuple(map(Variable, row_variables(schema)))
        types = {v.name: t for v, t in zip(row, schema.types, strict=True) if isinstance(v, Variable)}
        self.add(Clause(Atom(schema.name, row), (Atom(member, row),), types, clause.origin))
        self.define(replace(clause, head=Atom(member, clause.head.args)))

    def define(self, clause: Clause) -> None:
        """Define the clause's head by one operator over auxiliary views."""
        if _is_operator(clause):
            self.add(clause)
            return
        chain = _OperatorChain(self, clause)
        body = chain.run()
        atoms = [literal for literal in body if isinstance(literal, Atom)]
        needed = [name for name in variables(clause.head) if any(name in variables(literal) for literal in body)]
        loses = any(name not in needed for atom in atoms for name in variables(atom))
        reshaped = not _is_plain(clause.head.args)
        if loses:
            source = chain.settle(body, needed)
            if reshaped:
                projected = self.named(clause, (source,), needed)
                self.add(replace(clause, body=(projected,)))
            else:
                self.add(replace(clause, body=(source,)))
        elif reshaped and len(atoms) + sum(isinstance(literal, Not) for literal in body) > 1:
            self.add(replace(clause, body=(chain.settle(body, needed),)))
        else:
            self.add(replace(clause, body=body))

    def named(self, clause: Clause, body: Sequence[Literal], names: Sequence[str], about: str = "") -> Atom:
        """An auxiliary view with these variables of the body as columns."""
        nullable = nullable_variables(tuple(body), self.schemas)
        types = {n: clause.types[n].optional() if n in nullable else clause.types[n].required() for n in names}
        name = self.enter(f"{about or self.about}_aux", _columns(types))
        head = Atom(name, tuple(map(Variable, names)))
        self.add(replace(clause, head=head, body=tuple(body)))
        return head

    def plain(self, clause: Clause, atom: Atom) -> Atom:
        """The atom over distinct variables; a selection and a projection replace its constants, repeated variables and
        wildcards."""
        if _is_plain(atom.args):
            return atom
        if any(isinstance(arg, Constant) for arg in atom.args) or _repeats(atom):
            types = dict(clause.types)
            named = without_wildcards(atom, self.schemas[atom.relation], types)
            selected = self._pattern(replace(clause, types=types), named, variables(named))
            if len(selected.args) == len(variables(atom)):
                return selected
            return self._pattern(
                clause,
                Atom(selected.relation, tuple(v if v in atom.args else Wildcard() for v in selected.args)),
                variables(atom),
            )
        return self._pattern(clause, atom, variables(atom))

    def _pattern(self, clause: Clause, atom: Atom, names: Sequence[str]) -> Atom:
        places = {name: i for i, name in enumerate(names)}
        meaning = (atom.relation, *(places[a.name] if isinstance(a, Variable) else repr(a) for a in atom.args))
        if meaning not in self.patterns:
            self.patterns[meaning] = self.named(clause, (atom,), names, atom.relation).relation
        return Atom(self.patterns[meaning], tuple(map(Variable, names)))

    def enter(self, base: str, columns: Iterable[Column]) -> str:
        name = fresh_name(base, self.schemas)
        self.schemas[name] = Schema(name, tuple(columns), Role.VIEW)
        return name

    def add(self, clause: Clause) -> None:
        self.clauses.append(retyped(clause, self.schemas))


class _OperatorChain:
    """A clause's literals in an order that binds the variables each needs; one operator joins each two."""

    def __init__(self, making: _OperatorRules, clause: Clause) -> None:
        self._making, self._clause = making, clause
        self._waiting = list(clause.body)

    def run(self) -> tuple[Literal, ...]:
        """The body of the last operator."""
        body: tuple[Literal, ...] = ()
        bound: set[str] = set()
        while self._waiting:
            place = next_literal(self._waiting, bound, self._clause.types, lambda _: False, rule=self._clause.body)
            literal = self._waiting[place]
            match literal:
                case Atom():
                    body = (*self._joined(body), self._making.plain(self._clause, literal))
                case Not(Atom() as atom):
                    body = (*self._joined(body), Not(self._making.plain(self._clause, atom)))
                case _ if _is_selection(body):
                    body = (*body, literal)
                case _:
                    body = (*self._joined(body), literal)
            self._waiting.pop(place)
            bound.update(variables(literal))
        return body

    def _joined(self, body: tuple[Literal, ...]) -> tuple[Literal, ...]:
        """The literals joined so far, as one literal."""
        if not body:
            return ()
        later = all_names((self._clause.head, *self._waiting))
        return (self.settle(body, [name for name in variables(self._clause.head) if name in later], later),)

    def settle(self, body: Sequence[Literal], first: Sequence[str], later: Collection[str] = ()) -> Atom:
        """The body as one atom, with the variables `first` before the others. Computed columns are kept if they are
        needed later; columns of relations always, since dropping them would be another operator."""
        match body:
            case (Atom() as atom,):
                return atom
            case _:
                pass
        read = {name for each in body if isinstance(each, Atom) for name in variables(each)}
        there = dict.fromkeys(name for literal in body for name in variables(literal))
        kept = [name for name in there if name in read or name in later or name in first]
        ordered = [*(name for name in first if name in kept), *(name for name in kept if name not in first)]
        return self._making.named(self._clause, body, ordered)


def _is_plain(args: Sequence[Term]) -> bool:
    """Test whether the arguments are distinct variables."""
    names = [arg.name for arg in args if isinstance(arg, Variable)]
    return len(names) == len(args) == len(set(names))


def _is_operator(clause: Clause) -> bool:
    """Test whether the clause is a selection or a projection of one relation as it stands."""
    match clause.body:
        case (Atom(args=args),) if _is_plain([arg for arg in args if not isinstance(arg, Wildcard)]):
            return _is_plain(clause.head.args)
        case _:
            return _is_selection(clause.body) and is_exact([clause])


def _is_selection(body: Sequence[Literal]) -> bool:
    """Test whether built-ins can be added to the operator: it has at most one relation, and no negation."""
    atoms = [literal for literal in body if isinstance(literal, Atom)]
    negated = [literal for literal in body if isinstance(literal, Not) and isinstance(literal.body, Atom)]
    return len(atoms) <= 1 and not negated


def _columns(types: dict[str, Type]) -> tuple[Column, ...]:
    return tuple(Column(name, type) for name, type in types.items())


def _repeats(atom: Atom) -> bool:
    names = [arg.name for arg in atom.args if isinstance(arg, Variable)]
    return len(names) != len(set(names))
