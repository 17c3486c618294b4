"""Give every computed value a variable of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product

from upshot.check.names.variables import fold, fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.check.types.nullability import nullable_variables
from upshot.core.schema import Schema
from upshot.core.types import Type
from upshot.rewrite.normalize.term_type import term_type
from upshot.rewrite.shapes import aggregates, retyped
from upshot.rewrite.stratified import stratified
from upshot.syntax.ast import Atom, Call, Comparison, Constant, Not, Term, Test, Variable

Alternative = tuple[Literal, ...]


def flatten_terms(program: CheckedProgram) -> CheckedProgram:
    """The program with calls only in literals `Variable = f(…)` whose arguments are variables and constants.

    `p(X + 1) :- r(X, Y), Y * 2 < X.` becomes `p(V_1) :- r(X, Y), V = Y * 2, V < X, V_1 = X + 1.`

    An equation is false if its value is NULL. Where NULL would be accepted (in the head, in a negated literal, under
    `is_null`) and the types allow it, the clause is split, and the NULL case tested with `is_null`.
    """
    clauses = [flat for clause in program.clauses for flat in _flattened(clause, program.schemas)]
    if clauses == list(program.clauses):
        return program
    return stratified(program, clauses, program.schemas, by="flatten_terms")


def _flattened(clause: Clause, schemas: Mapping[str, Schema]) -> list[Clause]:
    if aggregates(clause) or not any(_has_call(literal) for literal in (clause.head, *clause.body)):
        return [clause]
    flattening = _Flattening(dict(clause.types), frozenset(nullable_variables(clause.body, schemas, ())))
    options = [flattening.literal(literal) for literal in clause.body]
    heads = flattening.head(clause.head, schemas[clause.head.relation])
    made: list[Clause] = []
    for choice in product(*options):
        for head, equations in heads:
            body = (*(literal for part in choice for literal in part), *equations)
            if not made or not _contradicts(body):
                made.append(retyped(replace(clause, head=head, body=body, types=flattening.types), schemas))
    return made


def _has_call(literal: Literal) -> bool:
    """Test whether a call occurs elsewhere than in `Variable = f(…)` over variables and constants."""
    match literal:
        case Not(Atom() | Test() as body):
            return _has_call(body)
        case Atom(_, args) | Test(_, args):
            return any(isinstance(arg, Call) for arg in args)
        case Comparison("=", Variable(), Call(_, args)):
            return any(isinstance(arg, Call) for arg in args)
        case Comparison(_, left, right):
            return isinstance(left, Call) or isinstance(right, Call)
        case _:
            return False


def _contradicts(body: Iterable[Literal]) -> bool:
    """Test whether a variable must be NULL and occurs in a comparison."""
    null = {name for each in body if isinstance(each, Test) and each.name == "is_null" for name in variables(each)}
    return any(isinstance(each, Comparison) and null & {*variables(each)} for each in body)


@dataclass(slots=True)
class _Flattening:
    """`types` grows by the fresh variables; `nullable` are the variables of the clause that NULL can reach."""

    types: dict[str, Type]
    nullable: frozenset[str]

    def literal(self, literal: Literal) -> list[Alternative]:
        """The alternatives that replace the literal: it is true where one of them is."""
        match literal:
            case Atom(_, args):
                terms, equations = self._terms(args)
                return [(*equations, replace(literal, args=terms))]
            case Comparison():
                return [self._comparison(literal)]
            case Test("is_null", (Call() as call,)):
                return [(test,) for test in self._null_tests(call)] or [(Test("false", (), span=literal.span),)]
            case Not(Test("is_null", (Call() as call,))):
                return [tuple(Not(Test("is_null", (Variable(name),))) for name in variables(call))]
            case Test(_, args):
                terms, equations = self._terms(args)
                return [(*equations, replace(literal, args=terms))]
            case Not(Atom(_, args) | Test(_, args) as body):
                terms, equations = self._terms(args)
                plain = Not(replace(body, args=terms), span=literal.span)
                return [(*equations, plain), *((test,) for arg in args for test in self._null_tests(arg))]
            case _:
                raise AssertionError(f"not a literal of a clause: {literal}")

    def head(self, head: Atom, schema: Schema) -> list[tuple[Atom, Alternative]]:
        """The head with variables for its calls and their equations; with NULL and a test where a call can be NULL."""
        options: list[list[tuple[Term, Alternative]]] = []
        for arg, type in zip(head.args, schema.types, strict=True):
            term, equations = self._term(arg)
            null = Constant(None, type.optional())
            options.append([(term, tuple(equations)), *((null, (test,)) for test in self._null_tests(arg))])
        return [
            (replace(head, args=tuple(term for term, _ in choice)), tuple(e for _, part in choice for e in part))
            for choice in product(*options)
        ]

    def _null_tests(self, term: Term) -> list[Test]:
        """Tests for NULL in a call: it is NULL if any of them is true. Variables and constants need none."""
        if not isinstance(term, Call):
            return []
        return [Test("is_null", (Variable(name),)) for name in variables(term) if name in self.nullable]

    def _comparison(self, literal: Comparison) -> Alternative:
        left, right = literal.left, literal.right
        if literal.op == "=" and isinstance(left, Call) and isinstance(right, Variable):
            left, right = right, left
        if literal.op == "=" and isinstance(left, Variable) and isinstance(right, Call):
            terms, equations = self._terms(right.args)
            return (*equations, replace(literal, left=left, right=replace(right, args=terms)))
        (left, right), equations = self._terms((left, right))
        return (*equations, replace(literal, left=left, right=right))

    def _terms(self, terms: Iterable[Term]) -> tuple[tuple[Term, ...], list[Literal]]:
        flat = [self._term(term) for term in terms]
        return tuple(term for term, _ in flat), [each for _, equations in flat for each in equations]

    def _term(self, term: Term) -> tuple[Term, list[Literal]]:
        """The term with variables in place of its calls, and their equations, inner calls first."""
        equations: list[Literal] = []

        def visit(node: Term, parts: tuple[Term, ...]) -> Term:
            if not isinstance(node, Call):
                return node
            call = replace(node, args=parts)
            name = fresh_name("V", self.types)
            self.types[name] = term_type(call, self.types).required()
            equations.append(Comparison("=", Variable(name, span=node.span), call, span=node.span))
            return Variable(name, span=node.span)

        return fold(term, visit), equations
