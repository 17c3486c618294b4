"""Records and branches in clauses, replaced by functions that make them and tests and functions that take them apart.

    p([X, Y])            p(R), "[]"("", R), X = .number(R, 0), Y = .symbol(R, 1)
    q([X, Y]) :- …       q("[]"("P(number, symbol)", X, Y)) :- …

Every record of a body is first moved to an equation `R = [X, Y]` of its own. Which way an equation runs follows from
what is bound: a bound `R` is taken apart, else it is made from bound fields.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from upshot.check.clause.clause_form import Conjunction, RawLiteral, aggregate_bodies, with_bodies, with_terms
from upshot.check.clause.safety import bind, direct_names, names_inside, shared
from upshot.check.findings import Findings
from upshot.check.names.variables import all_names, fold, fresh_name, occurrences, terms_of, walk
from upshot.check.types.constants import convert
from upshot.check.types.kinds import Kinds, Typed, TypedLiteral, is_structure
from upshot.core.types import NUMBER, SYMBOL, Kind, Type
from upshot.syntax.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Not,
    Term,
    Test,
    Variable,
    Wildcard,
    subterms,
)
from upshot.values.structures import MAKE, field_function, form


def uses_structures(head: Atom, body: Conjunction) -> bool:
    """The clause has records or branches in it."""
    return any(isinstance(n, Call) and is_structure(n) for node in (head, *body) for n in walk(node))


# ---- equations ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Extraction:
    """Moves the records and branches of bodies to equations of their own."""

    taken: set[str]

    @classmethod
    def of(cls, head: Atom, body: Conjunction) -> Extraction:
        return cls(all_names((head, *body)))

    def body(self, body: Conjunction) -> Conjunction:
        made: list[RawLiteral] = []
        for literal in body:
            made.extend(self._literal(literal))
        return tuple(made)

    def _literal(self, literal: RawLiteral) -> Iterator[RawLiteral]:
        if isinstance(literal, Comparison) and isinstance(literal.right, Aggregate):
            yield Comparison("=", literal.left, self._aggregate(literal.right), span=literal.span)
            return
        added: list[RawLiteral] = []
        if isinstance(literal, Comparison) and literal.op == "=":
            left, right = literal.left, literal.right
            if isinstance(right, Variable) and is_structure(left):
                left, right = right, left
            if isinstance(left, Variable) and isinstance(right, Call) and is_structure(right):
                inner = Call(right.function, tuple(self._term(a, added) for a in right.args), span=right.span)
                yield from (*added, Comparison("=", left, inner, span=literal.span))
                return
        plain = literal.body if isinstance(literal, Not) else literal
        moved = with_terms(plain, [self._term(t, added) for t in terms_of(plain)])
        yield from added
        yield Not(moved, span=literal.span) if isinstance(literal, Not) else moved

    def _aggregate(self, aggregate: Aggregate) -> Aggregate:
        bodies = [self.body(body) for body in aggregate_bodies(aggregate)]
        added: list[RawLiteral] = []
        target = None if aggregate.target is None else self._term(aggregate.target, added)
        return with_bodies(aggregate, target, [(*body, *added) for body in bodies])

    def _term(self, term: Term, added: list[RawLiteral]) -> Term:
        """The term with variables in the place of records; their equations are added, the innermost first."""

        def visit(current: Term, parts: tuple[Term, ...]) -> Term:
            if not isinstance(current, Call):
                return current
            made = Call(current.function, parts, span=current.span)
            if not is_structure(made):
                return made
            name = fresh_name("record", self.taken)
            self.taken.add(name)
            variable = Variable(name, span=current.span)
            added.append(Comparison("=", variable, made, span=current.span))
            return variable

        return fold(term, visit)


# ---- functions in their place ------------------------------------------------------------------------------


@dataclass(slots=True)
class Lowering:
    """Puts functions in the place of records and branches, once the types of all terms are known."""

    kinds: Kinds
    findings: Findings
    failed: bool = field(default=False)

    def head(self, head: Atom, typed: Iterable[Typed]) -> Atom:
        return Atom(head.relation, tuple(self._made(each) for each in typed), head.state, span=head.span)

    def body(self, body: tuple[TypedLiteral, ...], given: Collection[str], visible: set[str]) -> Conjunction:
        """The literals, each equation with a record run in the direction that the others allow."""
        done: list[RawLiteral] = []
        waiting: list[tuple[Comparison, Typed]] = []
        for each in body:
            literal = each.literal
            if isinstance(literal, Comparison) and each.aggregate is not None:
                done.append(self._aggregate(literal, each, visible))
            elif isinstance(literal, Comparison) and is_structure(literal.right):
                waiting.append((literal, each.terms[1]))
            else:
                done.append(literal)
        while waiting:
            bound = bind(tuple(done), given, visible).bound
            chosen = next((e for e in waiting if _left(e).name in bound), None)
            if chosen is not None:
                done.extend(self._taken_apart(*chosen))
            else:
                ready = (e for e in waiting if all(v.name in bound for v in occurrences(e[0].right)))
                chosen = next((e for e in ready if not _has_wildcard(e[0].right)), waiting[0])
                made = self._made(chosen[1])
                done.append(Comparison("=", chosen[0].left, made, span=chosen[0].span))
            waiting.remove(chosen)
        return tuple(done)

    def _aggregate(self, literal: Comparison, typed: TypedLiteral, visible: set[str]) -> Comparison:
        function, aggregate = literal.right, typed.aggregate
        assert isinstance(function, Aggregate)
        assert aggregate is not None
        outside = shared(function, visible)
        names = names_inside(function, outside)
        bodies = [self.body(body, outside, names) for body in aggregate.bodies]
        return Comparison("=", literal.left, with_bodies(function, function.target, bodies), span=literal.span)

    def _taken_apart(self, equation: Comparison, typed: Typed) -> Iterator[RawLiteral]:
        """The test of the form, and one literal for each field that somebody asks about."""
        found = self._shape(typed)
        if found is None:
            return
        tag, kinds, _ = found
        variable, term = equation.left, equation.right
        assert isinstance(term, Call)
        yield Test(MAKE, (Constant(tag, SYMBOL), variable), span=term.span)
        for place, (argument, kind) in enumerate(zip(term.args, kinds, strict=True)):
            if isinstance(argument, Wildcard):
                continue
            value = Call(field_function(kind), (variable, Constant(place, NUMBER)), span=argument.span)
            yield Comparison("=", argument, value, span=argument.span)

    def _made(self, typed: Typed) -> Term:
        """The term with functions that make its records."""
        parts = tuple(self._made(part) for part in typed.parts) if typed.parts else ()
        term = typed.term
        if not isinstance(term, Call):
            return term
        if not is_structure(term):
            return Call(term.function, parts, span=term.span)
        found = self._shape(typed)
        if found is None or _refused_wildcard(term, self.findings):
            self.failed = True
            return Constant("nil", Type(Kind.RECORD), span=term.span)
        tag, kinds, name = found
        values = (
            convert(part, Type(kind), self.findings) if isinstance(part, Constant) and kind is not Kind.RECORD else part
            for part, kind in zip(parts, kinds, strict=True)
        )
        return Call(MAKE, (Constant(form(f"${tag}" if tag else name, kinds), SYMBOL), *values), span=term.span)

    def _shape(self, typed: Typed) -> tuple[str, tuple[Kind, ...], str] | None:
        """The tag and the kinds of the fields of a record or branch, and the name of its type; None where a diagnostic
        says why not."""
        structure = self.kinds.structure(typed.node)
        if structure is None:
            self.failed = True
            self.findings.error(
                "unknown-record-type",
                "the type of this record is not known",
                typed.term.span,
                label="a record of which type?",
                help="use it where a column or a field of a record type holds it",
            )
            return None
        tag = self.kinds.tag(typed.term)
        branch = structure.branch(tag)
        assert branch is not None, "the kinds agree"
        return tag, tuple(self.kinds.field_kind(type) for _, type in branch.fields), structure.name


def _left(equation: tuple[Comparison, Typed]) -> Variable:
    assert isinstance(equation[0].left, Variable)
    return equation[0].left


def _has_wildcard(term: Term) -> bool:
    return any(isinstance(each, Wildcard) for each in subterms(term))


def _refused_wildcard(term: Call, findings: Findings) -> bool:
    for argument in term.args:
        if isinstance(argument, Wildcard):
            findings.error(
                "misplaced-wildcard",
                "`_` has no value, so no record can be made of it",
                argument.span,
                label="no value here",
                help="use a bound variable; in a negated literal, define a relation of the records that match",
            )
            return True
    return False


def lowered(
    head: Atom, typed_head: tuple[Typed, ...], body: tuple[TypedLiteral, ...], kinds: Kinds, findings: Findings
) -> tuple[Atom, Conjunction] | None:
    """Head and body with functions in the place of records; None if that was not possible, which is reported."""
    work = Lowering(kinds, findings)
    raw = tuple(each.literal for each in body)
    visible = direct_names(raw) | {v.name for a in head.args for v in occurrences(a)}
    made = work.body(body, (), visible)
    finished = work.head(head, typed_head)
    return None if work.failed else (finished, made)
