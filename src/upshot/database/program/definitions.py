"""Merge program texts item by item, so that every span still leads to its text.

A text that declares a relation, or gives rules for it, replaces the former declaration and all former rules; the
constraints in a declaration are replaced with it. Relations that a text does not mention stay unchanged.
"""

from __future__ import annotations

from collections.abc import Collection
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
    restated = {_settings_key(item) for item in new.items} - {None}
    parts = _parts_of(old, declared | ruled | denied)
    replaced = {name for item in old.items for name in _constraints_of(item, declared | denied)}
    removed = replaced - {name for item in new.items for name in _constraints_of(item, declared)}
    declared |= parts
    kept: list[Item] = []
    for item in old.items:
        match item:
            case Declaration(name):
                kept += [item] * (name not in declared | denied)
            case DisjunctiveRule(heads):
                kept += [item] * (not any(head.relation in declared | ruled | denied for head in heads))
            case Rule():
                kept += _without_heads(item, declared | ruled | denied)
            case Subsumption(worse):
                kept += [item] * (worse.relation not in declared | denied and _settings_key(item) not in restated)
            case Deny(head):
                kept += [item] * (head.relation not in declared | ruled | denied)
            case DenyPolicy(name):
                stated = declared | ruled | denied | replaced
                kept += [item] * (name not in stated and _settings_key(item) not in restated)
            case Directive(relation=relation) | ViewDirective(relation):
                kept += [item] * (relation not in declared | removed and _settings_key(item) not in restated)
            case TypeDeclaration() | ActiveRule() | FunctorDeclaration():
                kept += [item] * (_settings_key(item) not in restated)
            case Activation(rule):
                kept += [item] * (("rule", rule) not in restated)
            case Ignored():
                kept.append(item)
    return Program(normalized((*kept, *new.items)), span=new.span)


def without(program: Program, name: str) -> Program:
    """The program without the items of one relation or active rule."""
    own = {name, *_parts_of(program, {name})}
    names = {*own, *(each for item in program.items for each in _constraints_of(item, {name}))}
    kept: list[Item] = []
    for item in program.items:
        match item:
            case Declaration(owner) | DenyPolicy(owner):
                kept += [item] * (owner not in names)
            case Directive(relation=relation) | ViewDirective(relation):
                kept += [item] * (relation not in names)
            case Subsumption(worse):
                kept += [item] * (worse.relation != name)
            case Deny(head):
                kept += [item] * (head.relation != name)
            case DisjunctiveRule(heads):
                kept += [item] * (not any(head.relation in own for head in heads))
            case Rule():
                kept += _without_heads(item, own)
            case ActiveRule(owner) | Activation(owner):
                kept += [item] * (owner != name)
            case TypeDeclaration() | FunctorDeclaration() | Ignored():
                kept.append(item)
    return Program(tuple(kept), span=program.span)


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
