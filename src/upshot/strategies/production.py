"""The strategy of prioritized production rules, and their printing. [Ceri & Widom 1994]

Triggers react to inserted and deleted rows, not to changes of rules: after those, the rows of a view follow by the
stages of `maintenance`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from upshot.check.program import CheckedProgram, Literal
from upshot.core.operations import DELETED, INSERTED
from upshot.rewrite.listing import ListedRule, RuleListing, nothing_listed, printed
from upshot.strategies import maintenance
from upshot.strategies.production_rules import BEFORE, ProductionProgram, ProductionRule, RulePurpose, production
from upshot.strategies.strategy import Generated, Procedure, Strategy
from upshot.syntax.ast import Atom, Not
from upshot.syntax.printing import print_atom, print_formula

_SHORT = {INSERTED: "ins ", DELETED: "del ", BEFORE: "old ", "": ""}

_ABOUT = {
    RulePurpose.START: "the first evaluation of requested views",
    RulePurpose.NEGATED_INSERT: "rows deleted because a negated relation gained rows",
    RulePurpose.DELETE: "rows deleted because a relation lost rows",
    RulePurpose.REINSERT: "deleted rows that have another derivation",
    RulePurpose.NEGATED_DELETE: "rows inserted because a negated relation lost rows",
    RulePurpose.INSERT: "rows inserted because a relation gained rows",
}


def list_production(program: ProductionProgram, view: str | None = None) -> RuleListing:
    """The rules in the order of their priority, of one view or of all: `name: action :- condition.`

    In a condition, `ins r` and `del r` are r's transition tables, and `old r` is r before the transition; at the head,
    `ins` and `del` are the actions.
    """
    rules = [rule for rule in program.rules if view is None or rule.view == view]
    if not rules:
        return nothing_listed(view)
    unique = sorted(name for name in program.unique if view is None or name == view)
    lines = [f"// {name}: one derivation a row, nothing to insert again" for name in unique]
    shown = ""
    for rule in rules:
        about = _heading(rule)
        if about != shown:
            lines += ["", f"// ---- {about}"] if lines else [f"// ---- {about}"]
            shown = about
        lines.append(print_production_rule(rule))
    return RuleListing(tuple(map(_listed, rules)), (), "\n".join(lines) + "\n")


def _listed(rule: ProductionRule) -> ListedRule:
    head, body = _literal(rule.clause.head), tuple(map(_literal, rule.clause.body))
    return ListedRule(rule.name, rule.view, _heading(rule), _ABOUT[rule.group], head, body, rule.source.origin)


def print_production_rule(rule: ProductionRule) -> str:
    """`route-ins: ins route(X, Y) :- ins train(X, Y).`"""
    return f"{rule.name}: {printed(_listed(rule))}"


def _heading(rule: ProductionRule) -> str:
    return f"stratum {rule.stratum}, {_ABOUT[rule.group]}"


def _literal(literal: Literal) -> str:
    match literal:
        case Atom(state=state):
            return _SHORT[state] + print_atom(replace(literal, state=""))
        case Not(Atom(state=state) as atom):
            return f"!{_SHORT[state]}{print_atom(replace(atom, state=''))}"
        case _:
            return print_formula(literal)


def _generate(normal: CheckedProgram, views: Collection[str]) -> Generated:
    return Generated(production=production(normal, views).rules)


def _listing(normal: CheckedProgram, view: str | None) -> RuleListing:
    return list_production(production(normal), view)


STRATEGY = Strategy(
    name="production",
    procedure=Procedure.TRIGGERS,
    stages=("rules",),
    rank=5,
    generate=_generate,
    follows_rules=True,
    follows_as=maintenance.STRATEGY,
    starts=True,
    keeps_auxiliaries=True,
    listing=_listing,
)
