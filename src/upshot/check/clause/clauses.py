"""Turn rules into checked clauses: clause form, kinds, safety, types, NULL cases, in this order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from upshot.check.clause.clause_form import (
    MOST_ALTERNATIVES,
    MOST_LITERALS,
    Conjunction,
    Lifting,
    RawLiteral,
    TooMany,
    aggregate_bodies,
    alternatives,
    is_aggregate,
    with_bodies,
    with_named_wildcards,
    with_terms,
)
from upshot.check.clause.safety import bind, check_safety, direct_names, names_inside, shared
from upshot.check.findings import Findings
from upshot.check.names.type_names import TypeNames
from upshot.check.names.variables import all_names, atoms, fold, fresh_name, occurrences, terms_of, walk
from upshot.check.program import Clause
from upshot.check.types.constants import convert
from upshot.check.types.elaborate import Elaboration, Target
from upshot.check.types.kinds import Kinds, Typed, TypedLiteral, is_structure
from upshot.check.types.nullability import is_negated_comparison, known_null, null_cases, nullable_variables
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.core.types import NUMBER, SYMBOL, Kind, Type
from upshot.syntax.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Formula,
    Not,
    Term,
    Test,
    Variable,
    Wildcard,
    subterms,
)
from upshot.syntax.rebuild import rebuilt
from upshot.values.structures import MAKE, field_function, form

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Inferred:
    """A clause, and the inferred types of its head columns if they are not declared."""

    clause: Clause
    head_types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class ClauseMaker:
    """The declarations that rules are checked against."""

    schemas: Mapping[str, Schema]
    vague: set[str]
    types: TypeNames
    findings: Findings
    parameters: Mapping[str, Constant] = field(default_factory=dict)
    head_words: str = "the head"
    targets: tuple[Target, ...] = ()
    """The columns that an inferred head fills: its values must have their types."""

    def rule(
        self,
        heads: tuple[Atom, ...],
        body: Formula | None,
        origin: Span | None,
        *,
        infer: bool = False,
        sound: bool = True,
    ) -> list[Inferred]:
        """The clauses of a rule. Errors are in the findings; clauses with errors are left out.

        `infer` is for heads without declaration (constraints and queries). If the rule is not `sound`, because of wrong
        names, only kinds and safety are checked.
        """
        try:
            bodies = alternatives(body)
            if len(bodies) * len(heads) > MOST_ALTERNATIVES:
                raise TooMany
            if len(heads) > 1 and sum(map(len, bodies)) * len(heads) > MOST_LITERALS:
                raise TooMany
            result: list[Inferred] = []
            for head in heads:
                for conjunction in bodies:
                    taken = all_names([*head.args, *conjunction])
                    lifted = Lifting(taken, self.parameters).clause(head, conjunction)
                    result.extend(self._split(*lifted, origin, infer, sound))
        except TooMany:
            self.findings.error(
                "too-many-alternatives",
                f"the rule expands to more than {MOST_ALTERNATIVES:,} clauses or {MOST_LITERALS:,} literals",
                origin,
                label="every combination of its alternatives is a clause",
                help="define a relation for the alternatives and use it",
            )
            return []
        return result

    def _split(self, head: Atom, body: Conjunction, origin: Span | None, infer: bool, sound: bool) -> list[Inferred]:
        """The clauses for the NULL cases of negated comparisons; usually one."""
        result: list[Inferred] = []
        pending = [body]
        made = 0
        while pending:
            current = pending.pop()
            cases = self._cases(current)
            if cases is not None:
                pending.extend(reversed(cases))
            else:
                clause = self._clause(head, current, origin, infer, sound)
                if clause is not None:
                    result.append(clause)
            made += 1
            if made > 1 and made * len(body) > MOST_LITERALS:
                raise TooMany
        return result

    def _cases(self, body: Conjunction) -> list[Conjunction] | None:
        """The bodies for the NULL cases, in which comparisons are no longer negated; None if there are none."""
        if not any(is_negated_comparison(x) or is_aggregate(x) for x in body):
            return None
        nullable = nullable_variables(body, self.schemas)
        null = known_null(body)
        visible, taken = direct_names(body), all_names(body)
        settled: list[RawLiteral] = []
        changed = False
        for position, literal in enumerate(body):
            if is_negated_comparison(literal):
                assert isinstance(literal, Not)
                choices = null_cases(literal, nullable, null)
                if len(choices) > 1:
                    rest = body[position + 1 :]
                    return [(*settled, *choice, *rest) for choice in choices]
                settled.extend(choices[0])
                changed = True
            else:
                turned = self._in_aggregate(literal, visible, nullable, taken)
                changed = changed or turned is not literal
                settled.append(turned)
        return [tuple(settled)] if changed else None

    def _in_aggregate(self, literal: RawLiteral, visible: set[str], outside: set[str], taken: set[str]) -> RawLiteral:
        """The literal with the opposite comparisons in place of the negated ones of its aggregate."""
        if not is_aggregate(literal):
            return literal
        assert isinstance(literal, Comparison)
        aggregate = literal.right
        assert isinstance(aggregate, Aggregate)
        known = shared(aggregate, visible)
        bodies = aggregate_bodies(aggregate)
        if any(len(cases) > 1 for body in bodies for _, cases in self._null_cases(body, known, outside)):
            bodies = tuple(with_named_wildcards(bodies, taken))
        names = names_inside(aggregate, known)
        turned: list[Conjunction] = []
        for body in bodies:
            nullable = nullable_variables(body, self.schemas, known, outside.intersection(known))
            made: list[Conjunction] = [()]
            for part, cases in self._null_cases(body, known, outside):
                inner = cases or [(self._in_aggregate(part, names, nullable, taken),)]
                made = [(*one, *other) for one in made for other in inner]
                if len(made) > MOST_ALTERNATIVES:
                    raise TooMany
            turned += made
        if tuple(turned) == bodies:
            return literal
        inner_aggregate = with_bodies(aggregate, aggregate.target, turned)
        return Comparison(literal.op, literal.left, inner_aggregate, span=literal.span)

    def _null_cases(
        self, body: Conjunction, known: Collection[str], outside: set[str]
    ) -> Iterator[tuple[RawLiteral, list[Conjunction]]]:
        """The literals of an aggregate, each negated comparison with the cases in which it holds."""
        nullable = nullable_variables(body, self.schemas, known, outside.intersection(known))
        for part in body:
            if is_negated_comparison(part):
                assert isinstance(part, Not)
                yield part, null_cases(part, nullable, ())
            else:
                yield part, []

    def _clause(self, head: Atom, body: Conjunction, origin: Span | None, infer: bool, sound: bool) -> Inferred | None:
        body = with_witnesses(head, body)
        if uses_structures(head, body):
            if not sound:
                return None
            found = self._lowered(head, Extraction.of(head, body).body(body), infer)
            if found is None:
                return None
            head, body = found
        kinds, typed_head, typed_body = self._kinds(head, body, infer)
        safe = check_safety(head, body, self.findings, self.head_words)
        if kinds.failed or not (safe and sound) or self._is_vague(head, body):
            return None
        visible = direct_names(body) | {v.name for a in head.args for v in occurrences(a)}
        work = Elaboration(self.schemas, self.types, kinds, self.findings)
        work.scope(typed_body, (), visible)
        nullable = nullable_variables(body, self.schemas)
        work.nullable |= nullable
        literals = tuple(work.literal(t, nullable, visible) for t in typed_body)
        types: list[Type] = []
        if infer:
            finished, types = work.inferred_head(head, typed_head, nullable, self.targets)
        else:
            finished = work.head(head, typed_head, nullable)
        if work.failed:
            return None
        return Inferred(Clause(finished, literals, work.variable_types(), origin), tuple(types))

    def _kinds(
        self, head: Atom, body: Conjunction, infer: bool
    ) -> tuple[Kinds, tuple[Typed, ...], tuple[TypedLiteral, ...]]:
        kinds = Kinds(self.schemas, self.vague, self.findings, self.types)
        typed_body = kinds.body(body)
        typed_head = tuple(kinds.term(a) for a in head.args) if infer else kinds.atom(head)
        for target in self.targets:
            kinds.reaches(replace(typed_head[target.place], term=target.term), target.relation, target.column)
        kinds.settle()
        return kinds, typed_head, typed_body

    def _lowered(self, head: Atom, body: Conjunction, infer: bool) -> tuple[Atom, Conjunction] | None:
        """Head and body without records; None if their types do not match, or are unknown."""
        kinds, typed_head, typed_body = self._kinds(head, body, infer)
        if kinds.failed or self._is_vague(head, body):
            return None
        return lowered(head, typed_head, typed_body, kinds, self.findings)

    def _is_vague(self, head: Atom, body: Conjunction) -> bool:
        """Test whether the clause uses a relation with an error in its declaration, whose types are unknown."""
        return bool(self.vague) and any(a.relation in self.vague for node in (head, *body) for a in atoms(node))


# ---- witnesses of `min` and `max` ----------------------------------------------------------------------------

_EXTREMES = ("min", "max")


def with_witnesses(head: Atom, body: Conjunction) -> Conjunction:
    """The body with a copy of the body of each aggregate that has witnesses, which binds them."""
    taken = all_names((head, *body))
    visible = direct_names(body) | {v.name for a in head.args for v in occurrences(a)}
    for position, literal in enumerate(body):
        if not isinstance(literal, Comparison) or not isinstance(literal.right, Aggregate):
            continue
        aggregate = literal.right
        if aggregate.function not in _EXTREMES or not isinstance(literal.left, Variable):
            continue
        others = (*body[:position], *body[position + 1 :])
        bound = bind(others, (), visible).bound
        bodies = aggregate_bodies(aggregate)
        if len(bodies) > 1:
            continue  # a witness of several alternatives is ambiguous
        inside = bind(bodies[0], bound, visible).bound
        witnesses = {name for name in shared(aggregate, visible) if name not in bound and name in inside}
        if witnesses:
            return with_witnesses(head, (*others, *_split(literal, aggregate, witnesses, visible, taken)))
    return body


def _split(
    literal: Comparison, aggregate: Aggregate, witnesses: set[str], visible: set[str], taken: set[str]
) -> Conjunction:
    """The aggregate over all witnesses, and its body restricted to those with the aggregated value."""
    (body,) = aggregate_bodies(aggregate)
    own = all_names(body) | (set() if aggregate.target is None else all_names((aggregate.target,)))
    inner = _renaming(witnesses, taken)
    outer = _renaming(own - visible, taken)
    assert aggregate.target is not None
    same = Comparison("=", literal.left, _renamed(aggregate.target, outer), span=literal.span)
    return (replace(literal, right=_renamed(aggregate, inner)), *_renamed(body, outer), same)


def _renaming(names: set[str], taken: set[str]) -> dict[str, str]:
    made: dict[str, str] = {}
    for name in sorted(names):
        made[name] = fresh_name(f"{name}_1", taken)
        taken.add(made[name])
    return made


def _renamed(root: N, names: Mapping[str, str]) -> N:
    def visit(node: Any) -> Any:
        return replace(node, name=names[node.name]) if isinstance(node, Variable) and node.name in names else node

    return rebuilt(root, visit)


def uses_structures(head: Atom, body: Conjunction) -> bool:
    """Test whether the clause has records or branches."""
    return any(isinstance(n, Call) and is_structure(n) for node in (head, *body) for n in walk(node))


# ---- equations ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Extraction:
    """Replace the records and branches of bodies by fresh variables with equations. `Lowering` then turns the equations
    into functions that construct a record, or tests and functions that destructure it.

        p([X, Y])            p(R), "[]"("", R), X = .number(R, 0), Y = .symbol(R, 1)
        q([X, Y]) :- …       q("[]"("P(number, symbol)", X, Y)) :- …

    An equation `R = [X, Y]` destructures `R` if `R` is bound, and constructs it from bound fields otherwise.
    """

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
        """The term with variables in place of records; their equations are added, the innermost first."""

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
    """Replace records and branches by functions, once the types of all terms are known."""

    kinds: Kinds
    findings: Findings
    failed: bool = field(default=False)

    def head(self, head: Atom, typed: Iterable[Typed]) -> Atom:
        return Atom(head.relation, tuple(self._made(each) for each in typed), head.state, span=head.span)

    def body(self, body: tuple[TypedLiteral, ...], outside: Collection[str], visible: set[str]) -> Conjunction:
        """The literals, with each record constructed or destructured; the variables of `outside` are bound."""
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
            bound = bind(tuple(done), outside, visible).bound
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
        """The test of the branch, and a literal for each field that is not a wildcard."""
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
        """The term with functions that construct its records."""
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
        """The tag and the kinds of the fields of a record or branch, and the name of its type; None if the type is
        unknown, which is reported."""
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
    """Head and body with functions in place of records; None after an error, which is reported."""
    work = Lowering(kinds, findings)
    raw = tuple(each.literal for each in body)
    visible = direct_names(raw) | {v.name for a in head.args for v in occurrences(a)}
    made = work.body(body, (), visible)
    finished = work.head(head, typed_head)
    return None if work.failed else (finished, made)
