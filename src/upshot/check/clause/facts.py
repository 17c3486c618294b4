"""Facts: bodiless clauses, as values."""

from __future__ import annotations

from upshot.check.clause.clauses import ClauseMaker
from upshot.check.findings import Findings
from upshot.check.names.variables import occurrences
from upshot.check.program import Clause
from upshot.check.types.constants import fit
from upshot.check.types.ground import evaluate
from upshot.check.types.kinds import kinds_of_constant
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.syntax.ast import Atom, Constant, Parameter, Wildcard, subterms
from upshot.values.signatures import only


def constant_row(head: Atom, schema: Schema) -> tuple[object, ...] | None:
    """The values of a fact whose arguments are all constants that fit; None sends it the long way.

    A text can hold very many facts, and nearly all of them end here.
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
    """A clause without body, its head computed down to constants."""
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
