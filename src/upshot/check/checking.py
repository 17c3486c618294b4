"""From a parsed program to a checked one: every stage of checking in its order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from upshot.check.active.active_rules import CheckedRules, active_rules
from upshot.check.active.interplay import warn_of_interplay
from upshot.check.clause.clauses import ClauseMaker
from upshot.check.clause.facts import constant_row, ground_clause
from upshot.check.constraints import constraint_clauses
from upshot.check.findings import Findings
from upshot.check.names.names import NameCheck, warn_of_singletons
from upshot.check.names.relations import Relations, relations
from upshot.check.names.type_names import type_names
from upshot.check.names.variables import fresh_name
from upshot.check.options import check_directives, constraint_policies, view_options
from upshot.check.program import CheckedProgram, Clause
from upshot.check.short_forms import short_forms
from upshot.check.strata import Components, Need, needs, order, unstratified, view_names
from upshot.core.schema import Role, Schema
from upshot.syntax.ast import (
    Activation,
    ActiveRule,
    Aggregate,
    Atom,
    Constant,
    Declaration,
    Deny,
    DenyPolicy,
    Directive,
    Ignored,
    Item,
    Program,
    Rule,
    TypeDeclaration,
    Variable,
    ViewDirective,
    subterms,
)


def check(program: Program) -> CheckedProgram:
    """The program resolved, typed, safe and stratified; raises `ProgramError` with all that is wrong with it."""
    findings = Findings()
    sorted_items = _Items.of(program.items)
    _note_ignored(sorted_items.ignored, findings)
    types = type_names(sorted_items.types, findings)
    known = relations(sorted_items.declarations, types, findings)
    _assign_roles(known, sorted_items.rules)
    short = short_forms(sorted_items.declarations, sorted_items.denies, known, findings)
    sorted_items.denies.extend(short.denies)
    denied = frozenset(d.head.relation for d in sorted_items.denies)
    input_part = _input_parts(known, denied, sorted_items.directives)
    maker = ClauseMaker(known.schemas, known.vague, types, findings)
    active = frozenset(rule.name for rule in sorted_items.active)
    names = NameCheck(known.schemas, denied, findings, rules=active)
    clauses, facts = _rules(sorted_items.rules, maker, names)
    clauses += [_load_clause(known.schemas[view], part) for view, part in input_part.items()]
    constraints = constraint_clauses(sorted_items.denies, maker, names)
    visible = {**known.schemas, **constraints.schemas}
    check_directives(sorted_items.directives, visible, findings)
    rules = active_rules(
        sorted_items.active,
        sorted_items.activations,
        replace(maker, schemas=visible),
        replace(names, schemas=visible, constraints=denied - visible.keys()),
    )
    schemas = {**visible, **rules.schemas}
    checked = CheckedProgram(
        schemas=schemas,
        clauses=(*clauses, *constraints.clauses, *rules.clauses),
        facts={name: tuple(rows) for name, rows in facts.items()},
        strata=_strata(schemas, sorted_items, rules, findings),
        options={**view_options(sorted_items.views, visible, findings), **rules.options},
        constraints=constraint_policies((*constraints.names, *short.names), sorted_items.policies, findings),
        directives=tuple(sorted_items.directives),
        input_part=input_part,
        rules=tuple(rules.rules),
        hidden=frozenset(rules.schemas),
        parts={each.name: each.part_of for each in sorted_items.declarations if each.part_of},
    )
    findings.raise_errors()
    warn_of_interplay(checked, findings)
    return replace(checked, warnings=findings.sorted_warnings())


@dataclass(frozen=True, slots=True)
class _Items:
    """The items of a program by kind, each in the order of the text."""

    types: list[TypeDeclaration]
    declarations: list[Declaration]
    rules: list[Rule]
    denies: list[Deny]
    policies: list[DenyPolicy]
    directives: list[Directive]
    views: list[ViewDirective]
    active: list[ActiveRule]
    activations: list[Activation]
    ignored: list[Ignored]

    @staticmethod
    def of(items: Iterable[Item]) -> _Items:
        result = _Items([], [], [], [], [], [], [], [], [], [])
        for item in items:
            match item:
                case TypeDeclaration():
                    result.types.append(item)
                case Declaration():
                    result.declarations.append(item)
                case Rule():
                    result.rules.append(item)
                case Deny():
                    result.denies.append(item)
                case DenyPolicy():
                    result.policies.append(item)
                case Directive():
                    result.directives.append(item)
                case ViewDirective():
                    result.views.append(item)
                case ActiveRule():
                    result.active.append(item)
                case Activation():
                    result.activations.append(item)
                case Ignored():
                    result.ignored.append(item)
        return result


def _note_ignored(ignored: Iterable[Ignored], findings: Findings) -> None:
    for item in ignored:
        if item.text.startswith('.pragma "magic-transform"'):
            continue  # `upshot run` honors it
        word = item.text.split(maxsplit=1)[0] if item.text.split() else item.text
        findings.note(
            "ignored-directive",
            f"`{word}` has no effect",
            item.span,
            label="ignored",
            help="it only tunes Soufflé; you can keep the line",
        )


def _is_fact(rule: Rule) -> bool:
    """Whether the rule states values; a fact with an aggregate in it is a rule without literals."""
    return rule.body is None and not any(
        isinstance(t, Aggregate) for head in rule.heads for a in head.args for t in subterms(a)
    )


def _assign_roles(known: Relations, rules: Iterable[Rule]) -> None:
    for rule in rules:
        if not _is_fact(rule):
            for head in rule.heads:
                schema = known.schemas.get(head.relation)
                if schema is not None and schema.role is Role.BASE:
                    known.schemas[head.relation] = replace(schema, role=Role.VIEW)


def _input_parts(known: Relations, denied: frozenset[str], directives: Iterable[Directive]) -> dict[str, str]:
    """A hidden base relation for every view that is also read from a file."""
    parts: dict[str, str] = {}
    for directive in directives:
        schema = known.schemas.get(directive.relation)
        if directive.kind == "input" and schema is not None and schema.role is Role.VIEW and schema.name not in parts:
            name = fresh_name(f"{schema.name}_input", denied.union(known.schemas))
            known.schemas[name] = replace(schema, name=name, role=Role.BASE)
            if schema.name in known.vague:
                known.vague.add(name)
            parts[schema.name] = name
    return parts


def _load_clause(schema: Schema, part: str) -> Clause:
    args = tuple(Variable(f"X{i}", span=schema.span) for i in range(1, schema.arity + 1))
    types = {a.name: c.type for a, c in zip(args, schema.columns, strict=True)}
    head = Atom(schema.name, args, span=schema.span)
    return Clause(head, (Atom(part, args, span=schema.span),), types, schema.span)


def _rules(
    rules: Sequence[Rule], maker: ClauseMaker, names: NameCheck
) -> tuple[list[Clause], dict[str, list[tuple[object, ...]]]]:
    """The clauses of all views and the facts of all base relations."""
    clauses: list[Clause] = []
    facts: dict[str, list[tuple[object, ...]]] = {}
    for rule in rules:
        if _is_fact(rule):
            for head in rule.heads:
                _fact(head, rule, maker, names, clauses, facts)
        else:
            clauses += _rule(rule, maker, names)
    return clauses, facts


def _fact(
    head: Atom,
    rule: Rule,
    maker: ClauseMaker,
    names: NameCheck,
    clauses: list[Clause],
    facts: dict[str, list[tuple[object, ...]]],
) -> None:
    schema = maker.schemas.get(head.relation)
    is_base = schema is not None and schema.role is Role.BASE
    if schema is not None and is_base and head.relation not in maker.vague:
        values = constant_row(head, schema)
        if values is not None:
            facts.setdefault(head.relation, []).append(values)
            return
    before = names.findings.reported
    names.head(head)
    if names.findings.reported > before:
        return
    clause = ground_clause(head, rule.span or head.span, maker)
    if clause is None:
        return
    if is_base:
        values = tuple(a.value for a in clause.head.args if isinstance(a, Constant))
        facts.setdefault(head.relation, []).append(values)
    else:
        clauses.append(clause)


def _rule(rule: Rule, maker: ClauseMaker, names: NameCheck) -> list[Clause]:
    findings = maker.findings
    start = findings.reported
    shallow = [names.head(head) for head in rule.heads]
    if rule.body is not None:
        shallow.append(names.formula(rule.body))
    if not all(shallow):
        return []
    before = len(findings.errors)
    made = maker.rule(rule.heads, rule.body, rule.span, sound=findings.reported == start)
    blamed = {e.span.start for e in findings.errors[before:] if e.span is not None and e.slug == "unsafe-variable"}
    body = [] if rule.body is None else [rule.body]
    warn_of_singletons([*rule.heads, *body], findings, blamed)
    return [inferred.clause for inferred in made]


def _strata(
    schemas: Mapping[str, Schema],
    items: _Items,
    rules: CheckedRules,
    findings: Findings,
) -> Components:
    """The strata by the text itself, so that circles are shown also where rules have other mistakes."""
    found: list[Need] = []
    for rule in items.rules:
        body = [] if rule.body is None else [rule.body]
        for head in rule.heads:
            found.extend(needs(head.relation, [*body, *head.args]))
    for deny in items.denies:
        found.extend(needs(deny.head.relation, [deny.body, *deny.head.args]))
    found.extend(rules.needs)
    components = order(view_names(schemas, ()), found)
    for wrong in unstratified(components, found):
        findings.include(wrong)
    return components
