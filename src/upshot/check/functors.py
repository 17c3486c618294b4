"""Functions of the user: their declarations, and their calls in a program."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from upshot.check.findings import Findings
from upshot.check.names.type_names import TypeNames
from upshot.core.types import Kind
from upshot.syntax.ast import Aggregate, Call, FunctorDeclaration
from upshot.syntax.rebuild import rebuilt
from upshot.values.functors import MARK, is_fold, is_functor, signed_name

N = TypeVar("N")

_WITHOUT = {Kind.DECIMAL, Kind.RECORD}
"""The kinds that functions of the user neither take nor return."""

Functors = Mapping[str, str]
"""The signatures of the declared functions, by `@name`."""


def functors(declarations: Iterable[FunctorDeclaration], types: TypeNames, findings: Findings) -> dict[str, str]:
    """The declared functions; errors in declarations are in the findings."""
    found: dict[str, str] = {}
    for declaration in declarations:
        resolved = [types.resolve(each.type, findings) for each in declaration.parameters]
        result = types.resolve(declaration.result, findings)
        kinds = [each.kind for each in resolved if each is not None]
        if result is None or len(kinds) < len(resolved):
            continue
        nullable = [each for each in (*resolved, result) if each is not None and each.nullable]
        if not kinds or nullable or _WITHOUT & {*kinds, result.kind} or (declaration.fold and len(kinds) > 1):
            _refuse(declaration, {*kinds, result.kind} if kinds else set(), bool(nullable), findings)
            # Without types, so that its calls are no further errors.
            found.setdefault(f"{MARK}{declaration.name}", f"{MARK}{declaration.name}")
        elif f"{MARK}{declaration.name}" in found:
            findings.error(
                "duplicate-declaration", f"function `{declaration.name}` is declared twice", declaration.span,
                label="declared again here", help="remove one of the declarations",
            )  # fmt: skip
        else:
            found[f"{MARK}{declaration.name}"] = signed_name(
                declaration.name, kinds, result.kind, declaration.revision, stateful=declaration.stateful,
                fold=declaration.fold,
            )  # fmt: skip
    return found


def _refuse(declaration: FunctorDeclaration, kinds: Collection[Kind], nullable: bool, findings: Findings) -> None:
    why, cure = "takes no arguments", "give it one: a function of nothing is a constant"
    if declaration.fold and len(declaration.parameters) > 1:
        why, cure = "folds more than one value", "let it take one: the value of each solution"
    if Kind.DECIMAL in kinds:
        why, cure = "has decimals among its types", "use `float`, or integers of the smallest unit"
    if Kind.RECORD in kinds:
        why, cure = (
            "has records among its types",
            "let it take and give the fields, one function for each that it gives",
        )
    if nullable:
        why, cure = "has nullable types", "leave `?` out: where an argument is NULL, the value is NULL, without a call"
    findings.error("functor-type", f"function `{declaration.name}` {why}", declaration.span, label=why, help=cure)


def resolved(root: N, known: Functors, findings: Findings) -> N:
    """The tree with the signature in place of the name in every call of a function of the user; unknown functions are
    reported."""

    def visit(node: Any) -> Any:
        if isinstance(node, Call | Aggregate) and is_functor(node.function) and "(" not in node.function:
            return _resolved_call(node, known, findings)
        return node

    return rebuilt(root, visit)


def _resolved_call(node: Call | Aggregate, known: Functors, findings: Findings) -> Call | Aggregate:
    name = node.function
    if name not in known:
        findings.error(
            "unknown-functor", f"function `{name}` is not declared", node.span, label="unknown",
            help=findings.suggest(name, known, f"declare it: `.functor {name[1:]}(x: number): number pure`"),
        )  # fmt: skip
        return node
    if known[name] == name:
        return node  # its declaration has an error
    if is_fold(known[name]) is not isinstance(node, Aggregate):
        is_call = isinstance(node, Call)
        findings.error(
            "misused-functor",
            f"`{name}` is a fold, and is called as a function" if is_call else f"`{name}` is no fold",
            node.span, label="used as the other kind",
            help=f"write `{name} X : {{ … }}`" if is_call else f"declare it: `.functor {name[1:]}(…): … fold`",
        )  # fmt: skip
        return node
    return replace(node, function=known[name])
