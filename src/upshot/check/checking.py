"""Check a parsed program: all stages in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from upshot.check import active
from upshot.check.clause.clause_form import TRUE
from upshot.check.clause.clauses import ClauseMaker
from upshot.check.clause.facts import constant_row, ground_clause
from upshot.check.constraints import constraint_clauses
from upshot.check.disjunctions import Undecided, refuse_qualifiers, undecided
from upshot.check.equivalences import Expanded, expanded
from upshot.check.findings import Findings
from upshot.check.functors import Functors, functors, resolved
from upshot.check.growing import Grown, growing
from upshot.check.inline import inlining
from upshot.check.lattices import check_monotone, lattices
from upshot.check.names.names import NameCheck, warn_of_singletons
from upshot.check.names.relations import Relations, relations
from upshot.check.names.type_names import type_names
from upshot.check.names.variables import atoms, fresh_name
from upshot.check.options import check_directives, constraint_policies, view_options
from upshot.check.program import NOTHING_KNOWN, CheckedProgram, CheckedRules, Clause, Constraint, KnownRule, KnownRules
from upshot.check.short_forms import short_forms
from upshot.check.strata import Components, Need, needs, order, unstratified, view_names
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError
from upshot.core.schema import Role, Schema
from upshot.core.span import Span
from upshot.syntax import ast
from upshot.values.functions import RANGE
from upshot.values.functors import is_functor


def check(program: ast.Program, before: KnownRules = NOTHING_KNOWN) -> CheckedProgram:
    """Resolve, type and stratify a program; raise `ProgramError` with all its errors. Rules that were checked `before`
    are not checked again."""
    findings = Findings()
    items = _Items.of(program.items)
    earlier, declared_types = before.under(items.types), tuple(items.types)
    _note_ignored(items.ignored, findings)
    types = type_names(items.types, findings)
    own_functions = functors(items.functors, types, findings)
    items = items.resolved(own_functions, findings, earlier).inlined(findings)
    special = expanded(items.declarations, items.rules, items.subsumptions, types.records, findings)
    items = replace(items, declarations=special.declarations, rules=special.rules, subsumptions=special.subsumptions)
    known = relations(items.declarations, types, findings)
    left_out = undecided(items.rules, items.disjunctive, items.denies, findings)
    items = items.without(left_out)
    _assign_roles(known, (*items.rules, *left_out.rules))
    lattices(items.declarations, items.subsumptions, known, findings)
    short = short_forms(items.declarations, items.denies, known, findings)
    items.denies.extend(short.denies)
    denied = frozenset(d.head.relation for d in items.denies)
    input_part = _input_parts(known, denied, items.directives, special.loaded)
    maker = ClauseMaker(known.schemas, known.vague, types, findings)
    names = NameCheck(known.schemas, denied, findings, rules=frozenset(rule.name for rule in items.active))
    made = _rules(items.rules, maker, names, earlier)
    grown = growing([*made.clauses, *_loads(known, special, input_part)], maker, known.schemas)
    constraints = constraint_clauses(items.denies, maker, names)
    visible = {**known.schemas, **constraints.schemas}
    check_directives(items.directives, visible, findings)
    rule_names = replace(names, schemas=visible, constraints=denied - visible.keys())
    rules = _active_rules(items, (*grown.clauses, *constraints.clauses), replace(maker, schemas=visible), rule_names)
    schemas = {**visible, **rules.schemas}
    checked = CheckedProgram(
        schemas=schemas,
        clauses=(*grown.clauses, *constraints.clauses, *rules.clauses),
        facts={name: tuple(rows) for name, rows in made.facts.items()},
        strata=_strata(schemas, items, rules, grown, findings),
        options={**view_options(items.views, visible, findings), **rules.options},
        constraints=_policies((*constraints.names, *short.names), left_out, items.policies, findings),
        directives=tuple(items.directives),
        input_part=input_part,
        rules=tuple(rules.rules),
        functors=own_functions,
        undecided=left_out.relations,
        hidden=frozenset(rules.schemas),
        parts={each.name: each.part_of for each in items.declarations if each.part_of} | grown.parts,
    )
    _check_left_out(left_out, program.items, replace(maker, schemas=visible), names)
    check_monotone(schemas, checked.clauses, checked.strata, findings)
    findings.raise_errors()
    return _warned(replace(checked, known=KnownRules(declared_types, made.known)), findings)


def _warned(checked: CheckedProgram, findings: Findings) -> CheckedProgram:
    if checked.rules:
        active.triggering.warn_of_interplay(checked, findings)
    return replace(checked, warnings=findings.sorted_warnings())


def _active_rules(items: _Items, views: Sequence[Clause], maker: ClauseMaker, names: NameCheck) -> CheckedRules:
    if not items.active and not items.activations:
        return CheckedRules()
    return active.active_rules.active_rules(items.active, items.activations, views, maker, names)


@dataclass(frozen=True, slots=True)
class _Items:
    """The items of a program by kind, each kind in the order of the text."""

    types: list[ast.TypeDeclaration]
    declarations: list[ast.Declaration]
    rules: list[ast.Rule]
    subsumptions: list[ast.Subsumption]
    functors: list[ast.FunctorDeclaration]
    disjunctive: list[ast.DisjunctiveRule]
    denies: list[ast.Deny]
    policies: list[ast.DenyPolicy]
    directives: list[ast.Directive]
    views: list[ast.ViewDirective]
    active: list[ast.ActiveRule]
    activations: list[ast.Activation]
    ignored: list[ast.Ignored]

    @staticmethod
    def of(items: Iterable[ast.Item]) -> _Items:
        found: dict[type, list[Any]] = {kind: [] for kind in _KINDS}
        for item in items:
            found[type(item)].append(item)
        return _Items(*found.values())

    def mapped(self, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> _Items:
        """The items after a change of all items other than rules that call relations or functions."""
        groups = {name: list(change(tuple(getattr(self, name)))) for name in _CALLERS}
        return replace(self, **groups)

    def resolved(self, known: Functors, findings: Findings, earlier: Collection[int]) -> _Items:
        """The items with the types of the functions that they call. Rules checked before have them already."""
        return replace(
            self.mapped(lambda items: resolved(items, known, findings)),
            rules=[each if id(each) in earlier else resolved(each, known, findings) for each in self.rules],
            declarations=[resolved(each, known, findings) if each.constraints else each for each in self.declarations],
        )

    def inlined(self, findings: Findings) -> _Items:
        """The items with the bodies of inline relations that cannot be views in place of their calls."""
        others = tuple(item for name in _CALLERS for item in getattr(self, name))
        found = inlining(self.declarations, self.rules, others, findings)
        gone = found.rules.keys() | found.recursive
        if not gone:
            return self
        kept = ((each, tuple(h for h in each.heads if h.relation not in gone)) for each in self.rules)
        return replace(
            self.mapped(found.into),
            declarations=[each for each in self.declarations if each.name not in found.rules],
            rules=list(found.into(tuple(replace(rule, heads=heads) for rule, heads in kept if heads))),
        )

    def without(self, left_out: Undecided) -> _Items:
        """The items that are maintained."""
        if not left_out.relations:
            return self
        return replace(
            self,
            rules=[each for each in self.rules if each not in left_out.rules],
            denies=[each for each in self.denies if each not in left_out.denies],
        )


_KINDS = (
    *(
        ast.TypeDeclaration,
        ast.Declaration,
        ast.Rule,
        ast.Subsumption,
        ast.FunctorDeclaration,
        ast.DisjunctiveRule,
        ast.Deny,
        ast.DenyPolicy,
    ),
    *(ast.Directive, ast.ViewDirective, ast.ActiveRule, ast.Activation, ast.Ignored),
)
"""The kinds of items, in the order of the fields of `_Items`."""
_CALLERS = ("subsumptions", "disjunctive", "denies", "active")


def _note_ignored(ignored: Iterable[ast.Ignored], findings: Findings) -> None:
    for item in ignored:
        if item.text.startswith('.pragma "magic-transform"'):
            continue  # `upshot run` honors it
        word = item.text.split(maxsplit=1)[0] if item.text.split() else item.text
        if word == ".limitsize":
            findings.warn(
                "ignored-directive", "`.limitsize` has no effect: views are exact", item.span, label="ignored",
                help="limit the relation in its rules",
            )  # fmt: skip
            continue
        findings.note(
            "ignored-directive",
            f"`{word}` has no effect",
            item.span,
            label="ignored",
            help="it only tunes Soufflé; you can keep the line",
        )


def _is_fact(rule: ast.Rule) -> bool:
    """Test whether the rule is a fact; one with an aggregate, a range or a function of the user is a rule without
    literals."""
    return rule.body is None and not any(
        isinstance(t, ast.Aggregate) or (isinstance(t, ast.Call) and (is_functor(t.function) or t.function == RANGE))
        for head in rule.heads
        for a in head.args
        for t in ast.subterms(a)
    )


def _assign_roles(known: Relations, rules: Iterable[ast.Rule | ast.DisjunctiveRule]) -> None:
    for rule in rules:
        if isinstance(rule, ast.DisjunctiveRule) or not _is_fact(rule):
            for head in rule.heads:
                schema = known.schemas.get(head.relation)
                if schema is not None and schema.role is Role.BASE:
                    known.schemas[head.relation] = replace(schema, role=Role.VIEW)


def _input_parts(
    known: Relations, denied: frozenset[str], directives: Iterable[ast.Directive], loaded: Mapping[str, str]
) -> dict[str, str]:
    """A hidden base relation for every view that is also read from a file; `loaded` maps views to the relations that
    take these rows instead."""
    parts: dict[str, str] = {}
    for directive in directives:
        schema = known.schemas.get(directive.relation)
        if directive.kind == "input" and schema is not None and schema.role is Role.VIEW and schema.name not in parts:
            name = fresh_name(f"{schema.name}_input", denied.union(known.schemas))
            known.schemas[name] = replace(schema, name=name, role=Role.BASE, lattice=None)
            if schema.name in known.vague:
                known.vague.add(name)
            parts[schema.name] = name
            target = known.schemas[loaded.get(schema.name, schema.name)]
            known.schemas[target.name] = replace(target, role=Role.VIEW)
    return parts


def _loads(known: Relations, special: Expanded, input_part: Mapping[str, str]) -> Iterator[Clause]:
    """The clauses that derive rows of views from rows of files."""
    return (_load_clause(known.schemas[special.loaded.get(view, view)], part) for view, part in input_part.items())


def _load_clause(schema: Schema, part: str) -> Clause:
    args = tuple(ast.Variable(f"X{i}", span=schema.span) for i in range(1, schema.arity + 1))
    types = {a.name: c.type for a, c in zip(args, schema.columns, strict=True)}
    head = ast.Atom(schema.name, args, span=schema.span)
    return Clause(head, (ast.Atom(part, args, span=schema.span),), types, schema.span)


@dataclass(frozen=True, slots=True)
class _Made:
    """The clauses of all views, the facts of all base relations, and the rules that a later check can skip."""

    clauses: list[Clause] = field(default_factory=list)
    facts: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)
    known: dict[int, KnownRule] = field(default_factory=dict)


def _rules(rules: Sequence[ast.Rule], maker: ClauseMaker, names: NameCheck, earlier: Mapping[int, KnownRule]) -> _Made:
    """The clauses of the rules; those of rules in `earlier` are reused."""
    made = _Made()
    for rule in rules:
        known = earlier.get(id(rule))
        if known is not None and not maker.vague and known.fits(maker.schemas):
            made.clauses.extend(known.clauses)
            made.known[id(rule)] = known
        elif _is_fact(rule):
            for head in rule.heads:
                _fact(head, rule, maker, names, made.clauses, made.facts)
        else:
            met = maker.findings.met
            clauses = _rule(rule, maker, names)
            made.clauses.extend(clauses)
            if maker.findings.met == met:
                nodes = rule.heads if rule.body is None else (*rule.heads, rule.body)
                schemas = {atom.relation: maker.schemas[atom.relation] for node in nodes for atom in atoms(node)}
                made.known[id(rule)] = KnownRule(rule, schemas, tuple(clauses))
    return made


def _check_left_out(left_out: Undecided, items: Sequence[ast.Item], maker: ClauseMaker, names: NameCheck) -> None:
    """Report errors in rules that are not maintained, and active rules that read undecided relations."""
    refuse_qualifiers(left_out, items, maker.findings)
    for rule in left_out.rules:
        for head in rule.heads:
            _rule(ast.Rule((head,), rule.body if rule.body is not None else TRUE, span=rule.span), maker, names)
    constraint_clauses(left_out.denies, maker, names)
    for each in (item for item in items if isinstance(item, ast.ActiveRule)):
        nodes = [node for node in (each.condition, each.event.atom if each.event else None) if node is not None]
        for atom in (atom for node in nodes for atom in atoms(node) if atom.relation in left_out.relations):
            maker.findings.error(
                "undecided-relation",
                f"`{atom.relation}` depends on a rule with alternatives in its head: it has no rows to react to",
                atom.span,
                label="not maintained",
                help="use relations that do not depend on such a rule",
            )


def _policies(
    names: Iterable[str], left_out: Undecided, policies: Iterable[ast.DenyPolicy], findings: Findings
) -> dict[str, Constraint]:
    """The constraints that are maintained. One over undecided relations may have a policy too, for `db.models`."""
    others = {each.head.relation for each in left_out.denies}
    found = constraint_policies((*names, *others), policies, findings)
    return {name: each for name, each in found.items() if name not in others}


def _fact(
    head: ast.Atom,
    rule: ast.Rule,
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
        values = tuple(a.value for a in clause.head.args if isinstance(a, ast.Constant))
        facts.setdefault(head.relation, []).append(values)
    else:
        clauses.append(clause)


def _rule(rule: ast.Rule, maker: ClauseMaker, names: NameCheck) -> list[Clause]:
    findings = maker.findings
    start = findings.reported
    shallow = [names.head(head) for head in rule.heads]
    if rule.body is not None:
        shallow.append(names.formula(rule.body))
    if not all(shallow):
        return []
    made = maker.rule(rule.heads, rule.body, rule.span, sound=findings.reported == start)
    warn_of_singletons(rule.heads if rule.body is None else (*rule.heads, rule.body), findings)
    return [inferred.clause for inferred in made]


def _strata(
    schemas: Mapping[str, Schema],
    items: _Items,
    rules: CheckedRules,
    grown: Grown,
    findings: Findings,
) -> Components:
    """The strata, computed from the text, so that cycles are reported even if rules have other errors."""
    found: list[Need] = []
    for rule in items.rules:
        body = [] if rule.body is None else [rule.body]
        for head in rule.heads:
            found.extend(needs(head.relation, [*body, *head.args]))
    for deny in items.denies:
        found.extend(needs(deny.head.relation, [deny.body, *deny.head.args]))
    found.extend(rules.needs)
    found = [need for need in found if need.head not in grown.heads]
    for clause in (each for each in grown.clauses if each.head.relation in grown.heads):
        found.extend(needs(clause.head.relation, clause.body))
    components = order(view_names(schemas, ()), found)
    for wrong in unstratified(components, found):
        reason = grown.reasons.get(wrong.span.start) if wrong.span is not None else None
        findings.include(wrong if reason is None else replace(wrong, notes=(*wrong.notes, _cannot_grow(*reason))))
    return components


def _cannot_grow(span: Span | None, why: str) -> tuple[Span | None, str]:
    return span, f"a count or sum may depend on itself where it can only grow, but {why}"


# ---- texts with syntax errors ----------------------------------------------------------------------------------

_DOUBTFUL = {
    "unknown-relation",
    "unknown-type",
    "unknown-constraint",
    "view-of-base-relation",
    "action-on-view",
    "unknown-rule",
}
"""Errors that a syntax error in another item may have caused: they are not reported along with it."""


def with_findings(error: ProgramError, understood: ast.Program) -> ProgramError:
    """The syntax errors of a text, together with the errors that `check` finds in the part that could be parsed."""
    try:
        check(understood)
    except ProgramError as further:
        certain = [d for d in further.diagnostics if d.slug not in _DOUBTFUL]
        return ProgramError(sorted([*error.diagnostics, *certain], key=_place))
    return error


def _place(diagnostic: Diagnostic) -> tuple[str, int]:
    return (diagnostic.span.source.name, diagnostic.span.start) if diagnostic.span is not None else ("", 2**63)
