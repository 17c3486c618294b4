"""The declared relations as schemas."""

from __future__ import annotations

from collections.abc import Iterable

from upshot.check.findings import Findings
from upshot.check.names.type_names import TypeNames
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import NUMBER
from upshot.syntax.ast import Declaration


class Relations:
    """Schemas by name, in order of declaration.

    `vague` are the relations with an error in their declaration: types of values in them are not checked.
    """

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self.vague: set[str] = set()


def relations(declarations: Iterable[Declaration], types: TypeNames, findings: Findings) -> Relations:
    """The schema of every declared relation, with the role of a base relation until roles are assigned."""
    known = Relations()
    for declaration in declarations:
        earlier = known.schemas.get(declaration.name)
        if earlier is not None:
            findings.error(
                "duplicate-declaration",
                f"relation `{declaration.name}` is declared twice",
                declaration.span,
                label="declared again here",
                help="remove one of the declarations",
                notes=((earlier.span, "first declared here"),),
            )
            continue
        before = findings.reported
        known.schemas[declaration.name] = _schema(declaration, types, findings)
        if findings.reported > before:
            known.vague.add(declaration.name)
    return known


def _schema(declaration: Declaration, types: TypeNames, findings: Findings) -> Schema:
    columns: list[Column] = []
    positions: dict[str, int] = {}
    for attribute in declaration.attributes:
        if attribute.name in positions:
            findings.error(
                "duplicate-column",
                f"relation `{declaration.name}` has two columns named `{attribute.name}`",
                attribute.span,
                label="named again here",
                help="give the column another name",
            )
        positions.setdefault(attribute.name, len(columns))
        type = types.resolve(attribute.type, findings)
        columns.append(Column(attribute.name, type or NUMBER))
    if declaration.qualifiers:
        words = ", ".join(f"`{q}`" for q in declaration.qualifiers)
        findings.note(
            "ignored-qualifier",
            f"relation `{declaration.name}`: {words} has no effect",
            declaration.span,
            help="Upshot chooses storage and indexes itself; you can keep the word",
        )
    keys = _keys(declaration, positions, findings)
    return Schema(declaration.name, tuple(columns), Role.BASE, keys, declaration.span)


def _keys(declaration: Declaration, positions: dict[str, int], findings: Findings) -> tuple[tuple[int, ...], ...]:
    keys: list[tuple[int, ...]] = []
    for key in declaration.keys:
        findings.check_columns(key, declaration.name, positions, f"a key of `{declaration.name}`", declaration.span)
        places = tuple(positions[name] for name in dict.fromkeys(key) if name in positions)
        if tuple(sorted(places)) in {tuple(sorted(k)) for k in keys}:
            findings.error(
                "duplicate-key",
                f"relation `{declaration.name}` has the key ({', '.join(key)}) twice",
                declaration.span,
                label="one key written twice",
                help="remove one of the two",
            )
        keys.append(places)
    return tuple(keys)
