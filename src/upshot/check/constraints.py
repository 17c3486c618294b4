"""`.deny` constraints as clauses of relations whose columns are inferred."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from upshot.check.clause.clauses import ClauseMaker, Inferred
from upshot.check.findings import Findings
from upshot.check.names.names import NameCheck, warn_of_singletons
from upshot.check.names.variables import fresh_name
from upshot.check.program import Clause
from upshot.core.schema import Column, Role, Schema
from upshot.core.span import Span
from upshot.core.types import NUMBER, Type
from upshot.syntax.ast import Atom, Constant, Deny, Variable


@dataclass(frozen=True, slots=True)
class Constraints:
    """`names` are all constraints, also those whose rules have errors."""

    names: tuple[str, ...]
    schemas: dict[str, Schema]
    clauses: tuple[Clause, ...]


def constraint_clauses(denies: Sequence[Deny], maker: ClauseMaker, names: NameCheck) -> Constraints:
    """The clauses of all constraints; several `.deny` with one name are one constraint with several rules."""
    inferred: dict[str, list[Inferred]] = {}
    first: dict[str, Deny] = {}
    for deny in denies:
        name = deny.head.relation
        if name in maker.schemas:
            _clash(deny, maker.schemas[name].span, maker.findings)
            continue
        earlier = first.setdefault(name, deny)
        if len(earlier.head.args) != len(deny.head.args):
            _arities(deny, earlier, maker.findings)
            continue
        inferred.setdefault(name, []).extend(_clauses(deny, maker, names))
    schemas: dict[str, Schema] = {}
    clauses: list[Clause] = []
    for name, deny in first.items():
        schema = inferred_schema(deny.head, inferred[name], maker.findings)
        if schema is None:
            continue
        schemas[name] = schema
        clauses += [retyped(i.clause, schema) for i in inferred[name]]
    return Constraints(tuple(first), schemas, tuple(clauses))


def _clauses(deny: Deny, maker: ClauseMaker, names: NameCheck) -> list[Inferred]:
    findings = maker.findings
    start = findings.reported
    shallow = names.head(deny.head, declared=False)
    shallow = names.formula(deny.body) and shallow
    if not shallow:
        return []
    made = maker.rule((deny.head,), deny.body, deny.span, infer=True, sound=findings.reported == start)
    warn_of_singletons([deny.head, deny.body], findings)
    return made


def inferred_schema(
    head: Atom, made: Sequence[Inferred], findings: Findings, role: Role = Role.CONSTRAINT
) -> Schema | None:
    """The inferred schema: columns are named by the variables of the first head, and their types fit all rules."""
    taken: set[str] = set()
    columns: list[Column] = []
    for position, argument in enumerate(head.args):
        base = argument.name if isinstance(argument, Variable) else f"column_{position + 1}"
        column = fresh_name(base, taken)
        taken.add(column)
        types = [inferred.head_types[position] for inferred in made]
        type = _common(types, column, head, findings, role) if types else None
        if types and type is None:
            return None
        columns.append(Column(column, type or NUMBER))
    return Schema(head.relation, tuple(columns), role, (), head.span)


def _common(types: Sequence[Type], column: str, head: Atom, findings: Findings, role: Role) -> Type | None:
    denied = role is Role.CONSTRAINT
    part, owner = ("rule", "constraint") if denied else ("alternative", "rule")
    first = types[0]
    for other in types[1:]:
        if (other.kind, other.scale) != (first.kind, first.scale):
            findings.error(
                "type-mismatch",
                f"column `{column}` of {owner} `{head.relation}` is `{first}` in one {part} and `{other}` in another",
                head.span,
                label="two types in one column",
                help="give the two constraints different names" if denied else "use two rules",
            )
            return None
    name = first.name if all(t.name == first.name for t in types) else ""
    return replace(first, name=name, nullable=any(t.nullable for t in types), precision=max(t.precision for t in types))


def retyped(clause: Clause, schema: Schema) -> Clause:
    """The clause with the constants of its head in the types of the columns."""
    args = tuple(
        replace(a, type=c.type if a.value is None else c.type.required()) if isinstance(a, Constant) else a
        for a, c in zip(clause.head.args, schema.columns, strict=True)
    )
    return replace(clause, head=replace(clause.head, args=args))


def _clash(deny: Deny, declared: Span | None, findings: Findings) -> None:
    findings.error(
        "name-clash",
        f"constraint `{deny.head.relation}` has the name of a relation",
        deny.head.span or deny.span,
        label="already a relation",
        help="give the constraint another name; its columns need no declaration",
        notes=((declared, "the relation is declared here"),) if declared is not None else (),
    )


def _arities(deny: Deny, earlier: Deny, findings: Findings) -> None:
    findings.error(
        "wrong-arity",
        f"constraint `{deny.head.relation}` is written with {len(earlier.head.args)} "
        f"and with {len(deny.head.args)} columns",
        deny.head.span or deny.span,
        label="a different number of columns",
        help="give the constraint another name",
        notes=((earlier.head.span, "first written here"),) if earlier.head.span is not None else (),
    )
