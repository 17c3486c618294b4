"""Partial materialization: the queried rows of an unstored view, as views that can be stored.

Magic sets as plain rules. `live(P, Y) :- parameters(P), reach(P, Y).` over
`reach(X, Y) :- edge(X, Y).  reach(X, Z) :- reach(X, Y), edge(Y, Z).` becomes

    live(P, Y)         :- parameters(P), reach_bf(P, Y).
    reach_bf_asked(P)  :- parameters(P).
    reach_bf(X, Y)     :- reach_bf_asked(X), edge(X, Y).
    reach_bf(X, Z)     :- reach_bf_asked(X), reach_bf(X, Y), edge(Y, Z).

A copy has only rows of its view, and all rows of the queried bindings, so it can replace the view in any literal,
negated and aggregated ones too. A rule for bindings may leave out literals: then more rows are queried than needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from upshot.check.names.variables import fold, fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.check.strata import stratify
from upshot.core.errors import ProgramError
from upshot.core.schema import Column, Role, Schema
from upshot.rewrite.demand.sip import is_bound
from upshot.rewrite.shapes import clauses_by_head, disjuncts, retyped
from upshot.syntax.ast import Aggregate, And, Atom, Call, Comparison, Constant, Formula, Not, Or, Term, Test, Variable

MOST_COPIES = 256
"""The maximum number of partial views for one query."""


@dataclass(frozen=True, slots=True)
class PartialViews:
    """The clauses over copies with the definitions of these copies, and the schemas of the copies and bindings."""

    clauses: tuple[Clause, ...]
    schemas: Mapping[str, Schema]


def partial_views(
    program: CheckedProgram, clauses: Sequence[Clause], unstored: Collection[str], taken: Mapping[str, Schema]
) -> PartialViews | None:
    """The clauses over partial copies of the unstored views; `taken` are the relations that the clauses define and
    read. None if a whole view would be queried, or if the rules are not stratified."""
    copying = _Copying(program, frozenset(unstored), {**program.schemas, **taken})
    made = [copying.clause(clause, None) for clause in clauses]
    if None in made or not copying.run():
        return None
    found = [clause for clause in made if clause is not None] + copying.clauses
    known = {**program.schemas, **taken, **copying.schemas}
    try:
        stratify(known, [*program.clauses, *found])
    except ProgramError:
        return None
    return PartialViews(tuple(found), copying.schemas)


@dataclass(slots=True)
class _Copying:
    program: CheckedProgram
    unstored: frozenset[str]
    taken: dict[str, Schema]
    schemas: dict[str, Schema] = field(default_factory=dict)
    clauses: list[Clause] = field(default_factory=list)
    names: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    waiting: list[tuple[str, str]] = field(default_factory=list)

    def run(self) -> bool:
        """Make the clauses of every queried copy; return whether that is possible."""
        rules = clauses_by_head(self.program.clauses)
        while self.waiting:
            view, adornment = self.waiting.pop(0)
            if len(self.names) > MOST_COPIES:
                return False
            for clause in rules[view]:
                made = self.clause(clause, adornment)
                if made is None:
                    return False
                self.clauses.append(made)
        return True

    def clause(self, clause: Clause, adornment: str | None) -> Clause | None:
        """The clause over copies, for the queried bindings of its view; None if it reads a whole view."""
        bindings: tuple[Literal, ...] = ()
        head = clause.head
        types = dict(clause.types)
        if adornment is not None:
            name, queried = self.names[head.relation, adornment]
            args: list[Term] = []
            for place, letter in enumerate(adornment):
                term = head.args[place]
                if letter == "b" and isinstance(term, Variable | Constant):
                    args.append(term)
                elif letter == "b":
                    made = fresh_name(f"A{place}", types)
                    types[made] = self.taken[head.relation].columns[place].type
                    args.append(Variable(made))
            bindings = (Atom(queried, tuple(args)),)
            head = replace(head, relation=name)
        body = self._body(clause.body, bindings, {name for each in bindings for name in variables(each)}, clause)
        if body is None:
            return None
        return retyped(replace(clause, head=head, body=(*bindings, *body), types=types), {**self.taken, **self.schemas})

    def _body(
        self, literals: Sequence[Literal], first: Sequence[Literal], bound: Collection[str], clause: Clause
    ) -> list[Literal] | None:
        """The literals over copies, which are queried along a chain of joins that starts with the literals `first`."""
        made: dict[int, Literal] = {}
        prefix, bound = list(first), set(bound)
        atoms = [place for place, literal in enumerate(literals) if isinstance(literal, Atom)]
        while atoms:
            self._filter(literals, made, prefix, bound)
            place = min(atoms, key=lambda each: self._rank(literals[each], bound))
            atoms.remove(place)
            literal = literals[place]
            assert isinstance(literal, Atom)
            copy = self._copied(literal, bound, prefix, clause)
            if copy is None:
                return None
            made[place] = copy
            prefix.append(copy)
            bound.update(variables(literal))
        self._filter(literals, made, prefix, bound)
        for place, literal in enumerate(literals):
            if place not in made:
                other = self._inside(literal, bound, prefix, clause)
                if other is None:
                    return None
                made[place] = other
        return [made[place] for place in range(len(literals))]

    def _rank(self, literal: Formula, bound: Collection[str]) -> tuple[bool, bool, int]:
        """Smaller is better: shares bound variables, is stored, has few free columns."""
        assert isinstance(literal, Atom)
        known = sum(is_bound(term, bound) for term in literal.args)
        return known == 0, literal.relation in self.unstored, len(literal.args) - known

    def _filter(
        self, body: Sequence[Literal], made: dict[int, Literal], prefix: list[Literal], bound: set[str]
    ) -> None:
        """Equations of variables and constants, and comparisons without a function, as soon as they are bound."""
        for place, literal in enumerate(body):
            if place in made or not isinstance(literal, Comparison):
                continue
            sides = (literal.left, literal.right)
            if not all(isinstance(side, Variable | Constant) for side in sides):
                continue
            if all(is_bound(side, bound) for side in sides) or (
                literal.op == "=" and any(is_bound(side, bound) for side in sides)
            ):
                made[place] = literal
                prefix.append(literal)
                bound.update(variables(literal))

    def _inside(
        self, literal: Literal, bound: Collection[str], prefix: Sequence[Literal], clause: Clause
    ) -> Literal | None:
        """A negation or an aggregate over copies; other literals stay."""
        match literal:
            case Not(Atom() as atom):
                copy = self._copied(atom, bound, prefix, clause)
                return None if copy is None else replace(literal, body=copy)
            case Comparison(_, left, right):
                sides = [self._in_term(side, bound, prefix, clause) for side in (left, right)]
                if sides[0] is None or sides[1] is None:
                    return None
                return replace(literal, left=sides[0], right=sides[1])
            case _:
                return literal

    def _in_term(self, term: Term, bound: Collection[str], prefix: Sequence[Literal], clause: Clause) -> Term | None:
        failed = False

        def visit(node: Term, parts: tuple[Term, ...]) -> Term:
            nonlocal failed
            match node:
                case Call():
                    return replace(node, args=parts)
                case Aggregate(_, _, body):
                    inner = [self._body(each, prefix, bound, clause) for each in disjuncts(body)]
                    parts_of = tuple(And(tuple(each)) for each in inner if each is not None)
                    if len(parts_of) < len(inner):
                        failed = True
                        return node
                    return replace(node, body=parts_of[0] if len(parts_of) == 1 else Or(parts_of))
                case _:
                    return node

        made = fold(term, visit)
        return None if failed else made

    def _copied(self, atom: Atom, bound: Collection[str], prefix: Sequence[Literal], clause: Clause) -> Atom | None:
        """The atom over the part of its view with these bindings; None if no column is bound."""
        if atom.relation not in self.unstored:
            return atom
        adornment = "".join("b" if is_bound(term, bound) else "f" for term in atom.args)
        if "b" not in adornment:
            return None
        name, queried = self._names(atom.relation, adornment)
        args = tuple(term for term, letter in zip(atom.args, adornment, strict=True) if letter == "b")
        head = Atom(queried, args)
        if head not in prefix:
            self._add_bindings(head, prefix, clause)
        return replace(atom, relation=name)

    def _add_bindings(self, head: Atom, prefix: Sequence[Literal], clause: Clause) -> None:
        """Add `reach_bf_asked(P) :- prefix.`, without NULL for columns that cannot be NULL."""
        body = _connected(head, prefix)
        used = {each for literal in (head, *body) for each in variables(literal)}
        types = {each: type for each, type in clause.types.items() if each in used}
        known = {**self.taken, **self.schemas}
        rule = retyped(Clause(head, body, types, clause.origin), known)
        present = tuple(
            Not(Test("is_null", (term,)))
            for term, column in zip(head.args, known[head.relation].columns, strict=True)
            if isinstance(term, Variable) and rule.types[term.name].nullable and not column.type.nullable
        )
        rule = retyped(replace(rule, body=(*body, *present)), known) if present else rule
        if rule not in self.clauses:
            self.clauses.append(rule)

    def _names(self, view: str, adornment: str) -> tuple[str, str]:
        key = view, adornment
        if key not in self.names:
            schema = self.taken[view]
            name = fresh_name(f"{view}_{adornment}", {**self.taken, **self.schemas})
            self.schemas[name] = replace(schema, name=name, role=Role.VIEW, keys=())
            queried = fresh_name(f"{name}_asked", {**self.taken, **self.schemas})
            columns = zip(schema.columns, adornment, strict=True)
            bound = tuple(Column(c.name, c.type.widest()) for c, letter in columns if letter == "b")
            self.schemas[queried] = Schema(queried, bound, Role.VIEW)
            self.names[key] = name, queried
            self.waiting.append(key)
        return self.names[key]


def _connected(head: Atom, prefix: Sequence[Literal]) -> tuple[Literal, ...]:
    """The literals of the prefix that the head's variables depend on, directly or through others."""
    needed, kept = set(variables(head)), set[int]()
    while True:
        more = [
            place
            for place, literal in enumerate(prefix)
            if place not in kept and (place == 0 or not needed.isdisjoint(variables(literal)))
        ]
        if not more:
            return tuple(prefix[place] for place in sorted(kept))
        kept.update(more)
        for place in more:
            needed.update(variables(prefix[place]))
