"""Inline relations declared `inline` whose rules are not safe: their bodies replace the calls.

`lt(X, Y) :- X < Y.` binds neither variable, so `lt` cannot be a view; with `inline`, `A < B` replaces `lt(A, B)` in
other rules. An inline relation with safe rules stays a view, whose rows can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from upshot.check.clause.clause_form import TRUE, TooMany, alternatives
from upshot.check.clause.safety import check_safety
from upshot.check.findings import Findings
from upshot.check.names.variables import atoms, fresh_name, variables
from upshot.syntax import ast
from upshot.syntax.rebuild import rebuilt

INLINE = "inline"
N = TypeVar("N")


@dataclass(slots=True)
class Inlining:
    """The relations to inline, each with the rules that replace its calls. `recursive` ones are refused; `taken` are
    the names of all variables, `local` those of inlined bodies that are not arguments of the call."""

    findings: Findings
    taken: set[str]
    rules: dict[str, list[ast.Rule]] = field(default_factory=dict)
    recursive: set[str] = field(default_factory=set)
    local: set[str] = field(default_factory=set)

    def into(self, root: N) -> N:
        """The tree with the bodies of inlined relations in place of their calls."""
        return rebuilt(root, self._visit) if self.rules else root

    def _visit(self, node: Any) -> Any:
        if isinstance(node, ast.Atom) and not node.state and node.relation in self.rules:
            found = [self._body(rule, node) for rule in self.rules[node.relation]]
            return found[0] if len(found) == 1 else ast.Or(tuple(found), span=node.span)
        if isinstance(node, ast.Not) and not self.local.isdisjoint(variables(node.body)):
            # There is no solution for the variables that are local to the inlined body.
            return ast.Comparison(
                "=", ast.Aggregate("count", None, node.body, span=node.span), ast.Constant(0), span=node.span
            )
        return node

    def _body(self, rule: ast.Rule, call: ast.Atom) -> ast.Formula:
        """The body of a rule with the arguments of a call in place of the variables of the head."""
        (head,) = rule.heads
        if len(head.args) != len(call.args):
            self.findings.error(
                "wrong-arity", f"`{call.relation}` has {len(head.args)} columns, but {len(call.args)} are given",
                call.span, label="not the columns of its rule", help="give one argument for each column",
                notes=((rule.span, "the rule that is inlined"),),
            )  # fmt: skip
            return TRUE
        body = TRUE if rule.body is None else rule.body
        bound: dict[str, ast.Term] = {}
        same: list[tuple[ast.Term, ast.Term]] = []
        for formal, actual in zip(head.args, call.args, strict=True):
            if isinstance(actual, ast.Wildcard):
                continue
            if isinstance(formal, ast.Variable) and formal.name not in bound:
                bound[formal.name] = actual
            else:
                same.append((actual, formal))
        for name in variables(ast.And((body, ast.Atom("", head.args)))):
            if name not in bound:
                fresh = fresh_name(f"_{name}", self.taken)
                bound[name] = ast.Variable(fresh)
                self.taken.add(fresh)
                self.local.add(fresh)

        def named(node: Any) -> Any:
            found = bound.get(node.name, node) if isinstance(node, ast.Variable) else node
            return replace(found, span=node.span) if isinstance(found, ast.Variable) and found.span is None else found

        equal = [ast.Comparison("=", actual, rebuilt(formal, named), span=call.span) for actual, formal in same]
        return ast.And((rebuilt(body, named), *equal), span=call.span)


def inlining(
    declarations: Sequence[ast.Declaration],
    rules: Sequence[ast.Rule],
    others: tuple[ast.SyntaxNode, ...],
    findings: Findings,
) -> Inlining:
    """The inline relations with unsafe rules; one that depends on itself is reported. `others` are the items other than
    rules that call relations."""
    changed = _heads(others)
    waiting = {
        each.name: each
        for each in declarations
        if INLINE in each.qualifiers and _is_plain(each) and each.name not in changed
    }
    made = Inlining(findings, _names((*rules, *others)) if waiting else set())
    while True:
        own = {name: [made.into(each) for each in _rules_of(name, rules)] for name in waiting}
        unsafe = next((name for name, each in own.items() if each and not all(map(_is_safe, each))), None)
        if unsafe is None:
            return made
        declaration = waiting.pop(unsafe)
        if any(atom.relation == unsafe for rule in own[unsafe] if rule.body is not None for atom in atoms(rule.body)):
            made.recursive.add(unsafe)
            findings.error(
                "recursive-inline", f"inline relation `{unsafe}` depends on itself", declaration.span,
                label="its rules would never end",
                help="remove `inline`, and bind every variable of its heads in a positive literal",
            )  # fmt: skip
            continue
        before, made.rules = made.rules, {unsafe: own[unsafe]}
        made.rules |= {name: [made.into(each) for each in known] for name, known in before.items()}


def _heads(items: tuple[ast.SyntaxNode, ...]) -> set[str]:
    """The relations that items name outside of conditions: these must be views or base relations."""
    atoms_of = [
        atom
        for item in items
        for atom in (
            *(item.heads if isinstance(item, ast.DisjunctiveRule) else ()),
            *((item.event.atom,) if isinstance(item, ast.ActiveRule) and item.event is not None else ()),
            *((action.atom for action in item.actions) if isinstance(item, ast.ActiveRule) else ()),
            *((item.head,) if isinstance(item, ast.Deny) else ()),
            *((item.worse, item.better) if isinstance(item, ast.Subsumption) else ()),
        )
    ]
    return {atom.relation for atom in atoms_of}


def _names(items: tuple[ast.SyntaxNode, ...]) -> set[str]:
    found: set[str] = set()

    def visit(node: Any) -> Any:
        if isinstance(node, ast.Variable):
            found.add(node.name)
        return node

    rebuilt(items, visit)
    return found


def _is_plain(declaration: ast.Declaration) -> bool:
    best = any(each.lattice not in ("", "union") for each in declaration.attributes)
    return not (declaration.keys or declaration.constraints or declaration.choice or best)


def _rules_of(relation: str, rules: Sequence[ast.Rule]) -> list[ast.Rule]:
    return [replace(rule, heads=(head,)) for rule in rules for head in rule.heads if head.relation == relation]


def _is_safe(rule: ast.Rule) -> bool:
    try:
        return all(check_safety(rule.heads[0], body, Findings()) for body in alternatives(rule.body))
    except TooMany:
        return True
