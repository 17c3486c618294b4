"""Facts as rows of values: their arguments are evaluated by the checker."""

from __future__ import annotations

from upshot.check.clause.clauses import ClauseMaker
from upshot.check.findings import Findings
from upshot.check.names.variables import fold, occurrences
from upshot.check.program import Clause
from upshot.check.types.constants import fit
from upshot.check.types.kinds import kinds_of_constant
from upshot.core.errors import DataError
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.core.types import Type
from upshot.syntax.ast import Atom, Call, Constant, Parameter, Term, Wildcard, subterms
from upshot.values.functions import FUNCTIONS
from upshot.values.signatures import only


def constant_row(head: Atom, schema: Schema) -> tuple[object, ...] | None:
    """The values of a fact whose arguments are all constants of the right types; None for any other.

    This is the fast path for texts with many facts.
    """
    if len(head.args) != schema.arity:
        return None
    values = []
    for argument, column in zip(head.args, schema.columns, strict=True):
        type = column.type
        if not isinstance(argument, Constant) or not kinds_of_constant(argument) & only(type.kind):
            return None
        value, problem = fit(argument.value, type)
        if problem or (value is None and not type.nullable):
            return None
        values.append(value)
    return tuple(values)


def ground_clause(head: Atom, origin: Span | None, maker: ClauseMaker) -> Clause | None:
    """The fact as a clause whose arguments are evaluated to constants."""
    if not _is_ground(head, maker.findings):
        return None
    made = maker.rule((head,), None, origin)
    if not made:
        return None
    clause = made[0].clause
    columns = maker.schemas[head.relation].columns
    args = [evaluate(a, c.type, maker.findings) for a, c in zip(clause.head.args, columns, strict=True)]
    constants = tuple(a for a in args if a is not None)
    if len(constants) < len(args):
        return None
    return Clause(Atom(head.relation, constants, span=head.span), (), {}, origin)


def _is_ground(head: Atom, findings: Findings) -> bool:
    ground = True
    for argument in head.args:
        for variable in occurrences(argument):
            ground = False
            findings.error(
                "fact-not-ground",
                f"variable `{variable.name}` in a fact of `{head.relation}`",
                variable.span,
                label="a fact has values only",
                help=f'write a value, or a rule: `{head.relation}(…) :- …`; text is quoted: `"{variable.name}"`',
            )
        ground = ground and not any(isinstance(t, Wildcard | Parameter) for t in subterms(argument))
    return ground


def evaluate(term: Term, type: Type, findings: Findings) -> Constant | None:
    """The value of a ground, typed term; None if it has none, which is reported."""
    if isinstance(term, Constant):
        return term
    failed = False

    def visit(current: Term, parts: tuple[Constant | None, ...]) -> Constant | None:
        nonlocal failed
        if isinstance(current, Constant):
            return current
        if not isinstance(current, Call) or failed:
            return None
        try:
            return _applied(current, [part for part in parts if part is not None])
        except DataError as problem:
            failed = True
            findings.error(problem.code, problem.message, current.span, label="has no value", help=problem.help)
            return None

    result = fold(term, visit)
    if result is None:
        return None
    value, problem = fit(result.value, type)
    if problem:
        findings.error("overflow", f"the value {problem}", term.span, label="has no value", help=_HELP)
        return None
    return Constant(value, type.optional() if value is None else type.required(), span=term.span)


_HELP = "integers have 64 bits, decimals 18 digits, or 38 with more than 18 places; use smaller values or a float"


def _applied(call: Call, args: list[Constant]) -> Constant:
    """The value of a call with constant arguments, as rules compute it."""
    function, types = FUNCTIONS[call.function], [each.type for each in args if each.type is not None]
    assert len(types) == len(args), "constants among operands are typed"
    type = function.result(types)
    values = [each.value for each in args]
    value = None if None in values else function.call(types[0].kind, type)(*values)
    return Constant(value, type.optional() if value is None else type, span=call.span)
