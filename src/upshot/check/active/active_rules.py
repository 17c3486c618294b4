"""Check active rules: clauses that derive their instances, triggers, actions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from upshot.check.active.activations import activated, binding_tables, bound_parameters
from upshot.check.active.conditions import RuleCondition, Taken, condition_of, event_atom
from upshot.check.active.nervous import expandable
from upshot.check.clause.clauses import ClauseMaker
from upshot.check.constraints import inferred_schema
from upshot.check.findings import Findings
from upshot.check.names.names import NameCheck, warn_of_singletons
from upshot.check.names.variables import atoms
from upshot.check.options import STRATEGIES, OptionCheck
from upshot.check.program import EVERY, CheckedRule, CheckedRules, Clause, RuleAction, ViewOptions
from upshot.check.strata import needs
from upshot.check.types.elaborate import Target
from upshot.core.operations import UPDATED
from upshot.core.precedence import circle
from upshot.core.schema import Role, Schema
from upshot.syntax.ast import Activation, ActiveRule, And, Atom, Formula, Term, Variable
from upshot.syntax.printing import print_atom
from upshot.syntax.rebuild import map_atoms

# ---- options and order of rules ----------------------------------------------------------------------------


RULE_VALUES: Mapping[str, tuple[str, ...]] = {
    "semantics": ("strict", "nervous"),
    "coupling": ("immediate", "deferred", "after"),
    "per": ("set", "instance"),
    "strategy": STRATEGIES,
    "active": ("true", "false"),
}
_LISTS = ("precedes", "follows", "group")
"""Options whose value is a list of names; they may be repeated."""
_VALUES: Mapping[str, tuple[str, ...]] = {"priority": (), **RULE_VALUES, **dict.fromkeys(_LISTS, ())}
_MOST = 2**31 - 1


@dataclass(slots=True)
class RuleOptions:
    """The options of a rule; `values` are those whose value is one of several words."""

    priority: int = 0
    coupling: str = "deferred"
    values: dict[str, str] = field(default_factory=dict)
    precedes: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    bound: tuple[tuple[str, ...], ...] | None = None
    """The combinations of parameters that activations bind; None if the rule is active for all values."""


def rule_options(rule: ActiveRule, findings: Findings) -> RuleOptions:
    """The options of a rule; wrong ones are reported and ignored."""
    found = RuleOptions()
    check = OptionCheck(f"rule `{rule.name}`", _VALUES, findings, repeatable="`precedes`, `follows` and `group`")
    for option, value in rule.options:
        if not check.accepts(option, value, rule.span):
            continue
        if option in _LISTS:
            names = (name for name in (part.strip() for part in value.split(",")) if name)
            setattr(found, option, tuple(dict.fromkeys((*getattr(found, option), *names))))
        elif option != "priority":
            found.values[option] = value
        elif _is_priority(value):
            found.priority = int(value)
        else:
            help = "a priority is an integer; the rule of higher priority runs first"
            check.refuse_value(option, value, rule.span, help)
    return found


def _is_priority(value: str) -> bool:
    digits = value.removeprefix("-")
    return digits.isdecimal() and digits.isascii() and len(digits) <= 10 and abs(int(value)) <= _MOST


def coupling_of(rule: ActiveRule, options: RuleOptions, findings: Findings) -> str:
    """The coupling of the rule. Warn if it calls before the commit only because it has changes too."""
    found = _coupling(rule, options)
    if found == "deferred" and "coupling" not in options.values and "call" in {a.kind for a in rule.actions}:
        findings.warn(
            "call-before-commit",
            f"rule `{rule.name}` changes relations and calls a function, so it runs before the commit",
            rule.span,
            label="its function may only read, or raise to reject the transaction",
            help="write `coupling=deferred` or `coupling=after`, or split it into two rules",
        )
    return found


def warn_of_idle_options(rule: ActiveRule, options: RuleOptions, findings: Findings) -> None:
    """Warn of options that have no effect on a rule of this kind."""
    idle: list[tuple[str, str]] = []
    if "semantics" in options.values and rule.condition is None:
        idle.append(("semantics", "it has no condition, so it fires for every event"))
    elif "semantics" in options.values and has_states(rule.condition):
        idle.append(("semantics", "its condition reads other states, so it fires for every match"))
    if "per" in options.values and all(action.kind != "call" for action in rule.actions):
        idle.append(("per", "it calls nothing"))
    if "strategy" in options.values and (rule.event is not None or has_states(rule.condition)):
        idle.append(("strategy", "its condition is not materialized"))
    for option, why in idle:
        findings.warn(
            "idle-rule-option",
            f"rule `{rule.name}`: option `{option}` has no effect: {why}",
            rule.span,
            label="no effect",
            help=f"omit `{option}`",
        )


def has_states(formula: Formula | None) -> bool:
    """Test whether a condition reads `old`, `inserted` or `deleted` rows."""
    return formula is not None and any(atom.state for atom in atoms(formula))


def check_order(rules: Sequence[ActiveRule], options: Mapping[str, RuleOptions], findings: Findings) -> None:
    """Report unknown names in `precedes` and `follows`, and cycles of the order."""
    after: dict[str, set[str]] = {rule.name: set() for rule in rules}
    spans = {rule.name: rule.span for rule in rules}
    for rule in rules:
        order = options[rule.name]
        for option, names in (("precedes", order.precedes), ("follows", order.follows)):
            for name in names:
                if name not in after:
                    findings.error(
                        "unknown-rule",
                        f"rule `{rule.name}` {option} `{name}`, which is not a rule",
                        rule.span,
                        label=f"unknown rule `{name}`",
                        help=findings.suggest(name, after, f"define it: `.rule {name}(…) …`, or remove the option"),
                    )
                elif option == "precedes":
                    after[rule.name].add(name)
                else:
                    after[name].add(rule.name)
    _against_couplings(rules, options, after, findings)
    found = circle(after)
    if found:
        shown = " before ".join(f"`{name}`" for name in (*found, found[0]))
        findings.error(
            "rule-order-cycle",
            f"cyclic order of rules: {shown}",
            spans[found[0]],
            label="this rule would precede itself",
            help="remove one `precedes` or `follows`",
            notes=tuple((spans[name], f"`{name}` is part of the cycle") for name in found[1:]),
        )


def check_groups(
    rules: Sequence[ActiveRule], options: Mapping[str, RuleOptions], relations: Collection[str], findings: Findings
) -> None:
    """Report groups with the name of a rule or relation: `activate` takes any of these names."""
    for rule in rules:
        for name in options[rule.name].group:
            what = "rule" if name in options else "relation" if name in relations else ""
            if what:
                findings.error(
                    "name-clash",
                    f"group `{name}` of rule `{rule.name}` has the name of a {what}",
                    rule.span,
                    label=f"already a {what}",
                    help="give the group another name",
                )


def _against_couplings(
    rules: Sequence[ActiveRule],
    options: Mapping[str, RuleOptions],
    after: Mapping[str, Collection[str]],
    findings: Findings,
) -> None:
    """Warn of rules that must precede a rule whose coupling makes it run earlier."""
    words = RULE_VALUES["coupling"]
    couplings = {rule.name: words.index(_coupling(rule, options[rule.name])) for rule in rules}
    for rule in rules:
        for later in sorted(after[rule.name]):
            if couplings[rule.name] > couplings[later]:
                findings.warn(
                    "order-against-coupling",
                    f"rule `{rule.name}` ({words[couplings[rule.name]]}) cannot precede `{later}` "
                    f"({words[couplings[later]]}): the order has no effect",
                    rule.span,
                    label="always later",
                    help="immediate rules run first, then deferred rules, then rules after the commit",
                )


def _coupling(rule: ActiveRule, options: RuleOptions) -> str:
    """The coupling of the options; by default after the commit if the rule only calls functions, else before it."""
    usual = "after" if {action.kind for action in rule.actions} == {"call"} else "deferred"
    return options.values.get("coupling", usual)


# ---- rules -------------------------------------------------------------------------------------------------


def active_rules(
    rules: Sequence[ActiveRule],
    activations: Sequence[Activation],
    views: Sequence[Clause],
    maker: ClauseMaker,
    names: NameCheck,
) -> CheckedRules:
    """The rules without errors; the errors of the others are in the findings. `views` are the clauses of the relations
    that the rules read."""
    found = CheckedRules(expandable=expandable(views, maker.schemas))
    findings = maker.findings
    distinct: dict[str, ActiveRule] = {}
    options: dict[str, RuleOptions] = {}
    for rule in rules:
        own = rule_options(rule, findings)
        # The second definition of a rule is only checked for errors.
        kept = found if _is_new(rule, distinct, names, findings) else CheckedRules(expandable=found.expandable)
        distinct.setdefault(rule.name, rule)
        options.setdefault(rule.name, own)
        bound = bound_parameters(rule, activations, awake=own.values.get("active") != "false")
        _rule(rule, replace(own, bound=bound), maker, replace(names, states=True), kept)
    check_order(tuple(distinct.values()), options, findings)
    check_groups(tuple(distinct.values()), options, names.schemas, findings)
    found.rules = activated(found.rules, activations, distinct, findings)
    return found


def _is_new(rule: ActiveRule, seen: dict[str, ActiveRule], names: NameCheck, findings: Findings) -> bool:
    """Test whether the rule is not defined yet, and report names that are taken: rules and relations share one name
    space, since users subscribe to both by name."""
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
    typed = replace(maker, targets=targets if sound else (), head_words="a parameter or action")
    body = _whole(rule)
    made = typed.rule((head,), body, rule.span, infer=True, sound=sound)
    warn_of_singletons(_nodes(rule), findings)
    schema = inferred_schema(head, made, findings, Role.VIEW) if made else None
    if schema is None or findings.reported > start:
        return
    tables = binding_tables(rule.name, schema, options.bound or ())
    taken = Taken(tuple(found.schemas), tables, found.expandable)
    when = condition_of(rule, head, schema, _semantics(rule, options) == "nervous", typed, taken)
    if findings.reported > start:
        return
    found.schemas |= {table.name: table for table in tables}
    is_awake = options.bound is None or bool(tables)
    if when.becomes_clauses and is_awake:
        _hide(when, body, options, found)
    checked = _checked(rule, schema, actions, when, replace(options, coupling=coupling))
    found.rules.append(replace(checked, bindings=tables, asleep=() if is_awake else when.becomes_clauses))


def _hide(when: RuleCondition, body: Formula, options: RuleOptions, found: CheckedRules) -> None:
    """Add the view of the condition to the hidden views."""
    assert when.becomes is not None
    name = when.becomes.name
    found.schemas[name] = when.becomes
    found.clauses += when.becomes_clauses
    found.needs += needs(name, [body])
    if "strategy" in options.values:
        found.options[name] = ViewOptions(strategy=options.values["strategy"])


def _checked(
    rule: ActiveRule, schema: Schema, actions: tuple[RuleAction, ...], when: RuleCondition, options: RuleOptions
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
    """A rule with an event fires by default even if its condition held before."""
    return options.values.get("semantics", "strict" if rule.event is None else "nervous")


# ---- names --------------------------------------------------------------------------------------


def _names(rule: ActiveRule, check: NameCheck, findings: Findings) -> bool:
    """Report unknown and misplaced names; False if the rule cannot be checked further."""
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
    """The head that derives the instances: the parameters, then the arguments of the actions, each variable once; and
    the actions."""
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
    """Event and condition as one formula, without states, for the check of names and types: an update is two rows of
    its relation."""
    parts: list[Formula] = [] if rule.event is None else [event_atom(rule.event)]
    parts += [] if rule.condition is None else [rule.condition]
    return map_atoms(parts[0] if len(parts) == 1 else And(tuple(parts)), _rows)


def _rows(atom: Atom) -> Formula:
    if atom.state != UPDATED:
        return atom
    half = len(atom.args) // 2
    return And(tuple(Atom(atom.relation, args, span=atom.span) for args in (atom.args[:half], atom.args[half:])))


def _nodes(rule: ActiveRule) -> list[Formula | Term]:
    """All parts with variables, in the order of the text."""
    return [
        *rule.parameters,
        *([_whole(rule)] if rule.event or rule.condition else []),
        *(a.atom for a in rule.actions),
    ]
