"""Merge program texts item by item, so that every span still leads to its text.

A text that declares a relation, or gives rules for it, replaces the former declaration and all former rules; the
constraints in a declaration are replaced with it. Relations that a text does not mention stay unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from upshot.check.short_forms import named_forms
from upshot.database.program.activations import normalized
from upshot.syntax.ast import (
    Activation,
    ActiveRule,
    Declaration,
    Deny,
    DenyPolicy,
    Directive,
    DisjunctiveRule,
    FunctorDeclaration,
    Ignored,
    Item,
    Program,
    Rule,
    Subsumption,
    TypeDeclaration,
    ViewDirective,
)


def merged(old: Program, new: Program) -> Program:
    """The old program with everything that the new text mentions replaced."""
    declared = {item.name for item in new.items if isinstance(item, Declaration)}
    ruled = {head.relation for item in new.items if isinstance(item, Rule | DisjunctiveRule) for head in item.heads}
    denied = {item.head.relation for item in new.items if isinstance(item, Deny)}
    restated = {key for item in new.items if (key := _settings_key(item)) is not None}
    constraints = {name for item in new.items for name in _constraints_of(item, declared)}
    return Program(
        normalized((*_unmentioned(old, declared, ruled, denied, restated, constraints), *new.items)), span=new.span
    )


def without(program: Program, name: str) -> Program:
    """The program without the items of one relation or active rule."""
    return Program(tuple(_unmentioned(program, {name}, set(), set(), {("rule", name)}, set())), span=program.span)


def _unmentioned(
    program: Program,
    declared: set[str],
    ruled: set[str],
    denied: set[str],
    restated: set[tuple[str, str]],
    constraints: set[str],
) -> Iterator[Item]:
    """The items that a text does not replace: it declares, has rules for and denies these relations, restates these
    settings, and its declarations have these constraints."""
    replaced = {name for item in program.items for name in _constraints_of(item, declared | denied)}
    removed = replaced - constraints
    declared = declared | _parts_of(program, declared | ruled | denied)
    stated = declared | ruled | denied
    for item in program.items:
        if (_settings_key(item) or ("", "")) in restated:
            continue
        match item:
            case Declaration(name):
                kept = name not in declared | denied
            case DisjunctiveRule(heads):
                kept = not any(head.relation in stated for head in heads)
            case Rule():
                yield from _without_heads(item, stated)
                continue
            case Subsumption(worse):
                kept = worse.relation not in declared | denied
            case Deny(head):
                kept = head.relation not in stated
            case DenyPolicy(name):
                kept = name not in stated | replaced
            case Directive(relation=relation) | ViewDirective(relation):
                kept = relation not in declared | removed
            case Activation(rule):
                kept = ("rule", rule) not in restated
            case TypeDeclaration() | ActiveRule() | FunctorDeclaration() | Ignored():
                kept = True
        if kept:
            yield item


def _parts_of(program: Program, owners: Collection[str]) -> set[str]:
    """The generated parts of these views, which are replaced with them."""
    return {item.name for item in program.items if isinstance(item, Declaration) and item.part_of in owners}


def _constraints_of(item: Item, relations: Collection[str]) -> list[str]:
    """The constraints in the item, if it declares one of these relations."""
    return constraint_names(item) if isinstance(item, Declaration) and item.name in relations else []


def constraint_names(declaration: Declaration) -> list[str]:
    return [name for name, _ in named_forms(declaration)]


def _without_heads(rule: Rule, names: Collection[str]) -> list[Item]:
    """The rule without the heads of these relations; nothing if no head remains."""
    heads = tuple(head for head in rule.heads if head.relation not in names)
    if heads == rule.heads:
        return [rule]
    return [replace(rule, heads=heads)] if heads else []


def _settings_key(item: Item) -> tuple[str, str] | None:
    """The key under which a later item replaces an earlier one."""
    match item:
        case Directive(kind, relation):
            return kind, relation
        case ViewDirective(relation):
            return "view", relation
        case DenyPolicy(name):
            return "policy", name
        case FunctorDeclaration(name):
            return "functor", name
        case Subsumption(worse):
            return "subsumption", worse.relation
        case TypeDeclaration(name):
            return "type", name
        case ActiveRule(name):
            return "rule", name
        case Declaration() | Rule() | DisjunctiveRule() | Deny() | Activation() | Ignored():
            return None
