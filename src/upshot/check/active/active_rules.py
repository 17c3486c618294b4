"""Active rules as clauses: what derives their instances, what triggers them, what they do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from upshot.check.active.activations import activated, binding_tables, bound_parameters
from upshot.check.active.conditions import Condition, Taken, condition_of, event_atom
from upshot.check.active.nervous import expandable
from upshot.check.active.rule_options import (
    RuleOptions,
    check_groups,
    check_order,
    coupling_of,
    rule_options,
    warn_of_idle_options,
)
from upshot.check.active.transitions import map_atoms
from upshot.check.clause.clauses import ClauseMaker
from upshot.check.constraints import inferred_schema
from upshot.check.findings import Findings
from upshot.check.names.names import NameCheck, warn_of_singletons
from upshot.check.names.variables import atoms
from upshot.check.program import EVERY, CheckedRule, CheckedRules, Clause, RuleAction, ViewOptions
from upshot.check.strata import needs
from upshot.check.types.elaborate import Target
from upshot.core.operations import UPDATED
from upshot.core.schema import Role, Schema
from upshot.syntax.ast import Activation, ActiveRule, And, Atom, Formula, Term, Variable
from upshot.syntax.printing import print_atom


def active_rules(
    rules: Sequence[ActiveRule],
    activations: Sequence[Activation],
    views: Sequence[Clause],
    maker: ClauseMaker,
    names: NameCheck,
) -> CheckedRules:
    """All rules that are right; what is wrong with the others is in the findings. `views` are the clauses of the
    relations that they read."""
    found = CheckedRules(expandable=expandable(views, maker.schemas))
    findings = maker.findings
    distinct: dict[str, ActiveRule] = {}
    options: dict[str, RuleOptions] = {}
    for rule in rules:
        meant = rule_options(rule, findings)
        # Of a rule defined twice only the mistakes count.
        kept = found if _is_new(rule, distinct, names, findings) else CheckedRules(expandable=found.expandable)
        distinct.setdefault(rule.name, rule)
        options.setdefault(rule.name, meant)
        bound = bound_parameters(rule, activations, awake=meant.values.get("active") != "false")
        _rule(rule, replace(meant, bound=bound), maker, replace(names, states=True), kept)
    check_order(tuple(distinct.values()), options, findings)
    check_groups(tuple(distinct.values()), options, names.schemas, findings)
    found.rules = activated(found.rules, activations, distinct, findings)
    return found


def _is_new(rule: ActiveRule, seen: dict[str, ActiveRule], names: NameCheck, findings: Findings) -> bool:
    """Test whether the name is free: rules are watched by name, as relations are."""
    if rule.name in names.schemas or rule.name in names.constraints:
        known = names.schemas.get(rule.name)
        what = "constraint" if known is None or known.role is Role.CONSTRAINT else "relation"
        findings.error(
            "name-clash",
            f"rule `{rule.name}` has the name of a {what}",
            rule.span,
            label=f"already a {what}",
            help="give the rule another name",
        )
    earlier = seen.get(rule.name)
    if earlier is not None:
        findings.error(
            "duplicate-declaration",
            f"rule `{rule.name}` is defined twice",
            rule.span,
            label="defined again here",
            help="give it another name",
            notes=((earlier.span, "first defined here"),),
        )
    return earlier is None


def _rule(rule: ActiveRule, options: RuleOptions, maker: ClauseMaker, names: NameCheck, found: CheckedRules) -> None:
    findings = maker.findings
    start = findings.reported
    shallow = _names(rule, names, findings)
    coupling = coupling_of(rule, options, findings)
    warn_of_idle_options(rule, options, findings)
    if not shallow:
        return
    head, actions = _instance(rule)
    targets = _targets(rule, actions, maker.schemas)
    sound = findings.reported == start
    held = replace(maker, targets=targets if sound else (), head_words="a parameter or action")
    body = _whole(rule)
    before = len(findings.errors)
    made = held.rule((head,), body, rule.span, infer=True, sound=sound)
    blamed = {e.span.start for e in findings.errors[before:] if e.span is not None and e.slug == "unsafe-variable"}
    warn_of_singletons(_nodes(rule), findings, blamed)
    schema = inferred_schema(head, made, findings, Role.VIEW) if made else None
    if schema is None or findings.reported > start:
        return
    tables = binding_tables(rule.name, schema, options.bound or ())
    taken = Taken(tuple(found.schemas), tables, found.expandable)
    when = condition_of(rule, head, schema, _semantics(rule, options) == "nervous", held, taken)
    if findings.reported > start:
        return
    found.schemas |= {table.name: table for table in tables}
    is_awake = options.bound is None or bool(tables)
    if when.becomes_clauses and is_awake:
        _hide(when, body, options, found)
    checked = _checked(rule, schema, actions, when, replace(options, coupling=coupling))
    found.rules.append(replace(checked, bindings=tables, asleep=() if is_awake else when.becomes_clauses))


def _hide(when: Condition, body: Formula, options: RuleOptions, found: CheckedRules) -> None:
    """The view that the condition is, among the views."""
    assert when.becomes is not None
    name = when.becomes.name
    found.schemas[name] = when.becomes
    found.clauses += when.becomes_clauses
    found.needs += needs(name, [body])
    if "strategy" in options.values:
        found.options[name] = ViewOptions(strategy=options.values["strategy"])


def _checked(
    rule: ActiveRule, schema: Schema, actions: tuple[RuleAction, ...], when: Condition, options: RuleOptions
) -> CheckedRule:
    values = options.values
    return CheckedRule(
        name=rule.name,
        parameters=tuple(p.name for p in rule.parameters if isinstance(p, Variable)),
        instance=schema,
        shown=_shown(rule),
        identity=when.identity,
        triggers=when.triggers,
        windows=when.windows,
        clauses=when.clauses,
        helpers=when.helpers,
        expanded=when.expanded,
        before=when.before,
        before_schema=when.before_schema,
        becomes=None if when.becomes is None else when.becomes.name,
        actions=actions,
        priority=options.priority,
        semantics=_semantics(rule, options),
        coupling=options.coupling,
        per=values.get("per", "set"),
        precedes=options.precedes,
        follows=options.follows,
        groups=options.group,
        activations=() if values.get("active") == "false" else EVERY,
        span=rule.span,
    )


def _semantics(rule: ActiveRule, options: RuleOptions) -> str:
    """An event with a condition that held before is an event all the same, unless the rule asks for more."""
    return options.values.get("semantics", "strict" if rule.event is None else "nervous")


# ---- names --------------------------------------------------------------------------------------


def _names(rule: ActiveRule, check: NameCheck, findings: Findings) -> bool:
    """Reports unknown and misplaced names; False when the rule cannot be looked at further."""
    fine = _parameters(rule, findings)
    if rule.event is not None:
        fine = check.formula(event_atom(rule.event)) and fine
    if rule.condition is not None:
        fine = check.formula(rule.condition) and fine
    if not rule.actions:
        findings.error(
            "rule-without-action",
            f"rule `{rule.name}` has no action",
            rule.span,
            label="no action",
            help="add an action: `do insert r(…)`, `do delete r(…)` or `do call f(…)`",
        )
        fine = False
    for action in rule.actions:
        fine = check.arguments(action.atom, f"`{action.kind}`") and fine
        if action.kind != "call":
            _target(rule, action.atom, check, findings)
    if rule.event is None and not any(True for _ in atoms(_whole(rule))):
        findings.error(
            "rule-never-fires",
            f"no change makes the condition of rule `{rule.name}` true",
            rule.span,
            label="reads no relation" if rule.condition is not None else "neither `on` nor `when`",
            help="add a trigger: `on insert r(…)`, or `when` with a relation in it",
        )
        fine = False
    return fine


def _parameters(rule: ActiveRule, findings: Findings) -> bool:
    seen: set[str] = set()
    fine = True
    for parameter in rule.parameters:
        if not isinstance(parameter, Variable):
            words, help = (
                "a parameter is not a variable",
                "list variables of the condition; test for a value with `X = …`",
            )
        elif parameter.name in seen:
            words, help = f"parameter `{parameter.name}` is listed twice", "list it once"
        else:
            seen.add(parameter.name)
            continue
        fine = False
        span = parameter.span or rule.span
        findings.error("bad-rule-parameter", f"rule `{rule.name}`: {words}", span, label="here", help=help)
    return fine


def _target(rule: ActiveRule, atom: Atom, check: NameCheck, findings: Findings) -> None:
    check.relation(atom)
    schema = check.schemas.get(atom.relation)
    if schema is not None and schema.role is not Role.BASE:
        findings.error(
            "action-on-view",
            f"rule `{rule.name}` cannot change {schema.role.value} `{schema.name}`",
            atom.span or rule.span,
            label="defined by rules",
            help="change the base relations that it depends on",
        )


# ---- instances ----------------------------------------------------------------------------------


def _instance(rule: ActiveRule) -> tuple[Atom, tuple[RuleAction, ...]]:
    """The head that gives the instances: parameters, then what the actions use, variables once; and the actions."""
    args: list[Term] = list(rule.parameters)
    places = {term.name: i for i, term in enumerate(args) if isinstance(term, Variable)}
    actions = []
    for action in rule.actions:
        columns = []
        for term in action.atom.args:
            place = places.get(term.name, len(args)) if isinstance(term, Variable) else len(args)
            if isinstance(term, Variable):
                places[term.name] = place
            if place == len(args):
                args.append(term)
            columns.append(place)
        span = action.span or action.atom.span
        text = f"{action.kind} {print_atom(action.atom)}"
        actions.append(RuleAction(action.kind, action.atom.relation, tuple(columns), span, text))
    return Atom(rule.name, tuple(args), span=rule.span), tuple(actions)


def _shown(rule: ActiveRule) -> tuple[int, ...]:
    if rule.parameters:
        return tuple(range(len(rule.parameters)))
    return tuple(place for place, term in enumerate(_instance(rule)[0].args) if isinstance(term, Variable))


def _targets(rule: ActiveRule, actions: Iterable[RuleAction], schemas: Mapping[str, Schema]) -> tuple[Target, ...]:
    return tuple(
        Target(place, action.target, column, term)
        for written, action in zip(rule.actions, actions, strict=True)
        if action.kind != "call" and action.target in schemas
        for place, column, term in zip(action.columns, schemas[action.target].columns, written.atom.args, strict=False)
    )


def _whole(rule: ActiveRule) -> Formula:
    """Event and condition as one formula. States count for nothing where only names and types are looked at: an update
    is two rows of its relation."""
    parts: list[Formula] = [] if rule.event is None else [event_atom(rule.event)]
    parts += [] if rule.condition is None else [rule.condition]
    return map_atoms(parts[0] if len(parts) == 1 else And(tuple(parts)), _rows)


def _rows(atom: Atom) -> Formula:
    if atom.state != UPDATED:
        return atom
    half = len(atom.args) // 2
    return And(tuple(Atom(atom.relation, args, span=atom.span) for args in (atom.args[:half], atom.args[half:])))


def _nodes(rule: ActiveRule) -> list[Formula | Term]:
    """Everything that has variables, in the order of the text."""
    return [
        *rule.parameters,
        *([_whole(rule)] if rule.event or rule.condition else []),
        *(a.atom for a in rule.actions),
    ]
