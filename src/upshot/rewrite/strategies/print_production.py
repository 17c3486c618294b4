"""Production rules as a person reads them."""

from __future__ import annotations

from dataclasses import replace

from upshot.check.printing import print_clause
from upshot.check.program import Clause, Literal
from upshot.core.operations import DELETED, INSERTED
from upshot.rewrite.strategies.production import BEFORE, Group, ProductionProgram, ProductionRule
from upshot.syntax.ast import Atom, Not
from upshot.syntax.printing import print_atom, print_formula

_SHORT = {INSERTED: "ins ", DELETED: "del ", BEFORE: "old ", "": ""}

_ABOUT = {
    Group.START: "the first round of views that are asked for",
    Group.NEGATED_INSERT: "rows that go because a negated relation gained some",
    Group.DELETE: "rows that go because a relation lost some",
    Group.REINSERT: "rows that went and have another derivation",
    Group.NEGATED_DELETE: "rows that come because a negated relation lost some",
    Group.INSERT: "rows that come because a relation gained some",
}


def print_production(program: ProductionProgram, view: str | None = None) -> str:
    """The rules in the order of their priority, of one view or of all: `name: action :- condition.`

    `ins r` and `del r` in a condition are r's transition tables, `old r` is r before the transition; at the head they
    are what the rule does.
    """
    rules = [rule for rule in program.rules if view is None or rule.view == view]
    if not rules:
        return f"// no rules for {view}\n" if view else "// no rules\n"
    lines: list[str] = []
    lines += [f"// {name}: one derivation a row, nothing to insert again" for name in _unique(program, view)]
    shown = ""
    for rule in rules:
        about = _heading(rule)
        if about != shown:
            lines += ["", f"// ---- {about}"] if lines else [f"// ---- {about}"]
            shown = about
        lines.append(print_production_rule(rule))
    return "\n".join(lines) + "\n"


def print_production_rule(rule: ProductionRule) -> str:
    """`route-ins: ins route(X, Y) :- ins train(X, Y).`"""
    return f"{rule.name}: {_clause(rule.clause)}"


def _unique(program: ProductionProgram, view: str | None) -> list[str]:
    return sorted(name for name in program.unique if view is None or name == view)


def _heading(rule: ProductionRule) -> str:
    return f"stratum {rule.stratum}, {_ABOUT[rule.group]}"


def _clause(clause: Clause) -> str:
    if not clause.body:
        return print_clause(clause)
    return f"{_literal(clause.head)} :- {', '.join(map(_literal, clause.body))}."


def _literal(literal: Literal) -> str:
    match literal:
        case Atom(state=state):
            return _SHORT[state] + print_atom(replace(literal, state=""))
        case Not(Atom(state=state) as atom):
            return f"!{_SHORT[state]}{print_atom(replace(atom, state=''))}"
        case _:
            return print_formula(literal)
