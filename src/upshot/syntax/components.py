"""Expand components: every `.init` becomes the relations, types and rules of its component, named `instance.name`.

A name inside a component refers to a declaration of the component (own or inherited) if there is one, else to one of
the surrounding text. A rule outside may use and extend `instance.relation`. The spans of expanded items name the
instance and its component.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from upshot.core.diagnostic import Diagnostic, did_you_mean
from upshot.core.span import Span
from upshot.syntax import ast
from upshot.syntax.rebuild import rebuilt

_DEEPEST = 40
"""Instances inside one another."""

_MOST_ITEMS = 100_000
"""Items that the instances of one text expand to."""

_Rename = Callable[[str], str]


def expanded_components(items: Sequence[ast.WrittenItem]) -> tuple[tuple[ast.Item, ...], list[Diagnostic]]:
    """The items with all instances expanded, and the errors found."""
    if not any(isinstance(item, ast.Component | ast.ComponentInstance | ast.Override) for item in items):
        return tuple(items), []  # type: ignore[arg-type]
    expansion = _ComponentExpansion()
    expansion.scope(items, _ComponentScope(), (), lambda name: name, "")
    return tuple(expansion.made), expansion.diagnostics


@dataclass(frozen=True, slots=True)
class _ComponentScope:
    """The visible components, each with the scope of its declaration."""

    components: Mapping[str, tuple[ast.Component, _ComponentScope]] = field(default_factory=dict)


@dataclass(slots=True)
class _ComponentExpansion:
    made: list[ast.Item] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def scope(
        self,
        items: Sequence[ast.WrittenItem],
        outer: _ComponentScope,
        path: tuple[str, ...],
        rename: _Rename,
        within: str,
    ) -> None:
        """Expand the items of the text, or of one instance, in their order."""
        scope = self._declared(items, outer)
        for item in items:
            match item:
                case ast.Component():
                    pass
                case ast.Override():
                    if not path:
                        self._report("misplaced-override", "`.override` stands outside of any component", item.span)
                case ast.ComponentInstance():
                    self._instance(item, scope, path, rename)
                case _:
                    self.made.append(_renamed(item, rename, within))

    def _declared(self, items: Sequence[ast.WrittenItem], outer: _ComponentScope) -> _ComponentScope:
        found = dict(outer.components)
        own: set[str] = set()
        scope = _ComponentScope(found)
        for item in items:
            if isinstance(item, ast.Component):
                if item.name in own:
                    self._report("duplicate-component", f"component `{item.name}` is declared twice", item.span)
                own.add(item.name)
                found[item.name] = (item, scope)
        return scope

    def _instance(
        self, item: ast.ComponentInstance, scope: _ComponentScope, path: tuple[str, ...], rename: _Rename
    ) -> None:
        if len(path) >= _DEEPEST or len(self.made) > _MOST_ITEMS:
            message = f"instance `{item.name}` makes instances without end"
            self._report("endless-component", message, item.span, "a component cannot instantiate itself")
            return
        here = (*path, item.name)
        content = _Content(self)
        content.take(item.component, scope, {}, frozenset(), (item.component.name,))
        local = _local_names(content.items)
        prefix = ".".join(here)

        def rename_inside(name: str) -> str:
            first = name.partition(".")[0]
            return f"{prefix}.{name}" if name in local or ("." in name and first in local) else rename(name)

        where = f"instance `{prefix}` of component `{item.component.name}`"
        self.scope(content.items, content.scope, here, rename_inside, where)

    def _report(self, slug: str, message: str, span: Span | None, help: str = "") -> None:
        self.diagnostics.append(Diagnostic(slug, message, span, help=help))


@dataclass(slots=True)
class _Content:
    """The items of a component, those of its bases first."""

    expansion: _ComponentExpansion
    items: list[ast.WrittenItem] = field(default_factory=list)
    scope: _ComponentScope = field(default_factory=_ComponentScope)

    def take(
        self,
        use: ast.ComponentUse,
        scope: _ComponentScope,
        types: Mapping[str, ast.TypeName],
        overridden: frozenset[str],
        chain: tuple[str, ...],
    ) -> None:
        """Add the items of a component, with `types` in place of the parameters of the component around."""
        name = types[use.name].name if use.name in types else use.name
        found = scope.components.get(name)
        if found is None:
            help = did_you_mean(name, scope.components) or f"declare it: `.comp {name} {{ … }}`"
            self.expansion._report("unknown-component", f"component `{name}` is not declared", use.span, help)
            return
        component, home = found
        if len(component.parameters) != len(use.arguments):
            expected = f"{name}<{', '.join(component.parameters)}>" if component.parameters else name
            message = f"component `{name}` takes {len(component.parameters)} types, {len(use.arguments)} are given"
            self.expansion._report("component-arguments", message, use.span, f"write `{expected}`")
            return
        arguments = [types.get(each.name, each) if not each.arguments else each for each in use.arguments]
        bound = dict(zip(component.parameters, arguments, strict=True))
        own = {item.relation: item for item in component.items if isinstance(item, ast.Override)}
        for base in component.bases:
            if base.name in chain or len(chain) > _DEEPEST:
                help = "a component cannot extend itself"
                self.expansion._report("endless-component", f"component `{base.name}` extends itself", base.span, help)
                continue
            self.take(base, home, bound, overridden | own.keys(), (*chain, base.name))
        self._check_overrides(own)
        for item in component.items:
            kept = _without_overridden(item, overridden)
            if kept is not None:
                self.items.append(_substituted(kept, bound))
        merged = {**self.scope.components, **home.components}
        self.scope = _ComponentScope(merged)

    def _check_overrides(self, own: Mapping[str, ast.Override]) -> None:
        """Report overrides of relations that no base declares `overridable`."""
        inherited = {item.name: item for item in self.items if isinstance(item, ast.Declaration)}
        for name, item in own.items():
            declared = inherited.get(name)
            if declared is None:
                help = did_you_mean(name, inherited) or "name a relation of a base of the component"
                self.expansion._report("bad-override", f"no base declares `{name}`", item.span, help)
            elif "overridable" not in declared.qualifiers:
                help = f"declare it so in the base: `.decl {name}(…) overridable`"
                self.expansion._report("bad-override", f"`{name}` is not overridable", item.span, help)


def _without_overridden(item: ast.WrittenItem, overridden: frozenset[str]) -> ast.WrittenItem | None:
    """The item without rules for overridden relations; None if nothing is left."""
    match item:
        case ast.Override():
            return None
        case ast.Rule(heads=heads):
            kept = tuple(head for head in heads if head.relation not in overridden)
            return item if kept == heads else replace(item, heads=kept) if kept else None
        case _:
            return item


def _substituted(item: ast.WrittenItem, arguments: Mapping[str, ast.TypeName]) -> ast.WrittenItem:
    """The item with types, or components, in place of the parameters of its component."""
    if not arguments:
        return item

    def change(node: ast.SyntaxNode) -> ast.SyntaxNode:
        match node:
            case ast.TypeName(name=name) if name in arguments:
                type = arguments[name]
                return replace(type, nullable=type.nullable or node.nullable, span=node.span)
            case ast.ComponentUse(name=name) if name in arguments:
                return replace(node, name=arguments[name].name)
            case ast.Call(function=name) if name.startswith(ast.CAST) and name.removeprefix(ast.CAST) in arguments:
                return replace(node, function=ast.CAST + arguments[name.removeprefix(ast.CAST)].name)
            case _:
                return node

    return rebuilt(item, change)


def _local_names(items: Iterable[ast.WrittenItem]) -> frozenset[str]:
    """The relations, types, constraints, rules and instances that a component declares."""
    found: set[str] = set()
    for item in items:
        if isinstance(item, ast.TypeDeclaration):
            found |= {f"${branch.name}" for branch in item.branches}
        match item:
            case (
                ast.Declaration(name=name)
                | ast.TypeDeclaration(name=name)
                | ast.ActiveRule(name=name)
                | ast.ComponentInstance(name=name)
            ):
                found.add(name)
            case ast.Deny(head=head):
                found.add(head.relation)
            case _:
                pass
    return frozenset(found)


def _renamed(item: ast.Item, rename: _Rename, within: str) -> ast.Item:
    """The item with the names that it has in its instance."""
    if not within:
        return item

    def change(node: ast.SyntaxNode) -> ast.SyntaxNode:
        if node.span is not None:
            node = replace(node, span=replace(node.span, within=within))
        match node:
            case ast.Atom(relation=name):
                return replace(node, relation=rename(name))
            case ast.ForeignKey(relation=name) | ast.Directive(relation=name) | ast.ViewDirective(relation=name):
                return replace(node, relation=rename(name))
            case ast.Declaration() | ast.TypeName() | ast.TypeDeclaration() | ast.DenyPolicy() | ast.ActiveRule():
                return replace(node, name=rename(node.name))
            case ast.BranchDeclaration(name=name) if name:
                return replace(node, name=rename(f"${name}").replace("$", ""))
            case ast.Call(function=name) if name.startswith(ast.CAST):
                return replace(node, function=ast.CAST + rename(name.removeprefix(ast.CAST)))
            case ast.Call(function=name) if name.startswith("$"):
                return replace(node, function="$" + rename(name).replace("$", ""))
            case ast.Activation(rule=name):
                return replace(node, rule=rename(name))
            case _:
                return node

    return rebuilt(item, change)
