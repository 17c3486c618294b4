"""Declared records and algebraic data types: their fields resolved, their branches known by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from upshot.check.findings import Findings
from upshot.core.schema import Schema
from upshot.core.structures import Structure, TypeBranch, definition, structures
from upshot.core.types import Kind, Type
from upshot.syntax.ast import BranchDeclaration, TypeDeclaration, TypeName

if TYPE_CHECKING:
    from upshot.check.names.type_names import TypeNames


def define_structures(declarations: Iterable[TypeDeclaration], known: TypeNames, findings: Findings) -> None:
    """Resolve the fields of all structures, which may refer to each other, and give their types their definitions."""
    for declaration in declarations:
        branches: list[TypeBranch] = []
        for branch in declaration.branches:
            _claim(branch, declaration, known, findings)
            branches.append(TypeBranch(branch.name, _fields(branch, known, findings)))
        known.structures[declaration.name] = Structure(declaration.name, tuple(branches))
    for name, type in known.types.items():
        if type.kind is Kind.RECORD and type.name in known.structures:
            known.types[name] = replace(type, definition=definition(type.name, known.structures))


def _claim(branch: BranchDeclaration, owner: TypeDeclaration, known: TypeNames, findings: Findings) -> None:
    """A branch belongs to one type, so that `$A` says which."""
    if not branch.name:
        return
    if branch.name in known.branches:
        findings.error(
            "duplicate-branch",
            f"branch `{branch.name}` is declared twice",
            branch.span,
            label=f"`{known.branches[branch.name]}` has it already",
            help="give it another name: `$A(…)` has to tell its type",
        )
    known.branches[branch.name] = owner.name


def _fields(branch: BranchDeclaration, known: TypeNames, findings: Findings) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for field in branch.fields:
        type = known.resolve(field.type, findings)
        if type is None:
            continue
        if any(name == field.name for name, _ in found):
            findings.error(
                "duplicate-column", f"field `{field.name}` occurs twice", field.span, help="give it another name"
            )
        if type.nullable or type.kind is Kind.DECIMAL:
            _refuse_field(field.type, type, findings)
            continue
        found.append((field.name, type.name if type.kind is Kind.RECORD else type.kind.value))
    return tuple(found)


def _refuse_field(written: TypeName, type: Type, findings: Findings) -> None:
    cure = "a record type, whose `nil` can stand for no value" if type.nullable else "`number` or `float`"
    findings.error(
        "bad-type", f"a field cannot be `{type}`", written.span, label="not a type of a field", help=f"use {cure}"
    )


def structures_of(schemas: Mapping[str, Schema]) -> tuple[dict[str, Structure], dict[str, str]]:
    """The structures that the columns of relations have, by name, and the types of their branches."""
    found: dict[str, Structure] = {}
    for schema in schemas.values():
        for column in schema.columns:
            if column.type.definition:
                found.update(structures(column.type.definition))
    return found, {each.tag: name for name, made in found.items() for each in made.branches if each.tag}
