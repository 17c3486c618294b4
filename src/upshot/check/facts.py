"""The facts of base relations as tuples of values."""

from __future__ import annotations

from upshot.check.clauses import ClauseMaker
from upshot.check.constants import convert
from upshot.check.findings import Findings
from upshot.check.ground import evaluate
from upshot.check.kinds import kinds_of_constant
from upshot.check.program import Clause
from upshot.check.signatures import only
from upshot.check.variables import occurrences
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.syntax.ast import Atom, Constant, Parameter, Wildcard, subterms


def fact(head: Atom, maker: ClauseMaker) -> tuple[object, ...] | None:
    """The values of a fact; None when it is not one, which is reported."""
    schema = maker.schemas.get(head.relation)
    if schema is None or schema.arity != len(head.args) or head.relation in maker.vague:
        return None
    quick = _constants(head, schema)
    if quick is not None:
        return quick
    clause = ground_clause(head, head.span, maker)
    if clause is None:
        return None
    return tuple(a.value for a in clause.head.args if isinstance(a, Constant))


def _constants(head: Atom, schema: Schema) -> tuple[object, ...] | None:
    """The values when all arguments are constants that fit: the way of a text with many facts."""
    quiet = Findings()
    values = []
    for argument, column in zip(head.args, schema.columns, strict=True):
        if not isinstance(argument, Constant) or not kinds_of_constant(argument) & only(column.type.kind):
            return None
        if argument.value is None and not column.type.nullable:
            return None
        values.append(convert(argument, column.type, quiet).value)
    return None if quiet.errors else tuple(values)


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
