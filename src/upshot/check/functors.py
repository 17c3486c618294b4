"""Functions of users: their declarations, and the calls of them in a program."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from upshot.check.findings import Findings
from upshot.check.names.type_names import TypeNames
from upshot.core.types import Kind
from upshot.syntax.ast import Aggregate, Call, FunctorDeclaration, Node
from upshot.values.functors import MARK, is_fold, is_functor, signed_name

N = TypeVar("N")

_WITHOUT = {Kind.DECIMAL, Kind.RECORD}
"""Values that functions neither take nor give."""

Functors = Mapping[str, str]
"""The functions that are declared, by `@name`: each name with its types."""


def functors(declarations: Iterable[FunctorDeclaration], types: TypeNames, findings: Findings) -> dict[str, str]:
    """The declared functions; what is wrong with a declaration is in the findings."""
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
            # Without types: what calls it has no mistake of its own.
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
    """The node with every call of a function of users under its name with types; an unknown one is reported.

    Trees can be deeper than Python's stack: children come before their parents, by a stack of our own.
    """
    made: dict[int, Any] = {}
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:
        node, has_children = waiting.pop()
        children = _children(node)
        if has_children:
            made[id(node)] = _rebuilt(node, children, made, known, findings)
        else:
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(children.values()))
    found: N = made[id(root)]
    return found


def _children(node: Any) -> dict[Any, Any]:
    if isinstance(node, tuple):
        return dict(enumerate(node))
    if not isinstance(node, Node) or not is_dataclass(node):
        return {}
    values = {each.name: getattr(node, each.name) for each in fields(node) if each.name != "span"}
    return {name: value for name, value in values.items() if isinstance(value, Node | tuple)}


def _rebuilt(node: Any, children: dict[Any, Any], made: dict[int, Any], known: Functors, findings: Findings) -> Any:
    changed = {name: made[id(child)] for name, child in children.items() if made[id(child)] is not child}
    if isinstance(node, tuple):
        return tuple(made[id(each)] for each in node) if changed else node
    if isinstance(node, Call | Aggregate) and is_functor(node.function) and "(" not in node.function:
        if node.function not in known:
            findings.error(
                "unknown-functor", f"function `{node.function}` is not declared", node.span, label="unknown",
                help=findings.suggest(
                    node.function, known, f"declare it: `.functor {node.function[1:]}(x: number): number pure`"
                ),
            )  # fmt: skip
        elif known[node.function] == node.function:
            pass  # its declaration is refused
        elif is_fold(known[node.function]) is not isinstance(node, Aggregate):
            is_call, name = isinstance(node, Call), node.function
            findings.error(
                "misused-functor",
                f"`{name}` is a fold, and is called as a function" if is_call else f"`{name}` is no fold",
                node.span, label="used in the other way",
                help=f"write `{name} X : {{ … }}`" if is_call else f"declare it: `.functor {name[1:]}(…): … fold`",
            )  # fmt: skip
        else:
            changed["function"] = known[node.function]
    return replace(node, **changed) if changed else node
