"""The declared types, including records and algebraic data types: resolution of names, and subtyping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from upshot.check.findings import Findings
from upshot.core.schema import Schema
from upshot.core.structures import Structure, TypeBranch, definition, structures
from upshot.core.types import DECIMAL_SIZES, Kind, Type, is_decimal
from upshot.syntax.ast import BranchDeclaration, TypeDeclaration, TypeName

BUILT_IN = {kind.value: kind for kind in Kind if kind is not Kind.RECORD}

_NAMES_ELSEWHERE = {
    **dict.fromkeys(("int", "integer", "bigint", "long", "i64", "int64"), Kind.NUMBER.value),
    **dict.fromkeys(("uint", "uint64", "u64"), Kind.UNSIGNED.value),
    **dict.fromkeys(("string", "text", "str", "varchar", "char"), Kind.SYMBOL.value),
    **dict.fromkeys(("double", "real", "float64"), Kind.FLOAT.value),
    **dict.fromkeys(("bool",), Kind.BOOLEAN.value),
    **dict.fromkeys(("numeric",), "decimal(18,2)"),
    **dict.fromkeys(("datetime", "time"), Kind.TIMESTAMP.value),
}
"""The built-in types by their names in other languages."""

Names = frozenset[str]
"""The possible types of a value: one name, or several if unions overlap in more than one type."""


def name_of(type: Type) -> str:
    return type.name or type.kind.value


@dataclass(slots=True)
class TypeNames:
    """The types that a program declares. `parents` are the declared supertypes, `parts` the members of a union,
    `structures` the records and algebraic data types, `branches` the types of branches.

    If declarations are not `known`, all types of one kind are compatible: this is so for queries, which are checked
    against schemas only.
    """

    types: dict[str, Type] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    known: bool = True
    structures: dict[str, Structure] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    _up: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def records(self) -> Names:
        """The types without an order."""
        return frozenset(name for name, type in self.types.items() if type.kind is Kind.RECORD)

    def is_subtype(self, low: str, high: str) -> bool:
        """Test whether `low` is a subtype of `high`."""
        return low == high or not self.known or high in self._above(low)

    def flows(self, names: Names, high: str) -> bool:
        return all(self.is_subtype(n, high) for n in names)

    def meet(self, left: Names, right: Names) -> Names:
        """The widest common subtypes; empty if there is none."""
        if not self.known or all(self.flows(left, r) for r in right):
            return left
        if all(self.flows(right, left_name) for left_name in left):
            return right
        common = [n for n in self._below(left) if any(self.is_subtype(n, r) for r in right)]
        return frozenset(
            n for n in common if not any(n != m and self.is_subtype(n, m) and not self.is_subtype(m, n) for m in common)
        )

    def _below(self, names: Names) -> list[str]:
        every = [*self.types, *(k for k in BUILT_IN if k not in self.types)]
        return [n for n in every if any(self.is_subtype(n, high) for high in names)]

    def _above(self, name: str) -> frozenset[str]:
        found = self._up.get(name)
        if found is None:
            found = self._up[name] = self._climb(name)
        return found

    def _climb(self, name: str) -> frozenset[str]:
        above = self._ancestors(name)
        # A common supertype of all members of a union is a supertype of the union.
        members = self._members(name)
        if members:
            above |= set.intersection(*(self._ancestors(m) for m in members))
        if name in self.types:
            above.add(self.types[name].kind.value)
        return frozenset(above)

    def _ancestors(self, name: str) -> set[str]:
        above: set[str] = set()
        pending = [name]
        while pending:
            current = pending.pop()
            if current not in above:
                above.add(current)
                pending.extend(self.parents.get(current, ()))
        return above

    def _members(self, name: str) -> set[str]:
        """The members of a union, with nested unions replaced by their members."""
        members: set[str] = set()
        seen: set[str] = set()
        pending = list(self.parts.get(name, ()))
        while pending:
            current = pending.pop()
            if current in seen:
                continue
            seen.add(current)
            inner = self.parts.get(current)
            if inner:
                pending.extend(inner)
            else:
                members.add(current)
        return members

    def _instead_of(self, name: str, findings: Findings) -> str:
        same = _NAMES_ELSEWHERE.get(name.lower())
        if same is not None:
            return f"write `{same}`"
        return findings.suggest(name, [*BUILT_IN, *self.types], f"declare it: `.type {name} <: symbol`")

    def resolve(self, written: TypeName, findings: Findings) -> Type | None:
        """The type with this name; None after an error, which is reported."""
        kind = BUILT_IN.get(written.name)
        if kind is not None:
            type = _built_in(kind, written, findings)
        else:
            type = self.types.get(written.name)
            if type is None:
                if written.name not in self.types and written.name not in self.parents:
                    findings.error(
                        "unknown-type",
                        f"type `{written.name}` is not declared",
                        written.span,
                        label="not a type",
                        help=self._instead_of(written.name, findings),
                    )
                return None
            if written.arguments:
                _refuse(written, findings, f"type `{written.name}` takes no arguments", f"write `{written.name}`")
                return None
        return type.optional() if type is not None and written.nullable else type


def _built_in(kind: Kind, written: TypeName, findings: Findings) -> Type | None:
    if kind is not Kind.DECIMAL:
        if written.arguments:
            _refuse(written, findings, f"type `{kind.value}` takes no arguments", f"write `{kind.value}`")
            return None
        return Type(kind)
    if len(written.arguments) != 2:
        _refuse(written, findings, "`decimal` needs a precision and a scale", "as in `decimal(10,2)`")
        return None
    precision, scale = written.arguments
    if not is_decimal(precision, scale):
        _refuse(
            written,
            findings,
            f"invalid type `decimal({precision},{scale})`",
            DECIMAL_SIZES,
        )
        return None
    return Type(kind, precision=precision, scale=scale)


def _refuse(written: TypeName, findings: Findings, message: str, help: str) -> None:
    findings.error("bad-type", message, written.span, label="not a usable type", help=help)


def type_names(declarations: Iterable[TypeDeclaration], findings: Findings) -> TypeNames:
    """The declared types, resolved through their bases, in any order of declaration."""
    known = TypeNames()
    first: dict[str, TypeDeclaration] = {}
    for declaration in declarations:
        if declaration.name in BUILT_IN or declaration.name in first:
            _duplicate(declaration, first.get(declaration.name), findings)
        else:
            first[declaration.name] = declaration
            known.parents[declaration.name] = []
    order = _bases_first(first, findings)
    made = [each for each in first.values() if each.branches]
    known.types.update({each.name: Type(Kind.RECORD, each.name) for each in made})
    for name in order:
        if not first[name].branches:
            _define(first[name], known, findings)
    define_structures(made, known, findings)
    return known


def types_of(schemas: Mapping[str, Schema]) -> TypeNames:
    """The types for rules that are checked against schemas only."""
    structures, branches = structures_of(schemas)
    return TypeNames(known=False, structures=structures, branches=branches)


def _duplicate(declaration: TypeDeclaration, earlier: TypeDeclaration | None, findings: Findings) -> None:
    what = "is declared twice" if earlier else "is built in"
    findings.error(
        "duplicate-declaration",
        f"type `{declaration.name}` {what}",
        declaration.span,
        label="declared again here" if earlier else "a built-in type",
        help="give it another name",
        notes=((earlier.span, "first declared here"),) if earlier else (),
    )


def _bases_first(declared: Mapping[str, TypeDeclaration], findings: Findings) -> list[str]:
    """The names in an order with bases first; types on a cycle are reported and left out."""
    waiting = {n: len({b.name for b in d.bases if b.name in declared}) for n, d in declared.items()}
    users: dict[str, list[str]] = {}
    for name, declaration in declared.items():
        for base in {b.name for b in declaration.bases}:
            users.setdefault(base, []).append(name)
    ready = [n for n, count in waiting.items() if count == 0]
    for name in ready:
        for user in users.get(name, ()):
            waiting[user] -= 1
            if waiting[user] == 0:
                ready.append(user)
    done = set(ready)
    for name, declaration in declared.items():
        if name not in done:
            findings.error(
                "cyclic-type",
                f"type `{name}` is defined by itself",
                declaration.span,
                label="cyclic definition",
                help="end the chain in a built-in type such as `symbol`",
            )
    return ready


def _define(declaration: TypeDeclaration, known: TypeNames, findings: Findings) -> None:
    name = declaration.name
    bases: list[Type] = []
    for written in declaration.bases:
        if written.nullable:
            _refuse(written, findings, f"type `{name}` cannot be nullable itself", "write `?` where a column uses it")
            return
        base = known.resolve(written, findings)
        if base is None:
            return
        bases.append(base)
    if not bases:
        findings.error("bad-type", f"type `{name}` has no base", declaration.span, help=f"`.type {name} <: symbol`")
        return
    first = bases[0]
    if first.kind is Kind.RECORD and (len(bases) > 1 or not declaration.equivalent):
        findings.error(
            "bad-type",
            f"type `{name}` is built on a record or an algebraic data type",
            declaration.span,
            label="no subtypes and unions of these",
            help=f"use `{first.name}` itself, or an algebraic data type with a branch for each",
        )
        return
    if any((b.kind, b.scale) != (first.kind, first.scale) for b in bases):
        spelled = ", ".join(f"`{b}`" for b in bases)
        findings.error(
            "bad-type",
            f"union `{name}` mixes types without a common kind: {spelled}",
            declaration.span,
            label="one kind of value only",
            help="use subtypes of one built-in type",
        )
        return
    if declaration.equivalent and len(bases) == 1:
        known.types[name] = first
        return
    widest = max(b.precision for b in bases)
    known.types[name] = Type(first.kind, name, precision=widest, scale=first.scale)
    if declaration.equivalent:
        known.parts[name] = tuple(name_of(b) for b in bases)
        for base in bases:
            known.parents.setdefault(name_of(base), []).append(name)
    else:
        known.parents[name] = [name_of(b) for b in bases]


# ---- records and algebraic data types ---------------------------------------------------------------------------


def define_structures(declarations: Iterable[TypeDeclaration], known: TypeNames, findings: Findings) -> None:
    """Resolve the fields of all structures, which may refer to each other, and set the definitions of their types."""
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
    """Assign a branch to its type; a branch of two types is reported, since `$A` must identify the type."""
    if not branch.name:
        return
    if branch.name in known.branches:
        findings.error(
            "duplicate-branch",
            f"branch `{branch.name}` is declared twice",
            branch.span,
            label=f"`{known.branches[branch.name]}` has it already",
            help="give it another name: `$A(…)` must identify its type",
        )
    known.branches[branch.name] = owner.name


def _fields(branch: BranchDeclaration, known: TypeNames, findings: Findings) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for each in branch.fields:
        type = known.resolve(each.type, findings)
        if type is None:
            continue
        if any(name == each.name for name, _ in found):
            findings.error(
                "duplicate-column", f"field `{each.name}` occurs twice", each.span, help="give it another name"
            )
        if type.nullable or type.kind is Kind.DECIMAL:
            _refuse_field(each.type, type, findings)
            continue
        found.append((each.name, type.name if type.kind is Kind.RECORD else type.kind.value))
    return tuple(found)


def _refuse_field(written: TypeName, type: Type, findings: Findings) -> None:
    cure = "a record type, whose `nil` can stand for no value" if type.nullable else "`number` or `float`"
    findings.error(
        "bad-type", f"a field cannot be `{type}`", written.span, label="not a type of a field", help=f"use {cure}"
    )


def structures_of(schemas: Mapping[str, Schema]) -> tuple[dict[str, Structure], dict[str, str]]:
    """The structures in the columns of relations, by name, and the types of their branches."""
    found: dict[str, Structure] = {}
    for schema in schemas.values():
        for column in schema.columns:
            if column.type.definition:
                found.update(structures(column.type.definition))
    return found, {each.tag: name for name, made in found.items() for each in made.branches if each.tag}
